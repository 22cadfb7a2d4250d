"""Questions that people were asked, where, and how far the answers of each channel were read, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from watchdog.model import Plan, packed, plain, unpacked
from watchdog.store import Store
from watchdog.store.rows import from_row, stamp
from watchdog.store.store import reads_rows
from watchdog.values import Any, dataclass

LATE = timedelta(hours=12)  # after its end, a question's buttons are still answered: a night's sleep


@dataclass(frozen=True)
class Place:
    """Where a question was asked (`ntfy/anna`, `matrix`), and what the channel needs to find it again."""

    name: str
    receipt: str = ""


@dataclass(frozen=True)
class Question:
    """A plan that people were asked about."""

    plan: Plan
    severity: str
    places: tuple[Place, ...]
    asked_at: datetime
    expires_at: datetime
    reminded_at: datetime | None = None
    answer: str = ""
    closed_at: datetime | None = None

    @property
    def half_at(self) -> datetime:
        return self.asked_at + (self.expires_at - self.asked_at) / 2


def save_question(store: Store, question: Question) -> None:
    plan = question.plan
    names = ("severity", "asked_at", "expires_at", "reminded_at", "answer", "closed_at")
    store.put(
        "questions", plan=plan.id, digest=plan.digest, title=plan.title, words=json.dumps(packed(plan.words)),
        incidents=json.dumps(plan.incidents), recipes=json.dumps(plan.recipes),
        places=json.dumps([[place.name, place.receipt] for place in question.places]),
        **{name: getattr(question, name) for name in names},
    )  # fmt: skip


def reopen(store: Store, plan: int) -> None:
    """Its plan goes on after it was cut off: those who were asked are told the outcome."""
    store.db.execute("UPDATE questions SET closed_at = NULL WHERE plan = ?", (plan,))


@reads_rows
def open_questions(store: Store) -> tuple[Question, ...]:
    """Asked, and its end not told yet."""
    return tuple(
        _question(row)
        for row in store.db.execute("SELECT * FROM questions WHERE closed_at IS NULL ORDER BY plan")
    )


@reads_rows
def shown_questions(store: Store, now: datetime) -> tuple[Question, ...]:
    """Those that are open, and those that ended so lately that somebody may still tap their buttons."""
    rows = store.db.execute(
        "SELECT * FROM questions WHERE closed_at IS NULL OR closed_at > ? ORDER BY plan", (stamp(now - LATE),)
    )
    return tuple(_question(row) for row in rows)


def any_asked(store: Store, now: datetime) -> bool:
    """Whether an answer may come from any place."""
    return any(question.places for question in shown_questions(store, now))


def question(store: Store, *, plan: int = 0, digest: str = "") -> Question | None:
    row = store.db.execute(
        "SELECT * FROM questions WHERE plan = ? OR digest = ? ORDER BY plan DESC LIMIT 1",
        (plan, digest or None),
    ).fetchone()
    return _question(row) if row else None


def questions_about(store: Store, recipes: Sequence[str], since: datetime) -> list[Question]:
    """Those about the same recipes that are open or were closed since, the newest first."""
    rows = store.db.execute(
        "SELECT * FROM questions WHERE closed_at IS NULL OR closed_at > ? ORDER BY plan DESC",
        (stamp(since),),
    )
    return [question for question in map(_question, rows) if set(question.plan.recipes) & set(recipes)]


def cursor(store: Store, channel: str) -> str:
    row = store.db.execute("SELECT cursor FROM cursors WHERE channel = ?", (channel,)).fetchone()
    return row["cursor"] if row else ""


def move_cursor(store: Store, channel: str, cursor: str, now: datetime) -> None:
    store.put("cursors", channel=channel, cursor=cursor, at=now)


def _question(row: Any) -> Question:
    plan = Plan(
        row["title"],
        tuple(json.loads(row["incidents"])),
        tuple(json.loads(row["recipes"])),
        (),
        tuple(plain(word) if isinstance(word, str) else unpacked(word) for word in json.loads(row["words"])),
        row["digest"],
        id=row["plan"],
    )
    places = tuple(Place(name, receipt) for name, receipt in json.loads(row["places"]))
    return from_row(Question, row, plan=plan, places=places)

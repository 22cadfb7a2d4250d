"""What was said, to whom it could not be said, what was asked, and what nobody wants to hear of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from watchdog.history import Disarmed
from watchdog.model import SEVERITIES as SEVERITIES
from watchdog.model import Notice, Plan
from watchdog.notices import FLAPPING, Memory, Silence, Thing, Told
from watchdog.store import Store
from watchdog.values import dataclass

KEPT = timedelta(days=30)


@dataclass(frozen=True)
class Place:
    """One spot a question was put to: `ntfy/anna`, `matrix`; what the channel needs to find its message again."""

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


@dataclass(frozen=True)
class TargetState:
    """How a target fared lately."""

    name: str
    failures: int = 0
    next_try_at: datetime | None = None
    says: str = ""
    since: datetime | None = None


def memory(store: Store, now: datetime) -> Memory:
    """What choose_notices wants to know."""
    rows = store.db.execute(
        "SELECT * FROM told WHERE settled_at IS NULL OR told_at > ? OR over_at > ?",
        (_text(now - FLAPPING), _text(now - FLAPPING)),
    )
    sent = store.db.execute("SELECT at, reason FROM notices WHERE at > ? ORDER BY at", (_text(now - timedelta(hours=1)),))
    return Memory(
        tuple(_told(row) for row in rows),
        tuple((_time(row["at"]), row["reason"]) for row in sent),
        silences(store, now),
    )


def remember(store: Store, entries: Iterable[Told], now: datetime) -> None:
    """The latest state of each thing and of what was said about it."""
    with store.atomic() as db:
        for entry in entries:
            thing = entry.thing
            db.execute(
                "INSERT OR REPLACE INTO told VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (thing.ref, thing.rule, thing.key, thing.severity, thing.title, thing.says, thing.advice,
                 thing.incident,
                 _text(thing.since), _text(thing.over_at), _text(entry.at), entry.told_as, entry.severity,
                 _text(entry.settled_at), entry.times),
            )  # fmt: skip
        db.execute("DELETE FROM told WHERE settled_at < ?", (_text(now - KEPT),))


def record(store: Store, notice: Notice, now: datetime) -> int:
    """Keep a message; its number."""
    with store.atomic() as db:
        row = db.execute(
            "INSERT INTO notices (at, reason, severity, title, body, incidents, plan) VALUES (?,?,?,?,?,?,?)",
            (
                _text(now),
                notice.reason,
                notice.severity,
                notice.title,
                notice.body,
                json.dumps(notice.incidents),
                notice.plan,
            ),
        )
        db.execute("DELETE FROM notices WHERE at < ?", (_text(now - KEPT),))
        return int(row.lastrowid or 0)


def notice(store: Store, number: int) -> Notice | None:
    row = store.db.execute("SELECT * FROM notices WHERE id = ?", (number,)).fetchone()
    if row is None:
        return None
    return Notice(row["reason"], row["title"], row["body"], row["severity"], tuple(json.loads(row["incidents"])), row["plan"])


def written(store: Store, number: int) -> datetime | None:
    row = store.db.execute("SELECT at FROM notices WHERE id = ?", (number,)).fetchone()
    return _time(row["at"]) if row else None


def owing(store: Store) -> bool:
    """Is anything unsaid, unsent or unanswered? One question for the quiet check."""
    row = store.db.execute(
        "SELECT EXISTS(SELECT 1 FROM told WHERE settled_at IS NULL) OR EXISTS(SELECT 1 FROM unsent) "
        "OR EXISTS(SELECT 1 FROM questions WHERE closed_at IS NULL) OR EXISTS(SELECT 1 FROM targets)"
    ).fetchone()
    return bool(row[0])


def day(store: Store, now: datetime) -> tuple[int, int, int]:
    """Of the last 24 hours: things that began, things that ended, repairs that were told."""
    since = (_text(now - timedelta(days=1)),)
    began = store.db.execute("SELECT count(*) FROM told WHERE since > ?", since).fetchone()[0]
    ended = store.db.execute("SELECT count(*) FROM told WHERE over_at > ?", since).fetchone()[0]
    done = store.db.execute("SELECT count(*) FROM notices WHERE reason = 'healed by us' AND at > ?", since).fetchone()[0]
    return began, ended, done


def told_outcome(store: Store, plan: int, since: datetime) -> bool:
    """Was the outcome of this plan told since?"""
    query = "SELECT 1 FROM notices WHERE plan = ? AND reason IN ('healed by us', 'not verified', 'not healed') AND at >= ? LIMIT 1"
    return store.db.execute(query, (plan, _text(since))).fetchone() is not None


def disarmed(store: Store) -> Disarmed | None:
    """Since when and why the watchdog may not act; asked here so that a quiet check need not load the plans."""
    row = store.db.execute("SELECT armed, at, by, why FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    return None if row is None or row["armed"] else Disarmed(_time(row["at"]), row["by"], row["why"])


def last_notice(store: Store, reason: str) -> datetime | None:
    row = store.db.execute("SELECT max(at) AS at FROM notices WHERE reason = ?", (reason,)).fetchone()
    return _time(row["at"]) if row["at"] else None


def owe(store: Store, number: int, target: str, now: datetime) -> None:
    """A target has not taken a message; of more than 20 the oldest are given up."""
    with store.atomic() as db:
        db.execute("INSERT INTO unsent (notice, target, at) VALUES (?,?,?)", (number, target, _text(now)))
        db.execute(
            "DELETE FROM unsent WHERE target = ? AND id NOT IN (SELECT id FROM unsent WHERE target = ? ORDER BY id DESC LIMIT 20)",
            (target, target),
        )


def owed(store: Store, now: datetime) -> dict[str, list[int]]:
    """Per target the messages it has not taken yet; a day old is too old to tell."""
    owed: dict[str, list[int]] = {}
    for row in store.db.execute("SELECT target, notice FROM unsent WHERE at > ? ORDER BY id", (_text(now - timedelta(days=1)),)):
        owed.setdefault(row["target"], []).append(row["notice"])
    return owed


def delivered(store: Store, number: int, target: str) -> None:
    store.db.execute("DELETE FROM unsent WHERE notice = ? AND target = ?", (number, target))


def targets(store: Store) -> dict[str, TargetState]:
    return {
        row["name"]: TargetState(row["name"], row["failures"], _maybe(row["next_try_at"]), row["says"], _maybe(row["at"]))
        for row in store.db.execute("SELECT * FROM targets")
    }


def fared(store: Store, state: TargetState) -> None:
    """Keep how a target fared; a well one needs no row."""
    if state.failures == 0:
        store.db.execute("DELETE FROM targets WHERE name = ?", (state.name,))
        return
    store.db.execute(
        "INSERT OR REPLACE INTO targets VALUES (?,?,?,?,?)",
        (state.name, state.failures, _text(state.next_try_at), state.says, _text(state.since)),
    )


def ask(store: Store, question: Question) -> None:
    plan = question.plan
    store.db.execute(
        "INSERT OR REPLACE INTO questions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (plan.id, plan.digest, plan.title, json.dumps(plan.words), json.dumps(plan.incidents), json.dumps(plan.recipes),
         question.severity, json.dumps([[place.name, place.receipt] for place in question.places]),
         _text(question.asked_at), _text(question.expires_at), _text(question.reminded_at), question.answer,
         _text(question.closed_at)),
    )  # fmt: skip


def reopen(store: Store, plan: int) -> None:
    """Its plan goes on after it was cut off: what comes of it is owed to those who were asked."""
    store.db.execute("UPDATE questions SET closed_at = NULL WHERE plan = ?", (plan,))


def open_questions(store: Store) -> tuple[Question, ...]:
    """Asked, and the end not told yet."""
    return tuple(_question(row) for row in store.db.execute("SELECT * FROM questions WHERE closed_at IS NULL ORDER BY plan"))


def question(store: Store, *, plan: int = 0, digest: str = "") -> Question | None:
    row = store.db.execute(
        "SELECT * FROM questions WHERE plan = ? OR digest = ? ORDER BY plan DESC LIMIT 1", (plan, digest or None)
    ).fetchone()
    return _question(row) if row else None


def questions_about(store: Store, recipes: Sequence[str], since: datetime) -> list[Question]:
    """Those about the same recipes that are open or were closed since, the newest first."""
    rows = store.db.execute("SELECT * FROM questions WHERE closed_at IS NULL OR closed_at > ? ORDER BY plan DESC", (_text(since),))
    return [one for one in map(_question, rows) if set(one.plan.recipes) & set(recipes)]


def cursor(store: Store, channel: str) -> str:
    row = store.db.execute("SELECT cursor FROM cursors WHERE channel = ?", (channel,)).fetchone()
    return row["cursor"] if row else ""


def move_cursor(store: Store, channel: str, cursor: str, now: datetime) -> None:
    store.db.execute("INSERT OR REPLACE INTO cursors VALUES (?,?,?)", (channel, cursor, _text(now)))


def silence(store: Store, what: str, until: datetime, because: str, by: str, now: datetime) -> Silence:
    with store.atomic() as db:
        if what == "*":
            db.execute("UPDATE silences SET ended_at = ? WHERE what = '*' AND ended_at IS NULL", (_text(now),))
        row = db.execute(
            "INSERT INTO silences (what, until, because, by, at) VALUES (?,?,?,?,?)",
            (what, _text(until), because, by, _text(now)),
        )
        return Silence(int(row.lastrowid or 0), what, until, because, by, now)


def silences(store: Store, now: datetime) -> tuple[Silence, ...]:
    """Those in force, the oldest first."""
    rows = store.db.execute("SELECT * FROM silences WHERE ended_at IS NULL AND until > ? ORDER BY id", (_text(now),))
    return tuple(Silence(row["id"], row["what"], _time(row["until"]), row["because"], row["by"], _time(row["at"])) for row in rows)


def unsilence(store: Store, number: int, now: datetime) -> bool:
    """End one; False when there is none of that number in force."""
    changed = store.db.execute(
        "UPDATE silences SET ended_at = ? WHERE id = ? AND ended_at IS NULL AND until > ?",
        (_text(now), number, _text(now)),
    )
    return changed.rowcount == 1


def maintenance(store: Store, now: datetime) -> Silence | None:
    """Planned work that is going on; nothing is told and nothing should be proposed meanwhile."""
    return next((silence for silence in silences(store, now) if silence.what == "*"), None)


def _told(row: Any) -> Told:
    thing = Thing(
        row["ref"], row["rule"], row["key"], row["severity"], row["title"], row["says"], _time(row["since"]),
        _maybe(row["over_at"]), row["incident"], row["advice"],
    )  # fmt: skip
    return Told(thing, _maybe(row["told_at"]), row["told_as"], row["told_severity"], _maybe(row["settled_at"]), row["times"])


def _question(row: Any) -> Question:
    plan = Plan(
        row["title"],
        _words(row["incidents"]),
        _words(row["recipes"]),
        (),
        _words(row["words"]),
        row["digest"],
        id=row["plan"],
    )
    places = tuple(Place(name, receipt) for name, receipt in json.loads(row["places"]))
    return Question(
        plan, row["severity"], places, _time(row["asked_at"]), _time(row["expires_at"]), _maybe(row["reminded_at"]),
        row["answer"] or "", _maybe(row["closed_at"]),
    )  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    words: Sequence[str] = json.loads(text)
    return tuple(words)


def _text(at: datetime | None) -> str | None:
    from datetime import UTC

    return at.astimezone(UTC).isoformat(timespec="microseconds") if at else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

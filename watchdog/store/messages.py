"""What was said to people: notifications, targets that did not take one, and silences, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from watchdog import plan as plan_package
from watchdog.model import Notification, Reason, plain
from watchdog.store import Store
from watchdog.store.incidents import DAILY, TARGET, WEEKLY
from watchdog.store.rows import from_row, pack_reason, reason_of, stamp, unpack_reason, when
from watchdog.store.store import reads_rows
from watchdog.text import redact
from watchdog.values import TYPE_CHECKING, Any, dataclass, replace

if TYPE_CHECKING:
    from watchdog.plan.limits import Disarmed

KEPT = timedelta(days=30)
FLAPPING = timedelta(hours=6)  # three times within this is coming and going


class News(StrEnum):
    """Why a notification is sent; stored with it."""

    OPENED = "first seen"
    WORSE = "worse"
    RESOLVED = "healed by itself"
    PASSED = "passed"  # it came and went between two checks
    FLAPPING = "flapping"
    QUESTION = "approval needed"
    REMINDER = "reminder"
    FIXED = "healed by us"
    UNVERIFIED = "not verified"
    NOT_FIXED = "not healed"
    BLIND = "blind"
    DISARMED = "disarmed"
    TARGET = TARGET  # a target does not take messages
    DIGEST = "digest"
    DAILY = DAILY
    WEEKLY = WEEKLY
    TEST = "test"


QUESTIONS = (News.QUESTION, News.REMINDER)
OUTCOMES = (News.FIXED, News.UNVERIFIED, News.NOT_FIXED)


@dataclass(frozen=True)
class Subject:
    """What a notification is about: an incident, a source that cannot be read, a target that fails."""

    ref: str  # "incident 12", "blind gateway.log"
    rule: str
    key: str
    severity: str
    title: str
    says: Reason
    since: datetime
    over_at: datetime | None = None
    incident: int = 0
    advice: str = ""
    quotes: tuple[str, ...] = ()  # log lines, shown only when the settings say so

    @property
    def name(self) -> str:
        return f"{self.rule} {self.key}".strip()


@dataclass(frozen=True)
class NotificationRecord:
    """What has been said about one subject so far."""

    subject: Subject
    at: datetime | None = None
    news: str = ""  # of the last notification about it
    severity: str = ""
    settled_at: datetime | None = None
    times: int = 0  # how often it was told as new: a fault that comes back keeps its row


@dataclass(frozen=True)
class Silence:
    """A silence: suppresses notifications until `until`; `*` is everything: maintenance."""

    id: int
    what: str
    until: datetime
    because: str
    by: str
    at: datetime

    def covers(self, subject: Subject) -> bool:
        return self.what in ("*", subject.rule, subject.key, subject.name)


@dataclass(frozen=True)
class Day:
    """One day of the weekly timeline."""

    start: datetime
    checks: int
    faults: int  # that were there on it, also when they began before
    repairs: int


@dataclass(frozen=True)
class Memory:
    """What was said before this check."""

    records: tuple[NotificationRecord, ...] = ()
    sent: tuple[tuple[datetime, str], ...] = ()  # time and news of each notification of the last hour
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True)
class TargetState:
    """How a target did lately."""

    name: str
    failures: int = 0
    next_try_at: datetime | None = None
    why: Reason | None = None  # it failed
    since: datetime | None = None


@reads_rows
def memory(store: Store, now: datetime) -> Memory:
    """What was said before, as choosing wants to know it."""
    rows = store.db.execute(
        "SELECT * FROM told WHERE settled_at IS NULL OR told_at > ? OR over_at > ?",
        (stamp(now - FLAPPING), stamp(now - FLAPPING)),
    )
    sent = store.db.execute(
        "SELECT at, reason FROM notices WHERE at > ? ORDER BY at", (stamp(now - timedelta(hours=1)),)
    )
    return Memory(
        tuple(_record(row) for row in rows),
        tuple((datetime.fromisoformat(row["at"]), row["reason"]) for row in sent),
        silences(store, now),
    )


def remember(store: Store, records: Iterable[NotificationRecord], now: datetime) -> None:
    """Keep the latest state of each subject and of what was said about it."""
    with store.atomic() as db:
        for record in records:
            subject = record.subject
            store.put(
                "told", ref=subject.ref, rule=subject.rule, key=subject.key, severity=subject.severity,
                title=redact(subject.title), says=pack_reason(subject.says), advice=redact(subject.advice),
                incident=subject.incident, since=subject.since, over_at=subject.over_at, told_at=record.at,
                told_as=record.news, told_severity=record.severity, settled_at=record.settled_at, times=record.times,
            )  # fmt: skip
        db.execute("DELETE FROM told WHERE settled_at < ?", (stamp(now - KEPT),))


def record(store: Store, notification: Notification, now: datetime) -> int:
    """Keep a notification; its number."""
    texts = {name: getattr(notification, name) for name in ("severity", "title", "body", "details", "plan")}
    with store.atomic() as db:
        incidents = json.dumps(notification.incidents)
        number = store.insert("notices", at=now, reason=notification.news, incidents=incidents, **texts)
        db.execute("DELETE FROM notices WHERE at < ?", (stamp(now - KEPT),))
        return number


@reads_rows
def notification(store: Store, number: int) -> tuple[Notification, datetime] | None:
    """A notification and when it was written."""
    row = store.db.execute("SELECT * FROM notices WHERE id = ?", (number,)).fetchone()
    if row is None:
        return None
    incidents = tuple(json.loads(row["incidents"]))
    made = from_row(Notification, row, news=row["reason"], incidents=incidents)
    return made, datetime.fromisoformat(row["at"])


def day(store: Store, now: datetime) -> tuple[int, int, int]:
    """Of the last 24 hours: how many faults began, how many ended, how many repairs were reported."""
    since = (stamp(now - timedelta(days=1)),)
    began = store.db.execute("SELECT count(*) FROM told WHERE since > ?", since).fetchone()[0]
    ended = store.db.execute("SELECT count(*) FROM told WHERE over_at > ?", since).fetchone()[0]
    done = store.db.execute(
        "SELECT count(*) FROM notices WHERE reason = 'healed by us' AND at > ?", since
    ).fetchone()[0]
    return began, ended, done


def week(store: Store, midnight: datetime) -> tuple[Day, ...]:
    """The days of the week before this midnight, the oldest first, by the wall clock of its zone; none before the
    watchdog was installed.
    """
    first = store.db.execute("SELECT min(at) FROM checks").fetchone()[0] or ""
    starts = [midnight - timedelta(days=back) for back in range(7, -1, -1)]
    return tuple(_day(store, start, end) for start, end in pairwise(starts) if str(stamp(end)) > first)


def faults_between(store: Store, start: datetime, end: datetime) -> int:
    """How many faults were there at some moment between the two."""
    query = "SELECT count(*) FROM told WHERE since < ? AND coalesce(over_at, settled_at, '9') >= ?"
    return int(store.db.execute(query, (stamp(end), stamp(start))).fetchone()[0])


def _day(store: Store, start: datetime, end: datetime) -> Day:
    span = (stamp(start), stamp(end))
    checks = store.db.execute("SELECT count(*) FROM checks WHERE at >= ? AND at < ?", span).fetchone()[0]
    repairs = store.db.execute(
        "SELECT count(*) FROM notices WHERE reason = ? AND at >= ? AND at < ?", (News.FIXED, *span)
    ).fetchone()[0]
    return Day(start, checks, faults_between(store, start, end), repairs)


def outcome_was_sent(store: Store, plan: int, since: datetime) -> bool:
    """Whether the outcome of this plan was reported since."""
    query = "SELECT 1 FROM notices WHERE plan = ? AND reason IN ('healed by us', 'not verified', 'not healed') AND at >= ? LIMIT 1"
    return store.db.execute(query, (plan, stamp(since))).fetchone() is not None


@reads_rows
def disarmed(store: Store) -> Disarmed | None:
    """Since when and why the watchdog may not act; None while it may."""
    row = store.db.execute("SELECT * FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    if row is None or row["armed"]:
        return None
    return from_row(plan_package.Disarmed, row, why=reason_of(row) or plain(""))


def owe(store: Store, number: int, target: str, now: datetime) -> None:
    """A target has not taken a message; of more than 20 the oldest are dropped."""
    with store.atomic() as db:
        store.insert("unsent", notice=number, target=target, at=now)
        db.execute(
            "DELETE FROM unsent WHERE target = ? AND id NOT IN (SELECT id FROM unsent WHERE target = ? ORDER BY id DESC LIMIT 20)",
            (target, target),
        )


@reads_rows
def owed(store: Store, now: datetime, waited: timedelta = timedelta(0)) -> dict[str, list[int]]:
    """Per target the messages it has not taken for so long; a day old is too old to tell."""
    owed: dict[str, list[int]] = {}
    for row in store.db.execute(
        "SELECT target, notice FROM unsent WHERE at > ? AND NOT (at > ? AND at <= ?) ORDER BY id",
        (stamp(now - timedelta(days=1)), stamp(now - waited), stamp(now)),
    ):
        owed.setdefault(row["target"], []).append(row["notice"])
    return owed


def delivered(store: Store, number: int, target: str) -> None:
    store.db.execute("DELETE FROM unsent WHERE notice = ? AND target = ?", (number, target))


@reads_rows
def targets(store: Store) -> dict[str, TargetState]:
    found = [
        from_row(
            TargetState, row, why=unpack_reason(row["says"]) if row["says"] else None, since=when(row["at"])
        )
        for row in store.db.execute("SELECT * FROM targets")
    ]
    return {state.name: state for state in found}


def save_target(store: Store, state: TargetState) -> None:
    """Keep how a target did; one that works needs no row."""
    if state.failures == 0:
        store.db.execute("DELETE FROM targets WHERE name = ?", (state.name,))
        return
    says, again = pack_reason(state.why) if state.why else "", state.next_try_at
    store.put(
        "targets", name=state.name, failures=state.failures, next_try_at=again, says=says, at=state.since
    )


def add_silence(store: Store, silence: Silence) -> Silence:
    """The silence with its number; a new one of everything ends the one before it."""
    with store.atomic() as db:
        if silence.what == "*":
            db.execute(
                "UPDATE silences SET ended_at = ? WHERE what = '*' AND ended_at IS NULL", (stamp(silence.at),)
            )
        names = ("what", "until", "because", "by", "at")
        return replace(silence, id=store.insert("silences", **{n: getattr(silence, n) for n in names}))


@reads_rows
def silences(store: Store, now: datetime) -> tuple[Silence, ...]:
    """Those in force, the oldest first."""
    rows = store.db.execute(
        "SELECT * FROM silences WHERE ended_at IS NULL AND until > ? ORDER BY id", (stamp(now),)
    )
    return tuple(from_row(Silence, row) for row in rows)


def unsilence(store: Store, number: int, now: datetime) -> bool:
    """End one; False when there is none of that number in force."""
    changed = store.db.execute(
        "UPDATE silences SET ended_at = ? WHERE id = ? AND ended_at IS NULL AND until > ?",
        (stamp(now), number, stamp(now)),
    )
    return changed.rowcount == 1


def maintenance(store: Store, now: datetime) -> Silence | None:
    """Planned work that is going on: no notifications, no proposals meanwhile."""
    return next((silence for silence in silences(store, now) if silence.what == "*"), None)


def _record(row: Any) -> NotificationRecord:
    subject = from_row(Subject, row, says=unpack_reason(row["says"]))
    last = {"at": when(row["told_at"]), "news": row["told_as"], "severity": row["told_severity"]}
    return from_row(NotificationRecord, row, subject=subject, **last)

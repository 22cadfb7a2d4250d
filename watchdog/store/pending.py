"""Whether anything is left to do or to tell: all that a quiet check asks of plans and messages."""

from __future__ import annotations

from datetime import datetime

from watchdog.model import Report
from watchdog.store import Store
from watchdog.store.store import reads_rows
from watchdog.store.times import stamp
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.config.settings import NotifySettings

DAILY, WEEKLY, TARGET = "daily", "weekly", "target"  # of messages.News, which a quiet check does not load


def work_left(store: Store | None) -> tuple[bool, tuple[int, ...]]:
    """(whether any plan may be asked about, done or found cut off now, those that were begun and not finished)."""
    if store is None:
        return False, ()
    found = store.db.execute(
        "SELECT id, state FROM plans WHERE state IN ('pending', 'approved', 'claimed', 'interrupted') ORDER BY id"
    ).fetchall()
    cut_off = tuple(row["id"] for row in found if row["state"] in ("claimed", "interrupted"))
    return any(row["state"] != "interrupted" for row in found), cut_off


def worth_telling(store: Store, report: Report, settings: NotifySettings, now: datetime) -> bool:
    """Whether anybody wants messages, and something is new, unsaid or due."""
    if not settings.targets and not settings.replies.channels:
        return False
    daily = last_sent(store, DAILY) if settings.daily_summary else None
    weekly = last_sent(store, WEEKLY) if settings.weekly_summary else None
    due = settings.summary_due(daily, now) or settings.week_due(weekly, now)
    return due or anything_to_tell(store, report, now)


def anything_to_tell(store: Store, report: Report, now: datetime) -> bool:
    """Whether a check has news, or something is still unsaid, unanswered, or to be sent again now.

    A fault that goes on as it was told is none of it: most checks of a home with an open incident end here, and load
    nothing that writes messages (9 interpreter starts).
    """
    if report.plans or report.outcomes or report.blind:
        return True
    if any(change.what != "seen" for change in report.changes) or _is_disarmed(store):
        return True
    unsettled = store.db.execute(
        "SELECT rule, key, incident, told_at IS NOT NULL AND over_at IS NULL AND told_severity = severity AS said "
        "FROM told WHERE settled_at IS NULL"
    ).fetchall()
    going_on = {incident.id for incident in report.incidents if incident.status == "open"}
    failing = {row["name"] for row in store.db.execute("SELECT name FROM targets")}
    mentioned = {(row["rule"], row["key"]) if row["rule"] == TARGET else row["incident"] for row in unsettled}
    if mentioned != going_on | {(TARGET, name) for name in failing} or not all(
        row["said"] for row in unsettled
    ):
        return True
    row = store.db.execute(
        "SELECT EXISTS(SELECT 1 FROM unsent WHERE target NOT IN (SELECT name FROM targets)) "
        "OR EXISTS(SELECT 1 FROM targets WHERE next_try_at IS NULL OR next_try_at <= ?) "
        "OR EXISTS(SELECT 1 FROM questions WHERE closed_at IS NULL)",
        [stamp(now)],
    ).fetchone()
    return bool(row[0])


def _is_disarmed(store: Store) -> bool:
    row = store.db.execute("SELECT armed FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    return row is not None and not row["armed"]


@reads_rows
def last_sent(store: Store, news: str) -> datetime | None:
    """When a notification with this news was last sent."""
    row = store.db.execute("SELECT max(at) AS at FROM notices WHERE reason = ?", (news,)).fetchone()
    return datetime.fromisoformat(row["at"]) if row["at"] else None

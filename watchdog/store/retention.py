"""What is old enough to go: rows by age, and lines of the audit into a file beside the store."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchdog.store import Store
from watchdog.store.audit import archive
from watchdog.store.rows import stamp

LEAST = timedelta(days=35)  # budgets count the actions of a month
CODES = timedelta(days=30)  # a code is void after its plan's time; the row only says what became of it

# The newest row of a table stays: numbers of plans, incidents and actions are never given twice.
_OLD = (
    "DELETE FROM incidents WHERE status = 'resolved' AND resolved_at < :old AND id < (SELECT max(id) FROM incidents)",
    "DELETE FROM plans WHERE state NOT IN ('pending', 'approved', 'claimed', 'interrupted') "
    "AND coalesce(finished_at, answered_at, expires_at) < :old AND id < (SELECT max(id) FROM plans)",
    "DELETE FROM steps_done WHERE plan NOT IN (SELECT id FROM plans)",
    "DELETE FROM questions WHERE plan NOT IN (SELECT id FROM plans)",
    "DELETE FROM codes WHERE plan NOT IN (SELECT id FROM plans) OR at < :codes",
    "DELETE FROM wrong_tries WHERE at < :codes",
    "DELETE FROM actions WHERE at < :old AND id < (SELECT max(id) FROM actions)",
    "DELETE FROM starts WHERE at < :old",
    "DELETE FROM refusals WHERE until < :old",
    "DELETE FROM silences WHERE until < :old AND id < (SELECT max(id) FROM silences)",
    "DELETE FROM arming WHERE at < :old AND id < (SELECT max(id) FROM arming) "
    "AND id < (SELECT coalesce(max(id), 0) FROM arming WHERE armed = 1)",
)


def forget_old(store: Store, keep: timedelta, now: datetime) -> str:
    """Remove what ended longer ago than `keep`; the name of the file that took old lines of the audit, or ''."""
    before = {"old": stamp(now - max(keep, LEAST)), "codes": stamp(now - CODES)}
    with store.atomic() as db:
        for statement in _OLD:
            db.execute(statement, before)
    return archive(store, now - max(keep, LEAST), now)

"""What was measured at past checks, as rows: room, memory, open files. A trend needs a memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.model import Measurement
from watchdog.store import Store
from watchdog.store.times import stamp, when
from watchdog.values import Any

KEEP = timedelta(hours=12)
APART = timedelta(minutes=10)  # closer ones replace one another: a daemon checks every few seconds


def past_measurements(store: Store | None, now: datetime) -> tuple[Measurement, ...]:
    """Those of the last hours, oldest first; none in a store that an older version made."""
    if store is None:
        return ()
    try:
        rows = store.db.execute(
            "SELECT at, facts FROM measurements WHERE at >= ? AND at <= ? ORDER BY at",
            [stamp(now - KEEP), stamp(now)],
        ).fetchall()
    except sqlite3.OperationalError:
        return ()
    return tuple(
        Measurement(at, json.loads(row["facts"])) for row in rows if (at := when(row["at"])) is not None
    )


def failed_restarts(store: Store | None, now: datetime) -> tuple[datetime, ...]:
    """When repairs of the last hours began that should have left the gateway running, and failed."""
    if store is None:
        return ()
    rows = store.db.execute(
        "SELECT DISTINCT at FROM actions WHERE at >= ? AND restarted = 1 AND state IN ('failed', 'undone')",
        [stamp(now - KEEP)],
    ).fetchall()
    return tuple(at for row in rows if (at := when(row["at"])) is not None)


def save_measurement(store: Store, now: datetime, facts: Mapping[str, Any]) -> None:
    """Keep it beside those of the last hours; it takes the place of one that followed its own forerunner closely."""
    newest = store.db.execute("SELECT id, at FROM measurements ORDER BY at DESC LIMIT 2").fetchall()
    if (
        len(newest) == 2
        and (last := when(newest[0]["at"]))
        and (before := when(newest[1]["at"]))
        and last - before < APART
    ):
        store.db.execute("DELETE FROM measurements WHERE id = ?", [newest[0]["id"]])
    store.insert("measurements", at=now, facts=json.dumps(dict(facts)))
    store.db.execute("DELETE FROM measurements WHERE at < ?", [stamp(now - KEEP)])

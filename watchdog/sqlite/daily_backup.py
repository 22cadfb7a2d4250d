"""A verified snapshot of each database, at most one a day; where they are kept, one folder per database."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

from watchdog import sqlite
from watchdog.system.lock import no_hurry

EVERY = timedelta(days=1)
STAMP = "last-round"  # its time tells when all databases were last looked through


def folder(state: Path, database: str | os.PathLike) -> Path:
    """One folder per database: boards all call theirs kanban.db, and no board may get another's rows back."""
    path = os.path.realpath(database)
    return state / "backups" / f"{os.path.basename(path)}-{sha256(path.encode()).hexdigest()[:8]}"


def take_due_backups(home: Path, state: Path, keep: int, now: datetime) -> list[str]:
    """Take the backups that are due; what went wrong, as lines for the report."""
    if not is_due(state, now):
        return []
    problems = []
    for path in sqlite.databases(home):
        place = folder(state, path)
        # A snapshot of a sick database would push out a well one.
        if (
            os.path.isfile(path)
            and os.path.getsize(path)
            and sqlite.due(path, now, place, EVERY)
            and sqlite.look(path).grade in ("well", "drifted")
        ):
            with (
                no_hurry()
            ):  # a large database takes longer than a check may; the child has a limit of its own
                report = sqlite.snapshot(path, place, keep=keep, now=now)
            if not report.ok:
                problems.append(f"backup: {report.says}")
    if not problems:
        stamp = state / "backups" / STAMP
        stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp.touch(mode=0o600)
        os.utime(stamp, (now.timestamp(), now.timestamp()))
    return problems


def is_due(state: Path, now: datetime) -> bool:
    """Whether a day has passed since the last whole round; cheap, because every check asks."""
    try:
        return abs(now.timestamp() - os.stat(state / "backups" / STAMP).st_mtime) >= EVERY.total_seconds()
    except OSError:
        return True

"""The databases of a home, and where their backups are; a verified snapshot of each, at most one a day."""

from __future__ import annotations

import os
from datetime import datetime

from watchdog import sqlite
from watchdog.system.files import short_digest
from watchdog.values import StrPath

NAMES = {"state": "state.db", "kanban": "kanban.db", "response_store": "response_store.db"}
SIDECARS = ("-wal", "-shm", "-journal")
MOST_BOARDS = 200  # a check looks at each of them every time
EVERY = 24 * 3600.0  # seconds
STAMP = "last-round"  # its time tells when all databases were last looked through


def databases(home: StrPath) -> list[str]:
    """The databases of a Hermes home that exist: the three, and one per board."""
    named = [os.path.join(home, name) for name in NAMES.values()]
    if os.environ.get("HERMES_KANBAN_DB"):
        named[1] = os.environ["HERMES_KANBAN_DB"]
    return [path for path in dict.fromkeys([*named, *_boards(home)[0]]) if os.path.lexists(path)]


def _boards(home: StrPath) -> tuple[list[str], int]:
    """The databases of the boards that we look at, and how many we do not."""
    boards = os.path.join(home, "kanban", "boards")
    try:
        names = sorted(os.listdir(boards))
    except (FileNotFoundError, NotADirectoryError):
        return [], 0
    there = [name for name in names if os.path.lexists(os.path.join(boards, name, "kanban.db"))]
    # Hermes calls its boards by plain words. Other names may be meant to deceive a reader or a shell.
    plain = [name for name in there if name.isprintable()][:MOST_BOARDS]
    return [os.path.join(boards, name, "kanban.db") for name in plain], len(there) - len(plain)


def passed_over(home: StrPath) -> str:
    """A line about boards that a check passes over; '' when there are none."""
    left = _boards(home)[1]
    return (
        (
            f"{left} databases in kanban/boards were not looked at: {MOST_BOARDS} at most, and none in a folder whose name has "
            "unprintable signs"
        )
        if left
        else ""
    )


Stamps = tuple[tuple[int, ...], ...]


def stamps_of(path: str) -> Stamps:
    """What changes with every write to the database: of the file itself, its -wal and its -journal."""
    real = os.path.realpath(path) if os.path.islink(path) else path
    found: list[tuple[int, ...]] = []
    for part in ("", "-wal", "-journal"):
        try:
            status = os.stat(real + part)
            found.append(
                (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            )
        except OSError:
            found.append(())
    return tuple(found)


def backup_folder(state: StrPath, database: StrPath) -> str:
    """One folder per database: boards all call theirs kanban.db, and no board may get another's rows back."""
    path = os.path.realpath(database)
    return os.path.join(state, "backups", f"{os.path.basename(path)}-{short_digest(path)}")


def with_backups(state: StrPath) -> set[str]:
    """What databases with such a folder are called. A digest for each that is not there would load hashlib."""
    try:
        return {name.rpartition("-")[0] for name in os.listdir(os.path.join(state, "backups"))}
    except OSError:
        return set()


def take_due_backups(home: StrPath, state: StrPath, keep: int, now: datetime) -> list[str]:
    """Take the backups that are due; what went wrong, as lines for the report."""
    if not is_due(state, now):
        return []
    problems = [
        f"backup: {report.says}"
        for path in databases(home)
        if (report := sqlite.daily(path, backup_folder(state, path), keep, now)) and not report.ok
    ]
    if not problems:
        stamp = _stamp(state)
        os.makedirs(os.path.dirname(stamp), mode=0o700, exist_ok=True)
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(stamp, (now.timestamp(), now.timestamp()))
    return problems


def is_due(state: StrPath, now: datetime) -> bool:
    """Whether a day has passed since the last whole round; cheap, because every check asks."""
    try:
        return abs(now.timestamp() - os.stat(_stamp(state)).st_mtime) >= EVERY
    except OSError:
        return True


def _stamp(state: StrPath) -> str:
    return os.path.join(state, "backups", STAMP)

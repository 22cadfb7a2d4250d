"""Why a heal, an undo, a backup or a migration was not done, and the one thing to do about it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from functools import reduce

from watchdog.errors import WatchdogError
from watchdog.model import Sentence
from watchdog.sqlite.faults import Detail
from watchdog.system.files import LedAstray


class DatabaseRefusal(Sentence):
    """What is refused, and what becomes of the file."""

    # fmt: off
    UNTOUCHED = "database.refused.untouched", "{path}: {why}; the file is untouched"
    NOT_CHANGED = "database.refused.not-changed", "{path}: {why}; nothing was changed"
    HEAL_FIRST = "database.refused.heal-first", "{path}: {why}; heal it first, nothing was changed"
    WRITTEN = "database.refused.written", "{path}: something wrote to it during the repair, so nothing was swapped in; the file is as that left it. Stop the gateway and everything else that uses it, then run it again"
    CANNOT_BACK_UP = "database.refused.cannot-back-up", "cannot back up {path}: {why}"
    NO_ROOM_FOR_BACKUP = "database.refused.no-room-for-backup", "no room for a backup of {path}: it needs {need}, there are {free} in {folder}; free {missing}, or give another folder with --backups"
    BACKUP_FAILS = "database.refused.backup-fails", "the backup of {path} fails its check ({why}); it was not kept, the older ones are; see what db check --deep says"
    BACKED_UP = "database.refused.backed-up", "backed up {path}: {rows} rows, checked"


class Obstacle(Sentence):
    """The reason of a refusal."""

    # fmt: off
    FULL = "database.why.full", "the disk is full; free space and run it again"
    QUOTA = "database.why.quota", "the quota is used up; free space and run it again"
    READ_ONLY = "database.why.read-only", "the file system is mounted read-only; mount it for writing, or copy the database elsewhere and work on the copy"
    NO_PERMISSION = "database.why.no-permission", "no permission; run it as the owner of the database or as root"
    DISK = "database.why.disk", "the disk gives errors; db heal copies around sectors that cannot be read, or copy the file to a good disk first"
    MANY_FILES = "database.why.many-files", "too many open files; close some and run it again"
    TOO_BIG = "database.why.too-big", "the file would grow beyond its limit; copy it elsewhere and work on the copy"
    SYSTEM = "database.why.system", "the system says: {why}"
    AT = "database.why.at", "{why} ({file})"
    SQLITE = "database.why.sqlite", "SQLite gave up: {why}"
    MEMORY = "database.why.memory", "it needs more memory than a database may; heal it on a machine with more"
    SLOW = "database.why.slow", "it was not finished after {seconds} seconds: the machine is busy, or something in the file makes SQLite work without end; look again when the machine is idle, or put back a backup"
    DIED = "database.why.died", "the process that worked on it died, most likely for lack of memory; free some and run it again"
    FOLDER_GONE = "database.why.folder-gone", "there is no folder {folder}; put the database back, or remove the link that leads there"
    FOLDER_CLOSED = "database.why.folder-closed", "its folder cannot be written to, and a repair needs room beside the file; mount it for writing, or copy the database elsewhere and heal the copy"
    NO_ROOM = "database.why.no-room", "no room to heal: it needs {need} beside the file, there are {free}; free {missing} and run it again"
    REPAIR_RUNS = "database.why.repair-runs", "another repair is running in this folder; wait for it"
    CUT_SHORT = "database.why.cut-short", "a repair was cut short; db heal without --dry-run finishes it"
    CHANGED = "database.why.changed", "it changed while it was copied to quarantine: something still writes to it. Stop the gateway and everything else that uses it, then run it again"
    KEEPS_CHANGING = "database.why.keeps-changing", "it keeps changing while it is copied; run it again in a minute"
    OPEN = "database.why.open", "process {pid} ({name}) has {files} open; stop it first"
    OPEN_DELETED = "database.why.open-deleted", "process {pid} ({name}) has {files} open, deleted; stop it first"
    BOTH = "database.why.both", "{first}; {second}"
    OPEN_ELSEWHERE = "database.why.open-elsewhere", "a process that cannot be seen from here has it open (another user's, or in another container); stop the gateway there first"
    CANNOT_TELL = "database.why.cannot-tell", "cannot tell whether it is open: no permission to look into other processes ({pids}); run it as root"
    RESCUED = "database.why.rescued", "{why}; the deleted files were copied to {paths}: now stop the process normally"
    NO_QUARANTINE = "database.why.no-quarantine", "the quarantine {folder} cannot be read; run it again"
    OTHER_QUARANTINE = "database.why.other-quarantine", "the files in {folder} were changed since; if they are what you want, copy them back while the gateway is stopped"
    NO_DATABASE = "database.why.no-database", "it is not a database"
    NO_FILE = "database.why.no-file", "it is not a file; move it away"
    NOT_THERE = "database.why.not-there", "there is no such file; check the name"
    EMPTY = "database.why.empty", "it is empty (0 bytes); see what db check says"
    LINK = "database.why.link", "a link of user {user} leads {path} to a folder of another user; put the folder itself there"
    LACKS = "database.why.lacks", "it lacks what the backup of {at} holds; db heal puts that back, db accept says that it is meant"
    EMPTIED = "database.why.emptied", "{table} is empty, it had {rows} rows in the backup before; db heal puts them back, db accept says that it is meant"
    NEWER = "database.why.newer", "its schema is newer than that of {reference}, and needs nothing of it"
    WRITER = "database.why.writer", "{why}; run it again when the gateway is quiet"
    # why a column cannot be added
    COLUMN = "database.why.column", "{name}: {why}"
    PRIMARY_KEY = "database.why.primary-key", "part of the primary key; needs a rebuild of the table with the gateway stopped"
    STORED = "database.why.stored", "a stored generated column; needs a rebuild of the table"
    GENERATED = "database.why.generated", "a generated column; not tried"
    NO_CONSTANT = "database.why.no-constant", "its default ({default}) is not a constant"
    NOT_NULL = "database.why.not-null", "NOT NULL without a default"
    UNIQUE = "database.why.unique", "UNIQUE; needs a rebuild of the table"
    NO_SUCH_COLUMN = "database.why.no-such-column", "this Hermes has no such column"
    # fmt: on


_SYSTEM = {
    errno.ENOSPC: Obstacle.FULL,
    errno.EDQUOT: Obstacle.QUOTA,
    errno.EROFS: Obstacle.READ_ONLY,
    errno.EACCES: Obstacle.NO_PERMISSION,
    errno.EPERM: Obstacle.NO_PERMISSION,
    errno.EIO: Obstacle.DISK,
    errno.EMFILE: Obstacle.MANY_FILES,
    errno.EFBIG: Obstacle.TOO_BIG,
    errno.ENOENT: Obstacle.NOT_THERE,
    errno.EISDIR: Obstacle.NO_FILE,
}
_SQLITE = {
    "SQLITE_FULL": Obstacle.FULL,
    "SQLITE_READONLY": Obstacle.READ_ONLY,
    "SQLITE_NOMEM": Obstacle.MEMORY,
}


def refused(kind: DatabaseRefusal, path: str | os.PathLike, why: str = "") -> WatchdogError:
    return WatchdogError(kind(path=os.fspath(path), why=why))


def why_of(error: OSError | sqlite3.Error, path: str | os.PathLike = "") -> str:
    """What the system or SQLite refused, and the one thing to do about it; names another file than `path`."""
    if isinstance(error, sqlite3.Error):
        known = _SQLITE.get(getattr(error, "sqlite_errorname", "").partition("_CANT")[0])
        return known() if known else Obstacle.SQLITE(why=str(error))
    if isinstance(error, LedAstray):
        return Detail.LED_ASTRAY(who=f"user {error.maker}")
    known = _SYSTEM.get(error.errno or 0)
    why = known() if known else Obstacle.SYSTEM(why=error.strerror or str(error))
    another = error.filename and not _leads_to(error.filename, path)
    return Obstacle.AT(why=why, file=str(error.filename)) if another else why


def _leads_to(name: str | os.PathLike, path: str | os.PathLike) -> bool:
    try:
        return os.path.realpath(name) == os.path.realpath(path)
    except OSError:  # a link on the way was exchanged while it was followed
        return os.path.abspath(name) == os.path.abspath(path)


def every(reasons: Iterable[str]) -> str:
    """Several reasons as one."""
    return reduce(lambda first, second: Obstacle.BOTH(first=first, second=second), reasons)


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MB"

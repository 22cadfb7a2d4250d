"""The deep look: SQLite's own checks, in a process of their own, as the owner of the file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from itertools import islice

from watchdog.errors import WatchdogError
from watchdog.model import as_phrase, packed, unpacked
from watchdog.sqlite import checks, content, full_text, sandbox
from watchdog.sqlite.damaged_file import has_zeroed_pages, open_damaged
from watchdog.sqlite.faults import Detail
from watchdog.sqlite.format import Bad
from watchdog.sqlite.grade import Deep
from watchdog.sqlite.journal import read_journal
from watchdog.sqlite.notes import RepairNote
from watchdog.sqlite.page_scan import ZEROED
from watchdog.sqlite.readonly import Moved, connect, place
from watchdog.sqlite.refusals import Obstacle
from watchdog.sqlite.roots import foreign_rows
from watchdog.sqlite.survey import Survey
from watchdog.sqlite.wal import read_wal
from watchdog.system.files import free_bytes
from watchdog.values import Any

_SAID = ("integrity", "fts", "doubts", "says")  # what carries phrases
FTS_UP_TO = 256 << 20  # bytes of a file; above, the content of its full-text indexes is not checked


def examine(path: str, timeout: float = 3600, fts_up_to: int = FTS_UP_TO) -> Deep:
    """What SQLite says about a database; never an exception, never 'broken' for a lock or a full disk."""
    asked = {"path": os.path.abspath(path), "fts_up_to": fts_up_to}
    try:
        answer = sandbox.run("watchdog.sqlite.deep_check:answer", asked, sandbox.ChildLimits(timeout))
    except sandbox.TookTooLong:
        return Deep(unknown=Detail.ENDLESS(seconds=f"{timeout:.0f}"))
    except WatchdogError as error:
        return Deep(unknown=str(error))
    except (OSError, ValueError) as error:
        return Deep(unknown=Obstacle.SYSTEM(why=str(error)))
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in answer.items()
    }
    phrases = {key: tuple(map(as_phrase, unpacked(answer[key]))) for key in _SAID}
    reasons = {key: as_phrase(unpacked(answer[key])) for key in ("unknown", "broken")}
    return Deep(**{**values, **phrases, **reasons})


def inspect(path: str, fts_up_to: int = FTS_UP_TO, tries: int = 3) -> Deep:
    """The checks themselves; a file that changes under an immutable look is looked at again."""
    for _ in range(tries):
        try:
            with place(path) as (where, mode):
                return _inspect(path, where, mode, fts_up_to)
        except Moved:
            continue
        except sqlite3.Error as error:
            if checks.is_damage(error, os.path.dirname(path)):
                return Deep(integrity=(str(error),), sqlite=sqlite3.sqlite_version)
            return Deep(unknown=_words(error), sqlite=sqlite3.sqlite_version)
        except UnicodeDecodeError:
            return Deep(broken=RepairNote.SCHEMA_NOT_TEXT(), sqlite=sqlite3.sqlite_version)
        except OSError as error:
            return Deep(unknown=_unreadable(error), sqlite=sqlite3.sqlite_version)
    return Deep(unknown=Detail.CHANGING(), sqlite=sqlite3.sqlite_version)


def _inspect(path: str, where: str, mode: str, fts_up_to: int) -> Deep:
    folder, version = os.path.dirname(path), sqlite3.sqlite_version
    torn = _torn_wal(path)
    with closing(connect(where, mode)) as db:
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            if checks.is_damage(error, folder):
                return Deep(broken=RepairNote.CANNOT_OPEN(why=str(error)), sqlite=version)
            raise
        has_fts = bool(full_text.fills(checks.schema(db)))
        rows = checks.integrity(db) or foreign_rows(path) or _ignored_wal(path) or _ignored_journal(path)
        fts, counted, orphans = _count(db, folder)
    says = []
    doubts: list[tuple[str, int, str]] = []
    size = os.path.getsize(path)
    if not rows and size <= fts_up_to:
        with closing(connect(where, mode)) as reader:
            doubts = content.doubts(reader) or _zeroed(path)
    if rows or not has_fts:
        pass
    elif size > fts_up_to > 0:
        says.append(RepairNote.FTS_NOT_CHECKED(size=size >> 20, limit=fts_up_to >> 20))
    else:
        found = fts_on_copy(where, mode) if fts_up_to else []
        fts += found if found is not None else []
        if found is None:
            says.append(RepairNote.FTS_NO_ROOM())
    return Deep(
        integrity=rows,
        orphans=orphans,
        fts=tuple(fts),
        rows=counted,
        says=tuple(says),
        doubts=tuple(
            (RepairNote.ALTERED_ROW if rowid else RepairNote.ALTERED_UNNUMBERED)(
                table=table, rowid=rowid, why=why
            )
            for table, rowid, why in doubts
        ),
        sqlite=version,
        torn_wal=torn,
    )


def _zeroed(path: str) -> list[tuple[str, int, str]]:
    """Rows with a page of zeros in their content: SQLite takes the zeros for the content."""
    with ExitStack() as files, suppress(Bad, OSError, struct.error):
        opened = open_damaged(path, files)
        if has_zeroed_pages(opened):
            survey = Survey(opened, opened.entries)
            return [(table, rowid, ZEROED) for table, rowid in islice(survey.zeroed(), 20)]
    return []


def _ignored_wal(path: str) -> tuple[str, ...]:
    """A WAL with frames whose header is damaged beyond repair: what only it holds is lost."""
    with suppress(OSError), open(path + "-wal", "rb") as file:
        wal = read_wal(file.fileno())
        return (wal.fault,) if wal.fault and wal.size > 32 else ()
    return ()


def _ignored_journal(path: str) -> tuple[str, ...]:
    """A journal whose header is damaged: SQLite would leave the unfinished transaction in the file."""
    with suppress(OSError), open(path + "-journal", "rb") as file, open(path, "rb") as main:
        if read_journal(file.fileno(), main.fileno()).header:
            return (RepairNote.JOURNAL_IGNORED(),)
    return ()


def _torn_wal(path: str) -> tuple[int, int]:
    """The first bad frame of the WAL that is no end of a crash, and how many committed ones follow."""
    for _ in range(3):
        try:
            with open(path + "-wal", "rb") as file:
                before = os.fstat(file.fileno()).st_mtime_ns
                wal = read_wal(file.fileno())
                if not wal.torn:
                    return 0, 0
                time.sleep(0.05)
                if os.fstat(file.fileno()).st_mtime_ns == before:  # no write happened meanwhile
                    return wal.torn, wal.behind
        except OSError:
            return 0, 0
    return 0, 0


def _count(db: sqlite3.Connection, folder: str) -> tuple[list[str], dict[str, int], int]:
    """Full-text indexes that lost rows, rows per table, orphans: by indexes, next to nothing beside
    integrity_check.
    """
    fts: list[str] = []
    rows: dict[str, int] = {}
    orphans = 0
    try:
        db.execute("BEGIN")  # one snapshot: a row between two counts is no fault
        fts = list(full_text.fts_counts(db))
        rows = checks.counts(db)
        orphans = checks.orphans(db)
    except sqlite3.Error as error:
        if not checks.is_damage(error, folder):  # damage is integrity_check's to tell
            raise
    return fts, rows, orphans


def fts_on_copy(where: str, mode: str) -> list[str] | None:
    """Faults in the content of full-text indexes, found on a private copy;

    None when there is no room for one.
    """
    folder = tempfile.mkdtemp(prefix="hermes-watchdog-")
    try:
        if (free_bytes(folder) or 0) < 2 * os.path.getsize(where) + (64 << 20):
            return None
        to = os.path.join(folder, "copy.db")
        with closing(connect(where, mode)) as source, closing(connect(to, "mode=rwc")) as copy:
            source.backup(copy, pages=-1)
            copy.execute("PRAGMA synchronous=OFF")
            return list(full_text.fts_content(copy))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unreadable(error: OSError) -> str:
    return Detail.CANNOT_READ(why=error.strerror or str(error))


def _words(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return Detail.BUSY()
    return Detail.SQLITE_CANNOT(why=text)


def _as_owner(path: str) -> None:
    """Give up root for the owner of the file, so that anything SQLite makes is theirs."""
    if os.geteuid() == 0:
        status = os.stat(path)
        os.setgroups([])
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            reachable = True
        except PermissionError:
            reachable = False  # a folder that its owner may not enter: look as root after all
        os.seteuid(0)
        os.setegid(0)
        if reachable:
            os.setgid(status.st_gid)
            os.setuid(status.st_uid)


def answer(asked: dict[str, Any], tick: object) -> dict[str, Any]:
    """The checks, in the child."""
    _as_owner(asked["path"])
    found = inspect(asked["path"], asked["fts_up_to"])
    return vars(found) | {name: packed(vars(found)[name]) for name in ("unknown", "broken", *_SAID)}

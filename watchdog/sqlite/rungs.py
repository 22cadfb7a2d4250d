"""The rungs that let SQLite do the work, on a copy whose header, first page or schema has been put right."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.sqlite import checks
from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.making import make
from watchdog.sqlite.opening import Opened, open_damaged, rebuilt_header
from watchdog.sqlite.pages import Pages
from watchdog.sqlite.raw import Bad, Entry, read_header
from watchdog.sqlite.reading import connect
from watchdog.sqlite.reference import Reference, shadows

SIDECARS = ("-wal", "-shm", "-journal")
_TREE = re.compile(r"(?:Tree|On tree page) (\d+)\b")
_INDEX = re.compile(r"(?:missing from index|entries in index|non-unique entry in index) (.+)$")


@dataclass(frozen=True)
class Case:
    """What a repair has to work with."""

    original: str               # a private copy, its sidecars beside it
    work: Path
    kind: str
    reference: Reference | None = None
    backup: str = ""
    stale_wal: bool = False
    emptied: frozenset[str] = frozenset()   # tables without a row that had some at the last backup
    known: Mapping[str, int] = field(default_factory=dict)      # rows per table at the last backup
    extra: tuple[Entry, ...] = ()       # what the schema has lost and the reference has
    tick: Callable[[str], None] = lambda text: None


def _copy(case: Case, file: str, sidecars: Sequence[str]) -> None:
    for part in ("", *sidecars):
        if os.path.exists(case.original + part):
            shutil.copyfile(case.original + part, file + part)


def _sound(db: sqlite3.Connection) -> bool:
    return not (checks.integrity(db, 1) or any(checks.fts_counts(db)) or any(checks.fts_content(db))
                or checks.doubts(db, 1))


def _settle(db: sqlite3.Connection) -> None:
    """One file without sidecars, still in the journal mode it had."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def let_sqlite(case: Case, file: str) -> bool:
    """Open the copy with its WAL or journal: SQLite's own recovery is the best there is."""
    _copy(case, file, () if case.stale_wal else ("-wal", "-journal"))
    db = connect(file, "mode=rw")
    try:
        if not _sound(db):
            return False
        _settle(db)
        return _all_there(file)
    finally:
        db.close()


def _all_there(file: str) -> bool:
    """Whether the last page is whole: SQLite takes zeros for the bytes behind the end of a file."""
    with open(file, "rb") as source:
        return os.fstat(source.fileno()).st_size % read_header(source.read(100)).page_size == 0


def _flat(case: Case, file: str, opened: Opened) -> None:
    """The image as one file: the committed frames of the WAL in their places."""
    if opened.image.torn:
        raise Bad("the last page is cut off")       # what would fill it up is not what was written
    shutil.copyfile(case.original, file)
    image = opened.image
    with open(file, "r+b") as out:
        for number in image.frames:
            if number <= image.pages:
                out.seek((number - 1) * image.page_size)
                out.write(image.page(number))
        out.truncate(image.pages * image.page_size)


def _repaired_header(case: Case, file: str, page_one: bytes = b"") -> bool:
    """A flat copy with a right header; False when its header was right already."""
    with ExitStack() as files:
        opened = open_damaged(case.original, files, not case.stale_wal)
        image = opened.image
        first = page_one or image.page(1)
        try:
            found = read_header(first)
            right = found.page_size == opened.page_size and found.pages == image.pages
        except Bad:
            right = False
        if right and not page_one:
            return False
        head, count = struct.unpack_from(">2I", first, 32)
        probe = Pages(image)
        probe.claim_free(head, count)
        _flat(case, file, opened)
        with open(file, "r+b") as out:
            out.write(rebuilt_header(first, opened.page_size, image.pages, probe.free_complete))
            if page_one:
                out.write(page_one[100:])
    return True


def header(case: Case, file: str) -> bool:
    return _repaired_header(case, file) and _compact(file, unused_is_free=True)


def page_one(case: Case, file: str) -> bool:
    """Page 1 of a backup fits only if nothing moved since: any page it does not know refuses it."""
    if not case.backup:
        return False
    with open(case.backup, "rb") as source:
        size = read_header(source.read(100)).page_size
        source.seek(0)
        page = source.read(size)
    return _repaired_header(case, file, page) and _compact(file, unused_is_free=False)


def _compact(file: str, unused_is_free: bool) -> bool:
    """Accept a copy that is sound; when only unused pages are left over, write it anew without them."""
    db = connect(file, "mode=rw")
    try:
        faults = checks.integrity(db, 1_000_000)
        if not faults and _sound(db):
            _settle(db)
            return True
        if not faults or not unused_is_free or any(not _unused(fault) for fault in faults):
            return False
    finally:
        db.close()
    return _vacuumed(file)


def _unused(fault: str) -> bool:
    return fault.endswith(" is never used") or fault.endswith(": never used")


def _vacuumed(file: str) -> bool:
    with open(file, "rb") as source:
        wal_mode = source.read(19)[18] == 2
    fresh = file + ".vacuum"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    db = connect(file, "mode=rw")
    try:
        db.execute("VACUUM INTO ?", (fresh,))
    finally:
        db.close()
    for part in SIDECARS:
        with suppress(FileNotFoundError):
            os.unlink(file + part)
    os.replace(fresh, file)
    set_mode(file, wal_mode)
    return True


def set_mode(file: str, wal_mode: bool) -> None:
    """The journal mode of the original, without making a -wal now."""
    with open(file, "r+b") as out:
        out.seek(18)
        out.write(b"\x02\x02" if wal_mode else b"\x01\x01")


def strip(case: Case, file: str) -> bool:
    """Take indexes, triggers and full text out of the schema, prove the tables sound, and make the rest anew."""
    with ExitStack() as files:
        opened = open_damaged(case.original, files, not case.stale_wal)
        if not opened.schema_whole:
            return False
        _flat(case, file, opened)
        entries = [*opened.entries, *case.extra]
        with open(file, "r+b") as out:
            out.write(rebuilt_header(opened.image.page(1), opened.page_size, opened.image.pages, False))
    virtual = {entry.name for entry in entries if entry.type == "table" and is_virtual(entry.sql)}
    inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
    db = connect(file, "mode=rw")
    try:
        with suppress(sqlite3.Error, UnicodeDecodeError):       # readable or not, its copies of the texts go now
            if checks.altered(db, 20):
                return False
        # Without a re-read of the schema in between: the one on disk may not parse.
        db.execute("PRAGMA writable_schema=ON")
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("DELETE FROM sqlite_schema WHERE type IN ('trigger', 'view') OR type = 'index' AND sql IS NOT NULL")
        db.execute("DELETE FROM sqlite_schema WHERE rowid NOT IN "
                   "(SELECT min(rowid) FROM sqlite_schema GROUP BY type, name)")
        for name in (*virtual, *inner):
            db.execute("DELETE FROM sqlite_schema WHERE name = ? OR (type = 'index' AND tbl_name = ?)", (name, name))
        db.execute("PRAGMA writable_schema=RESET")
    finally:
        db.close()
    roots = {str(entry.root) for entry in entries if entry.type == "index"}
    names = {entry.name for entry in entries if entry.type == "index"}
    db = connect(file, "mode=rw")
    try:
        for fault in checks.integrity(db, 1_000_000):
            tree, index = _TREE.search(fault), _INDEX.search(fault)
            if not _unused(fault) and not (tree and tree[1] in roots) and not (index and index[1] in names):
                return False
        if checks.doubts(db, 1):
            return False                        # the page scan can put such rows right
    finally:
        db.close()
    _vacuumed(file)
    _furnish(file, entries)
    return True


def _furnish(file: str, entries: Sequence[Entry]) -> None:
    """Indexes, full text filled from its rows, views and triggers into a file that has only tables."""
    with open(file, "rb") as source:
        wal_mode = source.read(19)[18] == 2
    db = connect(file, "mode=rw")
    try:
        db.execute("PRAGMA journal_mode=DELETE")
        wanted = {(entry.type, entry.name): entry.sql for entry in entries}
        for entry in entries:
            if entry.sql and (entry.type == "index" or is_virtual(entry.sql)):
                make(db, entry.sql)
        for fill in checks.fills(wanted):
            db.execute(fill.sql)
        for entry in entries:
            if entry.type in ("view", "trigger"):
                make(db, entry.sql)
    finally:
        db.close()
    set_mode(file, wal_mode)

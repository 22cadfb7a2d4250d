"""Repairs of the file itself, cheapest and surest first; each works on its own copy and leaves a candidate for the gate."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from typing import BinaryIO

from watchdog.sqlite import checks, content, full_text
from watchdog.sqlite.adoption import parts_of
from watchdog.sqlite.damaged_file import Opened, open_damaged, rebuilt_header
from watchdog.sqlite.format import ENCODINGS, Bad, SchemaObject
from watchdog.sqlite.gate import DatabaseRepair
from watchdog.sqlite.graft import graft, refill
from watchdog.sqlite.header import read_header
from watchdog.sqlite.journal import mend_header
from watchdog.sqlite.page_scan import Pages
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.schema import (
    is_virtual,
    shadows,
)
from watchdog.sqlite.survey import Survey

AS_IT_IS = "SQLite with its WAL"
MANY = 20_000  # faults that are read; a file with more is for the page scan
SIDECARS = ("-wal", "-shm", "-journal")
_TREE = re.compile(r"(?:Tree|On tree page) (\d+)\b")
_INDEX = re.compile(r"(?:missing from index|entries in index|non-unique entry in index) (.+)$")


class Built(Enum):
    """What became of a strategy."""

    NO = "nothing"
    UNPROVED = "a copy"
    PROVED = "a copy whose structure, full text and content are checked"


def _copy(job: DatabaseRepair, file: str, sidecars: Sequence[str]) -> None:
    for part in ("", *sidecars):
        if os.path.exists(job.original + part):
            shutil.copyfile(job.original + part, file + part)
    if os.path.exists(file + "-journal"):
        mend_header(file)


def _sound(db: sqlite3.Connection, proved: bool = False) -> bool:
    """Whether nothing is wrong with structure, full text and content; `proved`: the structure is not asked again."""
    return not (
        (not proved and checks.integrity(db, 1))
        or any(full_text.fts_counts(db))
        or any(full_text.fts_content(db))
        or content.doubts(db, 1)
    )


def _settle(db: sqlite3.Connection) -> None:
    """One file without sidecars, still in the journal mode it had."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def let_sqlite(job: DatabaseRepair, file: str, survey: Survey | None) -> Built:
    """Open the copy with its WAL or journal: SQLite's own recovery is the best there is.

    But for a WAL with a bad frame before others that were committed: SQLite would throw these away.
    """
    torn = False
    with ExitStack() as files, suppress(Bad):
        opened = open_damaged(job.original, files, not job.stale_wal)
        torn = bool(opened.wal.torn)
        if torn:
            _flat(job, file, opened)
    if not torn:
        _copy(job, file, () if job.stale_wal else ("-wal", "-journal"))
    db = connect(file, "mode=rw")
    try:
        if not _sound(db):
            return Built.NO
        _settle(db)
        return Built.PROVED if _all_there(file) else Built.NO
    finally:
        db.close()


def _all_there(file: str) -> bool:
    """Whether the last page is whole: SQLite takes zeros for the bytes behind the end of a file."""
    with open(file, "rb") as source:
        return os.fstat(source.fileno()).st_size % read_header(source.read(100)).page_size == 0


def _flat(job: DatabaseRepair, file: str, opened: Opened) -> None:
    """The image as one file: the committed frames of the WAL in their places."""
    if opened.image.torn:
        raise Bad("the last page is cut off")  # what would fill it up is not what was written
    shutil.copyfile(job.original, file)
    image = opened.image
    with open(file, "r+b") as out:
        for number in image.frames:
            if number <= image.pages:
                out.seek((number - 1) * image.page_size)
                out.write(image.page(number))
        out.truncate(image.pages * image.page_size)


def _repaired_header(job: DatabaseRepair, file: str, page_one: bytes = b"") -> bool:
    """A flat copy with a right header; False when its header was right already."""
    with ExitStack() as files:
        opened = open_damaged(job.original, files, not job.stale_wal)
        image = opened.image
        first = page_one or image.page(1)
        try:
            found = read_header(first)
            right = (found.page_size, found.page_size - found.reserved) == (image.page_size, image.usable)
            right = right and found.pages == image.pages and ENCODINGS[found.encoding] == opened.encoding
        except Bad:
            right = False
        if right and not page_one:
            return False
        head, count = struct.unpack_from(">2I", first, 32)
        probe = Pages(image, auto_vacuum=opened.pages.auto_vacuum)
        probe.claim_free(head, count)
        _flat(job, file, opened)
        with open(file, "r+b") as out:
            out.write(rebuilt_header(opened, first, image.pages, probe.free_complete))
            if page_one:
                out.write(page_one[100:])
    return True


def header(job: DatabaseRepair, file: str, survey: Survey | None) -> Built:
    """Put the header right."""
    return _compact(file, unused_is_free=True) if _repaired_header(job, file) else Built.NO


def page_one(job: DatabaseRepair, file: str, survey: Survey | None) -> Built:
    """Page 1 of a backup fits only if nothing moved since: any page it does not know refuses it."""
    if not job.known.backup:
        return Built.NO
    with open(job.known.backup, "rb") as source:
        size = read_header(source.read(100)).page_size
        source.seek(0)
        page = source.read(size)
    return _compact(file, unused_is_free=False) if _repaired_header(job, file, page) else Built.NO


def _compact(file: str, unused_is_free: bool) -> Built:
    """Accept a copy that is sound; when only unused pages are left over, write it anew without them."""
    db = connect(file, "mode=rw")
    try:
        faults = checks.integrity(db, MANY)
        if not faults and _sound(db, proved=True):
            _settle(db)
            return Built.PROVED
        if not faults or not unused_is_free or any(not _unused(fault) for fault in faults):
            return Built.NO
    finally:
        db.close()
    _vacuumed(file)
    return Built.UNPROVED


def _unused(fault: str) -> bool:
    return fault.endswith(" is never used") or fault.endswith(": never used")


def _vacuumed(file: str) -> None:
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


def set_mode(file: str, wal_mode: bool) -> None:
    """The journal mode of the original, without making a -wal now."""
    with open(file, "r+b") as out:
        out.seek(18)
        out.write(b"\x02\x02" if wal_mode else b"\x01\x01")


def regraft(job: DatabaseRepair, file: str, survey: Survey | None) -> Built:
    """Give tables whose interior pages are destroyed new ones; indexes and full text stay and prove the rows."""
    if survey is None or not survey.opened.schema_whole or job.extra:
        return Built.NO
    opened = survey.opened
    _flat(job, file, opened)
    with open(file, "r+b") as out:
        pages = _grafted(out, survey)
        if not any(survey.trees[name].missing for name in survey.tables()):
            return Built.NO
        out.seek(0)
        out.write(rebuilt_header(opened, opened.image.page(1), pages, survey.pages.free_complete))
    return _compact(file, unused_is_free=True)


def strip(job: DatabaseRepair, file: str, survey: Survey | None) -> Built:
    """Take indexes, triggers and full text out of the schema, prove the tables sound, and make the rest anew.

    A table whose interior pages are destroyed gets new ones first.
    """
    with ExitStack() as files:
        opened = open_damaged(job.original, files, not job.stale_wal)
        if not opened.schema_whole:
            return Built.NO
        _flat(job, file, opened)
        entries = [*opened.entries, *job.extra]
        with open(file, "r+b") as out:
            pages = _grafted(out, survey) if survey else opened.image.pages
            out.seek(0)
            out.write(rebuilt_header(opened, opened.image.page(1), pages, False))
    virtual = {entry.name for entry in entries if entry.type == "table" and is_virtual(entry.sql)}
    inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
    db = connect(file, "mode=rw")
    try:
        with suppress(sqlite3.Error, UnicodeDecodeError):  # readable or not, its copies of the texts go now
            if content.altered(db, 20):
                return Built.NO
        # Without a re-read of the schema in between: the one on disk may not parse.
        db.execute("PRAGMA writable_schema=ON")
        db.execute("PRAGMA journal_mode=OFF")
        db.execute(
            "DELETE FROM sqlite_schema WHERE type IN ('trigger', 'view') OR type = 'index' AND sql IS NOT NULL"
        )
        db.execute(
            "DELETE FROM sqlite_schema WHERE rowid NOT IN "
            "(SELECT min(rowid) FROM sqlite_schema GROUP BY type, name)"
        )
        for name in (*virtual, *inner):
            db.execute(
                "DELETE FROM sqlite_schema WHERE name = ? OR (type = 'index' AND tbl_name = ?)", (name, name)
            )
        db.execute("PRAGMA writable_schema=RESET")
    finally:
        db.close()
    roots = {str(entry.root) for entry in entries if entry.type == "index"}
    names = {entry.name for entry in entries if entry.type == "index"}
    db = connect(file, "mode=rw")
    try:
        for fault in checks.integrity(db, MANY):
            tree, index = _TREE.search(fault), _INDEX.search(fault)
            if not _unused(fault) and not (tree and tree[1] in roots) and not (index and index[1] in names):
                return Built.NO
        if content.doubts(db, 1):
            return Built.NO  # the page scan can put such rows right
    finally:
        db.close()
    _vacuumed(file)
    furnish(file, entries)
    return Built.UNPROVED


def _grafted(out: BinaryIO, survey: Survey) -> int:
    """Give torn tables new interior pages over the leaves that are left; the number of pages afterwards."""
    pages = survey.pages.image.pages
    torn = [name for name in survey.tables() if survey.trees[name].missing]
    if not torn or any(not survey.layouts[name].rowid or not survey.trees[name].root for name in torn):
        return pages
    if survey.grafts is None:
        survey.grafts = {}
        survey.grafts = parts_of(survey, torn)
    if not survey.grafts:
        raise Bad("whose leaves these are is not certain")
    image = survey.pages.image
    for tree, *strays in survey.grafts.values():
        try:
            refill(out, image, tree, strays)
        except Bad:
            leaves = [leaf for part in (tree, *strays) for leaf in part.leaves]
            pages = graft(out, image, tree.root, leaves, pages)
    return pages


def furnish(file: str, entries: Sequence[SchemaObject]) -> None:
    """Indexes, full text filled from its rows, views and triggers into a file that has only tables."""
    with open(file, "rb") as source:
        wal_mode = source.read(19)[18] == 2
    db = connect(file, "mode=rw")
    try:
        db.execute("PRAGMA journal_mode=DELETE")
        full_text.furnish(db, entries)
    finally:
        db.close()
    set_mode(file, wal_mode)


# name, function, whether the indexes are made anew
Strategy = Callable[[DatabaseRepair, str, Survey | None], Built]
OF_THE_FILE: tuple[tuple[str, Strategy, bool], ...] = (
    (AS_IT_IS, let_sqlite, False),
    ("header rebuilt", header, False),
    ("page 1 from the backup", page_one, False),
)
BY_SQLITE: tuple[tuple[str, Strategy, bool], ...] = (
    *OF_THE_FILE,
    ("interior pages rebuilt", regraft, False),
    ("indexes and full text rebuilt", strip, True),
)

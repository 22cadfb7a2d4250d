"""The rungs of a repair, cheapest and surest first; each works on its own copy and leaves a candidate for the gate."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from watchdog.sqlite import checks, gate
from watchdog.sqlite.fresh import Fresh, Tally
from watchdog.sqlite.kinds import kind_of
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.opening import open_damaged, widths
from watchdog.sqlite.raw import Bad, Entry
from watchdog.sqlite.reading import connect
from watchdog.sqlite.reference import columns_of, nearest, releases
from watchdog.sqlite.rungs import SIDECARS, Case, header, let_sqlite, page_one, set_mode, strip
from watchdog.sqlite.salvage import salvage
from watchdog.sqlite.wanted import entries_for, unreadable

AS_IT_IS = "SQLite with its WAL"


@dataclass(frozen=True)
class Candidate:
    """A healed copy, before or after the gate."""

    rung: str
    file: str
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    salvage: str = ""           # a side file with what has no place in the tables
    refused: tuple[str, ...] = ()
    mended: int = 0             # rows whose content was put right from another copy

    @property
    def lost(self) -> int:
        return sum(tally.lost for tally in self.tallies.values())


def climb(case: Case) -> Iterator[Candidate]:
    """Candidates in order; those that the gate refused carry the reasons. The caller takes the first that passed."""
    unpacked = _unpacked(case)
    if unpacked:
        case = replace(case, original=unpacked)
        yield from (replace(one, rung=f"unpacked, {one.rung}") for one in climb(case))
        return
    wanted, least = _yardstick(case)
    by_sqlite: tuple[tuple[str, Callable[[Case, str], bool]], ...] = (
        (AS_IT_IS, let_sqlite), ("header rebuilt", header),
        ("page 1 from the backup", page_one), ("indexes and full text rebuilt", strip))
    for name, rung in () if case.emptied else by_sqlite:
        case.tick(name)
        file = str(case.work / (re.sub(r"\W+", "-", name.lower()) + ".db"))
        try:
            built = rung(case, file)
        except (sqlite3.Error, Bad, OSError, struct.error, UnicodeDecodeError) as error:
            if _no_room(error, case.work):
                raise
            built = False
        if built:
            reasons = gate.why_not(file, wanted, least, None)
            yield Candidate(name, file, _all_saved(file) if not reasons else {}, refused=tuple(reasons))
        for part in ("", *SIDECARS):
            with suppress(FileNotFoundError):
                os.unlink(file + part)
    case.tick("page scan")
    with suppress(Bad):
        yield _scan(case, least)
    if case.backup:
        yield _restore(case)


def _no_room(error: Exception, folder: Path) -> bool:
    """Whether the disk, not the database, stopped a rung: then no other rung may try either."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return (isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
            and not checks.is_damage(error, str(folder)))


def _all_saved(file: str) -> dict[str, Tally]:
    db = connect(file, "mode=ro&immutable=1")
    try:
        return {table: Tally(saved=rows) for table, rows in checks.counts(db).items()}
    finally:
        db.close()


def _yardstick(case: Case) -> tuple[list[Entry], dict[str, int]]:
    """What the gate holds candidates against: the objects and the rows that the damaged file shows."""
    try:
        with ExitStack() as files:
            opened = open_damaged(case.original, files, not case.stale_wal)
            return [*opened.entries, *case.extra], gate.cells(opened)
    except (Bad, OSError, struct.error):
        return [], {}


def _scan(case: Case, cells: Mapping[str, int]) -> Candidate:
    """The page scan, with the rows of the backup for those that are gone."""
    file, side = str(case.work / "scan.db"), str(case.work / "salvaged.db")
    done = [0, 1]           # pages visited, pages there

    def tick(pages: int) -> None:
        done[0] += pages
        if done[0] % 4096 == 0:
            case.tick(f"page scan, {min(99, done[0] * 25 // done[1])} %")   # each page is visited about four times

    with ExitStack() as files:
        opened = open_damaged(case.original, files, not case.stale_wal, tick=tick)
        done[1] = opened.image.pages
        kind = kind_of([entry.name for entry in opened.entries if entry.type == "table"]) or case.kind
        bad = unreadable(opened.entries)
        whole = opened.schema_whole and not bad
        reference = case.reference or nearest(
            kind, [(entry.type, entry.name, entry.sql) for entry in opened.entries if entry not in bad], whole,
            frozenset() if whole else widths(opened.pages))
        things = reference.things.get(kind, ()) if reference else ()
        theirs = _entries_of(case.backup) if case.backup else []
        wanted = entries_for(opened, bad, theirs, things)
        entries = wanted.entries
        entries += [entry for entry in case.extra if entry.name not in {one.name for one in entries}]
        guesses = _guesses(kind, {entry.name: entry for entry in entries if entry.name in wanted.borrowed})
        fresh = Fresh(file, opened.header, opened.page_size, side)
        try:
            result = salvage(opened, fresh, entries, guesses, case.backup, case.emptied, case.known)
        finally:
            fresh.close()
    wal_mode = opened.header.wal_mode if opened.header else True
    set_mode(file, wal_mode)
    least = {table: tally.saved + tally.reconstructed for table, tally in result.tallies.items()}
    refused = gate.why_not(file, entries, least, None)
    if not sum(least.values()):
        refused.append("not one row was found")
    tallies = {**result.tallies, **{entry.name: Tally(lost=max(1, cells.get(entry.name, 1)))     # nowhere to put them
                                    for entry in wanted.gone if entry.type == "table"}}
    says = wanted.says + list(result.says) + [text for tally in result.tallies.values() for text in tally.says]
    return Candidate("page scan", file, tallies, tuple(says), side, tuple(refused), result.mended)


def _guesses(kind: str, borrowed: Mapping[str, Entry]) -> dict[str, tuple[Layout, ...]]:
    """Other orders the columns of a lost table may have: Hermes appends new ones when it upgrades an old file."""
    found: dict[str, list[Layout]] = {}
    known = [{thing.name: thing for thing in one.things.get(kind, ())} for one in releases()]
    for number, old in enumerate(known):
        for new in known[number:]:
            for name in borrowed.keys() & old.keys() & new.keys():
                first, then = columns_of(old[name].sql), columns_of(new[name].sql)
                have = {column.name for column in first}
                columns = (*first, *(column for column in then if column.name not in have))
                layout = layout_of(name, new[name].sql, columns)
                made = {column.name for column in columns_of(borrowed[name].sql)}
                if layout and made.issuperset(layout.names) and layout.names not in {one.names for one in found.get(name, ())}:
                    found.setdefault(name, []).append(layout)
    return {name: tuple(layouts) for name, layouts in found.items()}


def _entries_of(file: str) -> list[Entry]:
    db = connect(file, "mode=ro&immutable=1")
    try:
        return [Entry(checks.text(row[0]), checks.text(row[1]), checks.text(row[2]), 0, checks.text(row[3] or b""))
                for row in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")]
    finally:
        db.close()


def _restore(case: Case) -> Candidate:
    file = str(case.work / "restore.db")
    shutil.copyfile(case.backup, file)
    reasons = gate.why_not(file, (), {}, None)
    set_mode(file, True)
    tallies = {table: Tally(reconstructed=tally.saved) for table, tally in _all_saved(file).items()}
    return Candidate("restored from the backup", file, tallies, ("every row is as it was at the backup",),
                     refused=tuple(reasons))


def _unpacked(case: Case) -> str:
    """A gzipped database in the place of the database: what it holds, within the room there is."""
    with open(case.original, "rb") as source:
        if source.read(2) != b"\x1f\x8b":
            return ""
    file, room = str(case.work / "unpacked.db"), checks.free_space(str(case.work)) // 4
    try:
        with gzip.open(case.original) as packed, open(file, "wb") as out:
            while block := packed.read(1 << 20):
                room -= len(block)
                if room < 0:
                    return ""
                out.write(block)
        with open(file, "rb") as out_again:
            return file if out_again.read(16) == b"SQLite format 3\0" else ""
    except (OSError, EOFError):
        return ""



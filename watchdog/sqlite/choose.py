"""All candidates for a repair in their order, and the one that does the least harm."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from typing import Any

from watchdog.model import packed
from watchdog.sqlite import checks
from watchdog.sqlite.damaged_file import Opened, open_damaged, widths
from watchdog.sqlite.format import Bad, SchemaObject
from watchdog.sqlite.gate import (
    Candidate,
    DatabaseRepair,
    RepairResult,
    Tick,
    all_saved,
    counts,
    judged,
    percent,
    why_not,
)
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.notes import RepairNote, WitnessKind, note
from watchdog.sqlite.page_scan import Tree
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.rebuilt import Fresh, Tally, kept_in_doubt
from watchdog.sqlite.salvage import salvage
from watchdog.sqlite.schema import (
    columns_of,
    entries_for,
    kind_of,
    nearest,
    releases,
    unreadable,
)
from watchdog.sqlite.strategies import BY_SQLITE, OF_THE_FILE, SIDECARS, Built, Strategy, set_mode
from watchdog.sqlite.survey import Survey
from watchdog.sqlite.witnesses import NAMED, UNCOUNTED, Disagreement, sentences
from watchdog.system.files import free_bytes

RESTORED = "restored from the backup"
PAGE_SCAN = "page scan"
_SCAN = (PAGE_SCAN, None, True)


def repair(job: DatabaseRepair, tick: Tick) -> dict[str, Any]:
    """The best repair of a job, as values that JSON can carry: see gate.RepairResult."""
    chosen, tried, side = best_candidate(job, tick)
    side = side if _worth_keeping(side) else ""
    if chosen is None:
        return asdict(RepairResult(tried=packed(tried), side=side))
    result = RepairResult(
        chosen.strategy,
        chosen.file,
        counts(chosen.tallies, chosen.doubtful),
        {table: sorted(rows)[:NAMED] for table, rows in chosen.doubtful.items()},
        contradicted=sum(
            max(1, item.rows)
            for item in chosen.disagreements
            if item.witness not in UNCOUNTED
            and (item.witness is not WitnessKind.STRAY_PAGES or item.table not in chosen.tallies)
        ),
        says=packed([*chosen.says, *kept_in_doubt(chosen.doubtful), *sentences(chosen.disagreements)]),
        tried=packed(tried),
        side=side,
        corrected=chosen.corrected,
        uncounted=any(item.witness in UNCOUNTED for item in chosen.disagreements),
        orphans=_orphans(chosen.file),
    )
    return asdict(result)


def _orphans(file: str) -> int:
    db = connect(file, "mode=ro&immutable=1")
    try:
        return checks.orphans(db)
    finally:
        db.close()


def _worth_keeping(side: str) -> bool:
    if not side or not os.path.exists(side):
        return False
    db = sqlite3.connect(side)
    try:
        return db.execute("SELECT 1 FROM salvaged LIMIT 1").fetchone() is not None
    finally:
        db.close()


def best_candidate(job: DatabaseRepair, tick: Tick) -> tuple[Candidate | None, tuple[str, ...], str]:
    """The candidate that does the least harm, why others did not pass, and the side file of the scan.

    The first is taken that everything agrees with; else all are tried.
    """
    tried: list[str] = []
    best: Candidate | None = None
    side = ""
    for candidate in _candidates(job, tick):
        side = candidate.salvage or side
        if candidate.refused:
            tried.append(note(RepairNote.NOT_TAKEN, strategy=candidate.strategy, why=candidate.refused[0]))
            _remove(candidate.file)
        elif best is None or candidate.better_than(best):
            if best is not None:
                _remove(best.file)
            best = candidate
        else:
            _remove(candidate.file)
        if best is not None and not best.harm:
            break
        if best is not None and candidate.strategy.endswith(PAGE_SCAN):
            break  # a backup alone is for a file of which nothing is left
    return best, tuple(tried), side


def _candidates(job: DatabaseRepair, tick: Tick) -> Iterator[Candidate]:
    """Candidates, the cheapest and surest first; those that the gate refused carry the reasons."""
    unpacked = _unpacked(job)
    if unpacked:
        job = replace(job, original=unpacked)
        yield from (
            replace(candidate, strategy=f"unpacked, {candidate.strategy}")
            for candidate in _candidates(job, tick)
        )
        return
    if not os.path.getsize(job.original) and not os.path.exists(job.original + "-wal"):
        yield from _restored(job)  # SQLite calls an empty file well
        return
    with ExitStack() as files:
        tick("reading every page")
        survey = _survey(job, files, tick)
        least = {name: survey.cells(survey.trees[name]) for name in survey.tables()} if survey else {}
        wanted = survey.given if survey else ()
        no_use = job.known.emptied or (survey and survey.believes_wrong_pages())
        ways = () if no_use else BY_SQLITE
        # where rows are gone for certain the scan is next: it keeps what is known of them
        soon = len(OF_THE_FILE) if survey and survey.rows_are_gone() else len(ways)
        for name, strategy, rebuilt in (*ways[:soon], _SCAN, *ways[soon:]):
            tick(name)
            if strategy is None:
                with suppress(Bad):
                    yield scan(job, tick, survey)
                survey = (
                    _survey(job, files, tick) if survey and ways[soon:] else None
                )  # the scan has used it up
                continue
            file = os.path.join(job.work, re.sub(r"\W+", "-", name.lower()) + ".db")
            built = _built(job, strategy, file, survey)
            if built is Built.NO:
                _remove(file)
                continue
            reasons = why_not(file, wanted, least, built is Built.PROVED)
            yield (
                Candidate(name, file, refused=tuple(reasons))
                if reasons
                else judged(Candidate(name, file, all_saved(file)), job, survey, rebuilt)
            )
    yield from _restored(job)


def _built(job: DatabaseRepair, strategy: Strategy, file: str, survey: Survey | None) -> Built:
    try:
        return strategy(job, file, survey)
    except (sqlite3.Error, ValueError, LookupError, OSError, struct.error) as error:
        if _no_room(error, job.work):
            raise
        return Built.NO


def _remove(file: str) -> None:
    for part in ("", *SIDECARS):
        with suppress(FileNotFoundError):
            os.unlink(file + part)


def _survey(job: DatabaseRepair, files: ExitStack, tick: Tick) -> Survey | None:
    try:
        opened = open_damaged(
            job.original, files, not job.stale_wal, tick=percent(tick, "reading every page")
        )
        return Survey(opened, [*opened.entries, *job.extra])
    except (Bad, OSError, struct.error):
        return None


def _no_room(error: Exception, folder: str) -> bool:
    """Whether the disk, not the database, stopped a rung: then no other rung may try either."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return (
        isinstance(error, sqlite3.Error)
        and getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
        and not checks.is_damage(error, folder)
    )


def _restored(job: DatabaseRepair) -> Iterator[Candidate]:
    """The backup alone."""
    if not job.known.backup:
        return
    file = os.path.join(job.work, "restore.db")
    shutil.copyfile(job.known.backup, file)
    reasons = why_not(file, (), {})
    set_mode(file, True)
    tallies = {table: Tally(reconstructed=tally.saved) for table, tally in all_saved(file).items()}
    rows = sum(tally.reconstructed for tally in tallies.values())
    yield Candidate(
        RESTORED,
        file,
        tallies,
        disagreements=(Disagreement(WitnessKind.BACKUP_ALONE, "", rows),),
        says=(note(RepairNote.AS_AT_BACKUP),),
        refused=tuple(reasons),
    )


def _unpacked(job: DatabaseRepair) -> str:
    """A gzipped database in the place of the database: what it holds, within the room there is."""
    with open(job.original, "rb") as source:
        if source.read(2) != b"\x1f\x8b":
            return ""
    file, room = os.path.join(job.work, "unpacked.db"), (free_bytes(job.work) or 0) // 4
    try:
        with gzip.open(job.original) as packed, open(file, "wb") as out:
            while block := packed.read(1 << 20):
                room -= len(block)
                if room < 0:
                    return ""
                out.write(block)
        with open(file, "rb") as out_again:
            return file if out_again.read(16) == b"SQLite format 3\0" else ""
    except (OSError, EOFError):
        return ""


def scan(job: DatabaseRepair, tick: Tick, walked: Survey | None) -> Candidate:
    """The page scan, with the rows of the backup for those that are gone."""
    file, side = os.path.join(job.work, "scan.db"), os.path.join(job.work, "salvaged.db")
    with ExitStack() as files:
        if walked is not None and not (walked.opened.schema_whole and walked.grafts is None):
            walked = None
        opened = walked.opened if walked else _opened(job, files, tick)
        kind = kind_of([entry.name for entry in opened.entries if entry.type == "table"]) or job.kind
        bad = unreadable(opened.entries)
        whole = opened.schema_whole and not bad
        reference = job.reference or nearest(
            kind,
            [(entry.type, entry.name, entry.sql) for entry in opened.entries if entry not in bad],
            whole,
            frozenset() if whole else widths(opened.pages),
        )
        objects = reference.objects.get(kind, ()) if reference else ()
        theirs = _entries_of(job.known.backup) if job.known.backup else []
        wanted = entries_for((opened.entries, opened.schema_whole), bad, theirs, objects)
        entries = wanted.entries
        entries += [entry for entry in job.extra if entry.name not in {known.name for known in entries}]
        tables = {entry.name.lower() for entry in entries if entry.type in ("table", "view")}
        homeless = [entry for entry in entries if entry.table.lower() not in tables and entry.type != "view"]
        entries = [entry for entry in entries if entry not in homeless]
        guesses = _guesses(kind, {entry.name: entry for entry in entries if entry.name in wanted.borrowed})
        if walked and tuple(entries) != walked.given:
            walked, opened = None, _opened(job, files, tick)
        survey = walked or Survey(opened, entries)
        fresh = Fresh(file, opened, side)
        try:
            result = salvage(survey, fresh, guesses, job.known)
        finally:
            fresh.close()
        set_mode(file, opened.header.wal_mode if opened.header else True)
        least = {table: tally.saved + tally.reconstructed for table, tally in result.tallies.items()}
        refused = why_not(file, entries, least)
        if not sum(least.values()):
            refused.append(note(RepairNote.NOT_ONE_ROW))
        gone = {entry.name: _rows_under(survey, entry) for entry in wanted.gone if entry.type == "table"}
        says: list[str] = [
            note(RepairNote.NOT_MADE, type=entry.type, name=entry.name, table=entry.table)
            for entry in homeless
        ]
        says += [
            note(
                RepairNote.SQL_AS_KNOWN if entry not in wanted.gone else RepairNote.SQL_GONE,
                type=entry.type,
                name=entry.name,
            )
            for entry in bad
        ]
        says += result.says
        says += [text for tally in result.tallies.values() for text in tally.says]
        doubtful = {name: dict(rows) for name, rows in fresh.doubtful.items() if rows}
        found = Candidate(
            PAGE_SCAN,
            file,
            {**result.tallies, **{name: Tally(lost=rows, lost_most=rows) for name, rows in gone.items()}},
            doubtful,
            says=tuple(says),
            salvage=side,
            refused=tuple(refused),
            corrected=result.corrected,
        )
        if refused:
            return found
        lost = {entry.table for entry in homeless} | {name for name, rows in gone.items() if not rows}
        heard = judged(found, job, survey, rebuilt=True)
        return replace(
            heard,
            disagreements=(
                *heard.disagreements,
                *(Disagreement(WitnessKind.TABLE, name) for name in sorted(lost)),
                *(Disagreement(WitnessKind.HOMELESS, name, rows) for name, rows in result.homeless.items()),
                *([Disagreement(WitnessKind.STRAY_INDEX, "", result.nameless)] if result.nameless else ()),
            ),
        )


def _opened(job: DatabaseRepair, files: ExitStack, tick: Tick) -> Opened:
    return open_damaged(job.original, files, not job.stale_wal, tick=percent(tick, PAGE_SCAN))


def _rows_under(survey: Survey, entry: SchemaObject) -> int:
    """The rows of a table whose definition is lost; 0 when they cannot be counted."""
    for table in (True, False):
        tree = Tree(entry.name, entry.root, table)
        survey.pages.walk(tree)
        if tree.leaves and not tree.missing:
            return survey.cells(tree)
        survey.pages.release(tree)
    return 0


def _guesses(kind: str, borrowed: Mapping[str, SchemaObject]) -> dict[str, tuple[Layout, ...]]:
    """Other orders the columns of a lost table may have:

    Hermes appends new ones when it upgrades an old file.
    """
    found: dict[str, list[Layout]] = {}
    known = [{item.name: item for item in release.objects.get(kind, ())} for release in releases()]
    for number, old in enumerate(known):
        for new in known[number:]:
            for name in borrowed.keys() & old.keys() & new.keys():
                first, then = columns_of(old[name].sql), columns_of(new[name].sql)
                have = {column.name for column in first}
                columns = (*first, *(column for column in then if column.name not in have))
                layout = layout_of(name, new[name].sql, columns)
                made = {column.name for column in columns_of(borrowed[name].sql)}
                if (
                    layout
                    and made.issuperset(layout.names)
                    and layout.names not in {known_layout.names for known_layout in found.get(name, ())}
                ):
                    found.setdefault(name, []).append(layout)
    return {name: tuple(layouts) for name, layouts in found.items()}


def _entries_of(file: str) -> list[SchemaObject]:
    db = connect(file, "mode=ro&immutable=1")
    try:
        return [
            SchemaObject(
                checks.text(row[0]), checks.text(row[1]), checks.text(row[2]), checks.text(row[3] or b"")
            )
            for row in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        ]
    finally:
        db.close()

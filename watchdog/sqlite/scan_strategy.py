"""The page scan as a repair: every row that is whole into a fresh file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from watchdog.sqlite import checks
from watchdog.sqlite.candidate import Candidate, DatabaseRepair, Tick, judged, percent, why_not
from watchdog.sqlite.damaged_file import open_damaged, widths
from watchdog.sqlite.disagreement import Disagreement, WitnessKind
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.page_scan import Tree
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.rebuilt import Fresh, Tally
from watchdog.sqlite.salvage import salvage
from watchdog.sqlite.schema import (
    columns_of,
    entries_for,
    kind_of,
    nearest,
    releases,
    unreadable,
)
from watchdog.sqlite.strategies import set_mode
from watchdog.sqlite.survey import Survey

PAGE_SCAN = "page scan"


def scan(job: DatabaseRepair, tick: Tick) -> Candidate:
    """The page scan, with the rows of the backup for those that are gone."""
    file, side = os.path.join(job.work, "scan.db"), os.path.join(job.work, "salvaged.db")
    with ExitStack() as files:
        opened = open_damaged(job.original, files, not job.stale_wal, tick=percent(tick, PAGE_SCAN))
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
        survey = Survey(opened, entries)
        fresh = Fresh(file, opened, side)
        try:
            result = salvage(survey, fresh, guesses, job.known)
        finally:
            fresh.close()
        set_mode(file, opened.header.wal_mode if opened.header else True)
        least = {table: tally.saved + tally.reconstructed for table, tally in result.tallies.items()}
        refused = why_not(file, entries, least)
        if not sum(least.values()):
            refused.append("not one row was found")
        gone = {entry.name: _rows_under(survey, entry) for entry in wanted.gone if entry.type == "table"}
        says = [
            f"{entry.type} {entry.name}: not made, its table {entry.table} is not known" for entry in homeless
        ]
        says += wanted.says + list(result.says)
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
            ),
        )


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

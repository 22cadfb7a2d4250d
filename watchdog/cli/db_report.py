"""What the doctor says, for people and as JSON: a verdict, the next step, and how a heal ended."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from watchdog.cli.context import job_of
from watchdog.model import Reason
from watchdog.reports.language import Reader, reader_anyhow, reader_of
from watchdog.sqlite.faults import Fault
from watchdog.text import cells

if TYPE_CHECKING:
    from watchdog.sqlite.grade import Verdict
    from watchdog.sqlite.heal import HealReport, TableResult

COUNTS = ("there", "saved", "lost", "reconstructed", "doubtful")  # columns of the table of a heal
COLOURS = {"well": "32", "drifted": "33", "damaged": "31", "broken": "31;1", "unknown": "35"}


def shown(path: str) -> str:
    """A path on one line, whatever is in its name."""
    return shlex.quote(path) if path.isprintable() else repr(path)


def reader_of_db(args: argparse.Namespace) -> Reader:
    """The reader in the language of the settings; scripts read English."""
    where = argparse.Namespace(home=getattr(args, "home", None), config=None, state=None)
    return reader_anyhow(job_of(where), "en" if args.json else args.language)


def _graded(verdict: Verdict, reader: Reader, width: int = 8) -> str:
    grade = reader(f"db.grade.{verdict.grade}")
    grade += " " * (width - cells(grade))
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return grade
    return f"\033[{COLOURS.get(verdict.grade, '0')}m{grade}\033[0m"


def _fault(verdict: Verdict, reader: Reader) -> str:
    """Every fault in the reader's language; as it was graded where it has no key."""
    if verdict.faults and reader.language != "en":
        return reader("check.and").join(map(reader.reason, verdict.faults))
    return reader.phrase(verdict.fault)


# --- check


def check_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "path": verdict.path,
        "grade": verdict.grade,
        "fault": verdict.fault,
        "detail": list(verdict.detail),
        "sqlite": verdict.sqlite,
        "kind": verdict.kind,
        "reference": verdict.reference,
        "missing": [list(column) for column in verdict.missing],
        "holders": [list(holder) for holder in verdict.holders],
    }


def print_check(verdicts: Sequence[Verdict], deep: bool, reader: Reader) -> None:
    for verdict in verdicts:
        fault = f": {_fault(verdict, reader)}" if verdict.fault else ""
        print(f"{_graded(verdict, reader)}  {shown(verdict.path)}{fault}")
        for text in verdict.detail:
            print(f"    {reader.phrase(text)}")
        if step := next_step(verdict, reader):
            print(f"    {reader('db.next', step=step)}")
    if verdicts:
        print(reader("db.looked", version=verdicts[0].sqlite))
    if verdicts and not deep:
        print(reader("db.shallow"))


def next_step(verdict: Verdict, reader: Reader) -> str:
    """The one thing to do about a database; '' when there is nothing, or the fault itself says it."""
    kinds = {reason.key for reason in verdict.faults}
    step = partial(reader, path=shown(verdict.path))
    lost = {kind for reason in verdict.faults for kind in reason.fields.get("objects", ())}
    if verdict.grade == "drifted" and not verdict.missing and lost and "table" not in lost:
        return step("db.step.heal")  # Hermes makes tables at its next start, and fills no full text
    if verdict.grade == "drifted":
        return step("db.step.migrate" if verdict.missing else "db.step.start")
    if verdict.grade not in ("damaged", "broken") or verdict.holders:
        return ""
    if Fault.UNFINISHED in kinds:
        return step("db.step.finish")
    if verdict.only(Fault.ORPHANS, Fault.DRIFT):
        return step("db.step.orphans")
    return step("db.step.empty" if verdict.only(Fault.EMPTY) else "db.step.heal")


# --- heal


def heal_as_json(report: HealReport) -> dict[str, Any]:
    return {
        "path": report.path,
        "before": report.before.grade,
        "after": report.after.grade,
        "fault": report.before.fault,
        "left": report.after.fault,
        "rung": report.strategy,
        "tables": {name: asdict(rows) for name, rows in report.tables.items()},
        "lost": report.lost,
        "lost_most": report.lost_most,
        "doubtful": report.in_doubt,
        "uncounted": report.uncounted,
        "doubtful_rows": {name: list(rowids) for name, rowids in report.doubtful.items()},
        "ok": report.ok,
        "quarantine": report.quarantine,
        "dry_run": report.dry_run,
        "says": list(report.says),
        "closing": closing(report, reader_of("en", None, datetime.now(UTC))),
    }


def print_heal(report: HealReport, reader: Reader) -> None:
    def graded(verdict: Verdict) -> str:
        return _graded(verdict, reader, 0) + (
            reader("plan.colon") + _fault(verdict, reader) if verdict.fault else ""
        )

    print(reader("db.before", verdict=graded(report.before)))
    if report.strategy:
        print(reader("db.would-heal" if report.dry_run else "db.healed", how=_how(report.strategy, reader)))
    if report.tables:
        _print_table(report.tables, reader)
    for text in report.says:
        print(f"  {reader.phrase(text)}")
    if not report.dry_run or not report.strategy:
        print(reader("db.after", verdict=graded(report.after)))
    print(closing(report, reader))


def _how(strategy: str, reader: Reader) -> str:
    return reader.reason(Reason(f"strategy.{strategy.lower().replace(' ', '-')}", {"text": strategy}))


def closing(report: HealReport, reader: Reader) -> str:
    """One sentence: what is lost, what is in doubt, where the broken file is, how to undo."""
    if not report.strategy:
        return reader("db.unchanged" if report.ok else "db.still-there")
    parts = [_lost(report, reader), *_doubts(report, reader)]
    if report.dry_run:
        would = "db.would-save-all" if report.nothing_lost else "db.would-save"
        saved = reader(would, rows=_rows(report.there - report.lost, reader))
        lost = [] if report.nothing_lost else parts
        how = reader("db.do-it", path=shown(report.path))
        return reader("check.and").join([reader("db.dry-run"), saved, *lost, how])
    if report.tables and not report.nothing_lost and not report.uncounted:
        parts.append(reader("db.rest"))
    if report.quarantine:
        parts.append(reader("db.kept", path=shown(report.quarantine)))
        parts.append(reader("db.undo", path=shown(report.path)))
    return reader("check.and").join(parts)


def _lost(report: HealReport, reader: Reader) -> str:
    if not report.tables:
        return reader("db.unreadable")
    there = _rows(report.there, reader)
    torn = {name: rows for name, rows in report.tables.items() if rows.lost_most or rows.lost}
    if not torn:
        return reader("db.nothing-lost" if report.nothing_lost else "db.found-all", rows=there)
    each = reader.joined(
        [f"{name} {_range(rows.lost, rows.lost_most, reader)}" for name, rows in torn.items()]
    )
    if report.lost_most > report.lost:
        saved = _rows(report.there - report.lost, reader)
        lost = _range(report.lost, report.lost_most, reader)
        return reader("db.lost-between", lost=lost, each=each, rows=saved)
    return reader("db.lost", count=report.lost, lost=f"{report.lost:,}", rows=there, each=each)


def _doubts(report: HealReport, reader: Reader) -> list[str]:
    """Rows of the new file that may not be what was written, and rows that may be missing from it."""
    named, parts = report.in_doubt - report.contradicted, []
    if named:
        parts.append(reader("db.doubtful", count=named, rows=_rows(named, reader)))
    if report.contradicted:
        parts.append(reader("db.contradicted", rows=_rows(report.contradicted, reader)))
    if report.uncounted:
        parts.append(reader("db.uncounted"))
    return parts


def _rows(count: int, reader: Reader) -> str:
    return reader("db.rows", count=count, number=f"{count:,}")


def _range(least: int, most: int, reader: Reader) -> str:
    return reader("db.between", least=f"{least:,}", most=f"{most:,}") if most > least else f"{least:,}"


def _print_table(tables: Mapping[str, TableResult], reader: Reader) -> None:
    heads = [reader(f"db.column.{name}") for name in ("table", *COUNTS)]
    rows = [heads]
    for name, found in tables.items():
        lost = f"{found.lost}" if found.lost_most <= found.lost else f"{found.lost}-{found.lost_most}"
        rows.append([name, *(lost if each == "lost" else str(getattr(found, each)) for each in COUNTS)])
    widths = [max(cells(row[place]) for row in rows) for place in range(len(heads))]
    for first, *others in rows:
        line = [" " * (width - cells(cell)) + cell for width, cell in zip(widths[1:], others, strict=True)]
        print("  " + "  ".join([first + " " * (widths[0] - cells(first)), *line]))

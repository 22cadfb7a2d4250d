"""What the doctor says, for people and as JSON: a verdict, the next step, and how a heal ended."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from watchdog.cli.parser import program
from watchdog.sqlite.faults import Fault

if TYPE_CHECKING:
    from watchdog.sqlite.grade import Verdict
    from watchdog.sqlite.heal import HealReport, TableResult

COLOURS = {"well": "32", "drifted": "33", "damaged": "31", "broken": "31;1", "unknown": "35"}


def shown(path: str) -> str:
    """A path on one line, whatever is in its name."""
    return shlex.quote(path) if path.isprintable() else repr(path)


def _graded(verdict: Verdict) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return f"{verdict.grade:8}"
    return f"\033[{COLOURS.get(verdict.grade, '0')}m{verdict.grade:8}\033[0m"


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


def print_check(verdicts: Sequence[Verdict], deep: bool) -> None:
    for verdict in verdicts:
        print(f"{_graded(verdict)}  {shown(verdict.path)}" + (f": {verdict.fault}" if verdict.fault else ""))
        for text in verdict.detail:
            print(f"    {text}")
        if step := next_step(verdict):
            print(f"    next: {step}")
    if verdicts:
        print(f"looked with SQLite {verdicts[0].sqlite}")
    if verdicts and not deep:
        print("not looked at: rows, indexes, full text and the inside of the -wal; --deep does")


def next_step(verdict: Verdict) -> str:
    """The one thing to do about a database; '' when there is nothing, or the fault itself says it."""
    path, kinds = shown(verdict.path), {reason.key for reason in verdict.faults}
    if verdict.grade == "drifted" and verdict.missing:
        return f"{program()} db migrate {path} --dry-run"
    if verdict.grade == "drifted":
        return "start the gateway; Hermes makes missing tables at its next start"
    if verdict.grade not in ("damaged", "broken") or verdict.holders:
        return ""
    if Fault.UNFINISHED in kinds:
        return f"leave the gateway stopped, then {program()} db heal {path}: it finishes the repair"
    if verdict.only(Fault.ORPHANS, Fault.DRIFT):
        return "nothing; such rows can only be deleted, and that is for you to decide"
    if verdict.only(Fault.EMPTY):
        return "start the gateway if this is a new home; otherwise put a backup of yours in its place"
    return f"stop the gateway, then {program()} db heal {path} --dry-run"


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
        "closing": closing(report),
    }


def print_heal(report: HealReport) -> None:
    before, after = report.before, report.after
    print(f"before: {_graded(before)}" + (f", {before.fault}" if before.fault else ""))
    if report.strategy:
        print(f"{'would heal' if report.dry_run else 'healed'} by: {report.strategy}")
    if report.tables:
        _print_table(report.tables)
    for text in report.says:
        print(f"  {text}")
    if not report.dry_run or not report.strategy:
        print(f"after:  {_graded(after)}" + (f", {after.fault}" if after.fault else ""))
    print(closing(report))


def closing(report: HealReport) -> str:
    """One sentence: what is lost, what is in doubt, where the broken file is, how to undo."""
    if not report.strategy:
        return "nothing was changed" + ("" if report.ok else "; the fault is still there")
    parts = [_lost(report), *_doubts(report)]
    if report.dry_run:
        saved = _rows(report.there - report.lost)
        would = f"a heal would save all {saved}" if report.nothing_lost else f"a heal would save {saved}"
        return "; ".join(["dry run, nothing was changed", would, *(() if report.nothing_lost else parts)])
    if report.tables and not report.nothing_lost and not report.uncounted:
        parts.append("everything else is identical")
    if report.quarantine:
        parts.append(f"the broken file is kept in {shown(report.quarantine)}")
        parts.append(f"undo: {program()} db undo {shown(report.path)}")
    return "; ".join(parts)


def _lost(report: HealReport) -> str:
    if not report.tables:
        return "nothing in it could be read"
    torn = {name: rows for name, rows in report.tables.items() if rows.lost_most or rows.lost}
    if not torn:
        whole = f"nothing is lost: all {_rows(report.there)} are there"
        return whole if report.nothing_lost else f"all {_rows(report.there)} that could be found are there"
    each = ", ".join(f"{name} {_range(rows.lost, rows.lost_most)}" for name, rows in torn.items())
    if report.lost_most > report.lost:
        saved = _rows(report.there - report.lost)
        return f"{_range(report.lost, report.lost_most)} rows are lost ({each}), {saved} saved"
    return f"{report.lost:,} of {_rows(report.there)} {'is' if report.lost == 1 else 'are'} lost ({each})"


def _doubts(report: HealReport) -> list[str]:
    """Rows of the new file that may not be what was written, and rows that may be missing from it."""
    named, parts = report.in_doubt - report.contradicted, []
    if named:
        parts.append(f"{_rows(named)} {'is' if named == 1 else 'are'} doubtful (named above)")
    if report.contradicted:
        parts.append(f"{_rows(report.contradicted)} more may be missing or doubtful (see above why)")
    if report.uncounted:
        parts.append("more may be missing or doubtful, and nothing tells how many rows (see above why)")
    return parts


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _range(least: int, most: int) -> str:
    return f"between {least:,} and {most:,}" if most > least else f"{least:,}"


def _print_table(tables: Mapping[str, TableResult]) -> None:
    width = max(len("table"), *(len(name) for name in tables))
    print(f"  {'table':<{width}} {'there':>8} {'saved':>8} {'lost':>8} {'reconstructed':>14} {'doubtful':>9}")
    for name, rows in tables.items():
        lost = f"{rows.lost}" if rows.lost_most <= rows.lost else f"{rows.lost}-{rows.lost_most}"
        counts = f"{rows.there:>8} {rows.saved:>8} {lost:>8} {rows.reconstructed:>14} {rows.doubtful:>9}"
        print(f"  {name:<{width}} {counts}")

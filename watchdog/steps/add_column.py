"""Add the columns that this Hermes expects and a database lacks, on a verified backup."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from watchdog.config.yaml import Section
from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.sqlite.files import backup_folder
from watchdog.steps.common import check_holes, failed, ok
from watchdog.steps.databases import attempt, database, own_command
from watchdog.text import harmless
from watchdog.values import dataclass

KIND = "add_column"
REPEATABLE = True  # a column that is there is not added again


@dataclass(frozen=True)
class Args:
    database: str
    missing: str = ""  # "table.column TYPE, …": exactly these are added; empty: all that are lacking


def read(section: Section) -> Args:
    args = Args(section.text("database"), section.text("missing", ""))
    section.done()
    check_holes(section, args)
    return args


def describe(args: Args, machine: Machine) -> Reason:
    command = own_command("migrate", machine.home / args.database)
    fields = {"database": args.database, "command": command}
    if not args.missing:
        return Reason(Describe.ADD_COLUMNS_UNMEASURED, fields)
    return Reason(Describe.ADD_COLUMNS, {**fields, "missing": args.missing})


def run(args: Args, machine: Machine) -> Outcome:
    what = Reason(What.ADD_COLUMNS, {"database": args.database})
    return attempt(what, partial(_add, what, args, machine))


def _add(what: Reason, args: Args, machine: Machine) -> Outcome:
    path = database(args.database, machine.home)
    # These load the whole doctor, which only an approved repair needs.
    from watchdog.sqlite.heal import migrate
    from watchdog.sqlite.installed import installed
    from watchdog.sqlite.schema import releases

    report = migrate(
        path,
        reference=installed(machine.home) or releases()[-1],
        backups=Path(backup_folder(machine.state, path)),
        only=tuple(filter(None, args.missing.split(", "))),
    )
    added = Reason(Done.COLUMNS_ADDED, {"columns": report.added})
    reason = added if report.added else Reason(Done.NO_COLUMN_MISSING)
    if report.cannot:
        cannot = harmless("; ".join(report.cannot), 300)
        reason = Reason(Failed.CANNOT_ADD, {"added": reason, "cannot": cannot})
    if report.backup:
        reason = Reason(Done.BACKUP, {"result": reason, "path": str(report.backup)})
    output = "\n".join((*report.says, *report.cannot))[:16_000]
    return (failed if report.cannot else ok)(what, reason, output)

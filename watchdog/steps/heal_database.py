"""Heal a broken database on a copy and swap it in; undo puts back what was there before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason, plain
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.sqlite.files import backup_folder
from watchdog.steps.common import failed, ok
from watchdog.steps.databases import DatabaseArgs, attempt, database, own_command, read_database
from watchdog.text import harmless

KIND = "heal_database"
REPEATABLE = True  # works on a copy; the swap is one rename
Args, read = DatabaseArgs, read_database


def describe(args: DatabaseArgs, machine: Machine) -> Reason:
    path = machine.home / args.database
    command = own_command("undo", path) if args.undo else own_command("heal", path, "--yes")
    key = Describe.HEAL_UNDO if args.undo else Describe.HEAL
    return Reason(key, {"database": args.database, "command": command})


def run(args: DatabaseArgs, machine: Machine) -> Outcome:
    what = Reason(What.PUT_BACK if args.undo else What.HEAL, {"database": args.database})
    return attempt(what, partial(_undo if args.undo else _heal, what, args, machine))


def _undo(what: Reason, args: DatabaseArgs, machine: Machine) -> Outcome:
    from watchdog.sqlite.heal import undo  # loads the whole doctor, which only an approved repair needs

    undone = undo(database(args.database, machine.home))
    last = harmless(undone.says[-1] if undone.says else "", 300)
    return (ok if undone.ok else failed)(what, plain(last), _output(undone.says))


def _heal(what: Reason, args: DatabaseArgs, machine: Machine) -> Outcome:
    path = database(args.database, machine.home)
    from watchdog.sqlite.heal import SET_ASIDE, heal  # the same

    report = heal(path, backups=Path(backup_folder(machine.state, path)))
    # Rows that cannot be read any more are lost whether we act or not; a database that opens again is what
    # was asked for.
    well = report.after.grade in ("well", "drifted") or report.strategy == SET_ASIDE
    how = _how(report.strategy) if report.strategy else Reason(Failed.NOTHING_DONE)
    reason = how if well else Reason(Failed.NOT_HEALED, {"how": how, "fault": plain(report.after.fault)})
    if report.uncounted:
        reason = Reason(Done.ROWS_UNCOUNTED, {"result": reason})
    if report.in_doubt:
        reason = Reason(Done.ROWS_DOUBTFUL, {"count": report.in_doubt, "result": reason})
    if report.lost_most > report.lost:
        bounds = {"least": report.lost, "most": report.lost_most}
        reason = Reason(Done.ROWS_BETWEEN, {**bounds, "result": reason})
    elif report.lost:
        reason = Reason(Done.ROWS_LOST, {"count": report.lost, "result": reason})
    if report.quarantine:
        reason = Reason(Done.KEPT, {"result": reason, "path": str(report.quarantine)})
    return (ok if well else failed)(what, reason, _output(report.says))


def _how(strategy: str) -> Reason:
    """How it was healed; other languages have the usual ways by key, the rest is said in English."""
    return Reason(f"strategy.{strategy.lower().replace(' ', '-')}", {"text": strategy})


def _output(says: Sequence[str]) -> str:
    return "\n".join(says)[:16_000]

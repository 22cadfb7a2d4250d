"""Heal a broken database on a copy and swap it in; undo puts back what was there before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from watchdog.config.yaml import Section
from watchdog.errors import WatchdogError
from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason, plain
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.sqlite.files import backup_folder
from watchdog.steps.common import check_holes, database, failed, ok, own_command
from watchdog.text import harmless
from watchdog.values import dataclass

KIND = "heal_database"
REPEATABLE = True  # works on a copy; the swap is one rename


@dataclass(frozen=True)
class Args:
    database: str
    undo: bool = False


def read(section: Section) -> Args:
    """`database: X` to do it, `undo: X` to take it back."""
    undo = section.has("undo")
    args = Args(section.text("undo" if undo else "database"), undo)
    section.done()
    check_holes(section, args)
    return args


def describe(args: Args, machine: Machine) -> Reason:
    verb = "undo" if args.undo else "heal"
    return Reason(
        Describe.HEAL_UNDO if args.undo else Describe.HEAL,
        {"database": args.database, "command": own_command(verb, machine.home / args.database)},
    )


def run(args: Args, machine: Machine) -> Outcome:
    what = Reason(What.PUT_BACK if args.undo else What.HEAL, {"database": args.database})
    try:
        path = database(args.database, machine.home)
        from watchdog.sqlite import heal  # loads the whole doctor, which only an approved repair needs

        if args.undo:
            undone = heal.undo(path)
            last = harmless(undone.says[-1] if undone.says else "", 300)
            return (ok if undone.ok else failed)(what, plain(last), _output(undone.says))
        report = heal.heal(path, backups=Path(backup_folder(machine.state, path)))
    except WatchdogError as error:
        return failed(what, plain(str(error)))
    except OSError as error:
        return failed(what, Reason(Failed.FILE_UNTOUCHED, {"error": str(error)}))
    # Rows that cannot be read any more are lost whether we act or not; a database that opens again is what
    # was asked for.
    well = report.after.grade in ("well", "drifted") or report.strategy == heal.SET_ASIDE
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

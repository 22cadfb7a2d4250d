"""Move a database with its sidecars out of the way, so that the gateway makes a new one; can be undone."""

from __future__ import annotations

import os
from pathlib import Path

from watchdog.config.yaml import Section
from watchdog.errors import WatchdogError
from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason, plain
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.sqlite.openers import why_not_free
from watchdog.steps.common import check_holes, database, failed, ok
from watchdog.system.privileges import as_owner
from watchdog.values import dataclass

KIND = "set_aside"
REPEATABLE = True  # what was moved is not there to be moved again
SIDECARS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Args:
    database: str
    undo: bool = False


def read(section: Section) -> Args:
    undo = section.has("undo")
    args = Args(section.text("undo" if undo else "database"), undo)
    section.done()
    check_holes(section, args)
    return args


def describe(args: Args, machine: Machine) -> Reason:
    if args.undo:
        return Reason(Describe.SET_ASIDE_UNDO, {"database": args.database})
    name = f"{Path(args.database).name}.set-aside-…"
    return Reason(Describe.SET_ASIDE, {"database": args.database, "name": name})


def run(args: Args, machine: Machine) -> Outcome:
    what = Reason(What.PUT_BACK if args.undo else What.SET_ASIDE, {"database": args.database})
    try:
        path = database(args.database, machine.home, there=not args.undo)
        with as_owner(path):
            return _put_back(what, path, machine) if args.undo else _set_aside(what, path, machine)
    except WatchdogError as error:
        return failed(what, plain(str(error)))
    except OSError as error:
        fields = {"error": str(error), "database": args.database}
        return failed(what, Reason(Failed.LOOK_AT_FILE, fields))


def _set_aside(what: Reason, path: Path, machine: Machine) -> Outcome:
    if holder := why_not_free(str(path)):
        return failed(what, Reason(Failed.IN_USE, {"holder": plain(holder)}))
    stamp = machine.clock().strftime("%Y%m%d-%H%M%S")
    moved = []
    # Sidecars first: a database without its -wal is old, a -wal without its database is applied to the next
    # one.
    for suffix in (*SIDECARS, ""):
        old = Path(f"{path}{suffix}")
        if os.path.lexists(old):
            new = Path(f"{path}.set-aside-{stamp}{suffix}")
            if os.path.lexists(new):
                return failed(what, Reason(Failed.NAME_TAKEN, {"path": str(new)}))
            os.rename(old, new)
            moved.append(new.name)
    _flush(path.parent)
    return ok(what, Reason(Done.SET_ASIDE, {"name": moved[-1]}), "\n".join(moved))


def _put_back(what: Reason, path: Path, machine: Machine) -> Outcome:
    aside = sorted(
        found for found in path.parent.glob(f"{path.name}.set-aside-*") if not found.name.endswith(SIDECARS)
    )
    if not aside:
        return failed(what, Reason(Failed.NOTHING_ASIDE, {"path": str(path)}))
    if path.exists():
        # What the gateway made meanwhile is data, too.
        moved = _set_aside(what, path, machine)
        if not moved.ok:
            return moved
    for suffix in (*SIDECARS, ""):
        old = Path(f"{aside[-1]}{suffix}")
        if os.path.lexists(old):
            os.rename(old, Path(f"{path}{suffix}"))
    _flush(path.parent)
    return ok(what, Reason(Done.PUT_BACK, {"aside": aside[-1].name, "name": path.name}))


def _flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

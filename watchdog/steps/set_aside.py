"""Move a database with its sidecars out of the way, so that the gateway makes a new one; can be undone."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason, plain
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.sqlite.files import SIDECARS
from watchdog.sqlite.in_use import why_not_free
from watchdog.steps.common import failed, ok
from watchdog.steps.databases import DatabaseArgs, attempt, database, read_database
from watchdog.system.files import fsync
from watchdog.system.privileges import as_owner

KIND = "set_aside"
REPEATABLE = True  # what was moved is not there to be moved again
Args, read = DatabaseArgs, read_database


def describe(args: DatabaseArgs, machine: Machine) -> Reason:
    if args.undo:
        return Reason(Describe.SET_ASIDE_UNDO, {"database": args.database})
    name = f"{Path(args.database).name}.set-aside-…"
    return Reason(Describe.SET_ASIDE, {"database": args.database, "name": name})


def run(args: DatabaseArgs, machine: Machine) -> Outcome:
    what = Reason(What.PUT_BACK if args.undo else What.SET_ASIDE, {"database": args.database})
    return attempt(what, partial(_move, what, args, machine), Failed.LOOK_AT_FILE)


def _move(what: Reason, args: DatabaseArgs, machine: Machine) -> Outcome:
    path = database(args.database, machine.home, there=not args.undo)
    with as_owner(path):
        return _put_back(what, path, machine) if args.undo else _set_aside(what, path, machine)


def _set_aside(what: Reason, path: Path, machine: Machine) -> Outcome:
    if holder := why_not_free(str(path)):
        return failed(what, Reason(Failed.IN_USE, {"holder": plain(holder)}))
    stamp = machine.clock().strftime("%Y%m%d-%H%M%S")
    moved = []
    # Sidecars first: a database without its -wal is old, a -wal without its database is applied to the next one.
    for suffix in (*SIDECARS, ""):
        old = Path(f"{path}{suffix}")
        if os.path.lexists(old):
            new = Path(f"{path}.set-aside-{stamp}{suffix}")
            if os.path.lexists(new):
                return failed(what, Reason(Failed.NAME_TAKEN, {"path": str(new)}))
            os.rename(old, new)
            moved.append(new.name)
    fsync(path.parent)
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
    fsync(path.parent)
    return ok(what, Reason(Done.PUT_BACK, {"aside": aside[-1].name, "name": path.name}))

"""Move a database out of the way together with its sidecars, so that the gateway makes a new one; can be undone."""

from __future__ import annotations

import os
from pathlib import Path

from watchdog.actions.common import check_holes, database, failed, ok
from watchdog.errors import WatchdogError
from watchdog.hands import as_owner
from watchdog.model import Outcome
from watchdog.sqlite.holders import why_not_free
from watchdog.values import dataclass
from watchdog.world import World
from watchdog.yamlfile import Section

KIND = "set_aside"
REPEATABLE = True  # what was moved is not there to be moved again
CHANGES = True
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


def describe(args: Args, world: World) -> str:
    if args.undo:
        return f"put {args.database} back from where it was set aside"
    return (
        f"set {args.database} aside with its -wal, -shm and -journal (renamed to {Path(args.database).name}.set-aside-…, "
        "nothing is deleted); the gateway makes an empty one"
    )


def run(args: Args, world: World) -> Outcome:
    name = f"{'put back' if args.undo else 'set aside'} {args.database}"
    try:
        path = database(args.database, world.home, there=not args.undo)
        return _put_back(name, path, world) if args.undo else _set_aside(name, path, world)
    except WatchdogError as error:
        return failed(name, str(error))
    except OSError as error:
        return failed(name, f"{error}; look at {args.database} before anything else")


def _set_aside(name: str, path: Path, world: World) -> Outcome:
    if holder := _held(path) or why_not_free(str(path)):
        return failed(name, f"{holder}; file untouched")
    with as_owner(path):
        return _move(name, path, world)


def _move(name: str, path: Path, world: World) -> Outcome:
    stamp = world.clock().strftime("%Y%m%d-%H%M%S")
    moved = []
    # Sidecars first: a database without its -wal is old, a -wal without its database is applied to the next one.
    for suffix in (*SIDECARS, ""):
        old = Path(f"{path}{suffix}")
        if os.path.lexists(old):
            new = Path(f"{path}.set-aside-{stamp}{suffix}")
            if os.path.lexists(new):
                return failed(name, f"{new} is already there; nothing more was moved")
            os.rename(old, new)
            moved.append(new.name)
    _flush(path.parent)
    return ok(name, f"moved to {moved[-1]}", "\n".join(moved))


def _put_back(name: str, path: Path, world: World) -> Outcome:
    with as_owner(path):
        return _move_back(name, path, world)


def _move_back(name: str, path: Path, world: World) -> Outcome:
    aside = sorted(one for one in path.parent.glob(f"{path.name}.set-aside-*") if not one.name.endswith(SIDECARS))
    if not aside:
        return failed(name, f"nothing was set aside for {path}")
    if path.exists():
        # What the gateway made meanwhile is somebody's data too.
        told = _set_aside(name, path, world)
        if not told.ok:
            return told
    for suffix in (*SIDECARS, ""):
        old = Path(f"{aside[-1]}{suffix}")
        if os.path.lexists(old):
            os.rename(old, Path(f"{path}{suffix}"))
    _flush(path.parent)
    return ok(name, f"{aside[-1].name} is {path.name} again")


def _held(path: Path) -> str:
    """Who has the file or one of its sidecars open, by looking at /proc; '' when nobody that we can see."""
    wanted = set()
    for suffix in ("", *SIDECARS):
        try:
            told = os.stat(f"{path}{suffix}", follow_symlinks=False)
            wanted.add((told.st_dev, told.st_ino))
        except OSError:
            continue
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                told = os.stat(f"/proc/{pid}/fd/{fd}")
                if (told.st_dev, told.st_ino) in wanted:
                    return f"still open in process {pid}"
        except OSError:
            continue
    return ""


def _flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

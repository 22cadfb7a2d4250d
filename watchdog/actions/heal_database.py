"""Heal a broken database on a copy and swap it in; undo puts back what was there before."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.actions.common import check_holes, database, failed, ok, written
from watchdog.backups import folder
from watchdog.errors import WatchdogError
from watchdog.model import Outcome
from watchdog.text import harmless
from watchdog.values import dataclass
from watchdog.world import World
from watchdog.yamlfile import Section

KIND = "heal_database"
REPEATABLE = True  # works on a copy; the swap is one rename
CHANGES = True


@dataclass(frozen=True)
class Args:
    database: str
    undo: bool = False


def read(section: Section) -> Args:
    args = read_either(section)
    return Args(*args)


def read_either(section: Section) -> tuple[str, bool]:
    """`database: X` to do it, `undo: X` to take it back."""
    undo = section.has("undo")
    name = section.text("undo" if undo else "database")
    section.done()
    check_holes(section, Args(name, undo))
    return name, undo


def describe(args: Args, world: World) -> str:
    if args.undo:
        return f"put back {args.database} as it was before healing: hermes-watchdog db undo {written([args.database])}"
    return (
        f"heal {args.database} on a copy, check the copy, swap it in, keep the broken file in quarantine (set aside only if "
        f"nothing in it can be read): hermes-watchdog db heal {written([args.database])}"
    )


def run(args: Args, world: World) -> Outcome:
    name = f"{'put back' if args.undo else 'heal'} {args.database}"
    try:
        path = database(args.database, world.home)
        from watchdog.sqlite import heal

        if args.undo:
            undone = heal.undo(path)
            return (ok if undone.ok else failed)(name, *_told(undone.says))
        report = heal.heal(path, backups=folder(world.state, path))
    except WatchdogError as error:
        return failed(name, str(error))
    except OSError as error:
        return failed(name, f"{error}; the file was left as it was")
    # Rows that nobody can read any more are lost whether we act or not; a database that opens again is what was asked for.
    well = report.after.grade in ("well", "drifted") or report.rung == heal.SET_ASIDE
    lost = f"{report.lost} rows are LOST; " if report.lost else ""
    kept = f"; what was there is kept in {report.quarantine}" if report.quarantine else ""
    fault = "" if well else f": {report.after.fault}"
    return (ok if well else failed)(name, f"{lost}{report.rung or 'nothing was done'}{fault}{kept}", _told(report.says)[1])


def _told(says: Sequence[str]) -> tuple[str, str]:
    """The first sentence for the line, all of them for the record."""
    return harmless(says[-1] if says else "", 300), "\n".join(says)[:16_000]

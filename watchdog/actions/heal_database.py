"""Heal a broken database on a copy and swap it in; undo puts back what was there before."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.actions.common import check_holes, database, failed, ok
from watchdog.errors import WatchdogError
from watchdog.model import Outcome
from watchdog.text import harmless
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
        return f"put back {args.database} as it was before healing: hermes-watchdog db undo {args.database}"
    return (f"heal {args.database} on a copy, check the copy, swap it in, keep the broken file: "
            f"hermes-watchdog db heal {args.database}")


def run(args: Args, world: World) -> Outcome:
    name = f"{'put back' if args.undo else 'heal'} {args.database}"
    try:
        path = database(args.database, world.home)
        from watchdog.sqlite import heal

        report = heal.undo(path) if args.undo else heal.heal(path, backups=world.state / "backups")
    except WatchdogError as error:
        return failed(name, str(error))
    except OSError as error:
        return failed(name, f"{error}; the file was left as it was")
    return judged(name, report)


def judged(name: str, report: object) -> Outcome:
    """The doctor's report as an outcome."""
    says = str(getattr(report, "says", "") or report)
    good = bool(getattr(report, "ok", False))
    return (ok if good else failed)(name, harmless(says, 400), str(report)[:16_000])

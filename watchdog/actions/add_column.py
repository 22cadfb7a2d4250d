"""Add the columns that this Hermes expects and a database lacks, on a verified backup."""

from __future__ import annotations

from watchdog.actions.common import check_holes, database, failed, ok, written
from watchdog.backups import folder
from watchdog.errors import WatchdogError
from watchdog.model import Outcome
from watchdog.text import harmless
from watchdog.values import dataclass
from watchdog.world import World
from watchdog.yamlfile import Section

KIND = "add_column"
REPEATABLE = True  # a column that is there is not added again
CHANGES = True


@dataclass(frozen=True)
class Args:
    database: str
    missing: str = ""  # for people: what is lacking, as measured; the schema reference decides


def read(section: Section) -> Args:
    args = Args(section.text("database"), section.text("missing", ""))
    section.done()
    check_holes(section, args)
    return args


def describe(args: Args, world: World) -> str:
    what = f" ({args.missing})" if args.missing else ""
    return f"back up {args.database}, then add the columns it lacks{what}: hermes-watchdog db migrate {written([args.database])}"


def run(args: Args, world: World) -> Outcome:
    name = f"add missing columns to {args.database}"
    try:
        path = database(args.database, world.home)
        from watchdog.sqlite.heal import migrate
        from watchdog.sqlite.reference import installed, releases

        report = migrate(path, reference=installed(world.home) or releases()[-1], backups=folder(world.state, path))
    except WatchdogError as error:
        return failed(name, str(error))
    except OSError as error:
        return failed(name, f"{error}; the file was left as it was")
    added = f"added {', '.join(report.added)}" if report.added else "nothing had to be added"
    kept = f"; backup: {report.backup}" if report.backup else ""
    told = "\n".join((*report.says, *report.cannot))[:16_000]
    if report.cannot:
        return failed(name, f"{added}; cannot be added: {harmless('; '.join(report.cannot), 300)}{kept}", told)
    return ok(name, harmless(added, 400) + kept, told)

"""The arguments of `hermes-watchdog db`: look at a database, heal it, undo that, add missing columns, back it up.

A command's module is loaded when the command runs, so that --help loads no database code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap

from watchdog.cli.main import module
from watchdog.config.settings import LANGUAGES
from watchdog.errors import WatchdogError
from watchdog.values import Any, dataclass

WELL, WRONG, USAGE, OURS = 0, 1, 2, 3


@dataclass(frozen=True)
class DatabaseCommand:
    """A command of `db`: what runs it, and its help."""

    name: str
    run: str  # module:function
    about: str
    details: str
    examples: str

    def add_to(self, commands: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            description=textwrap.fill(self.details, 100),
            epilog=f"examples:\n  {self.examples}",
        )
        parser.set_defaults(run=lambda args: guarded(self, args))
        return parser


def add_arguments(subparsers: Any) -> None:
    """Register `db` and its commands."""
    db = subparsers.add_parser(
        "db",
        help="look at, heal, migrate and back up Hermes databases",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The database doctor: look without touching, heal on a copy, never lose a row.",
        epilog=(
            "examples:\n"
            "  hermes-watchdog db check --home ~/.hermes          a quick look at every database\n"
            "  hermes-watchdog db check --deep ~/.hermes/state.db SQLite's own checks, too\n"
            "  hermes-watchdog db heal ~/.hermes/state.db --dry-run\n"
            "  hermes-watchdog db undo ~/.hermes/state.db         put back what a heal replaced"
        ),
    )
    commands = db.add_subparsers(dest="db_command", required=True, metavar="COMMAND")

    check = DatabaseCommand(
        "check",
        "db_check:run_check",
        "say how a database is; nothing is touched",
        "Grades: well, drifted (the schema lacks something), damaged (SQLite opens it, but not all is "
        "sound), broken (SQLite cannot open it), unknown (busy, no permission, not there).",
        "hermes-watchdog db check --home ~/.hermes\n"
        "  hermes-watchdog db check --deep --json state.db kanban.db",
    ).add_to(commands)
    check.add_argument("files", nargs="*", metavar="FILE", help="databases (default: all of the Hermes home)")
    check.add_argument(
        "--home",
        metavar="DIR",
        help="every database of this Hermes home, boards included (default: $HERMES_HOME, else ~/.hermes)",
    )
    check.add_argument(
        "--deep",
        action="store_true",
        help="also integrity_check, foreign keys, full-text indexes and content, in a process of its own",
    )
    _reference_arguments(check)
    _json(check)

    heal = DatabaseCommand(
        "heal",
        "db_repair:run_heal",
        "repair a database on a copy and swap it in",
        "Stop the gateway first: heal refuses while any process has the file open. The original goes to "
        "FILE.quarantine with a manifest; `db undo FILE` puts it back. Exit 0: healed, nothing lost or in doubt · "
        "1: not healed, or some rows are lost or doubtful (reported per table).",
        "hermes-watchdog db heal ~/.hermes/state.db --dry-run\n"
        "  hermes-watchdog db heal ~/.hermes/state.db --yes --json",
    ).add_to(commands)
    heal.add_argument("file", metavar="FILE")
    heal.add_argument(
        "--dry-run", action="store_true", help="do everything on a copy, report, and change nothing"
    )
    heal.add_argument("--yes", action="store_true", help="do not ask before the swap")
    _backups(heal)
    _reference_arguments(heal)
    _json(heal)

    undo = DatabaseCommand(
        "undo",
        "db_repair:run_undo",
        "put back the file that the last heal replaced",
        "What is there now goes to quarantine first, so nothing is lost.",
        "hermes-watchdog db undo ~/.hermes/state.db",
    ).add_to(commands)
    undo.add_argument("file", metavar="FILE")
    _json(undo)

    migrate = DatabaseCommand(
        "migrate",
        "db_repair:run_migrate",
        "add the columns a table lacks",
        "Names, types, defaults and indexes come from the schema of the installed Hermes, never from a log "
        "line. A backup is taken first. It is safe while the gateway runs.",
        "hermes-watchdog db migrate ~/.hermes/kanban.db --dry-run",
    ).add_to(commands)
    migrate.add_argument("file", metavar="FILE")
    migrate.add_argument("--dry-run", action="store_true", help="say what would be added")
    _backups(migrate)
    _reference_arguments(migrate)
    _json(migrate)

    backup = DatabaseCommand(
        "backup",
        "db_backup:run_backup",
        "take a verified backup",
        "Taken beside a running gateway, checked before it counts; a backup that fails its check never "
        "replaces a good one.",
        "hermes-watchdog db backup --home ~/.hermes --keep 7",
    ).add_to(commands)
    backup.add_argument(
        "files", nargs="*", metavar="FILE", help="databases (default: all of the Hermes home)"
    )
    backup.add_argument("--home", metavar="DIR", help="every database of this Hermes home")
    backup.add_argument(
        "--keep", type=int, default=3, metavar="N", help="good backups to keep per database (default 3)"
    )
    _backups(backup)
    _json(backup)

    accept = DatabaseCommand(
        "accept",
        "db_backup:run_accept",
        "say that what the last backup held is gone on purpose",
        "A database that began anew is reported until its history is put back (`db heal`) or the loss is accepted "
        "here. Until then its last good backup is kept and no newer one is taken.",
        "hermes-watchdog db accept ~/.hermes/state.db",
    ).add_to(commands)
    accept.add_argument("file", metavar="FILE")
    accept.add_argument(
        "--backups", metavar="DIR", help="where its backups are (default: found by themselves)"
    )
    _json(accept)


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="for scripts: JSON on standard output and nothing else"
    )
    parser.add_argument(
        "--language", choices=LANGUAGES, help="en or zh (default: notify: language: of your settings)"
    )


def _backups(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backups", metavar="DIR", help="where the backups of this database are (default FILE.backups)"
    )


def _reference_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hermes",
        metavar="PYTHON|VERSION",
        default="",
        help=(
            "the schema to compare with: the Python that runs Hermes, or a known release such as 0.19.0 "
            "(default: the Hermes found here, else the nearest known release)"
        ),
    )


def guarded(command: DatabaseCommand, args: argparse.Namespace) -> int:
    """The exit code of a command: 1 with the reason for what we refuse, 3 with a traceback for what we did not foresee."""
    name, _, function = command.run.partition(":")
    try:
        return int(getattr(module(name), function)(args))
    except WatchdogError as error:
        if args.json:
            print(json.dumps({"error": str(error)}))
        print(module("db_report").reader_of_db(args).phrase(str(error)), file=sys.stderr)
        return WRONG
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except Exception:
        sys.excepthook(*sys.exc_info())
        return OURS


def run(args: argparse.Namespace) -> int:
    """The command that was asked for."""
    return int(args.run(args))

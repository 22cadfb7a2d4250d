"""`hermes-watchdog db`: look at a database, heal it, undo that, add missing columns, back it up."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from watchdog.cli import accept

WELL, WRONG, USAGE, OURS = 0, 1, 2, 3


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

    check = _command(
        commands,
        "check",
        run_check,
        "say how a database is; nothing is touched",
        "Grades: well, drifted (the schema lacks something), damaged (SQLite opens it, but not all is "
        "sound), broken (SQLite cannot open it), unknown (busy, no permission, not there).",
        "hermes-watchdog db check --home ~/.hermes\n"
        "  hermes-watchdog db check --deep --json state.db kanban.db",
    )
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

    heal = _command(
        commands,
        "heal",
        run_heal,
        "repair a database on a copy and swap it in",
        "Stop the gateway first: heal refuses while any process has the file open. The original goes to "
        "FILE.quarantine with a manifest; `db undo FILE` puts it back. Exit 0: healed, nothing lost or in doubt · "
        "1: not healed, or some rows are lost or doubtful (said per table).",
        "hermes-watchdog db heal ~/.hermes/state.db --dry-run\n"
        "  hermes-watchdog db heal ~/.hermes/state.db --yes --json",
    )
    heal.add_argument("file", metavar="FILE")
    heal.add_argument(
        "--dry-run", action="store_true", help="do everything on a copy, report, and change nothing"
    )
    heal.add_argument("--yes", action="store_true", help="do not ask before the swap")
    _backups(heal)
    _reference_arguments(heal)
    _json(heal)

    undo = _command(
        commands,
        "undo",
        run_undo,
        "put back the file that the last heal replaced",
        "What is there now goes to quarantine first, so undo itself can be undone by hand.",
        "hermes-watchdog db undo ~/.hermes/state.db",
    )
    undo.add_argument("file", metavar="FILE")
    _json(undo)

    migrate = _command(
        commands,
        "migrate",
        run_migrate,
        "add the columns a table lacks",
        "Names, types, defaults and indexes come from the schema of the installed Hermes, never from a log "
        "line. A backup is taken first; a running gateway does not mind.",
        "hermes-watchdog db migrate ~/.hermes/kanban.db --dry-run",
    )
    migrate.add_argument("file", metavar="FILE")
    migrate.add_argument("--dry-run", action="store_true", help="say what would be added")
    _backups(migrate)
    _reference_arguments(migrate)
    _json(migrate)

    backup = _command(
        commands,
        "backup",
        run_backup,
        "take a verified backup",
        "Taken beside a running gateway, checked before it counts; a backup that fails its check never "
        "replaces a good one.",
        "hermes-watchdog db backup --home ~/.hermes --keep 7",
    )
    backup.add_argument(
        "files", nargs="*", metavar="FILE", help="databases (default: all of the Hermes home)"
    )
    backup.add_argument("--home", metavar="DIR", help="every database of this Hermes home")
    backup.add_argument(
        "--keep", type=int, default=3, metavar="N", help="good backups to keep per database (default 3)"
    )
    _backups(backup)
    _json(backup)

    accept.add_arguments(
        _command(
            commands,
            "accept",
            accept.run,
            "say that what the last backup held is gone on purpose",
            "A database that began anew is reported until its history is put back (`db heal`) or the loss is accepted "
            "here. Until then its last good backup is kept and no newer one is taken.",
            "hermes-watchdog db accept ~/.hermes/state.db",
        )
    )


def _command(
    commands: Any,
    name: str,
    function: Callable[[argparse.Namespace], int],
    short: str,
    long: str,
    example: str,
) -> argparse.ArgumentParser:
    import textwrap

    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=short,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(long, 100),
        epilog=f"examples:\n  {example}",
    )
    parser.set_defaults(run=lambda args: guarded(function, args))
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="for scripts: JSON on standard output and nothing else"
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


def guarded(function: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a command; what we refuse is exit 1 with the reason, what we did not foresee is exit 3 with a
    traceback.
    """
    from watchdog.errors import WatchdogError

    try:
        return function(args)
    except WatchdogError as error:
        if getattr(args, "json", False):
            print(json.dumps({"error": str(error)}))
        print(str(error), file=sys.stderr)
        return WRONG
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except Exception:
        import traceback

        traceback.print_exc()
        return OURS


def run(args: argparse.Namespace) -> int:
    """The command that was asked for."""
    return int(args.run(args))


def run_check(args: argparse.Namespace) -> int:
    from watchdog.cli import db_report
    from watchdog.cli.progress import Progress
    from watchdog.sqlite import openers as holders
    from watchdog.sqlite.inspect import look

    files = _files(args)
    if files is None:
        return USAGE
    reference = _reference(args, files)
    taken = holders.scan(frozenset(os.path.basename(os.path.realpath(file)) for file in files))
    with Progress(alarm=True) as progress:
        verdicts = []
        for file in files:
            progress(f"looking at {file}")
            verdicts.append(look(file, deep=args.deep, known=_known(file), reference=reference, taken=taken))
    if args.json:
        print(json.dumps([db_report.check_as_json(verdict) for verdict in verdicts], indent=1))
    else:
        db_report.print_check(verdicts, args.deep)
    return WELL if all(verdict.grade == "well" for verdict in verdicts) else WRONG


def run_heal(args: argparse.Namespace) -> int:
    from pathlib import Path

    from watchdog.cli import db_report
    from watchdog.cli.progress import Progress
    from watchdog.sqlite.heal import heal

    if (
        not args.yes
        and not args.dry_run
        and not _asked(f"heal {db_report.shown(args.file)} on a copy and swap it in?")
    ):
        print("not healed: say --yes, or look first with --dry-run", file=sys.stderr)
        return WRONG
    with Progress() as progress:
        report = heal(
            args.file,
            backups=Path(args.backups) if args.backups else next(iter(accept.find_backups(args.file)), None),
            dry_run=args.dry_run,
            progress=progress,
            reference=_reference(args, [args.file]),
        )
    if args.json:
        print(json.dumps(db_report.heal_as_json(report), indent=1))
    else:
        db_report.print_heal(report)
    return WELL if report.ok else WRONG


def run_undo(args: argparse.Namespace) -> int:
    from watchdog.sqlite.heal import undo

    report = undo(args.file)
    if args.json:
        print(
            json.dumps(
                {
                    "path": report.path,
                    "ok": report.ok,
                    "says": list(report.says),
                    "quarantine": report.quarantine,
                }
            )
        )
    else:
        print("\n".join(report.says))
    return WELL if report.ok else WRONG


def run_migrate(args: argparse.Namespace) -> int:
    from dataclasses import asdict
    from pathlib import Path

    from watchdog.errors import WatchdogError
    from watchdog.sqlite import schema as known
    from watchdog.sqlite.heal import migrate

    reference = _reference(args, [args.file])
    if reference is None:
        reference = known.releases()[-1]
        if not args.dry_run:
            raise WatchdogError(
                f"{args.file}: no Hermes was found here, so which columns it wants is not known; give "
                f"--hermes with its Python or a release, such as --hermes {reference.name.split()[1][:-1]}"
            )
    report = migrate(
        args.file,
        reference=reference,
        dry_run=args.dry_run,
        backups=Path(args.backups) if args.backups else None,
    )
    if args.json:
        print(json.dumps({**asdict(report), "ok": report.ok}, indent=1))
    else:
        print(f"compared with {report.reference}")
        for word, names in (
            ("would add" if args.dry_run else "added", report.added),
            ("was there", report.there),
            ("index", report.indexes),
            ("cannot add", report.cannot),
        ):
            for name in names:
                print(f"  {word} {name}")
        for text in (*report.says, *([f"backup: {report.backup}"] if report.backup else [])):
            print(f"  {text}")
    return WELL if report.ok else WRONG


def run_backup(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from watchdog.cli.progress import Progress
    from watchdog.sqlite.backup import snapshot

    files = _files(args)
    if files is None:
        return USAGE
    if args.backups and len(files) > 1:
        print("--backups is the folder of one database; give one FILE", file=sys.stderr)
        return USAGE
    with Progress() as progress:
        reports = []
        for file in files:
            progress(f"backing up {file}")
            reports.append(snapshot(file, args.backups, keep=args.keep))
    if args.json:
        print(json.dumps([asdict(report) for report in reports], indent=1))
    else:
        for report in reports:
            print(report.says + (f"\n    {report.file}" if report.file else ""))
    return WELL if all(report.ok for report in reports) else WRONG


# --- shared
# ----------------------------------------------------------------------------------------------------------


def _files(args: argparse.Namespace) -> list[str] | None:
    from pathlib import Path

    from watchdog.sqlite.inspect import databases

    files = list(args.files)
    if args.home or not files:
        from watchdog.cli.context import job_of, need_home

        home = Path(args.home) if args.home else job_of(args).home
        if not args.home and not os.path.lexists(home):
            print(
                f"which database? give FILE, or --home DIR for all of a Hermes home ({home} is not there)",
                file=sys.stderr,
            )
            return None
        need_home(home)
        found = [str(path) for path in databases(home)]
        if not found and not files:
            print(f"{home}: no database here; is this the Hermes home?", file=sys.stderr)
            return None
        files += found
    return files


def _known(file: str) -> Any:
    """What the last good backup beside the file held.

    Without one, what takes and checks backups is not even loaded.
    """
    if not os.path.isdir(os.path.realpath(file) + ".backups"):
        return None
    from watchdog.sqlite.backup import known

    return known(file)


def _reference(args: argparse.Namespace, files: list[str]) -> Any:
    from pathlib import Path

    from watchdog.errors import WatchdogError
    from watchdog.sqlite import installed
    from watchdog.sqlite.schema import release

    if args.hermes:
        found = release(args.hermes) or installed.installed(python=args.hermes)
        if found is None:
            raise WatchdogError(
                f"--hermes {args.hermes}: neither a known release nor a Python that can import Hermes"
            )
        return found
    home = Path(getattr(args, "home", None) or os.path.dirname(os.path.realpath(files[0])))
    return installed.installed(home)


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False

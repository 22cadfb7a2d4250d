"""`db check`, and what the commands of `db` share: which databases they are about, and the schema to compare with."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog import sqlite
from watchdog.cli import db_report
from watchdog.cli.db import USAGE, WELL, WRONG
from watchdog.cli.main import module
from watchdog.errors import WatchdogError
from watchdog.sqlite import openers
from watchdog.sqlite.files import databases
from watchdog.sqlite.inspect import look
from watchdog.sqlite.installed import installed
from watchdog.sqlite.schema import release
from watchdog.system.progress import Progress

if TYPE_CHECKING:
    from watchdog.sqlite.schema import Reference


def run_check(args: argparse.Namespace) -> int:
    files = files_of(args)
    if files is None:
        return USAGE
    reference = reference_of(args, files)
    taken = openers.scan(frozenset(os.path.basename(os.path.realpath(file)) for file in files))
    with Progress(alarm=True) as progress:
        verdicts = []
        for file in files:
            progress(f"looking at {file}")
            verdicts.append(look(file, deep=args.deep, known=_known(file), reference=reference, taken=taken))
    if args.json:
        print(json.dumps([db_report.check_as_json(verdict) for verdict in verdicts], indent=1))
    else:
        db_report.print_check(verdicts, args.deep, db_report.reader_of_db(args))
    return WELL if all(verdict.grade == "well" for verdict in verdicts) else WRONG


def files_of(args: argparse.Namespace) -> list[str] | None:
    """The databases that the arguments name; None when there are none, which is said."""
    files = list(args.files)
    if args.home or not files:
        context = module("context")  # knows homes and settings, which a look at one file does without
        home = Path(args.home) if args.home else context.job_of(args).home
        if not args.home and not os.path.lexists(home):
            print(db_report.reader_of_db(args)("db.which", home=home), file=sys.stderr)
            return None
        context.need_home(home)
        found = [str(path) for path in databases(home)]
        if not found and not files:
            print(db_report.reader_of_db(args)("db.none-here", home=home), file=sys.stderr)
            return None
        files += found
    return files


def _known(file: str) -> Any:
    """What the last good backup beside the file held; without one, no code of backups is loaded."""
    if not os.path.isdir(os.path.realpath(file) + ".backups"):
        return None
    return sqlite.known(file)


def reference_of(args: argparse.Namespace, files: list[str]) -> Reference | None:
    """The schema to compare with: the one that --hermes names, else that of the Hermes installed here; None without one."""
    if args.hermes:
        found = release(args.hermes) or installed(python=args.hermes)
        if found is None:
            raise WatchdogError(db_report.reader_of_db(args)("db.not-hermes", given=args.hermes))
        return found
    home = Path(getattr(args, "home", None) or os.path.dirname(os.path.realpath(files[0])))
    return installed(home)

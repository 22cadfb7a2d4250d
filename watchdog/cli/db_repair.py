"""`db heal`, `db undo` and `db migrate`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from watchdog.cli import db_report
from watchdog.cli.db import WELL, WRONG
from watchdog.cli.db_backup import find_backups
from watchdog.cli.db_check import reference_of
from watchdog.errors import WatchdogError
from watchdog.sqlite.heal import heal, migrate, undo
from watchdog.sqlite.schema import releases
from watchdog.system.progress import Progress


def run_heal(args: argparse.Namespace) -> int:
    reader = db_report.reader_of_db(args)
    question = reader("db.ask", path=db_report.shown(args.file))
    if not args.yes and not args.dry_run and not _asked(reader("answering.y-n", question=question)):
        print(reader("db.not-healed"), file=sys.stderr)
        return WRONG
    with Progress() as progress:
        report = heal(
            args.file,
            backups=Path(args.backups) if args.backups else next(iter(find_backups(args.file)), None),
            dry_run=args.dry_run,
            progress=progress,
            reference=reference_of(args, [args.file]),
        )
    if args.json:
        print(json.dumps(db_report.heal_as_json(report), indent=1))
    else:
        db_report.print_heal(report, reader)
    return WELL if report.ok else WRONG


def run_undo(args: argparse.Namespace) -> int:
    with Progress() as progress:
        progress(f"putting back {args.file}")
        report = undo(args.file)
    if args.json:
        print(json.dumps(asdict(report)))
    else:
        print("\n".join(map(db_report.reader_of_db(args).phrase, report.says)))
    return WELL if report.ok else WRONG


def run_migrate(args: argparse.Namespace) -> int:
    reference = reference_of(args, [args.file])
    if reference is None:
        reference = releases()[-1]
        if not args.dry_run:
            release = reference.name.split()[1][:-1]
            reader = db_report.reader_of_db(args)
            raise WatchdogError(reader("db.no-hermes", path=db_report.shown(args.file), release=release))
    backups = Path(args.backups) if args.backups else None
    with Progress() as progress:
        progress(f"adding columns to {args.file}")
        report = migrate(args.file, reference=reference, dry_run=args.dry_run, backups=backups)
    if args.json:
        print(json.dumps({**asdict(report), "ok": report.ok}, indent=1))
    else:
        reader = db_report.reader_of_db(args)
        print(reader("db.compared", reference=report.reference))
        for word, names in (
            ("would-add" if args.dry_run else "added", report.added),
            ("was-there", report.there),
            ("index", report.indexes),
            ("cannot-add", report.cannot),
        ):
            for name in names:
                print("  " + reader(f"db.{word}", name=reader.phrase(name)))
        for text in report.says:
            print(f"  {reader.phrase(text)}")
        if report.backup:
            print("  " + reader("db.backup", path=report.backup))
    return WELL if report.ok else WRONG


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input(question).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False

"""`db backup`, and `db accept`: what the last backup of a database held is gone, and that is meant."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watchdog.cli.db import USAGE, WELL, WRONG
from watchdog.cli.db_check import files_of
from watchdog.cli.db_report import reader_of_db
from watchdog.job import find_state
from watchdog.sqlite.backup import Pace, accept, snapshot
from watchdog.sqlite.files import backup_folder
from watchdog.system.progress import Progress

ABOVE = 4  # folders from a board's kanban.db up to the Hermes home


def run_backup(args: argparse.Namespace) -> int:
    files = files_of(args)
    if files is None:
        return USAGE
    if args.backups and len(files) > 1:
        print(reader_of_db(args)("db.one-file"), file=sys.stderr)
        return USAGE
    with Progress() as progress:
        pace = Pace(tick=progress)
        reports = [snapshot(file, args.backups, keep=args.keep, pace=pace) for file in files]
    if args.json:
        print(json.dumps([asdict(report) for report in reports], indent=1))
    else:
        reader = reader_of_db(args)
        for report in reports:
            print(reader.phrase(report.says) + (f"\n    {report.file}" if report.file else ""))
    return WELL if all(report.ok for report in reports) else WRONG


def find_backups(path: str | os.PathLike) -> list[Path]:
    """Folders that hold backups of a database: beside it, and the watchdog's own."""
    real = Path(os.path.realpath(path))
    places = [
        Path(f"{real}.backups"),
        *(Path(backup_folder(find_state(home), real)) for home in real.parents[:ABOVE]),
    ]
    return [
        place for place in dict.fromkeys(places) if os.path.isdir(place)
    ]  # False also where we may not look


def run_accept(args: argparse.Namespace) -> int:
    """Accept in each folder; exit 0, also when there was nothing to accept."""
    now = datetime.now(UTC)
    places = [Path(args.backups)] if args.backups else find_backups(args.file)
    accepted: list[dict[str, Any]] = [
        {"folder": str(place), "at": before["at"], "rows": sum((before["rows"] or {}).values())}
        for place in places
        if (before := accept(args.file, now, place))
    ]
    if args.json:
        print(json.dumps({"path": args.file, "accepted": accepted}))
        return 0
    reader = reader_of_db(args)
    for entry in accepted:
        rows = reader("db.rows", count=entry["rows"], number=f"{entry['rows']:,}")
        print(reader("db.accepted", path=args.file, rows=rows, at=entry["at"]))
        print(reader("db.backups-stay", path=entry["folder"]))
    if not accepted:
        print(reader("db.nothing-missed", path=args.file))
    return 0

"""`hermes-watchdog db accept`: what the last backup of a database held is gone, and that is meant."""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ABOVE = 4  # folders from a board's kanban.db up to the Hermes home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--backups", metavar="DIR", help="where its backups are (default: found by themselves)"
    )
    parser.add_argument(
        "--json", action="store_true", help="for scripts: JSON on standard output and nothing else"
    )


def find_backups(path: str | os.PathLike) -> list[Path]:
    """Folders that hold backups of a database: beside it, and the watchdog's own."""
    from watchdog.job import find_state  # help loads no database code
    from watchdog.sqlite.daily_backup import folder

    real = Path(os.path.realpath(path))
    places = [Path(f"{real}.backups"), *(folder(find_state(home), real) for home in real.parents[:ABOVE])]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def run(args: argparse.Namespace) -> int:
    """Accept in each folder; exit 0, also when there was nothing to accept."""
    from watchdog.sqlite.backup import accept

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
    for entry in accepted:
        print(f"Accepted: {args.file} need not hold the {entry['rows']} rows of its backup of {entry['at']}.")
        print(f"The backups stay in {entry['folder']} until newer ones take their place.")
    if not accepted:
        print(f"There is no backup of {args.file} that could be missed.")
    return 0

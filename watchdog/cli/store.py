"""store: the watchdog's own memory: check it, start it anew when it is damaged, export it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from watchdog.cli.context import WELL, WRONG, command_of, job_of, need_known, print_json
from watchdog.cli.parser import add_command, add_common
from watchdog.service import memory
from watchdog.text import harmless

EXAMPLES = """\
The store holds incidents, plans, approvals, the audit and what was sent. It is one SQLite file.

examples:
  hermes-watchdog store check             is it readable, whole, and of this version?
  hermes-watchdog store repair            set a damaged one aside and start anew, disarmed; a whole one stays as it is
  hermes-watchdog store export            every row as JSON lines, as sqlite-utils would print them

exit codes: 0 it is whole · 1 it is damaged, or was and has been replaced"""

PARTS = {
    "check": ("is the store readable, whole, and of this version?", "hermes-watchdog store check"),
    "repair": (
        "set a damaged store aside and start anew, disarmed; a whole one stays as it is",
        "hermes-watchdog store repair\n  hermes-watchdog store repair --dry-run",
    ),
    "export": ("every row of every table as JSON lines", "hermes-watchdog store export > store.jsonl"),
}


def add_arguments(commands: Any) -> None:
    store = add_command(commands, "store", None, EXAMPLES)
    parts = store.add_subparsers(dest="part", metavar="check|repair|export", required=True)
    run = {"check": run_check, "repair": run_repair, "export": run_export}
    for name, (about, example) in PARTS.items():
        made = parts.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            epilog=f"examples:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run[name])
        if name == "repair":
            made.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
        add_common(made, json=name != "export")


def run_check(args: argparse.Namespace) -> int:
    job = job_of(args)
    need_known(job)
    health = memory.check(job.store_path)
    if args.json:
        print_json({"store": str(job.store_path), "there": health.there, "well": health.well, "problems": list(health.problems), "rows": health.rows})  # fmt: skip
        return WELL if health.well else WRONG
    if not health.there and health.well:
        print(f"{job.store_path} is not there yet; the first check makes it.")
        return WELL
    for problem in health.problems:
        print(f"{'damaged' if health.there and not health.foreign else 'unusable'}  {harmless(problem, 500)}")
    if health.well:
        total = sum(health.rows.values())
        print(f"well  {job.store_path}: {total:,} rows in {len(health.rows)} tables")
    elif health.there and not health.foreign:
        command = command_of(job)
        print(f"next: {command} store export > store.jsonl (what can be read), then: {command} store repair")
    return WELL if health.well else WRONG


def run_repair(args: argparse.Namespace) -> int:
    job = job_of(args)
    need_known(job)
    result = memory.repair(job, args.dry_run)
    if args.json:
        print_json({"store": str(job.store_path), "repaired": result.repaired, "set_aside": str(result.aside) if result.aside else None, "problems": list(result.problems)})  # fmt: skip
    elif not result.problems:
        print(f"{job.store_path} is well; nothing was changed.")
    elif args.dry_run:
        aside = "" if result.gone else f"set {job.store_path} aside and "
        print(f"would {aside}start anew, disarmed: {'; '.join(result.problems)}")
    else:
        if result.aside:
            print(f"the damaged store is kept as {result.aside}")
        print(
            f"a new one was started. It is disarmed: watches and notifies only; re-arm with: {command_of(job)} arm"
        )
        if result.aside:
            print(
                f"silences, open questions and the audit of the past are in the old file: {command_of(job)} store export shows what can be read of the new one"
            )
    return WRONG if result.problems else WELL


def run_export(args: argparse.Namespace) -> int:
    job = job_of(args)
    memory.need_file(job)
    problems: list[str] = []
    for table, row in memory.export(job.store_path, problems):
        print(json.dumps({"table": table, **row}, ensure_ascii=False, default=str))
    for problem in problems:
        print(f"hermes-watchdog: {harmless(problem, 500)}", file=sys.stderr)
    return WRONG if problems else WELL

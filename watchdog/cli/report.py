"""report: what happened over days."""

from __future__ import annotations

import argparse
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchdog.cli.context import WELL, Job, job_of, need_known
from watchdog.cli.parser import a_duration, add_command, add_common, add_language
from watchdog.cli.status import jobs_of
from watchdog.errors import WatchdogError
from watchdog.reports import history, history_text
from watchdog.reports.language import reader_for
from watchdog.reports.output import write_private
from watchdog.reports.page import report_page
from watchdog.text import counted

EXAMPLES = """\
Incidents over time, how soon they were noticed and resolved, what was done, and what was not seen and why.
The HTML is one file with a timeline, readable on a phone; no script, no network requests. A file is readable by you alone.

examples:
  hermes-watchdog report
  hermes-watchdog report --since 30d --format markdown
  hermes-watchdog report --format html --output week.html
  hermes-watchdog report --language zh
  hermes-watchdog report --all-profiles"""


def add_arguments(commands: Any) -> None:
    report = add_command(commands, "report", run, EXAMPLES)
    report.add_argument(
        "--format",
        choices=("text", "markdown", "html", "json"),
        default="text",
        help="text (default), markdown, html or json",
    )
    report.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )
    report.add_argument(
        "--since", type=a_duration, default=timedelta(days=7), metavar="7d", help="how far back (default 7d)"
    )
    report.add_argument("--output", metavar="FILE", help="write it there instead of printing it")
    report.add_argument("--all-profiles", action="store_true", help="for this home and each of its profiles")
    add_language(report)
    add_common(report, json=False)


def run(args: argparse.Namespace) -> int:
    start = job_of(args).now - args.since
    jobs = jobs_of(args)
    if args.format == "html" and len(jobs) > 1:
        raise WatchdogError("--format html is about one home; give --home DIR instead of --all-profiles")
    for job in jobs:
        need_known(job)
    pasts = [_gather(job, args.since) for job in jobs]
    text = _made(pasts, jobs, args)
    if args.output in (None, "-"):
        print(text)
        return WELL
    write_private(Path(args.output), text)
    total = counted(sum(len(past.incidents) for past in pasts), "incident|incidents")
    print(f"{args.output}: {total} since {start.astimezone():%Y-%m-%d}")
    return WELL


def _gather(job: Job, since: timedelta) -> history.Past:
    return history.gather(job.look_at_store(), str(job.home), job.now - since, job.now)


def _made(pasts: list[history.Past], jobs: list[Job], args: argparse.Namespace) -> str:
    """The report in the wanted form."""
    reader = reader_for(jobs[0], args.language)
    if args.format == "json":
        values = [history.as_json(past) for past in pasts]
        return json.dumps(values if args.all_profiles else values[0], indent=2, ensure_ascii=False)
    if args.format == "html":
        return report_page(pasts[0], reader)
    shown = history_text.as_markdown if args.format == "markdown" else history_text.as_text
    return "\n\n".join(shown(past, reader) for past in pasts)

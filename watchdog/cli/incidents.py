"""What happened over time: incidents, incident, report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from watchdog.cli.command import PROFILES, a_duration, choice, command, flag, number_of, option
from watchdog.cli.context import WELL, WRONG, job_of, jobs_of, need_known, show
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.model import Incident
from watchdog.reports import history, history_text
from watchdog.reports.check import INDENT, incident_json, incident_lines
from watchdog.reports.language import Reader, reader_for
from watchdog.reports.output import write_private
from watchdog.reports.page import report_page
from watchdog.store.incidents import all_incidents, one_incident
from watchdog.text import clock, counted, harmless

FORMS = ("text", "markdown", "html", "json")


@command(
    "incidents",
    flag("--open", "only those that are not resolved"),
    option("--since", "7d", "only those that were open in this time", type=a_duration),
)
def run_list(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog incidents                    what is open, then what is resolved
      hermes-watchdog incidents --open
      hermes-watchdog incidents --since 7d --json

    exit codes: 0 nothing is open · 1 something is
    """
    job = job_of(args)
    need_known(job)
    store = job.look_at_store()
    found = all_incidents(store, job.now - args.since if args.since else None, args.open)
    show(
        args,
        [incident_json(incident) for incident in found],
        lambda: _lines(found, store is not None, reader_for(job, args.language)),
    )
    return WRONG if any(incident.status == "open" for incident in found) else WELL


def _lines(found: Sequence[Incident], looked: bool, reader: Reader) -> Iterator[str]:
    for incident in sorted(found, key=lambda incident: (incident.status == "resolved", incident.opened_at)):
        end = f" – {clock(incident.resolved_at)}" if incident.resolved_at else ""
        state = reader(f"check.incident-status.{incident.status}")
        mark = reader.paint(state, incident.severity if incident.status != "resolved" else "good")
        times = f"{clock(incident.opened_at)}{end}"
        yield f"{incident.id:>4}  {mark}  {times}  {incident.rule}: {reader.says(incident)}"
    if not found:
        yield reader("check.no-incidents" if looked else "check.no-check")


@command(
    "incident",
    option("id", "INCIDENT", "its number in 'hermes-watchdog incidents'", type=number_of("an incident")),
)
def run_show(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog incident 7
      hermes-watchdog incident 7 --json

    exit codes: 0 it is resolved · 1 it is open
    """
    job = job_of(args)
    incident = one_incident(job.look_at_store(), args.id)
    if incident is None:
        raise WatchdogError(f"there is no incident {args.id}; see: {{watchdog}} incidents")
    show(args, incident_json(incident), lambda: _full_lines(incident, reader_for(job, args.language)))
    return WRONG if incident.status == "open" else WELL


def _full_lines(incident: Incident, reader: Reader) -> Iterator[str]:
    yield from incident_lines(incident, reader)
    state = reader(f"check.incident-status.{incident.status}")
    checks = reader("report.checks", count=incident.times_seen)
    yield INDENT + reader("check.incident", status=state, checks=checks, at=clock(incident.last_seen_at))
    for event in incident.evidence:
        yield f"{INDENT}{clock(event.at)}  {harmless(event.where)}  {reader.evidence(event, 300)}"


@command(
    "report",
    choice("--format", FORMS, "text (default), markdown, html or json", default="text"),
    flag("--json", "the same as --format json", dest="format", action="store_const", const="json"),
    option("--since", "7d", "how far back (default 7d)", type=a_duration, default=timedelta(days=7)),
    option("--output", "FILE", "write it there instead of printing it"),
    PROFILES,
    json=False,
)
def run_report(args: argparse.Namespace) -> int:
    """
    Incidents over time, how soon they were noticed and resolved, what was done, and what was not seen and why.
    The HTML is one file with a timeline, readable on a phone; no script, no network requests. A file is readable by you alone.

    examples:
      hermes-watchdog report
      hermes-watchdog report --since 30d --format markdown
      hermes-watchdog report --format html --output week.html
      hermes-watchdog report --language zh
      hermes-watchdog report --all-profiles
    """
    jobs = list(jobs_of(args))
    if args.format == "html" and len(jobs) > 1:
        raise WatchdogError("--format html is about one home; give --home DIR instead of --all-profiles")
    for job in jobs:
        need_known(job)
    pasts = [history.gather(job.look_at_store(), job.home_dir, job.now - args.since, job.now) for job in jobs]
    text = _made(pasts, jobs, args)
    if args.output in (None, "-"):
        print(text)
        return WELL
    write_private(Path(args.output), text)
    total = counted(sum(len(past.incidents) for past in pasts), "incident|incidents")
    print(f"{args.output}: {total} since {pasts[0].start.astimezone():%Y-%m-%d}")
    return WELL


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

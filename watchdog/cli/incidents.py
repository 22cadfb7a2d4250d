"""incidents and incident: what was found over time."""

from __future__ import annotations

import argparse
from typing import Any

from watchdog.cli.context import WELL, WRONG, colours, command_of, job_of, need_known, paint, print_json
from watchdog.cli.parser import a_duration, add_command, add_common, add_language, an_incident
from watchdog.errors import WatchdogError
from watchdog.reports.check import incident_json, incident_lines
from watchdog.reports.language import reader_for
from watchdog.store.incidents import all_incidents, one_incident
from watchdog.text import clock, harmless, redact

INCIDENTS = """\
examples:
  hermes-watchdog incidents                    what is open, then what is resolved
  hermes-watchdog incidents --open
  hermes-watchdog incidents --since 7d --json

exit codes: 0 nothing is open · 1 something is"""
INCIDENT = """\
examples:
  hermes-watchdog incident 7
  hermes-watchdog incident 7 --json

exit codes: 0 it is resolved · 1 it is open"""


def add_arguments(commands: Any) -> None:
    listing = add_command(commands, "incidents", run_list, INCIDENTS)
    listing.add_argument("--open", action="store_true", help="only those that are not resolved")
    listing.add_argument(
        "--since", type=a_duration, metavar="7d", help="only those that were open in this time"
    )
    add_language(listing)
    add_common(listing)
    showing = add_command(commands, "incident", run_show, INCIDENT)
    showing.add_argument(
        "id", type=an_incident, metavar="INCIDENT", help="its number in 'hermes-watchdog incidents'"
    )
    add_language(showing)
    add_common(showing)


def run_list(args: argparse.Namespace) -> int:
    job = job_of(args)
    need_known(job)
    found = all_incidents(job.look_at_store(), job.now - args.since if args.since else None, args.open)
    if args.json:
        print_json([incident_json(incident) for incident in found])
        return WRONG if any(incident.status == "open" for incident in found) else WELL
    on, reader = colours(), reader_for(job, args.language)
    for incident in sorted(found, key=lambda incident: (incident.status == "resolved", incident.opened_at)):
        end = f" – {clock(incident.resolved_at)}" if incident.resolved_at else ""
        state = reader(f"check.incident-status.{incident.status}")
        mark = paint(state, incident.severity if incident.status != "resolved" else "good", on)
        times = f"{clock(incident.opened_at)}{end}"
        print(f"{incident.id:>4}  {mark}  {times}  {incident.rule}: {reader.says(incident)}")
    if not found:
        print(reader("check.no-incidents" if job.store_path.exists() else "check.no-check"))
    return WRONG if any(incident.status == "open" for incident in found) else WELL


def run_show(args: argparse.Namespace) -> int:
    job = job_of(args)
    incident = one_incident(job.look_at_store(), args.id)
    if incident is None:
        raise WatchdogError(f"there is no incident {args.id}; see: {command_of(job)} incidents")
    if args.json:
        print_json(incident_json(incident))
    else:
        reader = reader_for(job, args.language)
        print("\n".join(incident_lines(incident, reader, colours())))
        state = reader(f"check.incident-status.{incident.status}")
        checks = reader("report.checks", count=incident.times_seen)
        print(
            "      " + reader("check.incident", status=state, checks=checks, at=clock(incident.last_seen_at))
        )
        for event in incident.evidence:
            print(f"      {clock(event.at)}  {harmless(event.where)}  {redact(harmless(event.text))}")
    return WRONG if incident.status == "open" else WELL

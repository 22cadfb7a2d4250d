"""incidents and incident: what was found over time."""

from __future__ import annotations

import argparse
from typing import Any

from watchdog.cli.common import WELL, WRONG, a_duration, add_common, colours, context, paint, print_json


def add_arguments(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    many = commands.add_parser("incidents", help="what was found over time", formatter_class=raw,
                               description="The incidents that checks have recorded; open ones first.",
                               epilog="examples:\n  hermes-watchdog incidents\n  hermes-watchdog incidents --since 7d --json\n")
    many.add_argument("--open", action="store_true", help="only those that are not over")
    many.add_argument("--since", type=a_duration, metavar="7d", help="only those that were open in this time")
    add_common(many)
    many.set_defaults(run=run_many)
    one = commands.add_parser("incident", help="one incident, with its evidence", formatter_class=raw,
                              description="One incident with its evidence.", epilog="example:\n  hermes-watchdog incident 7\n")
    one.add_argument("id", type=int, metavar="ID", help="its number in 'hermes-watchdog incidents'")
    add_common(one)
    one.set_defaults(run=run_one)


def run_many(args: argparse.Namespace) -> int:
    from watchdog.report import incident_json
    from watchdog.store.incidents import all_incidents
    from watchdog.text import clock, redact

    ctx = context(args)
    since = ctx.now - args.since if args.since else None
    found = all_incidents(ctx.look_at_store(), since, args.open)
    if args.json:
        print_json([incident_json(incident) for incident in found])
    else:
        on = colours()
        for incident in sorted(found, key=lambda one: (one.status == "resolved", one.opened_at)):
            until = f" to {clock(incident.resolved_at)}" if incident.resolved_at else ""
            mark = paint(incident.status, incident.severity if incident.status != "resolved" else "good", on)
            print(f"{incident.id:>4}  {mark}  {clock(incident.opened_at)}{until}  {incident.rule}: {redact(incident.says)}")
        if not found:
            print("No incidents are recorded." if ctx.store_path.exists() else
                  "No check has been recorded yet; run 'hermes-watchdog check'.")
    return WRONG if any(incident.status == "open" for incident in found) else WELL


def run_one(args: argparse.Namespace) -> int:
    from watchdog.errors import WatchdogError
    from watchdog.report import incident_json, incident_lines
    from watchdog.store.incidents import one_incident
    from watchdog.text import clock, harmless, redact

    ctx = context(args)
    incident = one_incident(ctx.look_at_store(), args.id)
    if incident is None:
        raise WatchdogError(f"there is no incident {args.id}; 'hermes-watchdog incidents' lists them")
    if args.json:
        print_json(incident_json(incident))
    else:
        print("\n".join(incident_lines(incident, ctx.now, colours())))
        print(f"      {incident.status}, seen in {incident.times_seen} checks, last {clock(incident.last_seen_at)}")
        for event in incident.evidence:
            print(f"      {clock(event.at)}  {harmless(event.where)}  {redact(harmless(event.text))}")
    return WRONG if incident.status == "open" else WELL

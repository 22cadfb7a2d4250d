"""check and replay."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta

from watchdog import reports, service
from watchdog.cli.command import a_duration, a_time, command, flag, gateway_state, option
from watchdog.cli.context import WELL, WRONG, in_zone, job_of, jobs_of, need_hermes, need_home, print_json
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.model import Incident, Report
from watchdog.pipeline import dry_run, replay
from watchdog.service.check import check_once
from watchdog.sources.read import log_span
from watchdog.store.recovery import marker_path
from watchdog.text import iso
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

ITS_STATE = "what the gateway's process was at the end (default: running, unless the logs show a stop)"


@command(
    "check",
    flag("--dry-run", "write nothing anywhere, not even the watchdog's own memory"),
    option("--now", "TIME", "pretend that it is this time (dry run only)", type=a_time),
    flag("--all-profiles", "this home and each of its profiles, one after the other"),
    flag("--quiet", "print only what is new: nothing when nothing changed"),
)
def run_check(args: argparse.Namespace) -> int:
    """
    Reads the logs, files and databases since the last check, evaluates the rules, and says what is wrong and what would help.

    examples:
      hermes-watchdog check --dry-run                 look and decide, write nothing anywhere
      hermes-watchdog check --dry-run --now '2026-05-19 10:41:00'
      hermes-watchdog check --quiet                   for cron: prints only when something changed
      hermes-watchdog check --all-profiles            this home and each of its profiles

    exit codes: 0 well · 1 something is wrong · 2 bad configuration or arguments · 3 watchdog failed
    """
    if args.now and not args.dry_run:
        raise WatchdogError("--now goes with --dry-run: a check that acts uses the real time")
    found = [_check_home(args, job) for job in jobs_of(args)]
    if args.json:
        shown = [reports.as_json(report) for report in found]
        print_json(shown if args.all_profiles else shown[0])
    return WRONG if any(report.cut_off or _open(report.incidents) for report in found) else WELL


def _check_home(args: argparse.Namespace, job: Job) -> Report:
    now = in_zone(args.now, job) if args.now else job.now
    _need_home(job, args.dry_run)
    if args.dry_run:
        report = dry_run(job.run(job.look_at_store(), now))
    else:
        report = check_once(job, now)
    if not args.json and (not args.quiet or report.has_news):
        print(reports.as_text(report, reports.reader_for(job, args.language), args.dry_run))
    return report


def _need_home(job: Job, dry_run: bool) -> None:
    """WatchdogError for a home that cannot be read; people hear of it when it could be read before."""
    try:
        need_hermes(job)
    except WatchdogError as error:
        if not dry_run and os.path.exists(marker_path(job.store_file)):
            service.tell_failure(job, error, job.now)
        raise


def _open(incidents: Iterable[Incident]) -> bool:
    return any(incident.status == "open" for incident in incidents)


@command(
    "replay",
    option("dir", "DIR", "a Hermes home or a folder of saved logs"),
    option(
        "--every", "1m", "the pace of the checks (default 1m)", type=a_duration, default=timedelta(minutes=1)
    ),
    option("--until", "TIME", "stop there (default: the last line)", type=a_time),
    gateway_state(ITS_STATE, default="running"),
)
def run_replay(args: argparse.Namespace) -> int:
    """
    DIR is a Hermes home, or a folder with gateway.log, agent.log, journal.jsonl and databases in it.
    Old logs do not say whether the gateway's process was alive: it counts as running until the logs show a stop, unless
    --gateway says otherwise.

    examples:
      hermes-watchdog replay ~/.hermes
      hermes-watchdog replay saved-logs --every 15m --until '2026-05-19 18:00:00'
      hermes-watchdog replay saved-logs --gateway dead --json
    """
    need_home(args.dir, "give a Hermes home or a folder with gateway.log in it")
    args.home = args.dir
    job = job_of(args)
    sources = job.sources(stated=args.gateway)
    first, last = log_span(sources)
    if first is None or last is None:
        raise WatchdogError(
            f"{sources.logs} has no gateway.log or agent.log with a readable record; nothing to replay"
        )
    until = in_zone(args.until, job) if args.until else last
    report = replay(job.run(None, until, stated=args.gateway), first)
    if args.json:
        value = reports.as_json(report)
        for incident, at in zip(value["incidents"], reports.noticed(report, args.every), strict=True):
            incident["noticed_at"] = iso(at)
        print_json(value)
    else:
        print(reports.as_replay(report, args.every, reports.reader_for(job, args.language)))
    return WRONG if _open(report.incidents) else WELL

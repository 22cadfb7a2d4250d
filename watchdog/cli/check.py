"""check and replay."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta

from watchdog.cli.common import WELL, WRONG, Context, a_duration, a_time, add_common, colours, context, in_zone, print_json
from watchdog.model import EVERY_CHECK, Report
from watchdog.paths import Path
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    import argparse

CHECK = """\
examples:
  hermes-watchdog check --dry-run                 look, decide, write nothing anywhere
  hermes-watchdog check --dry-run --now '2026-05-19 10:41:00'
  hermes-watchdog check --quiet                   for cron: prints only when something is wrong or changed
"""

REPLAY = """\
DIR is a Hermes home, or a folder with gateway.log, agent.log, journal.jsonl and databases in it.
What only a live machine can tell is as --gateway says; unless told, it was running until the logs show a stop.

examples:
  hermes-watchdog replay ~/.hermes
  hermes-watchdog replay saved-logs --every 15m --until '2026-05-19 18:00:00'
  hermes-watchdog replay saved-logs --gateway dead --json
"""


def add_arguments(commands: Any) -> None:
    from argparse import RawDescriptionHelpFormatter as raw

    check = commands.add_parser("check", help="one pass: what is wrong now", epilog=CHECK, formatter_class=raw,
                                description="Read the window, evaluate the rules, and say what is wrong and what would help.")
    check.add_argument("--dry-run", action="store_true", help="write nothing anywhere, not even the watchdog's own memory")
    check.add_argument("--now", type=a_time, metavar="TIME", help="pretend that it is this time (dry run only)")
    check.add_argument("--all-profiles", action="store_true", help="this home and each of its profiles, one after the other")
    check.add_argument("--quiet", action="store_true", help="print nothing when nothing is wrong and nothing changed")
    add_common(check)
    check.set_defaults(run=run_check)
    replay = commands.add_parser("replay", help="old logs in their own time", epilog=REPLAY, formatter_class=raw,
                                 description="Walk old logs in their own time and print what would have been found, when, and why.")
    replay.add_argument("dir", metavar="DIR", help="a Hermes home or a folder of saved logs")
    replay.add_argument("--every", type=a_duration, default=timedelta(minutes=1), metavar="1m", help="the pace of the checks (default 1m)")
    replay.add_argument("--until", type=a_time, metavar="TIME", help="stop there (default: the last line)")
    replay.add_argument("--gateway", choices=("running", "dead", "unknown"), default="running",
                        help="what the gateway's process was at the end (default: running, unless the logs show a stop)")
    add_common(replay)
    replay.set_defaults(run=run_replay)


def run_check(args: argparse.Namespace) -> int:
    reports = []
    for home in _homes(args):
        args.home = home
        reports.append(_one_home(args))
    if args.json:
        from watchdog.report import as_json

        print_json([as_json(report) for report in reports] if args.all_profiles else as_json(reports[0]))
    return WRONG if any(report.cut_off or _open(report) for report in reports) else WELL


def _open(report: Report) -> bool:
    return any(incident.status == "open" for incident in report.incidents)


def _homes(args: argparse.Namespace) -> list[str | None]:
    if not args.all_profiles:
        return [args.home]
    from watchdog.install import profiles

    return [str(home) for home in profiles(context(args).home)]


def _one_home(args: argparse.Namespace) -> Report:
    ctx = context(args)
    now = in_zone(args.now, ctx) if args.now else ctx.now
    if args.now and not args.dry_run:
        from watchdog.errors import WatchdogError

        raise WatchdogError("--now goes with --dry-run: a check that acts uses the real time")
    if not readable(ctx.home):
        from watchdog.cli.place import need_home

        need_home(ctx.home)
    if args.dry_run:
        from watchdog.pipeline import dry_run

        report = dry_run(ctx.book, ctx.sources(), ctx.look_at_store(), ctx.settings, ctx.state, now)
    else:
        report = run_once(ctx, now)
    if not args.json and (not args.quiet or _worth_telling(report)):
        from watchdog.report import as_text

        print(as_text(report, colours(), args.dry_run))
    return report


def run_once(ctx: Context, now: datetime) -> Report:
    """One whole check of this home, alone and within its time limit."""
    from watchdog.lock import one_at_a_time, time_limit
    from watchdog.pipeline import full_check
    from watchdog.schedule import due
    from watchdog.store.incidents import last_runs

    with one_at_a_time(ctx.state, now), ctx.store() as store:
        _ping(ctx, "start")
        try:
            with time_limit(ctx.settings.time_limit):
                # Whoever starts a check wants an answer now; only rules with a slower pace of their own wait for it.
                slower = [rule for rule in ctx.book.rules if rule.every != EVERY_CHECK]
                ready = {rule.id for rule in due(slower, last_runs(store), now, ctx.settings.zone)}
                rules = tuple(rule for rule in ctx.book.rules if rule.every == EVERY_CHECK or rule.id in ready)
                report = full_check(ctx.book, ctx.sources(), store, ctx.settings, ctx.state, now, rules)
                _keep_schemas(ctx)
        except BaseException:
            _ping(ctx, "fail")
            raise
        missed = _ping(ctx, "ok")
    return replace(report, notes=(*report.notes, missed)) if missed else report


def _keep_schemas(ctx: Context) -> None:
    judged = sys.modules.get("watchdog.sqlite.judged")  # loaded when there was a database to look at
    if judged is not None:
        judged.keep(ctx.state)


def _ping(ctx: Context, what: str) -> str:
    if ctx.settings.notify.ping is None:
        return ""  # most have none, and all that can send a message is a lot to load
    from watchdog.notify import ping

    return ping(ctx.settings.notify, what)


def _worth_telling(report: Report) -> bool:
    return bool(report.outcomes) or report.newly_blind or any(change.what != "seen" for change in report.changes)


def readable(folder: Path) -> bool:
    """Whether this is a folder that we may look into; why not, need_home says."""
    return os.access(folder, os.R_OK | os.X_OK, effective_ids=True) and folder.is_dir()


def run_replay(args: argparse.Namespace) -> int:
    from watchdog.errors import WatchdogError
    from watchdog.pipeline import replay, span_of
    from watchdog.report import as_json, timeline

    if not readable(folder := Path(args.dir)):
        if not os.path.lexists(folder):
            raise WatchdogError(f"{args.dir}: no such folder; give a Hermes home or a folder with gateway.log in it")
        from watchdog.cli.place import need_home

        need_home(folder)
    args.home = args.dir
    ctx = context(args)
    sources = ctx.sources(stated=args.gateway)
    first, last = span_of(sources)
    if first is None or last is None:
        blind = f"{sources.logs} has no gateway.log or agent.log with a readable record"
        raise WatchdogError(f"{blind}; nothing to replay")
    until = in_zone(args.until, ctx) if args.until else last
    done = replay(ctx.book, sources, first, until, args.every)
    if args.json:
        from watchdog.report import iso

        value = as_json(done.report)
        for incident, noticed in zip(value["incidents"], done.noticed, strict=True):
            incident["noticed_at"] = iso(noticed)
        print_json(value)
    else:
        print(timeline(done, colours()))
    return WRONG if any(incident.status == "open" for incident in done.incidents) else WELL

"""explain: why a rule fires or does not; what a log line means to the rules."""

from __future__ import annotations

import argparse
from typing import Any

from watchdog.cli.common import WELL, WRONG, a_time, add_common, colours, context, in_zone, paint, print_json

EPILOG = """\
examples:
  hermes-watchdog explain session-stuck                 each witness: holds or not, how far from its limit
  hermes-watchdog explain session-stuck --home ~/.hermes --now '2026-05-19 10:41:00'
  hermes-watchdog explain '2026-05-19 10:15:00,123 INFO gateway.run: response ready: platform=telegram chat=42 time=3.1s'
"""


def add_arguments(commands: Any) -> None:
    parser = commands.add_parser("explain", help="why a rule fires or does not", epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Explain a rule on a home, or one line of a log.")
    parser.add_argument("what", metavar="RULE|LINE", help="the id of a rule, or a line of a log in quotes")
    parser.add_argument("--now", type=a_time, metavar="TIME", help="as of this time (default: now)")
    parser.add_argument("--gateway", choices=("running", "dead", "unknown"), help="take the process as this, as replay does")
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    ctx = context(args)
    rule = ctx.book.rule(args.what)
    if rule is not None:
        return explain_rule(args, ctx, rule)
    if " " not in args.what.strip():
        from watchdog.errors import WatchdogError
        from watchdog.yamlfile import _near

        off = f" ({ctx.book.off[args.what]} switched it off)" if args.what in ctx.book.off else ""
        raise WatchdogError(f"there is no rule '{args.what}'{off}{_near(args.what, [rule.id for rule in ctx.book.rules])}; "
                            "hermes-watchdog rules list shows them")
    return explain_line(args, ctx)


def explain_rule(args: argparse.Namespace, ctx: Any, rule: Any) -> int:
    from watchdog.cli.place import need_home
    from watchdog.evaluate import lines_by_source
    from watchdog.explain import explain
    from watchdog.pipeline import look_back
    from watchdog.reading import read_all

    need_home(ctx.home)
    now = in_zone(args.now, ctx) if args.now else ctx.now
    start = look_back(ctx.book, ctx.look_at_store(), now)
    with read_all(ctx.sources(stated=args.gateway or ""), lines_by_source([rule]), start, now) as reading:
        told = explain(rule, reading, now)
    if args.json:
        print_json(told)
    else:
        on = colours()
        print(f"{paint(rule.id, 'bold', on)}: {rule.title} ({rule.severity}, {rule.where})")
        if told["not_checked"]:
            print(f"  not checked: {told['not_checked']}")
        for witness in told["witnesses"]:
            mark = paint("holds", "high", on) if witness["holds"] else paint("does not hold", "good", on)
            print(f"  {witness['kind']}: {mark}{' since ' + witness['since'] if witness['since'] else ''}")
            for state in witness["state"]:
                print(paint(f"      {state}", "dim", on))
        for says in told["fires"]:
            print(f"  fires: {says}")
        if not told["fires"] and not told["not_checked"]:
            print("  does not fire")
    return WRONG if told["fires"] else WELL


def explain_line(args: argparse.Namespace, ctx: Any) -> int:
    from watchdog.explain import explain_line as explained

    told = explained(ctx.book, args.what, ctx.settings.zone)
    if args.json:
        print_json(told)
        return WELL
    on = colours()
    record = told["record"]
    if record["at"]:
        print(f"record: {record['at']} {record['level']} {record['logger']}{' [' + record['session'] + ']' if record['session'] else ''}")
    else:
        print("record: no time stamp, so this is taken as the message alone")
    print(f"message as rules see it: {record['text']}")
    if record["cut"]:
        print("  chat text was cut out of it")
    if record["ambiguous"]:
        print(f"  {paint('ambiguous', 'high', on)}: {record['ambiguous']}; it is reported and never used")
    for match in told["matches"]:
        captured = ", ".join(f"{name}={value}" for name, value in match["captured"].items())
        print(f"  {paint(match['rule'], 'bold', on)} ({match['kind']}, {match['role']}, in {match['in']}){': ' + captured if captured else ''}")
    if not told["matches"]:
        print("  no rule's pattern matches it")
    return WELL

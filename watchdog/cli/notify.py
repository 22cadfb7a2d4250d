"""Who is told, and when nobody wants to be: notify, silence, silences, unsilence, maintenance."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from watchdog.cli.common import CONFIG, WELL, WRONG, Context, a_duration, add_command, add_common, complain, context, print_json
from watchdog.cli.place import need_known, store_of

if TYPE_CHECKING:
    from watchdog.notices import Silence

LONGEST = timedelta(days=31)

NOTIFY = """\
examples:
  hermes-watchdog notify                   who is told what, without any address
  hermes-watchdog notify --test            send a real message to each target and say what happened
  hermes-watchdog notify --test --tag ops  only to the targets with this tag

Targets are Apprise URLs in settings.yaml under notify: targets:, or, without a settings file, in the environment
variable HERMES_WATCHDOG_NOTIFY. They are secrets and are never shown.

exit codes: 0 everyone was reached · 1 somebody was not · 2 there is nobody to tell"""
SILENCE = """\
Nothing is told about it until the time is over; it is still watched, and told then if it is still there.

examples:
  hermes-watchdog silence provider-errors --for 2h --because 'their status page knows'
  hermes-watchdog silence telegram/42 --for 1d --because 'test chat'
  hermes-watchdog silence 'session-stuck telegram/42' --for 30m --because 'long build'
  hermes-watchdog silences                 what is silenced, by whom, until when
  hermes-watchdog unsilence 3              hear of it again"""
SILENCES = """\
examples:
  hermes-watchdog silences
  hermes-watchdog silences --json"""
UNSILENCE = """\
examples:
  hermes-watchdog silences                 shows the numbers
  hermes-watchdog unsilence 3"""
MAINTENANCE = """\
While it is on, nothing is told, asked or done; what is still wrong afterwards is told then.

examples:
  hermes-watchdog maintenance on --for 2h --because 'new disk'
  hermes-watchdog maintenance              is it on?
  hermes-watchdog maintenance off"""


def add_arguments(commands: Any) -> None:
    def command(name: str, says: str, examples: str, run: Any) -> argparse.ArgumentParser:
        made = add_command(commands, name, says, examples, run)
        add_common(made)
        return made

    notify = command("notify", "who is told, and a test message to each", NOTIFY, run_notify)
    notify.add_argument("--test", action="store_true", help="send a real message to each target")
    notify.add_argument("--tag", metavar="TAG", help="only the targets with this tag")
    silence = command("silence", "say nothing about a rule or a key for a while", SILENCE, run_silence)
    silence.add_argument("what", metavar="RULE|KEY", help="a rule's id, a key, or both in quotes")
    _for(silence, required=True)
    silence.add_argument("--because", metavar="WORDS", required=True, help="for whoever wonders about the silence")
    command("silences", "what is silenced, by whom and until when", SILENCES, run_silences)
    unsilence = command("unsilence", "hear of it again", UNSILENCE, run_unsilence)
    unsilence.add_argument("id", metavar="ID", type=int, help="number of the silence")
    maintenance = command("maintenance", "planned work: tell, ask and do nothing for a while", MAINTENANCE, run_maintenance)
    maintenance.add_argument("switch", metavar="on|off", nargs="?", choices=("on", "off"), help="without it: say whether it is on")
    _for(maintenance, required=False)
    maintenance.add_argument("--because", metavar="WORDS", default="planned work", help="for whoever wonders")


def run_notify(args: argparse.Namespace) -> int:
    from watchdog import notify
    from watchdog.message import Setting, test_message
    from watchdog.telling import host_name
    from watchdog.words import read_words

    ctx = context(args)
    settings = ctx.settings.notify
    targets = [target for target in settings.targets if not args.tag or args.tag in target.tags]
    channels = settings.replies.channels
    if not targets and not (channels and not args.tag):
        with_tag = f" with the tag '{args.tag}'" if args.tag else ""
        complain(
            f"there is no target{with_tag}; add one to {ctx.config}/settings.yaml:\n"
            "  notify:\n    targets:\n      - name: phone\n        url_file: ~/.config/hermes-watchdog/phone.url"
        )
        return CONFIG
    if not args.test:
        return _show(args, targets, channels)
    at = Setting(ctx.now, settings.host or host_name(), read_words(settings.language, settings.zone))
    sent = notify.send({target: [notify.letter(0, test_message(at))] for target in targets})
    order = [target.name for target in targets]
    lines = [
        (f"target {one.target}", one.ok, one.says, one.took.total_seconds())
        for one in sorted(sent, key=lambda one: order.index(one.target))
    ]
    lines += [(name, not says, says, 0.0) for name, says in _try_channels(ctx)] if not args.tag else []
    if args.json:
        print_json({"sent": [{"to": name, "ok": ok, "says": says, "took": took} for name, ok, says, took in lines]})
    else:
        for name, ok, says, took in lines:
            print(f"{'reached' if ok else 'FAILED '}  {name}: {says or f'sent in {took:.1f} s'}")
    return WELL if all(ok for _, ok, _, _ in lines) else WRONG


def run_silence(args: argparse.Namespace) -> int:
    from watchdog.outgoing import exact
    from watchdog.store import messages

    ctx = context(args)
    if args.what == "*":
        complain("to silence everything, say: hermes-watchdog maintenance on --for 2h")
        return CONFIG
    need_known(ctx)
    rule = args.what.split(" ")[0]
    known = {one.id for one in ctx.book.rules} | {"blind", "target", "disarmed"}
    with store_of(ctx) as store:
        keys = {row[0] for row in store.db.execute("SELECT DISTINCT key FROM incidents")}
        made = messages.silence(store, args.what, ctx.now + args.span, exact(args.because, 200), user_name(), ctx.now)
    unknown = rule not in known and args.what not in keys
    if args.json:
        print_json({**_json(made), "known": not unknown})
        return WELL
    print(f"{_line(made, ctx)}\nhear of it again: hermes-watchdog unsilence {made.id}")
    if unknown:
        complain(f"note: no rule or key is called '{exact(args.what, 60)}' so far; rules: hermes-watchdog rules list")
    return WELL


def run_silences(args: argparse.Namespace) -> int:
    from watchdog.store import messages

    ctx = context(args)
    store = ctx.look_at_store()
    found = messages.silences(store, ctx.now) if store else ()
    if args.json:
        print_json({"silences": [_json(one) for one in found]})
    elif not found:
        print("Nothing is silenced.")
    for one in found if not args.json else ():
        print(_line(one, ctx))
    return WELL


def run_unsilence(args: argparse.Namespace) -> int:
    from watchdog.store import messages

    ctx = context(args)
    with store_of(ctx) as store:
        ended = messages.unsilence(store, args.id, ctx.now)
    if args.json:
        print_json({"id": args.id, "ended": ended})
    elif ended:
        print(f"silence {args.id} is over; what is still wrong is told at the next check")
    else:
        complain(f"there is no silence {args.id} in force; see: hermes-watchdog silences")
    return WELL if ended else CONFIG


def run_maintenance(args: argparse.Namespace) -> int:
    from watchdog.outgoing import exact
    from watchdog.store import messages

    ctx = context(args)
    if args.switch == "on":
        if args.span is None:
            complain("for how long? say: hermes-watchdog maintenance on --for 2h")
            return CONFIG
        need_known(ctx)
        with store_of(ctx) as store:
            now_on = messages.silence(store, "*", ctx.now + args.span, exact(args.because, 200), user_name(), ctx.now)
    elif args.switch == "off":
        with store_of(ctx) as store:
            before = messages.maintenance(store, ctx.now)
            now_on = None
            if before:
                messages.unsilence(store, before.id, ctx.now)
    else:
        looked = ctx.look_at_store()
        now_on = messages.maintenance(looked, ctx.now) if looked else None
    if args.json:
        print_json({"maintenance": _json(now_on) if now_on else None})
    elif now_on:
        print(f"{_line(now_on, ctx)}\nend it sooner: hermes-watchdog maintenance off")
    else:
        print("No maintenance.")
    return WELL


def user_name() -> str:
    """Whose word it is: the person behind sudo, when there is one."""
    import os
    import pwd

    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _for(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument("--for", dest="span", metavar="TIME", type=_span, required=required, help="such as 30m, 2h or 1d")


def _span(text: str) -> timedelta:
    span: timedelta = a_duration(text)
    if not timedelta(0) < span <= LONGEST:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; at most 31d")
    return span


def _show(args: argparse.Namespace, targets: Any, channels: Any) -> int:
    asked = [{"kind": one.kind, "approvers": [who.name for who in one.approvers], "escalation": one.escalation} for one in channels]
    told = [{"name": one.name, "tags": one.tags, "at_least": one.at_least, "format": one.format} for one in targets]
    if args.json:
        print_json({"targets": told, "replies": asked})
        return WELL
    for one in told:
        print(f"target {one['name']}: {one['at_least']} and graver{', tags ' + ', '.join(one['tags']) if one['tags'] else ''}")
    for one in asked:
        print(f"answers by {one['kind']}: {', '.join(one['approvers'])}{', when nobody answered' if one['escalation'] else ''}")
    print("\nsend a real message to each: hermes-watchdog notify --test")
    return WELL


def _try_channels(ctx: Context) -> list[tuple[str, str]]:
    """Say a word at each place where questions are asked, and look for answers there; '' when all went well."""
    from functools import partial

    from watchdog import replies
    from watchdog.asking import refused
    from watchdog.errors import WatchdogError
    from watchdog.outgoing import fit
    from watchdog.telling import host_name
    from watchdog.words import read_words

    settings = ctx.settings.notify
    words = read_words(settings.language, settings.zone)
    text = f"{words('prefix')}{words('title.test')}\n{words('line.test', host=settings.host or host_name())}"
    found: list[tuple[str, str]] = []
    for channel in settings.replies.channels:
        kind = replies.module(channel)
        seconds = channel.time_limit.total_seconds() * 3
        for place in kind.places(channel):
            try:
                if why := refused(channel, ctx.home):
                    raise WatchdogError(why)
                replies.bounded(channel, seconds, partial(kind.tell, channel, place, "", text))
                replies.bounded(channel, seconds, partial(kind.start, channel, ctx.now))
                found.append((f"answers by {place}", ""))
            except WatchdogError as error:
                found.append((f"answers by {place}", fit(str(error))))
    return found


def _line(one: Silence, ctx: Context) -> str:
    from watchdog.text import clock, spell

    what = "maintenance" if one.what == "*" else f"silence {one.id}: {one.what}"
    return f"{what} until {clock(one.until)} ({spell(one.until - ctx.now)} left), by {one.by}: {one.because}"


def _json(one: Silence) -> dict[str, object]:
    return {
        "id": one.id, "what": one.what, "until": one.until.isoformat(), "because": one.because, "by": one.by,
        "at": one.at.isoformat(),
    }  # fmt: skip

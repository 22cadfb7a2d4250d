"""Where messages go, and when they do not: notify, silence, silences, unsilence, maintenance."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from watchdog.approval.channels import base as replies
from watchdog.approval.channels.own_bot import refused
from watchdog.cli.command import a_duration, command, flag, number_of, option
from watchdog.cli.context import (
    CONFIG,
    WELL,
    WRONG,
    complain,
    job_of,
    need_known,
    print_json,
    show,
    store_of,
)
from watchdog.config.settings import NAME, Target
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.notify import deliver
from watchdog.notify.compose import test_message
from watchdog.notify.context import MessageContext, host_of
from watchdog.notify.sanitize import exact, fit
from watchdog.notify.translate import read_words
from watchdog.reports.language import Reader, reader_for
from watchdog.reports.status_text import silence_text
from watchdog.store import messages
from watchdog.store.messages import Silence
from watchdog.system.users import person
from watchdog.text import picked

LONGEST = timedelta(days=31)
SILENCE = "id what until because by at"  # what scripts get of one
HOW_LONG, WHY = "such as 30m, 2h or 1d; at most 31d", "the reason, for others who look"


def _span(text: str) -> timedelta:
    span = a_duration(text)
    if not timedelta(0) < span <= LONGEST:
        raise WatchdogError(f"'{text}' is out of range; at most 31d")
    return span


@command(
    "notify",
    flag("--test", "send a real message to each target"),
    option("--tag", "TAG", "only the targets with this tag"),
)
def run_notify(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog notify                   who gets which messages, without any address
      hermes-watchdog notify --test            send a real message to each target and say what happened
      hermes-watchdog notify --test --tag ops  only to the targets with this tag

    Targets are Apprise URLs in settings.yaml under notify: targets:, or, without a settings file, in the environment
    variable HERMES_WATCHDOG_NOTIFY. They are secrets and are never shown.

    exit codes: 0 every target was reached · 1 at least one was not · 2 there is no target
    """
    job = job_of(args)
    settings = job.settings.notify
    targets = [target for target in settings.targets if not args.tag or args.tag in target.tags]
    channels = settings.replies.channels
    if not targets and not (channels and not args.tag):
        reader, path = reader_for(job, args.language), job.config / NAME
        key = "notify.no-target-tag" if args.tag else "notify.no-target"
        lacking = reader(key, tag=args.tag, path=path)
        complain(
            f"{lacking}\n  notify:\n    targets:\n      - name: phone\n        url_file: {job.config}/phone.url"
        )
        return CONFIG
    if not args.test:
        return _show_targets(args, targets, channels, reader_for(job, args.language))
    reader = reader_for(job, "en" if args.json else args.language)
    trials = _try_targets(job, targets, reader) + ([] if args.tag else _try_channels(job, reader))
    show(
        args,
        {"sent": [picked(trial, "to ok says took") for trial in trials]},
        lambda: [trial.line(reader) for trial in trials],
    )
    return WELL if all(trial.ok for trial in trials) else WRONG


@dataclass(frozen=True)
class Trial:
    """What became of one test message."""

    to: str
    says: str  # why it did not arrive
    took: float = 0.0  # seconds

    @property
    def ok(self) -> bool:
        return not self.says

    def line(self, reader: Reader) -> str:
        word = reader("notify.reached" if self.ok else "notify.failed")
        return f"{word:7}  {self.to}: {self.says or reader('notify.took', seconds=f'{self.took:.1f}')}"


def _try_targets(job: Job, targets: Sequence[Target], reader: Reader) -> list[Trial]:
    """A test message to each target, in their order."""
    settings = job.settings.notify
    context = MessageContext(job.now, host_of(settings), read_words(settings.language, settings.zone))
    message = deliver.outgoing_message(0, test_message(context))
    sent = {result.target: result for result in deliver.send({target: [message] for target in targets})}
    return [
        Trial(
            reader("notify.to-target", name=target.name),
            reader.reason(sent[target.name].why),
            sent[target.name].took.total_seconds(),
        )
        for target in targets
    ]


@command(
    "silence",
    option("what", "RULE|KEY", "a rule's id, a key, or both in quotes"),
    option("--for", "TIME", HOW_LONG, dest="span", type=_span, required=True),
    option("--because", "WORDS", WHY, required=True),
)
def run_silence(args: argparse.Namespace) -> int:
    """
    No messages about it until that time. It is still watched, and reported then if it is still there.

    examples:
      hermes-watchdog silence provider-errors --for 2h --because 'their status page says so'
      hermes-watchdog silence telegram/42 --for 1d --because 'test chat'
      hermes-watchdog silence 'session-stuck telegram/42' --for 30m --because 'long build'
      hermes-watchdog silences                 what is silenced, by whom, until when
      hermes-watchdog unsilence 3              undo
    """
    job = job_of(args)
    if args.what == "*":
        complain(reader_for(job, args.language)("silence.everything"))
        return CONFIG
    need_known(job)
    rule = args.what.split(" ")[0]
    known = {rule.id for rule in job.book.rules} | {"blind", "target", "disarmed"}
    with store_of(job) as store:
        keys = {row[0] for row in store.db.execute("SELECT DISTINCT key FROM incidents")}
        made = messages.add_silence(store, _new_silence(args.what, args, job))
    unknown = rule not in known and args.what not in keys
    if args.json:
        print_json({**picked(made, SILENCE), "known": not unknown})
        return WELL
    reader = reader_for(job, args.language)
    print(_line(made, reader), reader("silence.undo", id=made.id), sep="\n")
    if unknown:
        complain(reader("silence.unknown", what=exact(args.what, 60)))
    return WELL


@command("silences")
def run_silences(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog silences
      hermes-watchdog silences --json
    """
    job = job_of(args)
    need_known(job)
    store = job.look_at_store()
    found = messages.silences(store, job.now) if store else ()

    def lines() -> list[str]:
        reader = reader_for(job, args.language)
        return [_line(silence, reader) for silence in found] or [reader("silence.none")]

    show(args, {"silences": [picked(silence, SILENCE) for silence in found]}, lines)
    return WELL


@command("unsilence", option("id", "SILENCE", "number of the silence", type=number_of("a silence")))
def run_unsilence(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog silences                 shows the numbers
      hermes-watchdog unsilence 3
    """
    job = job_of(args)
    with store_of(job) as store:
        ended = messages.unsilence(store, args.id, job.now)
    if args.json:
        print_json({"id": args.id, "ended": ended})
    elif ended:
        print(reader_for(job, args.language)("silence.ended", id=args.id))
    else:
        complain(reader_for(job, args.language)("silence.not-there", id=args.id))
    return WELL if ended else CONFIG


@command(
    "maintenance",
    option("switch", "on|off", "without it: say whether it is on", nargs="?", choices=("on", "off")),
    option("--for", "TIME", HOW_LONG, dest="span", type=_span),
    option("--because", "WORDS", WHY, default="planned work"),
)
def run_maintenance(args: argparse.Namespace) -> int:
    """
    While it is on there are no messages, questions or actions; what is still wrong afterwards is reported then.

    examples:
      hermes-watchdog maintenance on --for 2h --because 'new disk'
      hermes-watchdog maintenance              is it on?
      hermes-watchdog maintenance off
    """
    job = job_of(args)
    need_known(job)
    if args.switch == "on":
        if args.span is None:
            complain(reader_for(job, args.language)("silence.how-long"))
            return CONFIG
        with store_of(job) as store:
            now_on: Silence | None = messages.add_silence(store, _new_silence("*", args, job))
    elif args.switch == "off":
        with store_of(job) as store:
            before = messages.maintenance(store, job.now)
            now_on = None
            if before:
                messages.unsilence(store, before.id, job.now)
    else:
        looked = job.look_at_store()
        now_on = messages.maintenance(looked, job.now) if looked else None

    def lines() -> list[str]:
        reader = reader_for(job, args.language)
        return (
            [_line(now_on, reader), reader("silence.end")] if now_on else [reader("silence.no-maintenance")]
        )

    show(args, {"maintenance": picked(now_on, SILENCE) if now_on else None}, lines)
    return WELL


def _show_targets(args: argparse.Namespace, targets: Any, channels: Any, reader: Reader) -> int:
    listed = [picked(target, "name tags at_least format") for target in targets]
    asked = []
    for channel in channels:
        names = [approver.name for approver in channel.approvers]
        asked.append({"kind": channel.kind, "approvers": names, "escalation": channel.escalation})
    lines = []
    for target in listed:
        tags = reader("notify.tags", tags=reader.joined(target["tags"])) if target["tags"] else ""
        severity = reader(f"severity.{target['at_least']}")
        lines.append(reader("notify.target", name=target["name"], severity=severity, tags=tags))
    for channel in asked:
        key = "notify.escalation" if channel["escalation"] else "notify.answers"
        lines.append(reader(key, kind=channel["kind"], approvers=reader.joined(channel["approvers"])))
    show(args, {"targets": listed, "replies": asked}, lambda: [*lines, "", reader("notify.try")])
    return WELL


def _try_channels(job: Job, reader: Reader) -> list[Trial]:
    """A test message to each place where questions are asked, and a look for answers there."""
    settings = job.settings.notify
    words = read_words(settings.language, settings.zone)
    text = f"{words('title.test')}\n{words('line.test', host=host_of(settings))}"
    found = []
    for channel in settings.replies.channels:
        kind = replies.module(channel)
        for place in kind.places(channel):
            why = refused(channel, job.home)
            try:
                if not why:
                    replies.bounded(channel, partial(kind.tell, channel, place, "", text))
                    replies.bounded(channel, partial(kind.start, channel, job.now))
            except WatchdogError as error:
                why = str(error)
            found.append(Trial(reader("notify.to-place", name=place), fit(why)))
    return found


def _new_silence(what: str, args: argparse.Namespace, job: Job) -> Silence:
    return Silence(0, what, job.now + args.span, exact(args.because, 200), person(), job.now)


def _line(silence: Silence, reader: Reader) -> str:
    whole = silence.what == "*"
    what = reader("silence.maintenance" if whole else "silence.one", id=silence.id, what=silence.what)
    return silence_text(silence, reader, what)

"""Notifications → targets, through Apprise in a child process that can be ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.config.settings import NotifySettings, Target
from watchdog.errors import WatchdogError
from watchdog.model import SEVERITIES, Notification, Reason
from watchdog.notify.choose import worst
from watchdog.notify.context import MessageContext
from watchdog.notify.sanitize import full_text, render
from watchdog.notify.translate import in_english
from watchdog.store import Store, messages
from watchdog.store.messages import OUTCOMES, News, TargetState
from watchdog.text import redact

FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(hours=6)
SEPARATE = 3  # messages of earlier checks that are still sent one by one
_START = 10.0  # seconds that the child itself may need before a target's time begins
# What is owed for less may be on its way: an approve or resume beside this check is telling its outcome.
_BEING_SENT = timedelta(seconds=45)
_TYPES = {"info": "info", "low": "info", "medium": "warning", "high": "warning", "critical": "failure"}
_GOOD = (News.FIXED, News.RESOLVED, News.TEST, News.DAILY, News.WEEKLY)
_FOR_THE_NEXT_IN_LINE = (News.REMINDER, News.DISARMED, *OUTCOMES, News.TEST)


@dataclass(frozen=True)
class OnTheHost:
    """What targets get of a plan: how to answer in a shell; nothing where a channel reaches the same phone."""

    lines: tuple[str, ...] = ()
    reached: frozenset[str] = frozenset()  # targets whose readers have the message from a channel already


AnswerLines = Mapping[int, OnTheHost]  # by plan
_NO_LINES = OnTheHost()


@dataclass(frozen=True)
class Outgoing:
    """One notification as one target gets it."""

    id: int
    title: str
    body: str
    severity: str
    good: bool = False  # something was resolved, or is only said


@dataclass(frozen=True)
class Delivery:
    """What became of one message to one target."""

    target: str
    id: int
    why: Reason | None = None  # it was not delivered
    took: timedelta = timedelta(0)

    @property
    def ok(self) -> bool:
        return self.why is None


Send = Callable[[Mapping[Target, Sequence[Outgoing]]], tuple[Delivery, ...]]
Queue = Sequence[tuple[int, Notification]]  # with their numbers in the store


@dataclass(frozen=True)
class Messenger:
    """What telling and asking need: the store, the settings, how to say it now, and how to send."""

    store: Store
    settings: NotifySettings
    context: MessageContext
    send: Send = field(default_factory=lambda: send)

    @property
    def now(self) -> datetime:
        return self.context.now


def deliver_all(queue: Queue, answers: AnswerLines, messenger: Messenger) -> list[str]:
    """Send what is new and what could not be sent before to every target that may be tried.

    `answers` is how to answer each open question on the host, and who has it already. Gives lines about what failed.
    """
    store, settings, context = messenger.store, messenger.settings, messenger.context
    states, owed = messages.targets(store), messages.owed(store, context.now, _BEING_SENT)
    outgoing: dict[Target, list[Outgoing]] = {}
    covers: dict[tuple[str, int], tuple[int, ...]] = {}  # one message may carry several of before
    for target in settings.targets:
        new = [
            (number, notification)
            for number, notification in queue
            if wants(target, notification, settings)
            and target.name not in answers.get(notification.plan, _NO_LINES).reached
        ]
        own: list[Outgoing] = []
        if due(states.get(target.name), context.now):
            late = owed.get(target.name, [])
            own = _late(store, late, answers, context)
            if len(late) > SEPARATE and own:
                covers[target.name, own[0].id] = tuple(late)
            own += [
                outgoing_message(number, notification, answers.get(notification.plan, _NO_LINES).lines)
                for number, notification in new
            ]
        for number, _ in new:
            messages.owe(store, number, target.name, context.now)  # until it is known to be there
        if own:
            outgoing[target] = own
    if not outgoing:
        return []
    failed: dict[str, Reason] = {}
    for delivery in messenger.send(outgoing):
        if delivery.why is None:
            for number in covers.get((delivery.target, delivery.id), (delivery.id,)):
                messages.delivered(store, number, delivery.target)
        else:
            failed.setdefault(delivery.target, delivery.why)
    for target in outgoing:
        state = states.get(target.name, TargetState(target.name))
        messages.save_target(store, after(state, failed.get(target.name), context.now))
    return [f"target {name}: not sent: {in_english(why)}" for name, why in failed.items()]


def _late(store: Store, late: list[int], answers: AnswerLines, context: MessageContext) -> list[Outgoing]:
    """Messages that could not be sent before: a few one by one, many as one."""
    found = [(number, *kept) for number in late if (kept := messages.notification(store, number))]
    if len(found) <= SEPARATE:
        return [
            outgoing_message(
                number,
                notification,
                [context.text("line.delayed", at=written), *answers.get(notification.plan, _NO_LINES).lines],
            )
            for number, notification, written in found
        ]
    title = context.text("line.delayed_many", count=len(found))
    body = "\n".join(f"• {notification.title}" for _, notification, _ in found)
    severity = worst(notification.severity for _, notification, _ in found)
    return [outgoing_message(found[0][0], Notification(News.DIGEST, title, body, severity))]


def wants(target: Target, notification: Notification, settings: NotifySettings) -> bool:
    """Whether this target wants this notification."""
    next_in_line = set(target.tags) & set(settings.escalate_to)
    if next_in_line and notification.news not in _FOR_THE_NEXT_IN_LINE:
        return False  # sent when no answer came
    severe = SEVERITIES.index(notification.severity) >= SEVERITIES.index(target.at_least)
    return severe or notification.news in (News.TEST, News.DAILY, News.WEEKLY)


def outgoing_message(number: int, notification: Notification, more: Sequence[str] = ()) -> Outgoing:
    # The second redaction: what got this far gets no further. Codes are ours and look like no secret.
    return Outgoing(
        number,
        redact(notification.title),
        redact(full_text(notification, more)),
        notification.severity,
        notification.news in _GOOD,
    )


def is_known_address(url: str) -> bool:
    """Whether Apprise knows the kind of this address; nothing is sent, and nothing of it is logged."""
    import apprise  # slow to import; a check leaves it to its child

    apprise.logger.disabled = True  # it would write the address
    return apprise.Apprise.instantiate(url) is not None


def send(outgoing: Mapping[Target, Sequence[Outgoing]], python: str = sys.executable) -> tuple[Delivery, ...]:
    """Everything at once, each target within its own time limit; never raises, one answer per message."""
    deliveries: list[Delivery] = []
    jobs: list[dict[str, Any]] = []
    waiting: dict[tuple[str, int], float] = {}
    for target, own in outgoing.items():
        try:
            urls = target.url.lines()
        except WatchdogError as error:
            why = Reason("plain", {"text": str(error)})
            deliveries += [Delivery(target.name, message.id, why) for message in own]
            continue
        waiting |= {(target.name, message.id): target.time_limit.total_seconds() for message in own}
        jobs.append(
            {
                "target": target.name,
                "urls": urls,
                "format": target.format,
                "messages": [_message(message) for message in own],
            }
        )
    if jobs:
        limits = {target.name: target.time_limit.total_seconds() for target in outgoing}
        for delivery in _deliveries(python, jobs, limits):
            if waiting.pop((delivery.target, delivery.id), None):
                deliveries.append(delivery)
    for (name, number), seconds in waiting.items():
        deliveries.append(
            Delivery(name, number, Reason("undelivered.no-answer", {"seconds": f"{seconds:g}"}))
        )
    return tuple(deliveries)


def after(state: TargetState, why: Reason | None, now: datetime) -> TargetState:
    """The state of a target after one more try: each failure doubles the pause before the next."""
    if why is None:
        return TargetState(state.name)
    pause = min(FIRST_PAUSE * 2 ** min(state.failures, 10), LONGEST_PAUSE)
    return TargetState(state.name, state.failures + 1, now + pause, why, state.since or now)


def due(state: TargetState | None, now: datetime) -> bool:
    return state is None or state.next_try_at is None or state.next_try_at <= now


def _message(message: Outgoing) -> dict[str, Any]:
    bodies = {form: render(message.body, form) for form in ("text", "markdown", "html")}
    kind = "success" if message.good else _TYPES[message.severity]
    return {"id": message.id, "title": message.title, "bodies": bodies, "type": kind}


def _deliveries(python: str, jobs: list[dict[str, Any]], limits: Mapping[str, float]) -> Iterator[Delivery]:
    """The child's lines as they come, until all came or the slowest target is out of time."""
    # -P keeps the package's own folder off the path: a module of ours must not stand in for one of Apprise's.
    command = [python, "-P", str(Path(__file__).with_name("apprise_child.py"))]
    slowest = max(limits[job["target"]] for job in jobs)
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return  # what has no answer is reported as such by the caller
    with child:
        ends = _end(child, _START + slowest)
        began: float | None = None
        try:
            assert child.stdin and child.stdout
            child.stdin.write(json.dumps(jobs).encode())
            child.stdin.close()
            for line in child.stdout:
                report = json.loads(line)
                if report.get("ready"):  # from here on the targets' own time runs
                    began = time.monotonic()
                    ends.cancel()
                    ends = _end(child, slowest)
                    continue
                why = report["why"] and Reason(report["why"]["key"], report["why"]["fields"])
                in_time = began is None or time.monotonic() - began <= limits[report["target"]] + 0.5
                if why is None or in_time:
                    took = timedelta(seconds=report["took"])
                    yield Delivery(report["target"], report["id"], why, took)
        except (OSError, ValueError, KeyError):
            pass
        finally:
            ends.cancel()
            child.kill()


def _end(child: subprocess.Popen[bytes], seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, child.kill)
    timer.daemon = True
    timer.start()
    return timer

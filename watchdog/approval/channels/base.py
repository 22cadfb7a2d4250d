"""How a person answers: one module per channel, each with the same six functions.

    places(channel) -> names            where a question goes: "ntfy/anna" for one person, "matrix" for a room
    start(channel, now) -> cursor       from where on answers are read; called before the first question
    ask(channel, place, asked) -> receipt
    collect(channel, cursor, wait) -> Collected
    tell(channel, place, receipt, text) the end of a question, so that an old button explains itself
    address(channel, place) -> texts    what every Apprise URL of that very place holds; () when none leads there

They talk HTTP and decide nothing: whose answer counts, and what for, is decided in replies.py and
record.py. A new channel is a module with these functions, an entry in CHANNELS of config/settings.py, and the
table of tests in tests/approval/channels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar

from watchdog.config.settings import Channel, ReplySettings
from watchdog.errors import WatchdogError
from watchdog.model import Plan
from watchdog.notify.sanitize import fit

LONG = 200  # characters of an answer; "approve CODE" is 16
Value = TypeVar("Value")


class ChannelError(WatchdogError):
    """A channel did not work; the text never holds an address, a topic or a token."""


@dataclass(frozen=True)
class QuestionText:
    """A question as one place sees it."""

    title: str
    body: str
    approve: str  # the reply that says yes: "approve K7MNPQRS"
    refuse: str
    approve_label: str
    refuse_label: str
    urgent: bool = False
    plan: Plan | None = None  # for a channel whose readers see the plan itself and not our message
    lasts: timedelta = timedelta(minutes=30)


@dataclass(frozen=True)
class ShownPlan:
    """What a person was shown when they answered, where a channel can tell."""

    home: str
    plan: int
    digest: str  # fleet.mailbox_plan.shown_digest


@dataclass(frozen=True)
class Reply:
    """What someone wrote or tapped."""

    who: str  # as the channel knows them: a topic's owner, a user number, @name:server
    place: str  # the place it belongs to; a code is only good in its own
    text: str
    at: datetime
    handle: str = ""  # a button that wants to be released
    seen: ShownPlan | None = None


@dataclass(frozen=True)
class Collected:
    """What came in since the last time."""

    replies: tuple[Reply, ...]
    cursor: str
    notes: tuple[str, ...] = ()  # what could not be used, for the report


class ChannelKind(Protocol):
    def places(self, channel: Channel) -> tuple[str, ...]: ...
    def start(self, channel: Channel, now: datetime) -> str: ...
    def ask(self, channel: Channel, place: str, asked: QuestionText) -> str: ...
    def collect(self, channel: Channel, cursor: str, wait: float) -> Collected: ...
    def tell(self, channel: Channel, place: str, receipt: str, text: str) -> None: ...
    def address(self, channel: Channel, place: str) -> tuple[str, ...]: ...


def module(channel: Channel) -> ChannelKind:
    """The module of a channel, imported when it is first needed."""
    found: Any = import_module(f"watchdog.approval.channels.{channel.kind}")
    return found


def places(settings: ReplySettings) -> Iterator[tuple[Channel, str]]:
    """Every place where a question may go, with its channel."""
    return ((channel, name) for channel in settings.channels for name in module(channel).places(channel))


def tell(channel: Channel, place: str, receipt: str, text: str) -> str:
    """Tell a place the end of a question; why it could not be told, '' when it was."""
    try:
        bounded(channel, partial(module(channel).tell, channel, place, receipt, text))
    except ChannelError as error:
        return fit(str(error))
    return ""


def bounded(channel: Channel, call: Callable[[], Value], seconds: float | None = None) -> Value:
    """What a channel's function returns; ChannelError past its time, however slowly its server drips.

    Without `seconds`: twice the channel's limit, because a room's name may have to be looked up first.
    """
    if seconds is None:
        seconds = channel.time_limit.total_seconds() * 2 + 1
    result: list[Value] = []
    failed: list[ChannelError] = []

    def work() -> None:
        try:
            result.append(call())
        except WatchdogError as error:
            failed.append(ChannelError(str(error)))
        except Exception as error:  # hostile answers of a server must not end a check
            failed.append(
                ChannelError(f"{channel.kind}: an answer could not be understood ({type(error).__name__})")
            )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not result:
        raise ChannelError(f"{channel.kind}: not done within {seconds:g} s")
    return result[0]

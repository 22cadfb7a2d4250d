"""Questions on their way: asked with a code per place, reminded, and their end told to everyone who was asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from watchdog import replies
from watchdog.errors import WatchdogError
from watchdog.message import CODE, Setting, cut, how_to_answer
from watchdog.model import Notice, Plan
from watchdog.outgoing import fit
from watchdog.replies import Asked, ChannelError
from watchdog.store import Store, messages
from watchdog.store import plans as rows
from watchdog.store.messages import Place, Question
from watchdog.targets import Channel, NotifySettings
from watchdog.text import redact
from watchdog.values import replace

SHELL = "command line"  # the place of codes that are only good on the host
ASK_AGAIN = timedelta(hours=4)  # after a question that nobody answered; no answer is a no
COMES_AND_GOES = timedelta(hours=2)  # from the last but one question that was no longer needed


def may_ask(store: Store, plan: Plan, now: datetime) -> bool:
    """Is this a question nobody has been asked, or whose last silence is long enough ago?"""
    stored = rows.get(store, plan.id) if plan.id else None
    if stored and stored.state == "pending" and stored.expires_at - now < plan.lasts / 2:
        return False  # recorded while nobody could be asked (quiet hours); the next record leaves enough time
    gone = 0
    for last in messages.questions_about(store, plan.recipes, now - messages.FLAPPING):
        before = rows.get(store, last.plan.id)
        if last.closed_at is None and last.plan.digest == plan.digest:
            return False  # asked, and still open
        if before and before.state == "expired" and now - before.expires_at < ASK_AGAIN:
            return False  # nobody answered; asking on and on would only teach people to look away
        gone += bool(before and before.state == "lapsed")
        if gone >= 2 and now - last.asked_at < COMES_AND_GOES:
            return False  # the fault comes and goes faster than anyone answers
    return True


def put(store: Store, plan: Plan, notice: Notice, settings: NotifySettings, at: Setting, waits: timedelta) -> tuple[Question, list[str]]:
    """Put a recorded plan to every channel; what could not be asked is a line for the report, never a yes."""
    stored = rows.get(store, plan.id)
    expires = stored.expires_at if stored else at.now + plan.lasts  # the record decides, not the messenger
    question = Question(plan, notice.severity, (), at.now, expires)
    messages.ask(store, question)  # before anything leaves: a crash must not leave a question nobody knows of
    channels = [channel for channel in settings.replies.channels if not channel.escalation]
    places, notes = _spread(store, question, notice, channels, at, waits)
    question = replace(question, places=places)
    messages.ask(store, question)
    return question, notes


def remind(
    store: Store, question: Question, notice: Notice, settings: NotifySettings, at: Setting, waits: timedelta
) -> tuple[Question, list[str]]:
    """Ask again with fresh codes, and ask those who are next in line."""
    places, notes = _spread(store, question, notice, settings.replies.channels, at, waits)
    merged = {place.name: place for place in (*question.places, *places)}
    question = replace(question, places=tuple(merged.values()), reminded_at=at.now)
    messages.ask(store, question)
    return question, notes


def shell_lines(store: Store, plan: int, expires: datetime, at: Setting) -> list[str]:
    """How to answer on the host, for messages to targets that have no way back."""
    from watchdog import approval

    code = approval.new_code(store, plan, SHELL, at.now)
    return how_to_answer(at.words, code, expires, at.now, timedelta(0), "shell")


def close(store: Store, question: Question, text: str, settings: NotifySettings, now: datetime, answer: str = "") -> list[str]:
    """Tell the end to every place that was asked, once."""
    messages.ask(store, replace(question, closed_at=now, answer=answer or question.answer))
    return tell_places(question, text, settings)


def tell_places(question: Question, text: str, settings: NotifySettings, besides: str = "") -> list[str]:
    """A line to every place that was asked, but one."""
    notes: list[str] = []
    asked = {place.name: place for place in question.places if place.name != besides}
    for channel in settings.replies.channels:
        kind = replies.module(channel)
        for name in kind.places(channel):
            if name in asked:
                try:
                    replies.bounded(channel, _limit(channel), partial(kind.tell, channel, name, asked[name].receipt, text))
                except ChannelError as error:
                    notes.append(f"{name} was not told: {fit(str(error))}")
    return notes


def _spread(
    store: Store, question: Question, notice: Notice, channels: Sequence[Channel], at: Setting, waits: timedelta
) -> tuple[tuple[Place, ...], list[str]]:
    from watchdog import approval

    places: list[Place] = []
    notes: list[str] = []
    for channel in channels:
        kind = replies.module(channel)
        try:
            if refusal := refused(channel, Path(question.plan.home)):
                raise ChannelError(refusal)
            if not messages.cursor(store, channel.kind):
                begin = replies.bounded(channel, _limit(channel), partial(kind.start, channel, at.now))
                messages.move_cursor(store, channel.kind, begin, at.now)
        except WatchdogError as error:
            notes.append(f"not asked at {channel.kind}: {fit(str(error))}")
            continue
        for name in kind.places(channel):
            asked = _asked(approval.new_code(store, question.plan.id, name, at.now), channel, question, notice, at, waits)
            try:
                receipt = replies.bounded(channel, _limit(channel), partial(kind.ask, channel, name, asked))
                places.append(Place(name, receipt))
            except ChannelError as error:
                notes.append(f"not asked at {name}: {fit(str(error))}")
    return tuple(places), notes


def _asked(code: str, channel: Channel, question: Question, notice: Notice, at: Setting, waits: timedelta) -> Asked:
    words = at.words
    way = "reply" if channel.kind == "matrix" else "buttons"
    answer = how_to_answer(words, code, question.expires_at, at.now, waits, way)
    body = redact("\n".join([cut(notice.body, 2800), *answer]))
    return Asked(
        title=redact(notice.title),
        # A lock screen needs no indentation; a room shows the commands as code.
        body=body if channel.kind == "matrix" else body.replace("\n" + CODE, "\n"),
        approve=words("answer.approve", code=code),
        refuse=words("answer.refuse", code=code),
        approve_label=words("answer.button_approve"),
        refuse_label=words("answer.button_refuse"),
        urgent=notice.severity == "critical",
    )


def refused(channel: Channel, home: Path) -> str:
    """Why a channel must not be used at all; empty when it may."""
    if channel.kind != "telegram":
        return ""
    from watchdog.replies.telegram import same_bot

    return same_bot(channel, home)


def _limit(channel: Channel) -> float:
    return channel.time_limit.total_seconds() * 2 + 1  # a room's name may have to be looked up first

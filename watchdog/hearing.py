"""Listen for answers: every channel that was asked, again and again until one came or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from watchdog import replies
from watchdog.answers import Weighed, weigh
from watchdog.asking import close, tell_places
from watchdog.limits import Limits
from watchdog.outgoing import fit
from watchdog.replies import ChannelError
from watchdog.store import Store, messages
from watchdog.store.messages import Question
from watchdog.targets import Channel, NotifySettings
from watchdog.values import replace
from watchdog.words import Words, read_words

EVERY = 2.0  # seconds between two looks
TOLD = 5  # wrong answers that get a reply in one look; a flood gets no more


def listen(
    store: Store,
    settings: NotifySettings,
    now: datetime,
    wait: timedelta,
    limits: Limits | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[tuple[Weighed, ...], tuple[str, ...]]:
    """All answers that changed the record, and lines about everything that did not."""
    words = read_words(settings.language, settings.zone)
    began = clock()
    changed: list[Weighed] = []
    notes: list[str] = []
    while True:
        elapsed = timedelta(seconds=clock() - began)
        moment = now + elapsed
        questions = [each for each in messages.open_questions(store) if each.places and not each.answer and each.expires_at > moment]
        if not questions:
            break
        left = (wait - elapsed).total_seconds()
        asked = {place.name for question in questions for place in question.places}
        for channel in settings.replies.channels:
            if asked & set(replies.module(channel).places(channel)):
                # A long poll only where it is alone; next to others it would keep them waiting.
                patience = min(left, 10.0) if len(settings.replies.channels) == 1 and left > 0 else 0.0
                answers, said = _look(store, channel, settings, words, moment, patience, limits)
                changed += [answer for answer in answers if answer.ok]
                notes += [line for line in said if line not in notes]
        if changed or left <= 0:
            break
        sleep(min(EVERY, max(left, 0.05)))
    return tuple(changed), tuple(notes)


def _look(
    store: Store,
    channel: Channel,
    settings: NotifySettings,
    words: Words,
    now: datetime,
    patience: float,
    limits: Limits | None,
) -> tuple[list[Weighed], list[str]]:
    kind = replies.module(channel)
    limit = channel.time_limit.total_seconds() * (len(channel.approvers) + 1) + patience
    try:
        heard = replies.bounded(channel, limit, partial(kind.collect, channel, messages.cursor(store, channel.kind), patience))
    except ChannelError as error:
        return [], [fit(str(error))]
    weighed, notes = weigh(store, channel, heard, now, limits)
    # Moved only after the answers were weighed: a crash in between reads them again, and a used code does nothing.
    messages.move_cursor(store, channel.kind, heard.cursor, now)
    for number, answer in enumerate(weighed):
        if not answer.ok:
            says = words("reply.unreadable") if answer.says == "unreadable" else words("answer.wrong", why=words.phrase(fit(answer.says)))
            notes.append(f"{answer.reply.place}: an answer by {answer.by} changed nothing: {fit(answer.says)}")
        else:
            says = _tell_all(store, answer, channel, settings, words, now)
        if number < TOLD or answer.ok:
            notes += _back(channel, answer, says)
    return weighed, notes


def _tell_all(store: Store, answer: Weighed, channel: Channel, settings: NotifySettings, words: Words, now: datetime) -> str:
    """Everyone who was asked learns what became of it; the words for the one who answered."""
    fields = {"by": answer.by, "via": channel.kind, "at": words.at(now, now)}
    question = messages.question(store, plan=answer.plan)
    says = words("answer.told_approved" if answer.yes else "answer.told_refused", **fields)
    if question is None:
        return says
    short = words("answer.approved" if answer.yes else "answer.refused", **fields)
    if answer.yes:
        messages.ask(store, replace(question, answer=short))
        tell_places(question, headed(question, words, says), settings)
    else:
        close(store, question, headed(question, words, says), settings, now, short)
    return says


def headed(question: Question, words: Words, text: str) -> str:
    """An end that names the question it belongs to."""
    return f"{words('prefix')}{words.plan(question.plan.recipes, fit(question.plan.title, 80))}\n{text}"


def _back(channel: Channel, answer: Weighed, says: str) -> list[str]:
    """To the one who answered: a button is released, a wrong answer is explained."""
    if answer.ok and not answer.reply.handle:
        return []  # told with all the others
    kind = replies.module(channel)
    try:
        replies.bounded(
            channel,
            channel.time_limit.total_seconds() * 2,
            partial(kind.tell, channel, answer.reply.place, answer.reply.handle, says),
        )
    except ChannelError as error:
        return [fit(str(error))]
    return []

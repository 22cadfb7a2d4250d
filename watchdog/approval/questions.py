"""Questions about plans: which are due, how they are asked with a code per place, and reminded of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from watchdog.approval import record
from watchdog.approval.channels import base as channels
from watchdog.approval.channels.base import ChannelError, QuestionText
from watchdog.approval.channels.own_bot import refused
from watchdog.approval.ends import is_drill
from watchdog.config.settings import Channel, NotifySettings
from watchdog.errors import WatchdogError
from watchdog.model import Notification, OutcomeKind, Plan, Report
from watchdog.notify.choose import Proposal
from watchdog.notify.deliver import Messenger, OnTheHost, Queue
from watchdog.notify.plan_lines import HowToAnswer, how_to_answer
from watchdog.notify.sanitize import CODE, fit, full_text
from watchdog.store import Store, messages, questions
from watchdog.store import plans as rows
from watchdog.store.messages import FLAPPING, QUESTIONS, News
from watchdog.store.questions import Place, Question
from watchdog.text import redact
from watchdog.values import replace

ASK_AGAIN = timedelta(hours=4)  # after a question without an answer; no answer is a no
COMES_AND_GOES = timedelta(hours=2)  # from the last but one question that was no longer needed
LONGEST = 2800  # characters of a question; the shortest limit of a channel is 4,096 bytes


# Which questions are due.


def proposals(report: Report, ended: Sequence[Proposal], messenger: Messenger) -> tuple[Proposal, ...]:
    """The plans of this check, each with the question or the outcome it has; what is asked is recorded first."""
    store, now = messenger.store, messenger.now
    found = list(ended)
    plans = {plan.digest: plan for plan in report.plans}
    settled = {proposal.plan.digest for proposal in ended}
    acted = (outcome for outcome in report.outcomes if outcome.kind != OutcomeKind.WAITS)
    for digest in dict.fromkeys(outcome.plan_digest for outcome in acted):
        # carried out without a question: the settings allow it
        if digest and digest not in settled and not _was_closed(store, digest):
            settled.add(digest)
            plan = plans.get(digest) or Plan("", (), (), (), (), digest)
            if not (plan.id and messages.outcome_was_sent(store, plan.id, now)):
                outcomes = tuple(outcome for outcome in report.outcomes if outcome.plan_digest == digest)
                found.append(Proposal(plan, outcomes=outcomes))
    for question in questions.open_questions(store):
        stored = rows.get(store, question.plan.id)
        if not question.reminded_at and question.half_at <= now and stored and stored.state == "pending":
            plan = replace(plans.get(question.plan.digest, question.plan), id=question.plan.id)
            left = question.expires_at - now
            found.append(Proposal(plan, remind=True, severity=question.severity, left=left))
            settled.add(plan.digest)
    for plan in report.plans:
        if plan.digest not in settled:
            ask = plan.approval == "ask" and plan.hold is None and bool(plan.steps)
            if ask and may_ask(store, plan, now):
                # The record comes first, and the question carries the number it got there; none while another
                # check is carrying out a plan.
                number = record.ask(store, plan, now)
                found.append(Proposal(replace(plan, id=number), ask=bool(number)))
            else:
                found.append(Proposal(plan))
    return tuple(found)


def may_ask(store: Store, plan: Plan, now: datetime) -> bool:
    """Whether this has not been asked yet, or the last question is long enough ago."""
    stored = rows.get(store, plan.id) if plan.id else None
    if stored and stored.state == "pending" and stored.expires_at - now < plan.lasts / 2:
        return False  # recorded in quiet hours; the next record leaves enough time to answer
    gone = 0
    for last in questions.questions_about(store, plan.recipes, now - FLAPPING):
        before = rows.get(store, last.plan.id)
        if last.closed_at is None and last.plan.digest == plan.digest:
            return False  # asked, and still open
        if before and before.state == "expired" and now - before.expires_at < ASK_AGAIN:
            return False  # not answered; asking on and on would only teach people to look away
        gone += bool(before and before.state == "lapsed")
        if gone >= 2 and now - last.asked_at < COMES_AND_GOES:
            return False  # the fault comes and goes faster than anyone answers
    return True


def _was_closed(store: Store, digest: str) -> bool:
    """Approved and found to be no longer needed: those who were asked know it, and nothing was done."""
    asked = questions.question(store, digest=digest)
    return asked is not None and asked.closed_at is not None


# Asking.


@dataclass(frozen=True)
class Asking:
    """One question on its way to the channels."""

    question: Question
    notification: Notification
    waits: timedelta  # how long this check waits for the answer
    messenger: Messenger


def ask_questions(
    queue: Queue, proposed: Sequence[Proposal], messenger: Messenger, waits: timedelta | None = None
) -> tuple[dict[int, OnTheHost], list[str]]:
    """Put the questions among the notifications to the channels.

    Gives how to answer each open question on the host, for targets that have no way back, and lines about
    what could not be asked, which is never a yes.
    """
    plans = {proposal.plan.id: proposal.plan for proposal in proposed}
    lines = {
        proposal.plan.id: OnTheHost(reached=reached(proposal.heard_at, messenger.settings))
        for proposal in proposed
        if proposal.heard_at
    }
    notes: list[str] = []
    for _, notification in queue:
        if notification.news in QUESTIONS and notification.plan in plans:
            wait = messenger.settings.replies.wait if waits is None else waits
            question = _question(plans[notification.plan], notification, messenger)
            asked_at, failed = _ask(Asking(question, notification, wait, messenger))
            notes += failed
            here = reached(asked_at, messenger.settings)
            lines[notification.plan] = OnTheHost(on_the_host(question, messenger), here)
    for numbers in messages.owed(messenger.store, messenger.now).values():
        for number in numbers:
            late = messages.notification(messenger.store, number)
            plan = late[0].plan if late else 0
            asked = questions.question(messenger.store, plan=plan) if plan and plan not in lines else None
            if asked and asked.closed_at is None and asked.expires_at > messenger.now:
                lines[plan] = OnTheHost(on_the_host(asked, messenger))
    return lines, notes


def reached(places: Collection[str], settings: NotifySettings) -> frozenset[str]:
    """The targets that lead to one of these places: their readers have the message already."""
    addresses = [
        channels.module(channel).address(channel, name)
        for channel, name in channels.places(settings.replies)
        if name in places
    ]
    found = []
    for target in settings.targets:
        try:
            urls = [unquote(url) for url in target.url.lines()]
        except WatchdogError:
            continue  # reported when it is sent to
        if urls and all(any(_leads_to(url, address) for address in addresses) for url in urls):
            found.append(target.name)
    return frozenset(found)


def _leads_to(url: str, address: tuple[str, ...]) -> bool:
    return bool(address) and all(part and part in url for part in address)


def on_the_host(question: Question, messenger: Messenger) -> tuple[str, ...]:
    """How to answer in a shell."""
    code = record.new_code(messenger.store, question.plan.id, record.COMMAND_LINE, messenger.now)
    return tuple(how_to_answer(HowToAnswer(code, question.expires_at, "shell"), messenger.context))


def _question(plan: Plan, notification: Notification, messenger: Messenger) -> Question:
    known = questions.question(messenger.store, plan=plan.id)
    if notification.news == News.REMINDER and known:
        return known
    stored = rows.get(messenger.store, plan.id)
    expires = stored.expires_at if stored else messenger.now + plan.lasts  # the record decides
    question = Question(plan, notification.severity, (), messenger.now, expires)
    # before anything is sent: a crash must not leave a question that is not known
    questions.save_question(messenger.store, question)
    return question


def _ask(asking: Asking) -> tuple[list[str], list[str]]:
    """Ask in every channel that is due; a reminder carries new codes and goes to the next in line too.

    Gives the places that were asked, and lines about those that could not be.
    """
    store, question = asking.messenger.store, asking.question
    reminder = asking.notification.news == News.REMINDER
    places: list[Place] = []
    notes: list[str] = []
    for channel in asking.messenger.settings.replies.channels:
        if reminder or not channel.escalation:
            asked, failed = _ask_in(channel, asking)
            places, notes = places + asked, notes + failed
    merged = {place.name: place for place in (*question.places, *places)}
    now = asking.messenger.now if reminder else None
    questions.save_question(store, replace(question, places=tuple(merged.values()), reminded_at=now))
    return [place.name for place in places], notes


def _ask_in(channel: Channel, asking: Asking) -> tuple[list[Place], list[str]]:
    store, now, kind = asking.messenger.store, asking.messenger.now, channels.module(channel)
    places: list[Place] = []
    notes: list[str] = []
    try:
        if refusal := refused(channel, Path(asking.question.plan.home)):
            raise ChannelError(refusal)
        if not questions.cursor(store, channel.kind):
            begin = channels.bounded(channel, partial(kind.start, channel, now))
            questions.move_cursor(store, channel.kind, begin, now)
    except WatchdogError as error:
        return [], [f"not asked at {channel.kind}: {fit(str(error))}"]
    for name in kind.places(channel):
        code = record.new_code(store, asking.question.plan.id, name, now)
        asked = _asked(code, channel, asking)
        stored = rows.get(store, asking.question.plan.id)
        asked = replace(asked, plan=stored.plan if stored else None, lasts=asking.question.expires_at - now)
        try:
            receipt = channels.bounded(channel, partial(kind.ask, channel, name, asked))
            places.append(Place(name, receipt))
        except ChannelError as error:
            notes.append(f"not asked at {name}: {fit(str(error))}")
    return places, notes


def _asked(code: str, channel: Channel, asking: Asking) -> QuestionText:
    context, notification = asking.messenger.context, asking.notification
    way = "reply" if channel.form.by_text else "buttons"
    how = HowToAnswer(code, asking.question.expires_at, way, asking.waits, is_drill(asking.question.plan))
    answer = how_to_answer(how, context)
    body = redact(full_text(notification, answer, LONGEST))
    return QuestionText(
        title=redact(notification.title),
        # A lock screen needs no indentation; a room shows the commands as code.
        body=body if channel.form.by_text else body.replace("\n" + CODE, "\n"),
        approve=context.text("answer.approve", code=code),
        refuse=context.text("answer.refuse", code=code),
        approve_label=context.text("answer.button_approve"),
        refuse_label=context.text("answer.button_refuse"),
        urgent=notification.severity == "critical",
    )

"""Questions about plans: which are due, how they are asked with a code per place, reminded of and closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from watchdog.approval import record as approval
from watchdog.approval.channels import base as channels
from watchdog.approval.channels.base import ChannelError, QuestionText
from watchdog.approval.channels.telegram import same_bot
from watchdog.config.notify_settings import Channel, NotifySettings
from watchdog.errors import WatchdogError
from watchdog.model import Notification, Outcome, OutcomeKind, Plan, Report, plain
from watchdog.notify.choose import Proposal
from watchdog.notify.compose import (
    CODE,
    HowToAnswer,
    MessageContext,
    full_text,
    headline,
    how_to_answer,
    plan_title,
    result,
)
from watchdog.notify.deliver import Messenger, Queue
from watchdog.notify.sanitize import fit
from watchdog.store import Store, messages, questions
from watchdog.store import plans as rows
from watchdog.store.messages import FLAPPING, QUESTIONS, News
from watchdog.store.plans import Stored
from watchdog.store.questions import Place, Question
from watchdog.text import redact
from watchdog.values import replace

ASK_AGAIN = timedelta(hours=4)  # after a question that nobody answered; no answer is a no
COMES_AND_GOES = timedelta(hours=2)  # from the last but one question that was no longer needed
LONGEST = 2800  # characters of a question; the shortest limit of a channel is 4,096 bytes
_ENDED = ("done", "failed", "abandoned", "interrupted")


# Which questions are due.


def proposals(report: Report, ended: Sequence[Proposal], messenger: Messenger) -> tuple[Proposal, ...]:
    """The plans of this check, each with the question or the outcome it has; what is asked is recorded first."""
    store, now = messenger.store, messenger.now
    found = list(ended)
    plans = {plan.digest: plan for plan in report.plans}
    settled = {proposal.plan.digest for proposal in ended}
    for digest in dict.fromkeys(outcome.plan_digest for outcome in report.outcomes):
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
                number = approval.ask(store, plan, now)
                found.append(Proposal(replace(plan, id=number), ask=bool(number)))
            else:
                found.append(Proposal(plan))
    return tuple(found)


def may_ask(store: Store, plan: Plan, now: datetime) -> bool:
    """Whether nobody has been asked this, or the last question is long enough ago."""
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
) -> tuple[dict[int, list[str]], list[str]]:
    """Put the questions among the notifications to the channels.

    Gives how to answer each open question on the host, for targets that have no way back, and lines about
    what could not be asked, which is never a yes.
    """
    plans = {proposal.plan.id: proposal.plan for proposal in proposed}
    lines: dict[int, list[str]] = {}
    notes: list[str] = []
    for _, notification in queue:
        if notification.news in QUESTIONS and notification.plan in plans:
            wait = messenger.settings.replies.wait if waits is None else waits
            question = _question(plans[notification.plan], notification, messenger)
            notes += _ask(Asking(question, notification, wait, messenger))
            lines[notification.plan] = on_the_host(question, messenger)
    for numbers in messages.owed(messenger.store, messenger.now).values():
        for number in numbers:
            late = messages.notification(messenger.store, number)
            plan = late[0].plan if late else 0
            asked = questions.question(messenger.store, plan=plan) if plan and plan not in lines else None
            if asked and asked.closed_at is None and asked.expires_at > messenger.now:
                lines[plan] = on_the_host(asked, messenger)
    return lines, notes


def on_the_host(question: Question, messenger: Messenger) -> list[str]:
    """How to answer in a shell."""
    code = approval.new_code(messenger.store, question.plan.id, approval.COMMAND_LINE, messenger.now)
    return how_to_answer(HowToAnswer(code, question.expires_at, "shell"), messenger.context)


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


def _ask(asking: Asking) -> list[str]:
    """Ask in every channel that is due; a reminder carries new codes and goes to the next in line too."""
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
    return notes


def _ask_in(channel: Channel, asking: Asking) -> tuple[list[Place], list[str]]:
    store, now, kind = asking.messenger.store, asking.messenger.now, channels.module(channel)
    places: list[Place] = []
    notes: list[str] = []
    try:
        if refusal := refused(channel, Path(asking.question.plan.home)):
            raise ChannelError(refusal)
        if not questions.cursor(store, channel.kind):
            begin = channels.bounded(channel, _limit(channel), partial(kind.start, channel, now))
            questions.move_cursor(store, channel.kind, begin, now)
    except WatchdogError as error:
        return [], [f"not asked at {channel.kind}: {fit(str(error))}"]
    for name in kind.places(channel):
        code = approval.new_code(store, asking.question.plan.id, name, now)
        asked = _asked(code, channel, asking)
        stored = rows.get(store, asking.question.plan.id)
        asked = replace(asked, plan=stored.plan if stored else None, lasts=asking.question.expires_at - now)
        try:
            receipt = channels.bounded(channel, _limit(channel), partial(kind.ask, channel, name, asked))
            places.append(Place(name, receipt))
        except ChannelError as error:
            notes.append(f"not asked at {name}: {fit(str(error))}")
    return places, notes


def _asked(code: str, channel: Channel, asking: Asking) -> QuestionText:
    context, notification = asking.messenger.context, asking.notification
    way = "reply" if channel.kind == "matrix" else "buttons"
    answer = how_to_answer(HowToAnswer(code, asking.question.expires_at, way, asking.waits), context)
    body = redact(full_text(notification, answer, LONGEST))
    return QuestionText(
        title=redact(notification.title),
        # A lock screen needs no indentation; a room shows the commands as code.
        body=body if channel.kind == "matrix" else body.replace("\n" + CODE, "\n"),
        approve=context.text("answer.approve", code=code),
        refuse=context.text("answer.refuse", code=code),
        approve_label=context.text("answer.button_approve"),
        refuse_label=context.text("answer.button_refuse"),
        urgent=notification.severity == "critical",
    )


def refused(channel: Channel, home: Path) -> str:
    """Why a channel must not be used at all; empty when it may."""
    return same_bot(channel, home) if channel.kind == "telegram" else ""


def _limit(channel: Channel) -> float:
    return channel.time_limit.total_seconds() * 2 + 1  # a room's name may have to be looked up first


# How questions end: answered and done, answered elsewhere, out of time, or no longer needed.


def close_questions(
    outcomes: Sequence[Outcome], messenger: Messenger
) -> tuple[tuple[Proposal, ...], list[str]]:
    """Tell the end of each question that has one to the places that were asked.

    Gives the plans that were carried out, with their outcomes, and lines about places that were not reached.
    """
    approval.expire(messenger.store, messenger.now)
    ended: list[Proposal] = []
    notes: list[str] = []
    for question in questions.open_questions(messenger.store):
        stored = rows.get(messenger.store, question.plan.id)
        answer = answer_of(stored, messenger.context)
        own = tuple(outcome for outcome in outcomes if outcome.plan_digest == question.plan.digest)
        own = own or outcome_of(stored)
        if own and stored and stored.state != "lapsed":
            plan = replace(stored.plan, id=question.plan.id)
            ended.append(Proposal(plan, outcomes=own, answer=answer, severity=question.severity))
        if text := _end_of(question, stored, own, messenger.context):
            notes += close(question, text, messenger, answer)
    return tuple(ended), notes


def _end_of(
    question: Question, stored: Stored | None, outcomes: Sequence[Outcome], context: MessageContext
) -> str:
    """How a question ended, in a sentence; '' while it is open."""
    state = stored.state if stored else "lapsed"
    if outcomes and state != "lapsed":
        answer = answer_of(stored, context) or question.answer
        key = "answer.done" if outcomes[-1].ok else "answer.failed"
        return context.text(key, answer=answer, result=result(outcomes, question.plan, context))
    if state == "expired":
        return context.text("answer.expired", at=question.expires_at)
    if state in ("lapsed", "superseded"):
        why = context.say(stored.reason) if stored and stored.reason else context.text("answer.plan_changed")
        return context.text("answer.lapsed", why=why)
    if state == "refused" and stored:
        return answer_of(stored, context, "answer.is_refused")
    return ""


def outcome_of(stored: Stored | None) -> tuple[Outcome, ...]:
    """How a plan ended that was carried out elsewhere, such as by `approve` on the host."""
    if stored is None or stored.state not in _ENDED:
        return ()
    ok = stored.state == "done"
    title, reason = plain(stored.plan.title), stored.reason or plain(stored.state)
    return (Outcome(stored.plan.digest, OutcomeKind.PLAN, title, ok, reason),)


def answer_of(stored: Stored | None, context: MessageContext, key: str = "") -> str:
    """Who answered, how and when, in the reader's words."""
    if stored is None or stored.answered_at is None or stored.answered_via == "auto":
        return ""
    key = key or ("answer.refused" if stored.state == "refused" else "answer.approved")
    via = context.text(f"via.{stored.answered_via.partition('/')[0]}")
    return context.text(key, by=fit(stored.answered_by, 40), via=via, at=stored.answered_at)


def close(question: Question, text: str, messenger: Messenger, answer: str = "") -> list[str]:
    """Tell the end to every place that was asked, once."""
    answer = answer or question.answer
    questions.save_question(messenger.store, replace(question, closed_at=messenger.now, answer=answer))
    return tell_places(question, with_title(question, text, messenger.context), messenger.settings)


def tell_places(question: Question, text: str, settings: NotifySettings) -> list[str]:
    """A message to every place that was asked."""
    notes: list[str] = []
    asked = {place.name: place for place in question.places}
    for channel in settings.replies.channels:
        kind = channels.module(channel)
        for name in kind.places(channel):
            if name in asked:
                tell = partial(kind.tell, channel, name, asked[name].receipt, text)
                try:
                    channels.bounded(channel, _limit(channel), tell)
                except ChannelError as error:
                    notes.append(f"{name} could not be told: {fit(str(error))}")
    return notes


def with_title(question: Question, text: str, context: MessageContext) -> str:
    """An end that names the question it belongs to."""
    return f"{headline(plan_title(question.plan, context), context.words)}\n{text}"

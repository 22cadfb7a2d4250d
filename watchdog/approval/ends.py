"""How questions end: answered and done, answered elsewhere, out of time, or no longer needed; and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watchdog.approval import record
from watchdog.approval.channels import base as channels
from watchdog.model import Outcome, OutcomeKind, Plan, plain
from watchdog.model.plan_reasons import End, Lapse
from watchdog.notify.choose import Proposal
from watchdog.notify.context import MessageContext
from watchdog.notify.deliver import Messenger
from watchdog.notify.plan_lines import is_cut_off, outcome_title, plan_title, result
from watchdog.notify.sanitize import fit, headline
from watchdog.store import plans as rows
from watchdog.store import questions
from watchdog.store.plans import Stored
from watchdog.store.questions import Question
from watchdog.values import replace

DRILL = "drill"  # stands for the recipe of a plan that does nothing
_NOT_NEEDED = (End.NO_LONGER_NEEDED, Lapse.GONE)
_ENDED = ("done", "failed", "abandoned", "interrupted")


def close_questions(
    outcomes: Sequence[Outcome], messenger: Messenger
) -> tuple[tuple[Proposal, ...], list[str]]:
    """Tell the end of each question that has one to the places that were asked.

    Gives the plans that were carried out, with their outcomes, and lines about places that were not reached.
    """
    record.expire(messenger.store, messenger.now)
    ended: list[Proposal] = []
    notes: list[str] = []
    for question in questions.open_questions(messenger.store):
        stored = rows.get(messenger.store, question.plan.id)
        answer = answer_of(stored, messenger.context)
        own = tuple(outcome for outcome in outcomes if outcome.plan_digest == question.plan.digest)
        if own and own[-1].kind == OutcomeKind.WAITS:
            title = messenger.context.text("title.waits", what=plan_title(question.plan, messenger.context))
            notes += tell_places(question, EndText(title, messenger.context.say(own[-1].reason)), messenger)[
                1
            ]
            continue
        own = own or outcome_of(stored)
        heard_at: tuple[str, ...] = ()
        if text := _end_of(question, stored, own, messenger.context):
            heard_at, failed = close(question, text, messenger, answer)
            notes += failed
        if own and stored and stored.state != "lapsed":
            plan = replace(stored.plan, id=question.plan.id)
            outcome = Proposal(plan, outcomes=own, answer=answer, severity=question.severity)
            ended.append(replace(outcome, heard_at=heard_at))
    return tuple(ended), notes


@dataclass(frozen=True)
class EndText:
    """What the places that were asked are told at the end of a question."""

    title: str
    body: str


def _end_of(
    question: Question, stored: Stored | None, outcomes: Sequence[Outcome], context: MessageContext
) -> EndText | None:
    """How a question ended; None while it is open."""
    state = stored.state if stored else "lapsed"
    what = plan_title(question.plan, context)
    if outcomes and state != "lapsed":
        answer = answer_of(stored, context) or question.answer
        plan = stored.plan if stored else question.plan  # a question keeps only what asking needs
        body = result(outcomes, plan, context)
        if answer:
            body = context.text(
                "answer.done" if outcomes[-1].ok or is_cut_off(outcomes) else "answer.failed",
                answer=answer,
                result=body,
            )
        return EndText(outcome_title(outcomes, question.plan, context), body)
    if state == "expired":
        return EndText(
            context.text("title.expired", what=what), context.text("answer.expired", at=question.expires_at)
        )
    if state in ("lapsed", "superseded"):
        reason = stored.reason if stored else None
        why = context.say(reason) if reason else context.text("answer.plan_changed")
        key = "lapsed" if reason and reason.key in _NOT_NEEDED else "not_done"
        return EndText(context.text(f"title.{key}", what=what), context.text(f"answer.{key}", why=why))
    if state == "refused" and stored:
        return answered_text(question, False, answer_of(stored, context, "answer.is_refused"), context)
    return None


def is_drill(plan: Plan) -> bool:
    """Whether it is a question for practice (service/drill.py): there is nothing to carry out."""
    return plan.recipes == (DRILL,)


def answered_text(question: Question, yes: bool, body: str, context: MessageContext) -> EndText:
    """What everyone who was asked learns of an answer."""
    if is_drill(question.plan):
        return EndText(context.text("drill.title_ended"), body)
    key = "title.approved" if yes else "title.refused"
    return EndText(context.text(key, what=plan_title(question.plan, context)), body)


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


def close(
    question: Question, end: EndText, messenger: Messenger, answer: str = ""
) -> tuple[tuple[str, ...], list[str]]:
    """Tell the end to every place that was asked, once: the places that know it, and lines about the others."""
    answer = answer or question.answer
    questions.save_question(messenger.store, replace(question, closed_at=messenger.now, answer=answer))
    return tell_places(question, end, messenger)


def tell_places(question: Question, end: EndText, messenger: Messenger) -> tuple[tuple[str, ...], list[str]]:
    """A message to every place that was asked: the places that have it, and lines about the others."""
    notes, told_at = [], []
    text = f"{headline(end.title, messenger.context.words)}\n{end.body}"
    asked = {place.name: place for place in question.places}
    for channel, name in channels.places(messenger.settings.replies):
        if name in asked:
            if why := channels.tell(channel, name, asked[name].receipt, text):
                notes.append(f"{name} could not be told: {why}")
            else:
                told_at.append(name)
    return tuple(told_at), notes

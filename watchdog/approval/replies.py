"""Replies: every channel that was asked is read, each reply is checked, and the record decides what it counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from watchdog.approval import record
from watchdog.approval.channels import base as channels
from watchdog.approval.channels.base import LONG, ChannelError, Collected, Reply
from watchdog.approval.ends import answered_text, close, is_drill, tell_places
from watchdog.config.settings import Channel, Limits
from watchdog.fleet.mailbox_plan import digest_of_own
from watchdog.model import Reason
from watchdog.model.plan_reasons import Said
from watchdog.notify.deliver import Messenger
from watchdog.notify.sanitize import alias, fit
from watchdog.notify.translate import in_english
from watchdog.store import plans as rows
from watchdog.store import questions
from watchdog.values import replace

EVERY = 2.0  # seconds between two looks
EXPLAINED = 5  # wrong replies that get an explanation in one look; a flood gets no more
TRIES = 20  # replies checked per channel and look; a flood is not read to its end
NOS = 100  # and as many refusals: no flood hides one
STRANGERS = 5  # lines in the audit per look, for the same reason
NEWEST = 500  # replies of a flood that are looked at: the answer to today's question is among the newest
VERBS = {
    "approve": True, "ok": True, "yes": True, "同意": True, "批准": True, "确认": True,
    "refuse": False, "deny": False, "no": False, "拒绝": False, "不同意": False, "取消": False,
}  # fmt: skip
_CLEAR = {"approve", "refuse", "同意", "批准", "拒绝"}  # verbs that begin no ordinary sentence of two words
# Exactly a word and a code. More than that may mean something else, which is not for a program to guess.
# In Chinese the space is often left out.
_ANSWER = re.compile(r"(?i)(?:([a-z]{2,8})[ \u3000]{1,3}|([\u4e00-\u9fff]{2,4})[ \u3000]{0,3})([A-Z0-9]{8})")
_ATTEMPT = re.compile(
    r"(?i)\s*([a-z]{2,8}|[\u4e00-\u9fff]{2,4})[\s:：,，.!！]*(?:[A-Z0-9]{8}\b.*)?", re.DOTALL
)
# A verb and one word that is no code: "approve 1"
_TOO_SHORT = re.compile(
    r"(?i)\s*(?:([a-z]{2,8})[\s:：,，]+|([\u4e00-\u9fff]{2,4})[\s:：,，]*)([A-Z0-9-]{1,40})\W*"
)


@dataclass(frozen=True)
class ParsedAnswer:
    """A reply that is an answer in form."""

    yes: bool
    code: str


@dataclass(frozen=True)
class ReplyResult:
    """What became of one reply."""

    reply: Reply
    ok: bool  # it changed the record
    reason: Reason  # what the one who answered is told
    yes: bool = False
    by: str = ""
    plan: int = 0


@dataclass(frozen=True)
class Patience:
    """How long answers are waited for, and the clock that measures it."""

    wait: timedelta = timedelta(0)
    clock: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)


def hear(
    messenger: Messenger, limits: Limits | None = None, patience: Patience | None = None
) -> tuple[tuple[ReplyResult, ...], tuple[str, ...]]:
    """All replies that changed the record, and lines about everything that did not.

    Waits for one, as long as `patience` says, while a question is open.
    """
    patience = patience or Patience()
    began = patience.clock()
    changed: list[ReplyResult] = []
    notes: list[str] = []
    while True:
        elapsed = timedelta(seconds=patience.clock() - began)
        at = replace(messenger, context=replace(messenger.context, now=messenger.now + elapsed))
        asked = _places_asked(at)
        # A button that came too late is told so, but not waited for.
        left = (patience.wait - elapsed).total_seconds() if asked else 0.0
        asked |= {
            place.name
            for question in questions.shown_questions(at.store, at.now)
            for place in question.places
            if question.closed_at
        }
        if not asked:
            break
        for channel in messenger.settings.replies.channels:
            if asked & set(channels.module(channel).places(channel)):
                # A long poll only where it is alone; next to others it would keep them waiting.
                alone = len(messenger.settings.replies.channels) == 1
                results, lines = _look(channel, at, min(left, 10.0) if alone and left > 0 else 0.0, limits)
                changed += [result for result in results if result.ok]
                notes += [line for line in lines if line not in notes]
        if changed or left <= 0:
            break
        patience.sleep(min(EVERY, max(left, 0.05)))
    return tuple(changed), tuple(notes)


def parse(text: str) -> ParsedAnswer | None:
    """`approve K7MNPQRS`, `同意 K7MNPQRS`; None for anything else, also with one word more."""
    if len(text) > LONG or not (found := _ANSWER.fullmatch(text.strip())):
        return None
    yes = VERBS.get((found[1] or found[2]).lower())
    return None if yes is None else ParsedAnswer(yes, found[3].upper())


def attempted(text: str) -> bool:
    """Whether the text looks like an attempt to answer; chatter in a room is left alone."""
    if (found := _ATTEMPT.fullmatch(text[: LONG + 1])) and found[1].lower() in VERBS:
        return True
    if (found := _TOO_SHORT.fullmatch(text[: LONG + 1])) is None:
        return False
    verb = (found[1] or found[2]).lower()
    return verb in VERBS and (verb in _CLEAR or any(letter.isdigit() for letter in found[3]))


def check_replies(
    channel: Channel, heard: Collected, messenger: Messenger, limits: Limits | None = None
) -> tuple[list[ReplyResult], list[str]]:
    """Give each reply of someone who may answer to the record; the rest becomes lines for the report."""
    names = {approver.id or approver.name: approver.name for approver in channel.approvers}
    results: list[ReplyResult] = []
    notes = list(heard.notes)
    strangers = skipped = tries = 0
    for reply, answer in _refusals_first(heard.replies, names):
        no = answer is not None and not answer.yes
        own = rows.get(messenger.store, reply.seen.plan) if reply.seen else None
        if reply.seen and (own is None or own.plan.home != reply.seen.home):
            continue  # another home of this host hears the same mailbox
        by = names.get(reply.who, "")
        give = partial(record.GivenAnswer, allowed=tuple(names.values()))
        if not by:
            strangers += 1
            if answer and strangers <= STRANGERS:
                # Recorded and turned away without a look at the code: a wrong one must not lock the others out.
                who = reply.who if reply.who.startswith("@") else alias(reply.who)
                given = give(answer.code, answer.yes, who, reply.place)
                record.answer(messenger.store, given, messenger.now)
        elif not no and tries >= TRIES:
            skipped += 1
        elif answer is None:
            tries += 1
            results.append(ReplyResult(reply, False, Reason("answer.unreadable"), by=by))
        elif not no and reply.seen and own and reply.seen.digest != digest_of_own(own.plan):
            why = Reason("answer.not-the-plan", {"plan": own.id})
            giver = rows.Who(by, reply.place)
            rows.audit(messenger.store, "not the plan", messenger.now, own.plan, giver, reason=why)
            results.append(ReplyResult(reply, False, why, answer.yes, by, own.id))
        else:
            tries += not no
            given = give(answer.code, answer.yes, by, reply.place)
            made = record.answer(messenger.store, given, messenger.now, limits)
            results.append(ReplyResult(reply, made.ok, made.reason, answer.yes, by, made.plan_id))
    if strangers:
        noun = "answer" if strangers == 1 else "answers"
        notes.append(f"{channel.kind}: {strangers} {noun} of people who are not on the list; ignored")
    if skipped:
        noun = "answer was" if skipped == 1 else "answers were"
        notes.append(f"{channel.kind}: {skipped} further {noun} not checked; {TRIES} at a time")
    return results, notes


def _refusals_first(
    replies: Sequence[Reply], names: Collection[str]
) -> list[tuple[Reply, ParsedAnswer | None]]:
    """What looks like an answer: each no of the people on the list, then the newest of all others."""
    refusals: list[tuple[Reply, ParsedAnswer | None]] = []
    others: list[tuple[Reply, ParsedAnswer | None]] = []
    for reply in replies:
        answer = parse(reply.text)
        no = answer is not None and not answer.yes and reply.who in names
        (refusals if no else others).append((reply, answer))
    newest = [(reply, answer) for reply, answer in others[-NEWEST:] if answer or attempted(reply.text)]
    return [*refusals[-NOS:], *newest]


def _places_asked(messenger: Messenger) -> set[str]:
    """Where an answer may come from: a yes while the question is open, a no until its plan has ended."""
    approved = {stored.id for stored in rows.in_state(messenger.store, "approved", "claimed")}
    return {
        place.name
        for question in questions.open_questions(messenger.store)
        if question.plan.id in approved or (not question.answer and question.expires_at > messenger.now)
        for place in question.places
    }


def _look(
    channel: Channel, messenger: Messenger, wait: float, limits: Limits | None
) -> tuple[list[ReplyResult], list[str]]:
    store, context, kind = messenger.store, messenger.context, channels.module(channel)
    limit = channel.time_limit.total_seconds() * (len(channel.approvers) + 1) + wait
    try:
        cursor = questions.cursor(store, channel.kind)
        heard = channels.bounded(channel, partial(kind.collect, channel, cursor, wait), limit)
    except ChannelError as error:
        return [], [fit(str(error))]
    results, notes = check_replies(channel, heard, messenger, limits)
    # Moved only after the replies were checked: a crash in between reads them again, and a used code does
    # nothing.
    questions.move_cursor(store, channel.kind, heard.cursor, messenger.now)
    for number, result in enumerate(results):
        if result.ok:
            text = _tell_all(result, channel, messenger)
        else:
            text = f"{context.text('answer.no_effect')}\n{context.say(result.reason)}"
        if not result.ok:
            why = fit(in_english(result.reason))
            notes.append(f"{result.reply.place}: an answer by {result.by} changed nothing: {why}")
        if number < EXPLAINED or result.ok:
            notes += _reply_to(result, channel, text)
    return results, notes


def _tell_all(result: ReplyResult, channel: Channel, messenger: Messenger) -> str:
    """Everyone who was asked learns the answer; the words for the one who gave it."""
    context = messenger.context
    fields = {"by": result.by, "via": context.text(f"via.{channel.kind}"), "at": context.now}
    question = questions.question(messenger.store, plan=result.plan)
    key = "answer.is_approved" if result.yes else "answer.is_refused"
    if until := result.reason.fields.get("until"):
        key, fields = "answer.is_refused_until", {**fields, "until": until}
    text = context.text("drill.arrived" if question and is_drill(question.plan) else key, **fields)
    if question is not None:
        short = context.text("answer.approved" if result.yes else "answer.refused", **fields)
        if result.reason.key == Said.STOPPING:
            text = context.say(result.reason)
        end = answered_text(question, result.yes, text, context)
        if result.reason.key == Said.STOPPING:
            tell_places(question, end, messenger)  # its end is still to come
        elif result.yes:
            questions.save_question(messenger.store, replace(question, answer=short))
            tell_places(question, end, messenger)
        else:
            close(question, end, messenger, short)
    return text


def _reply_to(result: ReplyResult, channel: Channel, text: str) -> list[str]:
    """To the one who answered: a button is released, a wrong answer is explained."""
    if result.ok and not result.reply.handle:
        return []  # told with all the others
    why = channels.tell(channel, result.reply.place, result.reply.handle, text)
    return [why] if why else []

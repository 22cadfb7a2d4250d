"""A reply → a decision: who wrote it, what exactly it says, and what the record of the approval makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from watchdog.limits import Limits
from watchdog.outgoing import alias
from watchdog.replies import LONG, Heard, Reply
from watchdog.store import Store
from watchdog.targets import Channel

VERBS = {
    "approve": True, "ok": True, "yes": True, "同意": True, "批准": True, "确认": True,
    "refuse": False, "deny": False, "no": False, "拒绝": False, "不同意": False, "取消": False,
}  # fmt: skip
TRIES = 20  # replies weighed per channel and look; a flood is not read to its end
STRANGERS = 5  # lines in the audit per look, for the same reason
# Exactly a word and a code. Whoever writes more wants to say more, and that is not for a program to guess.
# In Chinese the space is often left out.
_ANSWER = re.compile(r"(?i)(?:([a-z]{2,8})[ \u3000]{1,3}|([\u4e00-\u9fff]{2,4})[ \u3000]{0,3})([A-Z0-9]{8})")
_ATTEMPT = re.compile(r"(?i)\s*([a-z]{2,8}|[\u4e00-\u9fff]{2,4})[\s:：,，.!！]*(?:[A-Z0-9]{8}\b.*)?", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """A reply that is an answer in form."""

    yes: bool
    code: str


@dataclass(frozen=True)
class Weighed:
    """What became of one reply."""

    reply: Reply
    ok: bool  # it changed the record
    says: str
    yes: bool = False
    by: str = ""
    plan: int = 0


def parse(text: str) -> Said | None:
    """`approve K7MNPQRS`, `同意 K7MNPQRS`; None for anything else, also with one word more."""
    if len(text) > LONG or not (found := _ANSWER.fullmatch(text.strip())):
        return None
    yes = VERBS.get((found[1] or found[2]).lower())
    return None if yes is None else Said(yes, found[3].upper())


def attempted(text: str) -> bool:
    """Does it look as if somebody meant to answer? Chatter in a room is left alone."""
    found = _ATTEMPT.fullmatch(text[: LONG + 1])
    return found is not None and found[1].lower() in VERBS


def weigh(store: Store, channel: Channel, heard: Heard, now: datetime, limits: Limits | None = None) -> tuple[list[Weighed], list[str]]:
    """Answer the record with each reply of someone who may; the rest becomes lines for the report."""
    from watchdog import approval

    names = {approver.id or approver.name: approver.name for approver in channel.approvers}
    weighed: list[Weighed] = []
    notes = list(heard.notes)
    strangers = left = 0
    for reply in _newest_first(heard.replies):
        said = parse(reply.text)
        if said is None and not attempted(reply.text):
            continue
        by = names.get(reply.who, "")
        if not by:
            strangers += 1
            if said and strangers <= STRANGERS:
                # Written down and turned away, without a look at the code: a wrong one must not lock out the others.
                who = reply.who if reply.who.startswith("@") else alias(reply.who)
                approval.answer(store, said.code, said.yes, who, reply.place, now, allowed=tuple(names.values()))
        elif len(weighed) >= TRIES:
            left += 1
        elif said is None:
            weighed.append(Weighed(reply, False, "unreadable", by=by))
        else:
            answer = approval.answer(store, said.code, said.yes, by, reply.place, now, allowed=tuple(names.values()), limits=limits)
            weighed.append(Weighed(reply, answer.ok, answer.says, said.yes, by, answer.plan_id or 0))
    if strangers:
        notes.append(f"{channel.kind}: {strangers} answers of people who are not on the list; ignored")
    if left:
        notes.append(f"{channel.kind}: {left} further answers were not weighed; {TRIES} at a time")
    return weighed, notes


def _newest_first(replies: Iterable[Reply]) -> list[Reply]:
    """In the order they came; of a flood only the newest, among which the answer to today's question is."""
    told = [reply for reply in replies if reply.text]
    return told[-500:]

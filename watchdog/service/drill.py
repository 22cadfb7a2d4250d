"""A fire drill: a harmless real question, sent as every question is, and answered by a person end to end.

It has a record of its own in memory: no budget, audit or plan of the home knows of it, and nothing can be done by it.
Only how far the answers of a channel were read is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from watchdog import approval
from watchdog.approval import record
from watchdog.approval.channels import base as channels
from watchdog.approval.channels.base import ChannelError
from watchdog.approval.channels.own_bot import refused
from watchdog.approval.ends import DRILL
from watchdog.approval.replies import Patience
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.model import Notification, Plan, Reason, phrase
from watchdog.notify import Messenger, Proposal, deliver_all, messenger
from watchdog.notify.context import host_of
from watchdog.notify.translate import in_english
from watchdog.plan.planner import digest_of
from watchdog.store import Store, messages, questions
from watchdog.store import plans as rows
from watchdog.store.messages import News
from watchdog.system.users import person

AskCode = Callable[[], str]  # the code that a person read on a phone; '' when none came


@dataclass(frozen=True)
class DrillResult:
    """What became of a drill."""

    sent: tuple[str, ...]  # where the question went
    problems: tuple[str, ...]
    answered: bool = False
    yes: bool = False
    by: str = ""
    via: str = ""
    took: timedelta = timedelta(0)


def need_somebody(job: Job) -> None:
    """WatchdogError unless a question has somewhere to go."""
    settings = job.settings.notify
    if not settings.targets and not settings.replies.channels:
        raise WatchdogError("there is no target and no reply channel to ask by; run: {watchdog} setup")


def drill(
    job: Job, wait: timedelta, ask_code: AskCode | None = None, patience: Patience | None = None
) -> DrillResult:
    """Ask, wait for the answer, and tell everyone who was asked that it arrived.

    Without a channel that brings answers back, `ask_code` reads the code that arrived on the phone.
    """
    need_somebody(job)
    if job.recall(
        lambda own: any(plan.expires_at > job.now for plan in rows.in_state(own, "pending")), False
    ):
        raise WatchdogError(
            "a real question waits, and a drill would read its answer away; see: {watchdog} plans"
        )
    with Store.in_memory() as store:
        post = messenger(store, job.settings, job.book, str(job.home), job.now)
        _skip_what_was_said_before(job, post)
        plan = _plan(job, post, wait)
        plan = replace(plan, id=record.ask(store, plan, job.now))
        number, notification = _question(plan, post)
        asked, problems = approval.ask_questions(
            [(number, notification)], [Proposal(plan, ask=True)], post, wait
        )
        here = replace(asked[plan.id], lines=(_host_line(plan, post),))
        problems += deliver_all([(number, notification)], {plan.id: here}, post)
        sent = _places(job, here.reached)
        result = _wait(job, post, patience or Patience(wait), ask_code)
        _remember_what_was_read(job, store)
        stored = rows.get(store, plan.id)
        ended = DrillResult(sent, (*problems, *result))
        if stored is None or stored.answered_at is None:
            return ended
        yes, by, via = stored.state == "approved", stored.answered_by, stored.answered_via
        return replace(ended, answered=True, yes=yes, by=by, via=via, took=stored.answered_at - job.now)


def _skip_what_was_said_before(job: Job, post: Messenger) -> None:
    """Answers to an earlier drill are none to this one."""
    for channel in post.settings.replies.channels:
        kind, known = channel.kind, job.recall(partial(questions.cursor, channel=channel.kind), "")
        with suppress(ChannelError):  # told when it is asked
            heard = channels.bounded(channel, partial(channels.module(channel).collect, channel, known, 0.0))
            questions.move_cursor(post.store, kind, heard.cursor, post.now)


def _remember_what_was_read(job: Job, store: Store) -> None:
    """So that the next check takes the answer to a drill for none to a question of its own."""
    if not job.store_path.exists():
        return
    with suppress(WatchdogError, sqlite3.Error), job.store() as own:
        for channel in job.settings.notify.replies.channels:
            if cursor := questions.cursor(store, channel.kind):
                questions.move_cursor(own, channel.kind, cursor, job.now)


def _host_line(plan: Plan, post: Messenger) -> str:
    """What a target without buttons says: the host's own line would name the real store, which knows of no drill."""
    if post.settings.replies.channels:
        return post.context.text("drill.no-buttons")
    code = record.new_code(post.store, plan.id, record.COMMAND_LINE, post.now)
    return post.context.text("drill.type", code=code)


def _plan(job: Job, post: Messenger, wait: timedelta) -> Plan:
    """A plan without steps: whatever is answered, there is nothing to do."""
    made = Plan(
        post.context.text("drill.title"),
        (DRILL,),
        (DRILL,),
        (),
        (Reason("drill.step"),),
        "",
        lasts=max(wait, timedelta(minutes=1)),
        host=host_of(job.settings.notify),
        home=str(job.home),
    )
    return replace(made, digest=digest_of(made))


def _question(plan: Plan, post: Messenger) -> tuple[int, Notification]:
    notification = Notification(
        News.QUESTION,
        post.context.text("drill.title"),
        post.context.text("drill.body", host=plan.host),
        "critical",  # quiet limits of a target must not hide a drill
        plan=plan.id,
    )
    return messages.record(post.store, notification, post.now), notification


def _places(job: Job, reached: Collection[str]) -> tuple[str, ...]:
    """Where a question of this home goes, by name; not the targets that a channel has reached already."""
    settings = job.settings.notify
    found: list[str] = [
        phrase("notify.to-target", "target {name}", name=target.name)
        for target in settings.targets
        if target.name not in reached
    ]
    for channel in settings.replies.channels:
        if not refused(channel, job.home):
            places = channels.module(channel).places(channel)
            found += [phrase("notify.to-place", "answers by {name}", name=place) for place in places]
    return tuple(found)


def _wait(job: Job, post: Messenger, patience: Patience, ask_code: AskCode | None) -> tuple[str, ...]:
    """Wait for an answer on the channels, or for a code typed here; lines about what did not work."""
    if job.settings.notify.replies.channels:
        _, notes = approval.hear(post, job.settings.limits, patience)
        return notes
    word = ask_code() if ask_code is not None else ""
    if not word:
        return ()
    given = record.GivenAnswer(word, True, person(), record.COMMAND_LINE)
    answer = record.answer(post.store, given, job.now, job.settings.limits)
    return () if answer.ok else (in_english(answer.reason),)

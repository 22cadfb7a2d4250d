"""A selection → a notification in the reader's language: headline, what matters, details below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from watchdog.model import SEVERITIES, Notification
from watchdog.notify import lines
from watchdog.notify.choose import Proposal, Selection, worst
from watchdog.notify.context import MessageContext
from watchdog.notify.sanitize import HEADLINE, cut, fit, headline
from watchdog.store.messages import Day, News, Subject


@dataclass(frozen=True)
class Message:
    """The parts of a notification."""

    title: str
    body: list[str]
    details: list[str] = field(default_factory=list)


def compose(selection: Selection, context: MessageContext) -> Notification:
    """The notification for one selection; without the codes, which differ for each reader."""
    message = _COMPOSERS.get(selection.news, _fault)(selection, context)
    plan = selection.proposal.plan.id if selection.proposal else 0
    incidents = tuple(dict.fromkeys(subject.incident for subject in selection.subjects if subject.incident))
    details = [*message.details, *lines.where_to_look(plan, incidents, context)]
    return Notification(
        selection.news,
        headline(message.title, context.words),
        cut("\n".join(message.body)),
        selection.severity,
        incidents,
        plan,
        cut("\n".join(details)),
    )


def daily(open_now: Sequence[Subject], counts: tuple[int, int, int], context: MessageContext) -> Notification:
    """The optional message once a day that the watchdog is there."""
    opened, closed, actions = counts
    line = context.text("line.daily", opened=opened, closed=closed, actions=actions)
    body = [line if any(counts) else context.text("line.daily_quiet")]
    body += [f"• {lines.says(subject, context)}" for subject in open_now[: lines.SHOWN]]
    title = context.text("title.daily_open", count=len(open_now)) if open_now else context.text("title.quiet")
    return Notification(
        News.DAILY, headline(title, context.words), cut("\n".join([*body, context.host])), "info"
    )


def weekly(
    open_now: Sequence[Subject], days: Sequence[Day], faults: int, context: MessageContext
) -> Notification:
    """The optional message once a week: all quiet, or what there was, with a line for each day."""
    unchecked = sum(not day.checks for day in days)
    if open_now:
        title = context.text("title.daily_open", count=len(open_now))
    elif faults:
        title = context.text("title.week", count=faults)
    elif unchecked:
        title = context.text("title.week_unchecked", count=unchecked)
    else:
        title = context.text("title.week_quiet" if days else "title.week_new")
    body = [_day_line(day, context) for day in days] or [context.text("line.week_new")]
    body += [f"• {lines.says(subject, context)}" for subject in open_now[: lines.SHOWN]]
    return Notification(
        News.WEEKLY, headline(title, context.words), cut("\n".join([*body, context.host])), "info"
    )


def _day_line(day: Day, context: MessageContext) -> str:
    if day.faults:
        parts = [context.text("week.faults", count=day.faults)]
        parts += [context.text("week.repairs", count=day.repairs)] if day.repairs else []
        result = context.words.joined(parts)
    else:
        result = context.text("week.quiet" if day.checks else "week.unchecked")
    weekday = context.text(f"weekday.{day.start.weekday()}")
    return context.text("week.day", weekday=weekday, date=f"{day.start:%m-%d}", result=result)


def test_message(context: MessageContext) -> Notification:
    """What `notify --test` sends."""
    title = headline(context.text("title.test"), context.words)
    return Notification(News.TEST, title, context.text("line.test", host=context.host), "info")


def _fault(selection: Selection, context: MessageContext) -> Message:
    proposal = selection.proposal
    lead, own = _lead(selection)
    what = (
        lines.headline_of(lead, own, context)
        if lead
        else lines.plan_title(proposal.plan, context)
        if proposal
        else ""
    )
    if selection.news in (News.QUESTION, News.REMINDER) and proposal:
        asking = {"ask": lines.ask(proposal.plan, context)}
        key = "title.ask"
        if selection.news == News.REMINDER:
            key, asking = "title.remind", {**asking, "left": context.words.short(proposal.left)}
        room = HEADLINE - len(context.words("prefix")) - len(context.text(key, what="", **asking))
        title = context.text(key, what=fit(what, room), **asking)  # what is asked is never cut off
    elif selection.news == News.OPENED:
        kinds = len({subject.rule for subject in own})
        title = context.text("title.many", what=what, count=kinds - 1) if kinds > 1 else what
    else:
        title = context.text(f"title.{_KEYS[selection.news]}", what=what)
    body = lines.facts(own, context)
    details: list[str] = []
    if selection.news == News.FLAPPING:
        body.append(context.text("line.flapping", count=selection.before + 1))
    elif selection.before:
        body.append(context.text("line.before", count=selection.before))
    if proposal and proposal.plan.words:
        body += lines.proposed(proposal.plan, context)
        details += lines.commands(proposal.plan, context)
    else:
        body += lines.advice(own, context)
    if proposal:
        body += lines.why_it_waits(proposal.plan, context)
        details += lines.cause(own, context)
    if selection.also_open:
        names = tuple(lines.title_of(subject, context) for subject in selection.also_open[: lines.SHOWN])
        details.append(context.text("line.also_open", names=names))
    return Message(title, body, details + lines.quotes(own, context))


def _resolved(selection: Selection, context: MessageContext) -> Message:
    first = selection.subjects[0]
    if first.rule in (News.BLIND, News.TARGET):
        key = "line.sighted" if first.rule == News.BLIND else "line.target_well"
        names = tuple(fit(subject.key, 60) for subject in selection.subjects if subject.rule == first.rule)
        line = context.text(key, names=names)
        return Message(line.rstrip(".。"), [line])
    if len(selection.subjects) > 1:
        title = context.text("title.many_resolved", count=len(selection.subjects))
    else:
        key = "title.calm" if selection.before else "title.resolved"
        title = context.text(key, what=lines.headline_of(first, selection.subjects, context))
    return Message(title, lines.facts(selection.subjects, context))


def _blind(selection: Selection, context: MessageContext) -> Message:
    names = tuple(fit(subject.key, 60) for subject in selection.subjects)
    body = [lines.says(subject, context) for subject in selection.subjects]
    return Message(context.text("title.blind", names=names), body)


def _disarmed(selection: Selection, context: MessageContext) -> Message:
    body = [lines.says(selection.subjects[0], context), context.command.line("arm")]
    return Message(context.text("title.disarmed"), body)


def _target(selection: Selection, context: MessageContext) -> Message:
    subject = selection.subjects[0]
    return Message(context.text("title.target", name=fit(subject.key, 60)), [lines.says(subject, context)])


def _outcome(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    title = lines.outcome_title(proposal.outcomes, proposal.plan, context)
    return Message(title, lines.outcome_lines(proposal, context))


def _not_fixed(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    lead, own = _lead(selection)
    what = lines.headline_of(lead, own, context) if lead else lines.plan_title(proposal.plan, context)
    title = lines.failed_title(proposal.outcomes, what, context)
    body = lines.outcome_lines(proposal, context)
    return Message(
        title, body if lines.is_cut_off(proposal.outcomes) else [*body, context.text("line.still")]
    )


def _digest(selection: Selection, context: MessageContext) -> Message:
    if len(selection.subjects) == 1 and len(selection.parts) == 1:
        part = selection.parts[0]
        return _COMPOSERS.get(part.news, _fault)(part, context)
    entries: list[str] = []
    for part in selection.parts:
        mark = context.text(f"digest.{_KEYS.get(part.news, part.news)}")
        if part.proposal and part.proposal.outcomes:
            entries.append(f"• {mark}: {lines.plan_title(part.proposal.plan, context)}")
        else:
            entries += [f"• {mark}: {lines.says(subject, context)}" for subject in part.subjects]
    body = [context.text("line.digest", count=context.per_hour), *entries[: 2 * lines.SHOWN]]
    if len(entries) > 2 * lines.SHOWN:
        body.append(context.text("line.more", count=len(entries) - 2 * lines.SHOWN))
    told = [part for part in selection.parts if part.news in (News.OPENED, News.WORSE) and part.subjects]
    if not told or len(entries) == 1:
        return Message(context.text("title.digest", count=len(entries)), body)
    lead = max(told, key=lambda part: SEVERITIES.index(part.severity)).subjects
    gravest = max(lead, key=lambda subject: SEVERITIES.index(subject.severity))
    what = lines.headline_of(gravest, lead, context)
    return Message(context.text("title.many", what=what, count=len(entries) - 1), body)


def _proposal_of(selection: Selection) -> Proposal:
    assert selection.proposal is not None, "an outcome belongs to a plan"
    return selection.proposal


def _lead(selection: Selection) -> tuple[Subject | None, list[Subject]]:
    """(the subject of the headline, all subjects with the cause first)."""
    subjects = list(selection.subjects)
    if not selection.proposal:
        return (subjects[0] if subjects else None), subjects
    plan = selection.proposal.plan
    order = {name: number for number, name in enumerate(plan.incidents)}
    subjects.sort(key=lambda subject: order.get(subject.name, len(order)))
    treated = {name for _, name, _ in plan.parts} or set(plan.incidents)
    own = [subject for subject in subjects if subject.name in treated]
    gravest = worst((subject.severity for subject in own), "")
    return next((subject for subject in own if subject.severity == gravest), None), subjects


_COMPOSERS: dict[str, Callable[[Selection, MessageContext], Message]] = {
    News.RESOLVED: _resolved,
    News.BLIND: _blind,
    News.DISARMED: _disarmed,
    News.TARGET: _target,
    News.FIXED: _outcome,
    News.UNVERIFIED: _outcome,
    News.NOT_FIXED: _not_fixed,
    News.DIGEST: _digest,
}
_KEYS = {
    News.OPENED: "opened",
    News.WORSE: "worse",
    News.RESOLVED: "resolved",
    News.PASSED: "passed",
    News.FLAPPING: "flapping",
    News.FIXED: "fixed",
    News.UNVERIFIED: "unverified",
    News.NOT_FIXED: "not_fixed",
}

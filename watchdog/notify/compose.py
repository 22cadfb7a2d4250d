"""A selection → a notification in the reader's language: headline, what matters, details below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.model import SEVERITIES, Notification, Reason
from watchdog.notify import plan_lines
from watchdog.notify.choose import Proposal, Selection, leads_to, worst
from watchdog.notify.context import MessageContext
from watchdog.notify.sanitize import CODE, HEADLINE, cut, fit, headline
from watchdog.store.messages import Day, News, Subject

SHOWN = 8  # subjects in one message
ARTICLES = ("the ", "only")  # how sentences of rules begin that do not begin with a name


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
    details = [*message.details, *where_to_look(plan, incidents, context)]
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
    return _summary(News.DAILY, context.text("title.quiet"), body, open_now, context)


def weekly(
    open_now: Sequence[Subject], days: Sequence[Day], faults: int, context: MessageContext
) -> Notification:
    """The optional message once a week: all quiet, or what there was, with a line for each day."""
    unchecked = sum(not day.checks for day in days)
    if faults:
        title = context.text("title.week", count=faults)
    elif unchecked:
        title = context.text("title.week_unchecked", count=unchecked)
    else:
        title = context.text("title.week_quiet" if days else "title.week_new")
    body = [_day_line(day, context) for day in days] or [context.text("line.week_new")]
    return _summary(News.WEEKLY, title, body, open_now, context)


def _summary(
    news: News, title: str, body: Sequence[str], open_now: Sequence[Subject], context: MessageContext
) -> Notification:
    """A message of every day or week; what is open comes into its title, and below what else it says."""
    if open_now:
        title = context.text("title.daily_open", count=len(open_now))
    entries = [f"• {says(subject, context)}" for subject in open_now[:SHOWN]]
    text = cut("\n".join([*body, *entries, context.host]))
    return Notification(news, headline(title, context.words), text, "info")


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
    what, own = _what(selection, context)
    if selection.news in (News.QUESTION, News.REMINDER) and proposal:
        asking = {"ask": plan_lines.ask(proposal.plan, context)}
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
    body = facts(own, context)
    details: list[str] = []
    if selection.news == News.FLAPPING:
        body.append(context.text("line.flapping", count=selection.before + 1))
    elif selection.before:
        body.append(context.text("line.before", count=selection.before))
    if proposal and proposal.plan.words:
        body += plan_lines.proposed(proposal.plan, context)
        details += plan_lines.commands(proposal.plan, context)
    else:
        body += advice(own, context)
    if proposal:
        body += plan_lines.why_it_waits(proposal.plan, context)
        details += cause(own, context)
    if selection.also_open:
        names = tuple(title_of(subject, context) for subject in selection.also_open[:SHOWN])
        details.append(context.text("line.also_open", names=names))
    return Message(title, body, details + quotes(own, context))


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
        title = context.text(key, what=headline_of(first, selection.subjects, context))
    return Message(title, facts(selection.subjects, context))


def _blind(selection: Selection, context: MessageContext) -> Message:
    names = tuple(fit(subject.key, 60) for subject in selection.subjects)
    body = [says(subject, context) for subject in selection.subjects]
    return Message(context.text("title.blind", names=names), body)


def _disarmed(selection: Selection, context: MessageContext) -> Message:
    body = [says(selection.subjects[0], context), context.command.line("arm")]
    return Message(context.text("title.disarmed"), body)


def _target(selection: Selection, context: MessageContext) -> Message:
    subject = selection.subjects[0]
    return Message(context.text("title.target", name=fit(subject.key, 60)), [says(subject, context)])


def _outcome(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    title = plan_lines.outcome_title(proposal.outcomes, proposal.plan, context)
    return Message(title, plan_lines.outcome_lines(proposal, context))


def _not_fixed(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    title = plan_lines.failed_title(proposal.outcomes, _what(selection, context)[0], context)
    still = [] if plan_lines.is_cut_off(proposal.outcomes) else [context.text("line.still")]
    return Message(title, [*plan_lines.outcome_lines(proposal, context), *still])


def _digest(selection: Selection, context: MessageContext) -> Message:
    if len(selection.subjects) == 1 and len(selection.parts) == 1:
        part = selection.parts[0]
        return _COMPOSERS.get(part.news, _fault)(part, context)
    entries: list[str] = []
    for part in selection.parts:
        mark = context.text(f"digest.{_KEYS.get(part.news, part.news)}")
        if part.proposal and part.proposal.outcomes:
            entries.append(f"• {mark}: {plan_lines.plan_title(part.proposal.plan, context)}")
        else:
            entries += [f"• {mark}: {says(subject, context)}" for subject in part.subjects]
    body = [context.text("line.digest", count=context.per_hour), *entries[: 2 * SHOWN]]
    if len(entries) > 2 * SHOWN:
        body.append(context.text("line.more", count=len(entries) - 2 * SHOWN))
    grown = [part for part in selection.parts if part.news in (News.OPENED, News.WORSE) and part.subjects]
    if not grown or len(entries) == 1:
        return Message(context.text("title.digest", count=len(entries)), body)
    lead = max(grown, key=lambda part: SEVERITIES.index(part.severity)).subjects
    gravest = max(lead, key=lambda subject: SEVERITIES.index(subject.severity))
    what = headline_of(gravest, lead, context)
    return Message(context.text("title.many", what=what, count=len(entries) - 1), body)


def _proposal_of(selection: Selection) -> Proposal:
    assert selection.proposal is not None, "an outcome belongs to a plan"
    return selection.proposal


def _what(selection: Selection, context: MessageContext) -> tuple[str, list[Subject]]:
    """(what the headline is about, all subjects with the cause first)."""
    subjects = list(selection.subjects)
    if not selection.proposal:
        return headline_of(subjects[0], subjects, context), subjects
    plan = selection.proposal.plan
    order = {name: number for number, name in enumerate(plan.incidents)}
    subjects.sort(key=lambda subject: order.get(subject.name, len(order)))
    treated = {name for _, name, _ in plan.parts} or set(plan.incidents)
    own = [subject for subject in subjects if subject.name in treated]
    gravest = worst((subject.severity for subject in own), "")
    lead = next((subject for subject in own if subject.severity == gravest), None)
    return headline_of(lead, subjects, context) if lead else plan_lines.plan_title(plan, context), subjects


def headline_of(lead: Subject, own: Sequence[Subject], context: MessageContext) -> str:
    """The rule's own headline, counting those of its kind; its title where it has none."""
    same = [subject for subject in own if subject.rule == lead.rule] or [lead]
    same = [subject for subject in same if subject.over_at is None] or same
    oldest = min(same, key=lambda subject: subject.since)
    key = context.words.rule_key(lead.rule, "headline", oldest.says.fields)
    if key not in context.words.texts or oldest.says.key == "plain":
        return title_of(lead, context)
    return context.say(Reason(key, {**oldest.says.fields, "count": len(same)}))


def title_of(subject: Subject, context: MessageContext) -> str:
    known = context.words.rule_text(subject.rule, "title", subject.says.fields)
    return known or fit(subject.title) or says(subject, context)


def says(subject: Subject, context: MessageContext) -> str:
    """What a rule says, as a sentence: it begins with a capital unless it begins with a name."""
    template = context.words.texts.get(str(subject.says.key))
    if template is None:  # its rule is gone
        return fit(subject.title) or fit(subject.name)
    text = context.say(subject.says)
    return text[:1].upper() + text[1:] if str(template)[:4] in ARTICLES else text


def facts(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """Each fault with its time."""
    lines: list[str] = []
    for subject in subjects[:SHOWN]:
        line = says(subject, context)
        line = context.text("line.over", says=line) if subject.over_at else line
        lines.append(("• " if len(subjects) > 1 else "") + line)
        lines.append(_when(subject, context))
    if len(subjects) > SHOWN:
        lines.append(context.text("line.more", count=len(subjects) - SHOWN))
    return lines


def _when(subject: Subject, context: MessageContext) -> str:
    fields = subject.says.fields
    if subject.over_at:
        span = subject.over_at - subject.since
        key = "line.was" if span >= timedelta(minutes=1) else "line.was_brief"
        return context.text(key, start=subject.since, end=subject.over_at, span=span)
    if "alive_at" in fields:  # it died between two moments that are known
        alive, missing = fields["alive_at"], fields.get("missing_at")
        if missing is None:
            return context.text("line.alive", alive=alive)
        key = "line.between" if missing - alive >= timedelta(seconds=1) else "line.ended"
        return context.text(key, alive=alive, missing=missing)
    return context.text("line.since", at=subject.since, span=context.now - subject.since)


def advice(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """What a person can do, where no plan does it."""
    advice: list[str] = []
    for subject in subjects[:SHOWN]:
        if subject.advice and not subject.over_at:
            known = context.words.rule_text(subject.rule, "advice", subject.says.fields)
            advice.append(context.text("line.advice", advice=known or fit(subject.advice, 600)))
    return list(dict.fromkeys(advice))


def cause(own: Sequence[Subject], context: MessageContext) -> list[str]:
    """'Cause: A → B' along what the rules say about each other; nothing where one is not the other's cause."""
    chain: list[Subject] = []
    for subject in own:
        if not chain or leads_to(chain[-1].rule, subject.rule, context.rules):
            chain.append(subject)
    if len(chain) < 2:
        return []
    return [context.text("line.cause", chain=" → ".join(title_of(subject, context) for subject in chain))]


def quotes(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    if not context.quote_logs or all(subject.over_at for subject in subjects):
        return []
    quotes = [CODE + fit(quote, 160) for subject in subjects[:SHOWN] for quote in subject.quotes[:3]]
    return [context.text("line.quote"), *quotes[:6]] if quotes else []


def where_to_look(plan: int, incidents: Sequence[int], context: MessageContext) -> list[str]:
    """The machine, and the command that shows more."""
    if plan:
        audit = [context.text("line.audit", head=context.audit)] if context.audit else []
        return [context.text("line.look", host=context.host), context.command.line("plan", str(plan)), *audit]
    if len(incidents) == 1:
        return [
            context.text("line.look", host=context.host),
            context.command.line("incident", str(incidents[0])),
        ]
    return [context.host]


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

"""A selection → a notification in the reader's language: headline, what matters, details below."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.model import Notification, Outcome, OutcomeKind, Plan, Reason, Rule, plain
from watchdog.notify.choose import Proposal, Selection, leads_to, worst
from watchdog.notify.sanitize import exact, fit, fit_field
from watchdog.notify.translate import Words, sentence
from watchdog.plan.reasons import Wait
from watchdog.steps.reasons import WITHOUT_COMMAND
from watchdog.store.messages import News, Subject

HEADLINE = 40  # characters; what a lock screen shows for certain
BODY = 3500  # characters; ntfy and Telegram cut at 4,096 bytes or characters
SHOWN = 8  # subjects in one message
CODE = "    "  # a line that begins so is a command or a quote, to be shown letter for letter


@dataclass(frozen=True)
class Command:
    """How a person calls this watchdog for this home: a program that is found, and the options it needs."""

    program: str = "hermes-watchdog"
    options: tuple[str, ...] = ()

    def line(self, *words: str) -> str:
        return CODE + " ".join([self.program, shlex.join([*words, *self.options])])


@dataclass(frozen=True)
class MessageContext:
    """What a message depends on besides its news."""

    now: datetime
    host: str
    words: Words  # with those of the rules and recipes
    rules: Mapping[str, Rule] = field(default_factory=dict)
    command: Command = field(default_factory=Command)
    quote_logs: bool = False
    per_hour: int = 6
    audit: str = ""  # the newest line of the audit, by the first characters of its hash

    def say(self, said: Reason | str, clean: Callable[[str, str], str] = fit_field) -> str:
        """A reason in the reader's words; text that has no key as it is, made fit to be sent."""
        reason = said if isinstance(said, Reason) else plain(said)
        return sentence(reason, self.words, self.now, clean)

    def text(self, key: str, **fields: object) -> str:
        """A text of ours with fields that are fit already."""
        return sentence(Reason(key, fields), self.words, self.now, lambda name, text: text)


@dataclass(frozen=True)
class Message:
    """The parts of a notification."""

    title: str
    body: list[str]
    details: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class HowToAnswer:
    """One reader's code, and what they should know about using it."""

    code: str
    expires: datetime
    way: str  # buttons, reply, shell
    waits: timedelta = timedelta(0)  # how long this check waits for the answer


def compose(selection: Selection, context: MessageContext) -> Notification:
    """The notification for one selection; without the codes, which differ for each reader."""
    message = _COMPOSERS.get(selection.news, _fault)(selection, context)
    plan = selection.proposal.plan.id if selection.proposal else 0
    incidents = tuple(dict.fromkeys(subject.incident for subject in selection.subjects if subject.incident))
    details = [*message.details, *_where_to_look(plan, incidents, context)]
    return Notification(
        selection.news,
        headline(message.title, context.words),
        cut("\n".join(message.body)),
        selection.severity,
        incidents,
        plan,
        cut("\n".join(details)),
    )


def headline(title: str, words: Words) -> str:
    """A title for a lock screen, with the language's prefix where it does not name the gateway itself."""
    prefix = words("prefix")
    named = prefix.rstrip(" :：") in title
    return fit(title if named else prefix + title, HEADLINE)


def how_to_answer(answer: HowToAnswer, context: MessageContext) -> list[str]:
    """How one reader answers a question."""
    lines = [context.text("answer.by", at=answer.expires), context.text(f"answer.{answer.way}")]
    if answer.way == "shell":
        return [*lines, *(context.command.line(verb, answer.code) for verb in ("approve", "refuse"))]
    lines += [CODE + context.text(f"answer.{verb}", code=answer.code) for verb in ("approve", "refuse")]
    # Under cron nothing listens between two checks; the reader should know when the tap will count.
    return [
        *lines,
        context.text("answer.waits", span=answer.waits) if answer.waits else context.text("answer.next"),
    ]


def full_text(notification: Notification, more: Sequence[str] = (), limit: int = BODY) -> str:
    """What matters, how to answer, then the details, which are cut first."""
    top = "\n".join([notification.body, *more])
    return cut(f"{top}\n{notification.details}" if notification.details else top, limit)


def render(body: str, form: str) -> str:
    """The plain body as Markdown or HTML; commands become code, everything else is escaped."""
    if form == "markdown":
        # A tick in a command would end the code, and what follows would be markup.
        code = str.maketrans("`", "'")
        lines = [
            f"`{line[4:].translate(code)}`" if line.startswith(CODE) else _MARKUP.sub(r"\\\g<0>", line)
            for line in body.split("\n")
        ]
        return "  \n".join(lines)
    if form == "html":
        lines = [html.escape(line) for line in body.split("\n")]
        return "<br/>\n".join(f"<code>{line[4:]}</code>" if line.startswith(CODE) else line for line in lines)
    return body


def cut(body: str, limit: int = BODY) -> str:
    """At most so long, cut at the end of a line."""
    if len(body) <= limit:
        return body
    return body[: limit - 2].rsplit("\n", 1)[0] + "\n…"


_MARKUP = re.compile(r"[\\`*_\[\]<>~|]|^#+|^(?=\d+\.)|^[-+]")


def daily(open_now: Sequence[Subject], counts: tuple[int, int, int], context: MessageContext) -> Notification:
    """The optional message once a day that the watchdog is there."""
    opened, closed, actions = counts
    line = context.text("line.daily", opened=opened, closed=closed, actions=actions)
    lines = [line if any(counts) else context.text("line.daily_quiet")]
    lines += [f"• {_says(subject, context)}" for subject in open_now[:SHOWN]]
    title = context.text("title.daily_open", count=len(open_now)) if open_now else context.text("title.quiet")
    return Notification(
        News.DAILY, headline(title, context.words), cut("\n".join([*lines, context.host])), "info"
    )


def test_message(context: MessageContext) -> Notification:
    """What `notify --test` sends."""
    title = headline(context.text("title.test"), context.words)
    return Notification(News.TEST, title, context.text("line.test", host=context.host), "info")


def result(outcomes: Sequence[Outcome], plan: Plan, context: MessageContext) -> str:
    """One sentence about how a plan ended, for those who were asked."""
    if outcomes and not outcomes[-1].ok:
        bad = next(outcome for outcome in outcomes if not outcome.ok)
        return _step(bad, context) if len(outcomes) > 1 else context.say(bad.reason)
    checked = next((outcome for outcome in outcomes if outcome.kind == OutcomeKind.VERIFICATION), None)
    return " · ".join([*_done(plan, context), *([context.say(checked.reason)] if checked else [])])


def plan_title(plan: Plan, context: MessageContext) -> str:
    """The titles of its recipes; of a plan whose recipes are gone, its own."""
    texts = context.words.texts
    titles = [str(texts[key]) for recipe in plan.recipes if (key := f"recipe.{recipe}.title") in texts]
    return (
        context.words.joined(titles) if plan.recipes and len(titles) == len(plan.recipes) else fit(plan.title)
    )


# One function per kind of news: a fault, its end, what was done about it.


def _fault(selection: Selection, context: MessageContext) -> Message:
    proposal = selection.proposal
    lead, own = _lead(selection)
    what = (
        _headline_of(lead, own, context) if lead else plan_title(proposal.plan, context) if proposal else ""
    )
    if selection.news in (News.QUESTION, News.REMINDER) and proposal:
        asking = {"ask": _ask(proposal.plan, context)}
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
    body = _facts(own, context)
    details: list[str] = []
    if selection.news == News.FLAPPING:
        body.append(context.text("line.flapping", count=selection.before + 1))
    elif selection.before:
        body.append(context.text("line.before", count=selection.before))
    if proposal and proposal.plan.words:
        body += _proposed(proposal.plan, context)
        details += _commands(proposal.plan, context)
    else:
        body += _advice(own, context)
    if proposal:
        body += _why_it_waits(proposal.plan, context)
        details += _cause(own, context)
    if selection.also_open:
        names = tuple(_title(subject, context) for subject in selection.also_open[:SHOWN])
        details.append(context.text("line.also_open", names=names))
    return Message(title, body, details + _quotes(own, context))


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
        title = context.text(key, what=_headline_of(first, selection.subjects, context))
    return Message(title, _facts(selection.subjects, context))


def _blind(selection: Selection, context: MessageContext) -> Message:
    names = tuple(fit(subject.key, 60) for subject in selection.subjects)
    lines = [_says(subject, context) for subject in selection.subjects]
    return Message(context.text("title.blind", names=names), lines)


def _disarmed(selection: Selection, context: MessageContext) -> Message:
    lines = [_says(selection.subjects[0], context), context.command.line("arm")]
    return Message(context.text("title.disarmed"), lines)


def _target(selection: Selection, context: MessageContext) -> Message:
    subject = selection.subjects[0]
    return Message(context.text("title.target", name=fit(subject.key, 60)), [_says(subject, context)])


def _fixed(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    done = _done(proposal.plan, context)[0]
    title = context.text("title.fixed", what=done)
    return Message(title if len(title) <= HEADLINE else done, _outcome(proposal, context))


def _unverified(selection: Selection, context: MessageContext) -> Message:
    """What was done, and that not all of its rules could be looked at to see whether it helped."""
    proposal = _proposal_of(selection)
    title = context.text("title.unverified", what=_done(proposal.plan, context)[0])
    return Message(title, _outcome(proposal, context))


def _not_fixed(selection: Selection, context: MessageContext) -> Message:
    proposal = _proposal_of(selection)
    lead, own = _lead(selection)
    what = _headline_of(lead, own, context) if lead else plan_title(proposal.plan, context)
    title = context.text("title.not_fixed", what=what)
    return Message(title, [*_outcome(proposal, context), context.text("line.still")])


def _digest(selection: Selection, context: MessageContext) -> Message:
    if len(selection.subjects) == 1 and len(selection.parts) == 1:
        part = selection.parts[0]
        return _COMPOSERS.get(part.news, _fault)(part, context)
    entries: list[str] = []
    for part in selection.parts:
        mark = context.text(f"digest.{_KEYS.get(part.news, part.news)}")
        if part.proposal and part.proposal.outcomes:
            entries.append(f"• {mark}: {plan_title(part.proposal.plan, context)}")
        else:
            entries += [f"• {mark}: {_says(subject, context)}" for subject in part.subjects]
    lines = [context.text("line.digest", count=context.per_hour), *entries[: 2 * SHOWN]]
    if len(entries) > 2 * SHOWN:
        lines.append(context.text("line.more", count=len(entries) - 2 * SHOWN))
    return Message(context.text("title.digest", count=len(entries)), lines)


_COMPOSERS: dict[str, Callable[[Selection, MessageContext], Message]] = {
    News.RESOLVED: _resolved,
    News.BLIND: _blind,
    News.DISARMED: _disarmed,
    News.TARGET: _target,
    News.FIXED: _fixed,
    News.UNVERIFIED: _unverified,
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


def _proposal_of(selection: Selection) -> Proposal:
    assert selection.proposal is not None, "an outcome belongs to a plan"
    return selection.proposal


# What a message is about.


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


def _headline_of(lead: Subject, own: Sequence[Subject], context: MessageContext) -> str:
    """The rule's own headline, counting those of its kind; its title where it has none."""
    same = [subject for subject in own if subject.rule == lead.rule] or [lead]
    oldest = min(same, key=lambda subject: subject.since)
    key = context.words.rule_key(lead.rule, "headline", oldest.says.fields)
    if key not in context.words.texts or oldest.says.key == "plain":
        return _title(lead, context)
    return context.say(Reason(key, {**oldest.says.fields, "count": len(same)}))


def _title(subject: Subject, context: MessageContext) -> str:
    known = context.words.texts.get(context.words.rule_key(subject.rule, "title", subject.says.fields))
    return str(known) if known else fit(subject.title) or _says(subject, context)


def _says(subject: Subject, context: MessageContext) -> str:
    if str(subject.says.key) not in context.words.texts:  # its rule is gone
        return fit(subject.title) or fit(subject.name)
    return context.say(subject.says)


def _ask(plan: Plan, context: MessageContext) -> str:
    asks = [context.words.texts.get(f"recipe.{recipe}.ask") for recipe in plan.recipes]
    return str(asks[0]) if asks and asks[0] else context.text("title.allow")


def _done(plan: Plan, context: MessageContext) -> list[str]:
    texts = context.words.texts
    done = [str(texts[key]) for recipe in plan.recipes if (key := f"recipe.{recipe}.done") in texts]
    return done or [context.text("line.done", title=plan_title(plan, context))]


# The lines of a message.


def _facts(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """Each fault with its time."""
    lines: list[str] = []
    for subject in subjects[:SHOWN]:
        lines.append(("• " if len(subjects) > 1 else "") + _says(subject, context))
        lines.append(_when(subject, context))
    if len(subjects) > SHOWN:
        lines.append(context.text("line.more", count=len(subjects) - SHOWN))
    return lines


def _when(subject: Subject, context: MessageContext) -> str:
    fields = subject.says.fields
    if subject.over_at:
        span = subject.over_at - subject.since
        return context.text("line.was", start=subject.since, end=subject.over_at, span=span)
    if "alive_at" in fields:  # it died between two moments that are known
        alive, missing = fields["alive_at"], fields.get("missing_at")
        if missing is None:
            return context.text("line.alive", alive=alive)
        key = "line.between" if missing - alive >= timedelta(seconds=1) else "line.ended"
        return context.text(key, alive=alive, missing=missing)
    return context.text("line.since", at=subject.since, span=context.now - subject.since)


def _proposed(plan: Plan, context: MessageContext) -> list[str]:
    lines = [context.text("line.proposed", title=plan_title(plan, context))]
    if plan.costs:
        lines.append(context.text("line.cost", costs=context.say(plan.costs)))
    return lines + [context.text("line.warning", warning=context.say(warning)) for warning in plan.warnings]


def _commands(plan: Plan, context: MessageContext) -> list[str]:
    """Each step as it will be done, letter for letter; a step whose command is not known is no command."""
    known = [step for step in plan.words if step.key not in WITHOUT_COMMAND]
    shown = [sentence(step, context.words, context.now, lambda _, text: text) for step in known]
    lines = [CODE + exact(line) for step in shown for line in step.split("\n")]
    return [context.text("line.exactly"), *lines] if lines else []


def _why_it_waits(plan: Plan, context: MessageContext) -> list[str]:
    if plan.hold is None:
        return []
    reason, sudoers = plan.hold.reason, ""
    if reason.key == Wait.NEEDS_SUDOERS:
        reason, sudoers = reason.fields["why"], reason.fields["line"]
    why = context.say(reason)
    until = plan.hold.until
    lines = [
        context.text("line.waits_until", at=until, why=why) if until else context.text("line.waits", why=why)
    ]
    return lines + ([context.text("line.sudoers"), CODE + exact(sudoers)] if sudoers else [])


def _cause(own: Sequence[Subject], context: MessageContext) -> list[str]:
    """'Cause: A → B' along what the rules say about each other; nothing where one is not the other's cause."""
    chain: list[Subject] = []
    for subject in own:
        if not chain or leads_to(chain[-1].rule, subject.rule, context.rules):
            chain.append(subject)
    if len(chain) < 2:
        return []
    return [context.text("line.cause", chain=" → ".join(_title(subject, context) for subject in chain))]


def _advice(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """What a person can do, where no plan does it."""
    advice: list[str] = []
    for subject in subjects[:SHOWN]:
        if subject.advice and not subject.over_at:
            known = context.words.texts.get(
                context.words.rule_key(subject.rule, "advice", subject.says.fields)
            )
            advice.append(
                context.text("line.advice", advice=str(known) if known else fit(subject.advice, 600))
            )
    return list(dict.fromkeys(advice))


def _quotes(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    if not context.quote_logs or all(subject.over_at for subject in subjects):
        return []
    quotes = [CODE + fit(quote, 160) for subject in subjects[:SHOWN] for quote in subject.quotes[:3]]
    return [context.text("line.quote"), *quotes[:6]] if quotes else []


def _outcome(proposal: Proposal, context: MessageContext) -> list[str]:
    # The last one is the whole, which the headline says already, unless it is all there is.
    steps = proposal.outcomes[:-1] or proposal.outcomes
    lines = [proposal.answer] if proposal.answer else []
    lines += [f"• {_step(outcome, context)}" for outcome in steps][:SHOWN]
    took = proposal.outcomes[-1].took or sum((outcome.took for outcome in steps), timedelta(0))
    return [*lines, context.text("line.took", span=took)] if took >= timedelta(seconds=1) else lines


def _step(outcome: Outcome, context: MessageContext) -> str:
    return context.say(Reason("end.step", {"what": outcome.what, "result": outcome.reason}))


def _where_to_look(plan: int, incidents: Sequence[int], context: MessageContext) -> list[str]:
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

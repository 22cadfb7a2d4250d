"""The lines of a message: faults with their times, a proposal, its commands, how to answer, what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchdog.gateway.reasons import Warn
from watchdog.model import Outcome, OutcomeKind, Plan, Reason
from watchdog.model.plan_reasons import WITHOUT_COMMAND, CutOff, Wait
from watchdog.notify.choose import Proposal, leads_to
from watchdog.notify.context import MessageContext
from watchdog.notify.sanitize import CODE, HEADLINE, exact, fit, fit_field
from watchdog.store.messages import Subject

SHOWN = 8  # subjects in one message
ARTICLES = ("the ", "only")  # how sentences of rules begin that do not begin with a name
_COMMANDS, _MARK = ("command", "kill"), "\0"  # fields of a step that are commands


@dataclass(frozen=True)
class HowToAnswer:
    """One reader's code, and what they should know about using it."""

    code: str
    expires: datetime
    way: str  # buttons, reply, shell
    waits: timedelta = timedelta(0)  # how long this check waits for the answer
    drill: bool = False


def how_to_answer(answer: HowToAnswer, context: MessageContext) -> list[str]:
    """How one reader answers a question."""
    lines = [context.text("answer.by", at=answer.expires), context.text(f"answer.{answer.way}")]
    if answer.way == "shell":
        return [*lines, *(context.command.line(verb, answer.code) for verb in ("approve", "refuse"))]
    lines += [CODE + context.text(f"answer.{verb}", code=answer.code) for verb in ("approve", "refuse")]
    # Under cron nothing listens between two checks; the reader should know when the tap will count.
    key = "drill.waits" if answer.drill else "answer.waits" if answer.waits else "answer.next"
    return [*lines, context.text(key, span=answer.waits)]


def plan_title(plan: Plan, context: MessageContext) -> str:
    """The titles of its recipes; of a plan whose recipes are gone, its own."""
    return context.words.recipe_titles(plan.recipes) or fit(plan.title)


def outcome_title(outcomes: Sequence[Outcome], plan: Plan, context: MessageContext) -> str:
    """'Gateway restarted, problem gone': what was done, as a result."""
    if not outcomes[-1].ok:
        return failed_title(outcomes, plan_title(plan, context), context)
    what = done(plan, context)[0]
    if not outcomes[-1].verified:  # not everything could be looked at to see whether it helped
        return context.text("title.unverified", what=what)
    title = context.text("title.fixed", what=what)
    return title if len(title) <= HEADLINE else what


def failed_title(outcomes: Sequence[Outcome], what: str, context: MessageContext) -> str:
    """That it did not help, or that it was not carried out to its end."""
    return context.text("title.cut_off" if is_cut_off(outcomes) else "title.not_fixed", what=what)


def is_cut_off(outcomes: Sequence[Outcome]) -> bool:
    return outcomes[-1].reason.key == CutOff.TOLD


def result(outcomes: Sequence[Outcome], plan: Plan, context: MessageContext) -> str:
    """How a plan ended, in a few lines, for those who were asked."""
    if outcomes and not outcomes[-1].ok:
        bad = next(outcome for outcome in outcomes if not outcome.ok)
        return step_line(bad, context) if len(outcomes) > 1 else context.say(bad.reason)
    checked = next((outcome for outcome in outcomes if outcome.kind == OutcomeKind.VERIFICATION), None)
    verified = [context.say(checked.reason)] if checked else []
    return "\n".join([*done(plan, context), *verified, *unproved(plan, context)])


def unproved(plan: Plan, context: MessageContext) -> list[str]:
    """What a gateway that was started again lacks (variables that the one before had), and what was not tried."""
    lines = [
        context.text("line.lacks", names=warning.fields["names"])
        for warning in plan.warnings
        if warning.key == Warn.WILL_LACK
    ]
    started = any(step.kind == "gateway" for step in plan.steps) and plan.verify and plan.verify.alive
    return [*lines, context.text("line.model_untried")] if started else lines


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


def ask(plan: Plan, context: MessageContext) -> str:
    asks = [context.words.texts.get(f"recipe.{recipe}.ask") for recipe in plan.recipes]
    return str(asks[0]) if asks and asks[0] else context.text("title.allow")


def done(plan: Plan, context: MessageContext) -> list[str]:
    texts = context.words.texts
    done = [str(texts[key]) for recipe in plan.recipes if (key := f"recipe.{recipe}.done") in texts]
    return done or [context.text("line.done", title=plan_title(plan, context))]


def facts(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """Each fault with its time."""
    lines: list[str] = []
    for subject in subjects[:SHOWN]:
        lines.append(("• " if len(subjects) > 1 else "") + says(subject, context))
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


def proposed(plan: Plan, context: MessageContext) -> list[str]:
    lines = [context.text("line.proposed", title=plan_title(plan, context))]
    if plan.costs:
        lines.append(context.text("line.cost", costs=context.say(plan.costs)))
    return lines + [context.text("line.warning", warning=context.say(warning)) for warning in plan.warnings]


def commands(plan: Plan, context: MessageContext) -> list[str]:
    """Each step as it will be done; its commands, letter for letter, on lines of their own, to be copied."""
    steps = [step for step in plan.words if step.key not in WITHOUT_COMMAND]
    shown: list[str] = []
    for number, step in enumerate(steps, 1):
        own = {name: _exactly(step.fields[name], context) for name in _COMMANDS if name in step.fields}
        text = context.say(Reason(step.key, {**step.fields, **own}), _command_apart)
        first, *rest = [line.strip(" ,，；;") for line in text.split("\n")]
        shown.append(f"{number}. {first}" if len(steps) > 1 else first)
        shown += [CODE + line[1:] if line[0] == _MARK else line for line in rest if line]
    return [context.text("line.exactly"), *shown] if shown else []


def _exactly(command: Reason | str, context: MessageContext) -> str:
    return context.say(command, lambda _, text: exact(text))


def _command_apart(name: str, text: str) -> str:
    """The fields of a step that are commands begin a line of their own, which is marked."""
    return f"\n{_MARK}{exact(text)}\n" if name in _COMMANDS else fit_field(name, text)


def why_it_waits(plan: Plan, context: MessageContext) -> list[str]:
    if plan.hold is None:
        return []
    reason, sudoers = plan.hold.reason, ""
    if reason.key == Wait.NEEDS_SUDOERS:
        reason, sudoers = reason.fields["why"], reason.fields["line"]
    why = context.say(reason)
    until = plan.hold.until
    key = "waits" if not until else "waits_then_asks" if plan.approval == "ask" else "waits_until"
    lines = [context.text(f"line.{key}", at=until, why=why)]
    return lines + ([context.text("line.sudoers"), CODE + exact(sudoers)] if sudoers else [])


def cause(own: Sequence[Subject], context: MessageContext) -> list[str]:
    """'Cause: A → B' along what the rules say about each other; nothing where one is not the other's cause."""
    chain: list[Subject] = []
    for subject in own:
        if not chain or leads_to(chain[-1].rule, subject.rule, context.rules):
            chain.append(subject)
    if len(chain) < 2:
        return []
    return [context.text("line.cause", chain=" → ".join(title_of(subject, context) for subject in chain))]


def advice(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    """What a person can do, where no plan does it."""
    advice: list[str] = []
    for subject in subjects[:SHOWN]:
        if subject.advice and not subject.over_at:
            known = context.words.rule_text(subject.rule, "advice", subject.says.fields)
            advice.append(context.text("line.advice", advice=known or fit(subject.advice, 600)))
    return list(dict.fromkeys(advice))


def quotes(subjects: Sequence[Subject], context: MessageContext) -> list[str]:
    if not context.quote_logs or all(subject.over_at for subject in subjects):
        return []
    quotes = [CODE + fit(quote, 160) for subject in subjects[:SHOWN] for quote in subject.quotes[:3]]
    return [context.text("line.quote"), *quotes[:6]] if quotes else []


def outcome_lines(proposal: Proposal, context: MessageContext) -> list[str]:
    # The last one is the whole, which the headline says already, unless it is all there is.
    steps = proposal.outcomes[:-1] or proposal.outcomes
    lines = [proposal.answer] if proposal.answer else []
    lines += [f"• {step_line(outcome, context)}" for outcome in steps][:SHOWN]
    lines += unproved(proposal.plan, context) if proposal.outcomes[-1].ok else []
    took = proposal.outcomes[-1].took or sum((outcome.took for outcome in steps), timedelta(0))
    return [*lines, context.text("line.took", span=took)] if took >= timedelta(seconds=1) else lines


def step_line(outcome: Outcome, context: MessageContext) -> str:
    return context.say(Reason("end.step", {"what": outcome.what, "result": outcome.reason}))


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

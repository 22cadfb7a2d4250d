"""What a message says about a plan: the proposal with its commands, how to answer, why it waits, what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchdog.gateway.reasons import Warn
from watchdog.model import Outcome, OutcomeKind, Plan, Reason
from watchdog.model.plan_reasons import WITHOUT_COMMAND, CutOff, Wait
from watchdog.notify.choose import Proposal
from watchdog.notify.context import MessageContext
from watchdog.notify.sanitize import CODE, HEADLINE, exact, fit, fit_field

SHOWN = 8  # steps in one message
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
    # A gateway that stays stopped is nothing that is well again.
    return what if plan.stops or len(title) > HEADLINE else title


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
    verified = [step_line(checked, context)] if checked else []
    return "\n".join([*done(plan, context), *verified, *unproved(plan, context)])


def unproved(plan: Plan, context: MessageContext) -> list[str]:
    """What a gateway that was started again lacks (variables that the one before had), and what was not tried; how to
    start one that stays stopped.
    """
    lines: list[str] = []
    for warning in plan.warnings:
        if warning.key == Warn.WILL_LACK:
            lines.append(context.text("line.lacks", names=warning.fields["names"]))
        if warning.key == Warn.START_LATER:
            lines += _with_commands(warning, context)
    started = any(step.kind == "gateway" for step in plan.steps) and plan.verify and plan.verify.alive
    return [*lines, context.text("line.model_untried")] if started else lines


def ask(plan: Plan, context: MessageContext) -> str:
    asks = [context.words.texts.get(f"recipe.{recipe}.ask") for recipe in plan.recipes]
    return str(asks[0]) if asks and asks[0] else context.text("title.allow")


def done(plan: Plan, context: MessageContext) -> list[str]:
    texts = context.words.texts
    done = [str(texts[key]) for recipe in plan.recipes if (key := f"recipe.{recipe}.done") in texts]
    return done or [context.text("line.done", title=plan_title(plan, context))]


def proposed(plan: Plan, context: MessageContext) -> list[str]:
    lines = [context.text("line.proposed", title=plan_title(plan, context))]
    if plan.costs:
        lines.append(context.text("line.cost", costs=context.say(plan.costs)))
    warnings = [warning for warning in plan.warnings if warning.key != Warn.START_LATER]  # told at the end
    return lines + [context.text("line.warning", warning=context.say(warning)) for warning in warnings]


def commands(plan: Plan, context: MessageContext) -> list[str]:
    """Each step as it will be done; its commands, letter for letter, on lines of their own, to be copied."""
    steps = [step for step in plan.words if step.key not in WITHOUT_COMMAND]
    shown: list[str] = []
    for number, step in enumerate(steps, 1):
        own = {name: _exactly(step.fields[name], context) for name in _COMMANDS if name in step.fields}
        first, *rest = _with_commands(Reason(step.key, {**step.fields, **own}), context)
        shown += [f"{number}. {first}" if len(steps) > 1 else first, *rest]
    return [context.text("line.exactly"), *shown] if shown else []


def _with_commands(step: Reason, context: MessageContext) -> list[str]:
    first, *rest = [line.strip(" ,，；;") for line in context.say(step, _command_apart).split("\n")]
    return [first, *(CODE + line[1:] if line[0] == _MARK else line for line in rest if line)]


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

"""Open incidents + recipes + what was done before → the plan to propose, with the reason it must wait."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from watchdog.config.rulebook import Rulebook
from watchdog.errors import WatchdogError
from watchdog.gateway.machine import Machine
from watchdog.gateway.reasons import Warn
from watchdog.model import (
    PLAIN,
    RULE_SAY,
    Hold,
    Incident,
    Phrase,
    Plan,
    Reason,
    Recipe,
    Step,
    Verify,
    packed,
    phrase,
    plain,
)
from watchdog.model.plan_reasons import WITHOUT_COMMAND, Cost, Refuse
from watchdog.plan import limits
from watchdog.plan.causes import Diagnosis, diagnose
from watchdog.plan.limits import History, Situation, with_starts
from watchdog.steps import KINDS
from watchdog.steps.common import UnfitFact, fill, pack, pack_verify
from watchdog.steps.databases import database
from watchdog.steps.gateway import Args as GatewayArgs
from watchdog.values import dataclass, replace

MOST_REPAIRS = 8
STOP, START, RESTART = (Step("gateway", GatewayArgs(do)) for do in ("stop", "start", "restart"))


@dataclass(frozen=True)
class Part:
    """One incident with the recipe chosen for it, its holes filled."""

    incident: Incident
    recipe: Recipe
    steps: tuple[Step, ...]
    rollback: tuple[Step, ...]

    @property
    def repairs(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind != "gateway")

    def does(self, *verbs: str) -> bool:
        return any(step.kind == "gateway" and step.args.do in verbs for step in self.steps)


def make_plans(
    incidents: Iterable[Incident], book: Rulebook, history: History, machine: Machine, now: datetime
) -> tuple[Plan, ...]:
    """At most one plan that acts on all that is open; restarts that would not help are refused, with why."""
    every = tuple(incidents)
    rules = {rule.id: rule for rule in book.rules}
    diagnosis = diagnose((incident for incident in every if incident.status == "open"), rules, machine)
    firing = frozenset(incident.rule for incident in every if incident.status != "resolved")
    # The gateway may have been started by anyone: every start that can be seen now counts.
    situation = Situation(diagnosis, book.recipes, with_starts(history, machine.starts), machine, now, firing)
    parts: list[Part] = []
    refused: list[Plan] = []
    for incident in diagnosis.incidents:
        if incident.recipe and incident.recipe in book.recipes:
            part = _part(incident, situation)
            if isinstance(part, Part):
                parts.append(part)
            else:
                refused.append(part)
    parts = _undisplaced(parts, diagnosis)
    if not parts:
        return tuple(_once(refused))
    plan = _merge(_judgeable(parts), diagnosis, machine)
    recipes = [part.recipe for part in parts if part.recipe.id in plan.recipes]
    # What the merged plan takes care of needs no refusal of its own.
    treated = set(plan.incidents) - untreated(plan)
    left = [refusal for refusal in _once(refused) if not set(refusal.incidents) <= treated]
    return replace(plan, hold=limits.hold(plan, recipes, situation)), *left


def _undisplaced(parts: Sequence[Part], diagnosis: Diagnosis) -> list[Part]:
    """Without those whose rule is displaced by the rule of another open incident, whether that has a recipe or not."""
    rules = diagnosis.rules
    displaced = {
        name
        for incident in diagnosis.incidents
        if incident.rule in rules
        for name in rules[incident.rule].displaces
    }
    return [part for part in parts if part.incident.rule not in displaced]


def untreated(plan: Plan) -> frozenset[str]:
    """Incidents of the case that this plan has no step for, though it has one for others of their rule."""
    treated = {key for _, key, _ in plan.parts}
    rules = {key.split(" ")[0] for key in treated}
    return frozenset(name for name in plan.incidents if name not in treated and name.split(" ")[0] in rules)


def _judgeable(parts: Sequence[Part]) -> list[Part]:
    """No more repairs than a message can show and a person can judge; the next plan has the others."""
    chosen: list[Part] = []
    repairs: set[Step] = set()
    for part in parts:
        wanted = repairs | {replace(step, line=0) for step in part.repairs}
        if len(wanted) <= MOST_REPAIRS or not part.repairs or not repairs:
            chosen.append(part)
            repairs = wanted
    return chosen


def _part(incident: Incident, situation: Situation) -> Part | Plan:
    """The incident with the steps of its recipe filled in, or the plan that is refused, with why."""
    diagnosis, machine = situation.diagnosis, situation.machine
    first = situation.recipes[incident.recipe or ""]
    recipe = limits.not_yet_failed(first, incident.name, situation)
    if recipe is None:
        return _refusal(incident, first, situation, Reason(Refuse.TRIED, {"key": incident.name}))
    if recipe.approval == "never" and recipe.id not in machine.limits.auto:
        return _refusal(incident, recipe, situation, Reason(Refuse.ADVICE_ONLY))
    only_restarts = all(step.kind == "gateway" for step in recipe.steps) and any(
        step.kind == "gateway" and step.args.do != "stop" for step in recipe.steps
    )
    if only_restarts and (why := diagnosis.why_no_restart(incident)):
        return _refusal(incident, recipe, situation, Reason(Refuse.RESTART_USELESS, {"why": why}))
    try:
        steps = tuple(fill(step, incident.facts) for step in recipe.steps)
        rollback = tuple(fill(step, incident.facts) for step in recipe.rollback)
        for step in steps:
            if name := getattr(step.args, "database", ""):
                # a step that is bound to fail would take the other repairs with it
                database(name, machine.home, there=False)
    except UnfitFact as error:
        why = Reason(Refuse.NO_EXACT_COMMAND, {"why": error.reason})
        return _refusal(incident, recipe, situation, why)
    except WatchdogError as error:
        return _refusal(incident, recipe, situation, plain(str(error)))
    return Part(incident, recipe, steps, rollback)


def _refusal(incident: Incident, recipe: Recipe, situation: Situation, why: Reason) -> Plan:
    chain, also = situation.diagnosis.chains({incident.name})
    plan = Plan(
        recipe.title,
        (incident.name,),
        (recipe.id,),
        (),
        (),
        "",
        hold=Hold(why),
        chain=chain,
        also=also,
        advice=situation.diagnosis.advice(restarts=False),
        host=situation.machine.host,
        home=str(situation.machine.home),
    )
    return replace(plan, digest=digest_of(plan))


def _once(refused: Sequence[Plan]) -> list[Plan]:
    """Three chats stuck for one reason are one refusal."""
    merged: list[Plan] = []
    for plan in refused:
        for place, known in enumerate(merged):
            if (known.recipes, known.hold) == (plan.recipes, plan.hold):
                merged[place] = replace(known, incidents=known.incidents + plan.incidents)
                break
        else:
            merged.append(plan)
    return merged


def _merge(parts: Sequence[Part], diagnosis: Diagnosis, machine: Machine) -> Plan:
    """Repairs before restarts, the gateway stopped once and started once."""
    steps, used = _in_order(parts)
    chosen = [part.recipe for part in used]
    verbs = [step.args.do for step in steps if step.kind == "gateway"]
    starts, stays = bool(verbs) and verbs[-1] != "stop", bool(verbs) and verbs[-1] == "stop"
    rollbacks = [step for part in reversed(used) for step in part.rollback if step.kind != "gateway"]
    undo = tuple(dict.fromkeys(replace(step, line=0) for step in rollbacks))
    verifications = [recipe.verify for recipe in chosen if recipe.verify]
    quiet = tuple(dict.fromkeys(rule for verify in verifications for rule in verify.quiet))
    within = max(verify.within for verify in verifications)
    auto = all(recipe.approval == "auto" or recipe.id in machine.limits.auto for recipe in chosen)
    chain, also = diagnosis.chains({part.incident.name for part in parts})
    plan = Plan(
        title="; ".join(dict.fromkeys(recipe.title for recipe in chosen)),
        incidents=tuple(incident.name for incident in diagnosis.incidents),
        recipes=tuple(dict.fromkeys(recipe.id for recipe in chosen)),
        steps=steps,
        words=tuple(KINDS[step.kind].describe(step.args, machine) for step in steps),
        digest="",
        approval="auto" if auto else "ask",
        verify=Verify(quiet, not stays, within),
        rollback=((STOP, *undo, START) if STOP in steps else undo),
        costs=Reason(Cost.STAYS_STOPPED) if stays else _costs(steps, machine),
        chain=chain,
        also=also,
        advice=diagnosis.advice(starts),
        warnings=_warnings(machine, stays) if verbs else (),
        restarts=starts,
        stops=stays,
        lasts=min(recipe.approval_lasts for recipe in chosen),
        host=machine.host,
        home=str(machine.home),
        evidence=tuple(map(_evidence, diagnosis.incidents)),
        parts=tuple((part.recipe.id, part.incident.name, _place(part, steps)) for part in used),
    )
    return replace(plan, digest=digest_of(plan))


def _evidence(incident: Incident) -> Phrase:
    """What was seen of an incident, and where; its sentence is its rule's."""
    place = f" ({incident.evidence[0].where})" if incident.evidence else ""
    made = phrase("seen", "{name}: {says}{place}", name=incident.name, says=incident.says, place=place)
    if incident.fields:
        says = Reason(RULE_SAY, {**incident.fields, "rule": incident.rule, "text": incident.says})
        made.reason = Reason(made.reason.key, {**made.reason.fields, "says": says})
    return made


def _in_order(parts: Sequence[Part]) -> tuple[tuple[Step, ...], Sequence[Part]]:
    """The steps of the whole case, and the parts that they serve."""
    plain = {tuple(replace(step, line=0) for step in part.steps) for part in parts}
    if len(plain) == 1:
        return plain.pop(), parts  # one repair: exactly as its recipe says
    repairing = [part for part in parts if part.repairs]
    looping = any(
        part.does("stop") and not part.does("start", "restart") and not part.repairs for part in parts
    )
    repairs = tuple(dict.fromkeys(replace(step, line=0) for part in repairing for step in part.repairs))
    if repairing and (looping or any(part.does("stop") for part in repairing)):
        return (STOP, *repairs, START), repairing
    after = START if any(part.does("start") for part in parts) else None
    after = RESTART if any(part.does("restart") for part in parts) else after
    if repairing:  # such as a column: Hermes takes it up while it runs
        return (*repairs, *((after,) if after else ())), [part for part in parts if part.repairs or after]
    if looping:  # starting it once more is what the loop does all the time
        return (STOP,), [part for part in parts if not part.does("start", "restart")]
    return (RESTART if after == RESTART else START,), parts


def _place(part: Part, steps: Sequence[Step]) -> int:
    own = [replace(step, line=0) for step in part.repairs]
    return max((steps.index(step) for step in own if step in steps), default=len(steps) - 1)


def _warnings(machine: Machine, stays: bool) -> tuple[Reason, ...]:
    """What is odd about the gateway's supervisor; how to start again what a plan leaves stopped."""
    start = KINDS["gateway"].describe(START.args, machine) if stays else None
    later = (
        () if start is None or start.key in WITHOUT_COMMAND else (Reason(Warn.START_LATER, {"start": start}),)
    )
    return (*machine.supervisor.warnings, *machine.supervisor.notes, *later)


def _costs(steps: Sequence[Step], machine: Machine) -> Reason | None:
    stops = any(step.kind == "gateway" and step.args.do != "start" for step in steps)
    if not stops or not machine.gateway.alive:
        return None
    if replies := machine.replies(machine.gateway):
        fields = {"count": replies, "wait": machine.limits.wait_for_turns}
        return Reason(Cost.REPLIES, fields)
    return Reason(Cost.NO_REPLY)


def digest_of(plan: Plan) -> str:
    """A hash of what would be done: recipes, filled-in steps, exact commands, verification and rollback."""
    content: dict[str, Any] = {
        "host": plan.host,
        "home": plan.home,
        "recipes": plan.recipes,
        "steps": [pack(step) for step in plan.steps],
        # The text itself where there is only text: the digest of a plan of an older version.
        "words": [word.fields["text"] if word.key == PLAIN else packed(word) for word in plan.words],
        "rollback": [pack(step) for step in plan.rollback],
        "verify": pack_verify(plan.verify),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

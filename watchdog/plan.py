"""Open incidents + recipes + what was done before → the plan to propose, with the reason it must wait."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from watchdog import budget
from watchdog.actions import KINDS
from watchdog.actions.common import database, fill, pack
from watchdog.actions.gateway import Args as GatewayArgs
from watchdog.causes import HELPS, Case, make_case
from watchdog.errors import WatchdogError
from watchdog.history import History
from watchdog.model import Hold, Incident, Plan, Recipe, Step, Verify
from watchdog.text import spell
from watchdog.values import dataclass, replace
from watchdog.world import World

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
    incidents: Iterable[Incident], recipes: Mapping[str, Recipe], history: History, world: World, now: datetime
) -> tuple[Plan, ...]:
    """At most one plan that acts, for the whole case; each restart that would not help is a plan that is refused, with why."""
    every = tuple(incidents)
    firing = frozenset(one.rule for one in every if one.status != "resolved")
    case = make_case((one for one in every if one.status == "open"), world.free, world.limits.free_space, world.supervisor.exit_status)
    parts: list[Part] = []
    refused: list[Plan] = []
    for incident in case.incidents:
        if incident.recipe and incident.recipe in recipes:
            part = _part(incident, recipes, history, case, world, now)
            if isinstance(part, Part):
                parts.append(part)
            else:
                refused.append(part)
    if not parts:
        return tuple(_once(refused))
    plan = _merge(_judgeable(parts), case, world)
    # What the merged plan takes care of needs no refusal of its own.
    left = [one for one in _once(refused) if not set(one.incidents) <= set(plan.incidents) - untreated(plan)]
    return replace(
        plan, hold=budget.hold(plan, [part.recipe for part in parts if part.recipe.id in plan.recipes], case, firing, history, world, now)
    ), *left


def name_of(incident: Incident) -> str:
    return f"{incident.rule} {incident.key}".strip()


def untreated(plan: Plan) -> frozenset[str]:
    """Incidents of the case that this plan has no step for, though it has one for others of their rule."""
    treated = {key for _, key, _ in plan.parts}
    rules = {key.split(" ")[0] for key in treated}
    return frozenset(name for name in plan.incidents if name not in treated and name.split(" ")[0] in rules)


def _judgeable(parts: Sequence[Part]) -> list[Part]:
    """No more repairs at once than a message can show and a person can judge; the others come with the next plan."""
    chosen: list[Part] = []
    repairs: set[Step] = set()
    for part in parts:
        wanted = repairs | {replace(step, line=0) for step in part.repairs}
        if len(wanted) <= MOST_REPAIRS or not part.repairs or not repairs:
            chosen.append(part)
            repairs = wanted
    return chosen


def _part(incident: Incident, recipes: Mapping[str, Recipe], history: History, case: Case, world: World, now: datetime) -> Part | Plan:
    first = recipes[incident.recipe or ""]
    recipe = budget.not_yet_failed(first, name_of(incident), recipes, history, world.limits, now)
    if recipe is None:
        return _refusal(
            incident,
            first,
            case,
            world,
            f"it was tried for {name_of(incident)} and did not help; a person must look (hermes-watchdog arm --forget allows another try)",
        )
    if recipe.approval == "never" and recipe.id not in world.limits.auto:
        return _refusal(incident, recipe, case, world, "this recipe is advice only (approval: never)")
    verdict = case.verdict(incident)
    only_restarts = all(step.kind == "gateway" for step in recipe.steps) and any(
        step.kind == "gateway" and step.args.do != "stop" for step in recipe.steps
    )
    if only_restarts and (case.blocked or verdict.restart != HELPS):
        return _refusal(incident, recipe, case, world, f"a restart does not help: {case.blocked or verdict.because}")
    try:
        steps = tuple(fill(step, incident.facts) for step in recipe.steps)
        rollback = tuple(fill(step, incident.facts) for step in recipe.rollback)
        for step in steps:
            if name := getattr(step.args, "database", ""):
                database(name, world.home, there=False)  # a step that is bound to fail would take the others' cure with it
    except ValueError as error:
        return _refusal(incident, recipe, case, world, f"{error}; without it there is no exact command to approve")
    except WatchdogError as error:
        return _refusal(incident, recipe, case, world, str(error))
    return Part(incident, recipe, steps, rollback)


def _refusal(incident: Incident, recipe: Recipe, case: Case, world: World, why: str) -> Plan:
    plan = Plan(
        recipe.title,
        (name_of(incident),),
        (recipe.id,),
        (),
        (),
        "",
        "ask",
        Hold(why, final=True),
        chain=case.chain,
        advice=case.advice,
        host=world.host,
        home=str(world.home),
    )
    return replace(plan, digest=digest_of(plan))


def _once(refused: Sequence[Plan]) -> list[Plan]:
    """Three chats stuck for one reason are one refusal."""
    merged: dict[tuple[Any, ...], Plan] = {}
    for plan in refused:
        known = merged.get((plan.recipes, plan.hold))
        merged[plan.recipes, plan.hold] = replace(known, incidents=known.incidents + plan.incidents) if known else plan
    return list(merged.values())


def _merge(parts: Sequence[Part], case: Case, world: World) -> Plan:
    """Repairs before restarts, the gateway stopped once and started once."""
    steps, used = _in_order(parts)
    recipes = tuple(dict.fromkeys(part.recipe.id for part in used))
    chosen = [part.recipe for part in used]
    verbs = [step.args.do for step in steps if step.kind == "gateway"]
    starts, stays = bool(verbs) and verbs[-1] != "stop", bool(verbs) and verbs[-1] == "stop"
    undo = tuple(dict.fromkeys(replace(step, line=0) for part in reversed(used) for step in part.rollback if step.kind != "gateway"))
    quiet = tuple(dict.fromkeys(rule for recipe in chosen for rule in (recipe.verify.quiet if recipe.verify else ())))
    within = max(recipe.verify.within for recipe in chosen if recipe.verify)
    auto = all(recipe.approval == "auto" or recipe.id in world.limits.auto for recipe in chosen)
    plan = Plan(
        title="; ".join(dict.fromkeys(recipe.title for recipe in chosen)),
        incidents=tuple(name_of(one) for one in case.incidents),
        recipes=recipes,
        steps=steps,
        words=tuple(KINDS[step.kind].describe(step.args, world) for step in steps),
        digest="",
        approval="auto" if auto else "ask",
        verify=Verify(quiet, not stays, within),
        rollback=((STOP, *undo, START) if STOP in steps else undo),
        costs=_costs(steps, world),
        chain=case.chain,
        advice=case.advice,
        warnings=world.supervisor.warnings if any(step.kind == "gateway" for step in steps) else (),
        restarts=starts,
        stops=stays,
        lasts=min(recipe.approval_lasts for recipe in chosen),
        host=world.host,
        home=str(world.home),
        evidence=tuple(f"{name_of(one)}: {one.says}" + (f" ({one.evidence[0].where})" if one.evidence else "") for one in case.incidents),
        parts=tuple((part.recipe.id, name_of(part.incident), _place(part, steps)) for part in used),
    )
    return replace(plan, digest=digest_of(plan))


def _in_order(parts: Sequence[Part]) -> tuple[tuple[Step, ...], Sequence[Part]]:
    """The steps of the whole case, and the parts that they serve."""
    plain = {tuple(replace(step, line=0) for step in part.steps) for part in parts}
    if len(plain) == 1:
        return plain.pop(), parts  # one cure: exactly as its recipe says
    mending = [part for part in parts if part.repairs]
    looping = any(part.does("stop") and not part.does("start", "restart") and not part.repairs for part in parts)
    repairs = tuple(dict.fromkeys(replace(step, line=0) for part in mending for step in part.repairs))
    if mending and (looping or any(part.does("stop") for part in mending)):
        return (STOP, *repairs, START), mending
    after = RESTART if any(part.does("restart") for part in parts) else START if any(part.does("start") for part in parts) else None
    if mending:  # such as a column: Hermes takes it up while it runs
        return (*repairs, *((after,) if after else ())), [part for part in parts if part.repairs or after]
    if looping:  # starting it once more is what the loop does all the time
        return (STOP,), [part for part in parts if not part.does("start", "restart")]
    return (RESTART if after == RESTART else START,), parts


def _place(part: Part, steps: Sequence[Step]) -> int:
    own = [replace(step, line=0) for step in part.repairs]
    return max((steps.index(step) for step in own if step in steps), default=len(steps) - 1)


def _costs(steps: Sequence[Step], world: World) -> str:
    if not any(step.kind == "gateway" and step.args.do != "start" for step in steps) or not world.gateway.alive:
        return ""
    wait = spell(world.limits.wait_for_turns)
    if world.gateway.turns:
        turns = world.gateway.turns
        return f"{turns} turn{'s are' if turns > 1 else ' is'} being answered; they get up to {wait} to finish, then they are cut off"
    return "no turn is known to be in progress; chats active in the last two minutes may be resumed with an extra message"


def digest_of(plan: Plan) -> str:
    """A hash of what would be done: recipes, filled-in steps, their exact commands, how it is verified and undone."""
    content: dict[str, Any] = {
        "host": plan.host,
        "home": plan.home,
        "recipes": plan.recipes,
        "steps": [pack(step) for step in plan.steps],
        "words": plan.words,
        "rollback": [pack(step) for step in plan.rollback],
        "verify": [plan.verify.quiet, plan.verify.alive, plan.verify.within.total_seconds()] if plan.verify else None,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

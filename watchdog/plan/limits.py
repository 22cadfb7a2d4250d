"""What was done before, and the limits that hold across runs and reboots: each answer is a Hold with its reason.

Rows are counted, also those that lie in the future: a clock that was set back gives no fresh budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.config.settings import Limits
from watchdog.gateway.machine import Machine
from watchdog.gateway.supervisor import PROCESS
from watchdog.model import Hold, Incident, Plan, Reason, Recipe
from watchdog.model.plan_reasons import Disarm, Wait
from watchdog.plan.causes import Diagnosis
from watchdog.values import dataclass, replace

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
_SAME_START = timedelta(minutes=2)  # our restart and the start that was seen because of it
_SAME_SIGHT = timedelta(seconds=60)  # a process, and the first line of its log


@dataclass(frozen=True)
class Action:
    """One recipe carried out (or begun) for one incident."""

    recipe: str
    key: str  # "rule key"
    at: datetime
    restarted: bool  # the gateway was started by it
    state: str  # begun, ok, failed
    plan: int = 0
    since_armed: bool = True  # after a person last armed the watchdog
    took: timedelta = timedelta(0)  # until the last of its steps was over


@dataclass(frozen=True)
class Refusal:
    """A person said no: this recipe is not proposed again before `until`."""

    recipe: str
    until: datetime
    by: str
    at: datetime


@dataclass(frozen=True)
class Disarmed:
    """The watchdog may not act until a person arms it."""

    at: datetime
    by: str
    why: Reason


@dataclass(frozen=True)
class History:
    """Everything that can make a plan wait."""

    actions: tuple[Action, ...] = ()
    starts: tuple[datetime, ...] = ()  # of the gateway, by anyone, as seen in its process or its log
    refusals: tuple[Refusal, ...] = ()
    disarmed: Disarmed | None = None
    unfinished: tuple[int, ...] = ()  # plans that were begun and not finished
    maintenance_until: datetime | None = None  # planned work: look, tell, do nothing
    not_checked: frozenset[str] = frozenset()  # rules that could not be evaluated: blind is not quiet


def with_starts(history: History, starts: Iterable[datetime]) -> History:
    """The same, knowing of further starts; one that was seen twice (by its process and by its log) is one."""
    # A gateway on a busy machine needs many seconds from its first breath to its first line.
    new = [at for at in starts if not any(abs(at - known) < _SAME_SIGHT for known in history.starts)]
    return replace(history, starts=tuple(sorted((*history.starts, *new)))) if new else history


@dataclass(frozen=True)
class Situation:
    """What a decision about a plan is taken from."""

    diagnosis: Diagnosis
    recipes: Mapping[str, Recipe]
    history: History
    machine: Machine
    now: datetime
    firing: frozenset[str] = frozenset()  # rules with an incident that is open or suspected


def hold(plan: Plan, recipes: Sequence[Recipe], situation: Situation) -> Hold | None:
    """Why this plan must wait: the first reason that only a person can lift, else the one that lasts longest."""
    if situation.diagnosis.blocked and plan.restarts:
        return Hold(situation.diagnosis.blocked)
    holds = [
        *_may_not(plan, situation),
        *_waiting(recipes, situation),
        *_too_often(plan, recipes, situation),
    ]
    lasting = [found for found in holds if found.until is None]
    return lasting[0] if lasting else max(holds, key=lambda found: found.until or situation.now, default=None)


def disarmed(found: Disarmed) -> Reason:
    return Reason(Wait.DISARMED, {"since": found.at, "why": found.why})


def unfinished(plans: Sequence[int]) -> Reason:
    return Reason(Wait.UNFINISHED, {"plans": tuple(plans), "first": plans[0]})


def _may_not(plan: Plan, situation: Situation) -> list[Hold]:
    history, supervisor = situation.history, situation.machine.supervisor
    found = []
    if history.disarmed:
        found.append(Hold(disarmed(history.disarmed)))
    if history.unfinished:
        found.append(Hold(unfinished(history.unfinished)))
    verbs = [step.args.do for step in plan.steps if step.kind == "gateway"]
    if verbs and (why := supervisor.refusal(verbs)):
        if supervisor.sudoers_line:
            why = Reason(Wait.NEEDS_SUDOERS, {"why": why, "line": supervisor.sudoers_line})
        found.append(Hold(why))
    elif verbs and supervisor.kind == PROCESS and situation.machine.gateway.alive is None:
        found.append(Hold(Reason(Wait.GATEWAY_UNSEEN)))
    if history.maintenance_until and history.maintenance_until > situation.now:
        found.append(Hold(Reason(Wait.MAINTENANCE), history.maintenance_until))
    return found


def _waiting(recipes: Sequence[Recipe], situation: Situation) -> list[Hold]:
    found = []
    for recipe in recipes:
        for rule in recipe.hold_while:
            fields = {"recipe": recipe.id, "rule": rule}
            if rule in situation.firing:
                found.append(Hold(Reason(Wait.RULE_HOLDS, fields)))
            elif rule in situation.history.not_checked:
                found.append(Hold(Reason(Wait.RULE_BLIND, fields)))
        for refusal in situation.history.refusals:
            if refusal.recipe == recipe.id and refusal.until > situation.now:
                refused = {"by": refusal.by, "recipe": recipe.id, "at": refusal.at}
                found.append(Hold(Reason(Wait.REFUSED, refused), refusal.until))
    return found


def _too_often(plan: Plan, recipes: Sequence[Recipe], situation: Situation) -> list[Hold]:
    history, limits, now = situation.history, situation.machine.limits, situation.now
    found: list[Hold | None] = []
    for recipe in recipes:
        own = [action for action in history.actions if action.recipe == recipe.id]
        found.append(_pausing(plan, recipe, own, situation))
        spent = Reason(Wait.RECIPE_SPENT, {"recipe": recipe.id})
        found.append(_spent(_plans(own, DAY, now), recipe.max_per_day, DAY, spent))
    found.append(_spent(_plans(history.actions, DAY, now), limits.per_day, DAY, Reason(Wait.DAY_SPENT)))
    found.append(_spent(_plans(history.actions, HOUR, now), limits.per_hour, HOUR, Reason(Wait.HOUR_SPENT)))
    if plan.restarts:
        found += _restarts(plan, situation)
    return [reason for reason in found if reason]


def _pausing(plan: Plan, recipe: Recipe, own: Sequence[Action], situation: Situation) -> Hold | None:
    if not own:
        return None
    now, last = situation.now, max(action.at for action in own)
    keys = {key for name, key, _ in plan.parts if name == recipe.id}
    week = [action for action in own if action.at > now - WEEK]
    again = max((sum(action.key == key for action in week) for key in keys), default=1)
    until = last + pause(recipe.cooldown, again, situation.machine.limits)
    fields = {"recipe": recipe.id, "at": last, "pause": until - last}
    return Hold(_by_the_clock(Reason(Wait.COOLING_DOWN, fields), last, now), until) if until > now else None


def _plans(actions: Iterable[Action], window: timedelta, now: datetime) -> list[datetime]:
    """When plans were carried out: a plan with three recipes is one action."""
    return sorted({action.plan: action.at for action in actions if action.at > now - window}.values())


def _spent(moments: Sequence[datetime], limit: int, window: timedelta, reason: Reason) -> Hold | None:
    if len(moments) < limit:
        return None
    reason = Reason(reason.key, {**reason.fields, "count": len(moments), "limit": limit})
    return Hold(reason, moments[-limit] + window if limit else None)


def _restarts(plan: Plan, situation: Situation) -> list[Hold | None]:
    """Starts by anyone count, except those of a rule that `starts_itself`: they are the fault.

    Against a plan that repairs something only our own count: who starts a gateway with a broken database again and
    again, systemd or a person, would keep the repair away for ever.
    """
    limits, now, rules = situation.machine.limits, situation.now, situation.diagnosis.rules
    loops = [
        incident.first_at
        for incident in situation.diagnosis.incidents
        if incident.rule in rules and rules[incident.rule].starts_itself
    ]
    ours, seen = (
        [action for action in situation.history.actions if action.restarted],
        situation.history.starts,
    )
    others = {
        at for at in seen if (not loops or at < min(loops)) and not any(_made(action, at) for action in ours)
    }
    own = {action.plan: max((at for at in seen if _made(action, at)), default=action.at) for action in ours}
    every = sorted({*own.values(), *others})
    found = []
    if every and every[-1] + limits.grace > now:
        reason = Reason(Wait.JUST_STARTED, {"at": every[-1], "grace": limits.grace})
        found.append(Hold(_by_the_clock(reason, every[-1], now), every[-1] + limits.grace))
    repairs = any(step.kind != "gateway" for step in plan.steps)
    hour = [at for at in (sorted(own.values()) if repairs else every) if at > now - HOUR]
    return [*found, _spent(hour, limits.per_hour, HOUR, Reason(Wait.STARTS_SPENT))]


def _made(action: Action, start: datetime) -> bool:
    """Whether this start is that of our own restart, which may have waited for replies before."""
    return -_SAME_START < start - action.at < min(action.took, HOUR) + _SAME_START


def pause(cooldown: timedelta, times: int, limits: Limits) -> timedelta:
    """Doubles each time the same repair was needed again for the same key."""
    return min(cooldown * 2 ** min(max(times - 1, 0), 20), max(limits.longest_pause, cooldown))


def not_yet_failed(recipe: Recipe, key: str, situation: Situation) -> Recipe | None:
    """The recipe, or the one that its file names for when it failed; None when all of them failed for this key."""
    since = situation.now - situation.machine.limits.remember_failures
    failed = {
        action.recipe
        for action in situation.history.actions
        if action.key == key and action.state == "failed" and action.at > since
    }
    seen: set[str] = set()
    candidate: Recipe | None = recipe
    while candidate is not None and candidate.id in failed and candidate.id not in seen:
        seen.add(candidate.id)
        candidate = situation.recipes.get(candidate.otherwise)
    return candidate if candidate is not None and candidate.id not in failed else None


def must_disarm(
    incidents: Sequence[Incident], recipes: Mapping[str, Recipe], history: History, now: datetime
) -> Reason | None:
    """Why the watchdog should stop acting until a person looks: its repair does not last."""
    for incident in incidents:
        recipe = recipes.get(incident.recipe or "")
        if incident.status != "open" or recipe is None or history.disarmed:
            continue
        key = incident.name
        plans = {
            action.plan: action.at
            for action in history.actions
            if action.key == key
            and action.recipe == recipe.id
            and action.since_armed
            and action.at > now - DAY
        }
        if len(plans) >= recipe.max_per_day and incident.last_seen_at >= max(plans.values()):
            return Reason(Disarm.DOES_NOT_LAST, {"recipe": recipe.id, "count": len(plans), "key": key})
    return None


def _by_the_clock(reason: Reason, at: datetime, now: datetime) -> Reason:
    return Reason(Wait.CLOCK_WENT_BACK, {"why": reason}) if at > now else reason

"""The limits that hold across runs and reboots: each answer is a Hold with its reason, or None.

Rows are counted, also those that lie in the future: a clock that was set back gives nobody a fresh budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.causes import Case
from watchdog.history import Action, History
from watchdog.limits import Limits
from watchdog.model import Hold, Incident, Plan, Recipe
from watchdog.text import clock, spell
from watchdog.world import World

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
_SAME_START = timedelta(minutes=2)  # our restart and the start that was seen because of it


def hold(
    plan: Plan, recipes: Sequence[Recipe], case: Case, firing: frozenset[str], history: History, world: World, now: datetime
) -> Hold | None:
    """Why this plan must wait: the first reason that only a person can lift, else the one that lasts longest."""
    if case.blocked and plan.restarts:
        return Hold(case.blocked, final=True)
    reasons = [
        *_may_not(plan, history, world, now),
        *_waiting(recipes, firing, history, now),
        *_too_often(plan, recipes, case, history, world.limits, now),
    ]
    lasting = [reason for reason in reasons if reason.until is None]
    return lasting[0] if lasting else max(reasons, key=lambda reason: reason.until or now, default=None)


def _may_not(plan: Plan, history: History, world: World, now: datetime) -> list[Hold]:
    found = []
    if history.disarmed:
        found.append(Hold(f"disarmed since {clock(history.disarmed.at)}: {history.disarmed.why}; after a look: hermes-watchdog arm"))
    if history.unfinished:
        ids = ", ".join(map(str, history.unfinished))
        found.append(Hold(f"plan {ids} was begun and not finished; first: hermes-watchdog resume {history.unfinished[0]}, or abandon"))
    if any(step.kind == "gateway" for step in plan.steps) and not world.supervisor.may_act:
        found.append(Hold(world.supervisor.why_not))
    if history.maintenance_until and history.maintenance_until > now:
        found.append(Hold("maintenance", history.maintenance_until))
    return found


def _waiting(recipes: Sequence[Recipe], firing: frozenset[str], history: History, now: datetime) -> list[Hold]:
    found = []
    for recipe in recipes:
        for rule in recipe.hold_while:
            if rule in firing:
                found.append(Hold(f"{recipe.id} waits while {rule} holds"))
            elif rule in history.not_checked:
                found.append(Hold(f"{recipe.id} waits: {rule} could not be checked"))
        for refusal in history.refusals:
            if refusal.recipe == recipe.id and refusal.until > now:
                found.append(Hold(f"{refusal.by} refused {recipe.id} at {clock(refusal.at)}", refusal.until))
    return found


def _too_often(plan: Plan, recipes: Sequence[Recipe], case: Case, history: History, limits: Limits, now: datetime) -> list[Hold]:
    found = []
    for recipe in recipes:
        mine = [action for action in history.actions if action.recipe == recipe.id]
        if mine:
            last = max(action.at for action in mine)
            keys = {key for name, key, _ in plan.parts if name == recipe.id}
            again = max((_times([one.at for one in mine if one.key == key], WEEK, now) for key in keys), default=1)
            until = last + pause(recipe.cooldown, again, limits)
            if until > now:
                told = f"{recipe.id} was carried out at {clock(last)}{_future(last, now)}; pause of {spell(until - last)}"
                found.append(Hold(told, until))
        found += _full(_plans(mine, DAY, now), recipe.max_per_day, DAY, f"{recipe.id} was carried out", "in 24 hours")
    found += _full(_plans(history.actions, DAY, now), limits.per_day, DAY, "the watchdog acted", "in 24 hours")
    found += _full(_plans(history.actions, HOUR, now), limits.per_hour, HOUR, "the watchdog acted", "in the last hour")
    if plan.restarts:
        found += _restarts(case, history, limits, now)
    return found


def _plans(actions: Iterable[Action], window: timedelta, now: datetime) -> list[datetime]:
    """When plans were carried out: a plan with three recipes is one action."""
    return sorted({action.plan: action.at for action in actions if action.at > now - window}.values())


def _full(moments: Sequence[datetime], limit: int, window: timedelta, what: str, when: str) -> list[Hold]:
    if len(moments) < limit:
        return []
    return [Hold(f"{what} {len(moments)} times {when} (limit {limit})", moments[-limit] + window if limit else None)]


def _restarts(case: Case, history: History, limits: Limits, now: datetime) -> list[Hold]:
    """Starts by anyone count; those of a crash loop are the fault itself and would keep its cure away for ever."""
    loop = min((one.first_at for one in case.incidents if one.rule == "crash-loop"), default=None)
    ours = [action.at for action in history.actions if action.restarted]
    others = [at for at in history.starts if (loop is None or at < loop) and not any(abs(at - own) < _SAME_START for own in ours)]
    every = sorted({*ours, *others})
    found = []
    if every and every[-1] + limits.grace > now:
        found.append(
            Hold(
                f"the gateway was started at {clock(every[-1])}{_future(every[-1], now)}; it gets {spell(limits.grace)} to settle",
                every[-1] + limits.grace,
            )
        )
    hour = [at for at in every if at > now - HOUR]
    return found + _full(hour, limits.per_hour, HOUR, "the gateway was started", "in the last hour, by anyone")


def pause(cooldown: timedelta, times: int, limits: Limits) -> timedelta:
    """Doubles each time the same cure was needed again for the same key."""
    return min(cooldown * 2 ** min(max(times - 1, 0), 20), max(limits.longest_pause, cooldown))


def not_yet_failed(
    recipe: Recipe, key: str, recipes: Mapping[str, Recipe], history: History, limits: Limits, now: datetime
) -> Recipe | None:
    """The recipe, or the one that its file names for when it failed; None when all of them failed for this key."""
    failed = {
        action.recipe
        for action in history.actions
        if action.key == key and action.state == "failed" and action.at > now - limits.remember_failures
    }
    seen: set[str] = set()
    one: Recipe | None = recipe
    while one is not None and one.id in failed and one.id not in seen:
        seen.add(one.id)
        one = recipes.get(one.otherwise)
    return one if one is not None and one.id not in failed else None


def must_disarm(incidents: Sequence[Incident], recipes: Mapping[str, Recipe], history: History, now: datetime) -> str:
    """Why the watchdog should stop acting until a person looks: its cure does not last. '' when all is well."""
    for incident in incidents:
        recipe = recipes.get(incident.recipe or "")
        if incident.status != "open" or recipe is None or history.disarmed:
            continue
        key = f"{incident.rule} {incident.key}".strip()
        mine = {
            action.plan: action.at
            for action in history.actions
            if action.key == key and action.recipe == recipe.id and action.since_armed and action.at > now - DAY
        }
        if len(mine) >= recipe.max_per_day and incident.last_seen_at >= max(mine.values()):
            return f"{recipe.id} was carried out {len(mine)} times in 24 hours for {key}, and the fault is back"
    return ""


def _times(moments: Sequence[datetime], window: timedelta, now: datetime) -> int:
    return sum(at > now - window for at in moments)


def _future(at: datetime, now: datetime) -> str:
    return " (the clock went back since; hermes-watchdog arm sets that right)" if at > now else ""

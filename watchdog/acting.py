"""The right half of the line, ready to be called: propose, ask, carry out what was approved.

world = measure_world(home, state, settings.limits, settings.unit, zone=settings.zone)
plans = propose(incidents, book.recipes, store, world, now, not_checked)      reads only; what a dry run shows
plans = ask(plans, store, world, incidents, book.recipes, now)                stores what may be asked, gives it its id
outcomes = carry_out_approved(store, world, looking(book, sources, store, world))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from watchdog import approval
from watchdog.budget import must_disarm
from watchdog.history import History, with_starts
from watchdog.interrupted import find_interrupted
from watchdog.model import Hold, Incident, Outcome, Plan, Recipe
from watchdog.plan import make_plans
from watchdog.remedy import carry_out
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.values import replace
from watchdog.verify import Look, LookAgain
from watchdog.world import World

if TYPE_CHECKING:
    from watchdog.reading import Sources
    from watchdog.rulebook import Rulebook


def propose(
    incidents: Iterable[Incident],
    recipes: Mapping[str, Recipe],
    store: Store | None,
    world: World,
    now: datetime,
    not_checked: Iterable[str] = (),
) -> tuple[Plan, ...]:
    """The plans for what is open now, with the reasons they must wait; writes nothing."""
    return make_plans(tuple(incidents), recipes, known(store, world, now, not_checked), world, now)


def known(store: Store | None, world: World, now: datetime, not_checked: Iterable[str] = ()) -> History:
    """The history, with every start of the gateway that can be seen now: it may have been started by anyone."""
    return with_starts(rows.history(store, now, maintenance_until(store, now), not_checked), world.starts)


def maintenance_until(store: Store | None, now: datetime) -> datetime | None:
    from watchdog.store.messages import maintenance

    planned = maintenance(store, now) if store is not None else None
    return planned.until if planned else None


def ask(
    plans: Sequence[Plan], store: Store, world: World, incidents: Sequence[Incident], recipes: Mapping[str, Recipe], now: datetime
) -> tuple[Plan, ...]:
    """Store what may be asked (and only that), withdraw what is no longer needed, disarm when cures do not last."""
    rows.note_starts(store, world.starts)
    if why := must_disarm(incidents, recipes, rows.history(store, now), now):
        approval.disarm(store, why, now)
        told = Hold(f"disarmed: {why}; after a look: hermes-watchdog arm")
        plans = [replace(plan, hold=told) if plan.steps else plan for plan in plans]
    asked = tuple(plan if plan.hold else replace(plan, id=approval.ask(store, plan, now)) for plan in plans)
    # A question stays open while its plan is only waiting for something; it goes when the plan itself is gone.
    approval.withdraw(store, {plan.digest for plan in plans}, now)
    return asked


def carry_out_approved(store: Store, world: World, look_again: LookAgain) -> tuple[Outcome, ...]:
    """Everything that a person (or the settings) said yes to, and what was cut off before."""
    outcomes = list(find_interrupted(store, world))
    for plan_id in approval.approved(store, world.clock(), world.limits):
        outcomes += carry_out(plan_id, store, world, look_again)
    return tuple(outcomes)


def looking(book: Rulebook, sources: Sources, store: Store | None, world: World) -> LookAgain:
    """How carrying out asks again what is wrong: the same line, on fresh events."""
    from watchdog.incidents import fold
    from watchdog.pipeline import look, look_back
    from watchdog.store.incidents import known_incidents

    def look_again(since: datetime | None) -> Look:
        now = world.clock()
        start = look_back(book, store, now) if since is None else since
        seen, _ = look(book.rules, sources, start, now)
        before = known_incidents(store, start) if since is None else []
        changes = fold(before, seen.findings, seen.not_checked, seen.unsure, start, now)
        changed = {(change.incident.rule, change.incident.key): change.incident for change in changes}
        still = [one for one in before if one.status == "open" and (one.rule, one.key) not in changed]
        unsure = frozenset(f"{rule} {key}".strip() for rule, key in seen.unsure)
        planned = maintenance_until(store, now)
        return Look((*changed.values(), *still), book.recipes, seen.not_checked, maintenance_until=planned, off=book.off, unsure=unsure)

    return look_again

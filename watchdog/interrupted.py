"""After a crash in the middle of a plan: told, never repeated by itself; to go on or to leave it is a person's choice."""

from __future__ import annotations

import os

from watchdog.actions import KINDS
from watchdog.errors import WatchdogError
from watchdog.lock import no_hurry
from watchdog.model import Outcome, Plan
from watchdog.plan import START, STOP, digest_of
from watchdog.remedy import NotNow, acting, run_steps
from watchdog.store import Store, messages
from watchdog.store import plans as rows
from watchdog.store.plans import Stored, text_of
from watchdog.values import replace
from watchdog.verify import LookAgain
from watchdog.world import World


def find_interrupted(store: Store, world: World) -> tuple[Outcome, ...]:
    """Plans whose watchdog died in the middle: each told once, never run again by itself."""
    if not rows.in_state(store, "claimed"):
        return ()
    try:
        with acting(replace(world, sleep=lambda _: None)):
            found = []
            for stored in rows.in_state(store, "claimed"):
                says = _where(stored, store, world)
                with store.atomic():
                    if rows.move(store, stored.id, ("claimed",), "interrupted", says=says):
                        rows.audit(store, "interrupted", world.clock(), stored.plan, says=says)
                        found.append(Outcome(stored.plan.digest, f"plan {stored.id}", False, says))
            return tuple(found)
    except NotNow:
        return ()  # its watchdog lives and works on it


def _where(stored: Stored, store: Store, world: World) -> str:
    begun = [row for row in rows.steps_of(store, stored.id) if row["part"] == "steps"]
    last = begun[-1] if begun else None
    place = (
        "before its first step"
        if last is None
        else (
            f"{'after' if last['ended_at'] else 'in the middle of'} step {last['number'] + 1} of {len(stored.plan.steps)} "
            f"({stored.plan.words[last['number']]})"
        )
    )
    running = {True: "the gateway runs", False: "THE GATEWAY IS NOT RUNNING", None: "whether the gateway runs cannot be told"}
    return (
        f"the watchdog was cut off {place}; {running[world.now_gateway().alive]}; nothing is repeated by itself: "
        f"hermes-watchdog resume {stored.id} goes on, hermes-watchdog abandon {stored.id} leaves it"
    )


def resume(plan_id: int, store: Store, world: World, look_again: LookAgain, by: str) -> tuple[Outcome, ...]:
    """Go on with an interrupted plan where it stopped: a person's choice."""
    find_interrupted(store, world)
    stored = rows.get(store, plan_id)
    if stored is None or stored.state != "interrupted":
        return (
            Outcome(
                "",
                f"plan {plan_id}",
                False,
                f"plan {plan_id} is {stored.state if stored else 'not there'}; only an interrupted plan can be resumed",
            ),
        )
    plan = stored.plan
    if digest_of(plan) != plan.digest or stored.answered_digest != plan.digest:
        return (
            Outcome(
                plan.digest,
                f"plan {plan_id}",
                False,
                f"plan {plan_id} changed since it was approved; abandon it: hermes-watchdog abandon {plan_id}",
            ),
        )
    if (plan.host, plan.home) != (world.host, str(world.home)):
        says = f"plan {plan_id} is for {plan.home} on {plan.host}, this is {world.home} on {world.host}"
        return (Outcome(plan.digest, f"plan {plan_id}", False, says),)
    ended = {row["number"]: row for row in rows.steps_of(store, plan_id) if row["part"] == "steps"}
    first = next((number for number in range(len(plan.steps)) if number not in ended or not ended[number]["ended_at"]), len(plan.steps))
    again = (plan.steps.index(STOP),) if _runs_again(plan, first, world) else ()
    if any(row["ended_at"] and not row["ok"] for row in ended.values()) or any(
        row["part"] == "rollback" for row in rows.steps_of(store, plan_id)
    ):
        return (
            Outcome(
                plan.digest,
                f"plan {plan_id}",
                False,
                "a step had failed before it was cut off; there is nothing to go on with. "
                f"Set things right by hand, then: hermes-watchdog abandon {plan_id}",
            ),
        )
    if first in ended and not KINDS[plan.steps[first].kind].REPEATABLE:
        return (
            Outcome(
                plan.digest,
                f"plan {plan_id}",
                False,
                f"step {first + 1} ({plan.words[first]}) may have run half way and is not "
                f"begun twice; finish it by hand, then: hermes-watchdog abandon {plan_id}",
            ),
        )
    if other := _otherwise(plan, min((*again, first)), world):
        says = f"step {other} would not be the one that was approved by now; abandon it: hermes-watchdog abandon {plan_id}"
        return (Outcome(plan.digest, f"plan {plan_id}", False, says),)
    try:
        with acting(world), no_hurry():
            with store.atomic():
                if not rows.move(store, plan_id, ("interrupted",), "claimed", claimed_by=f"pid {os.getpid()}"):
                    raise NotNow(f"plan {plan_id} was taken up by another hermes-watchdog")
                messages.reopen(store, plan_id)
                for number in (*again, first):
                    rows.forget_step(store, plan_id, "steps", number)
                more = "; the gateway runs again and is stopped first" if again else ""
                rows.audit(store, "resumed", world.clock(), plan, by, "command line", f"from step {first + 1}{more}")
                if not store.db.execute("SELECT 1 FROM actions WHERE plan = ?", (plan_id,)).fetchone():
                    rows.begin_action(store, plan, world.clock())
            return run_steps(plan, store, world, look_again, first, again)
    except NotNow as why:
        return (Outcome(plan.digest, f"plan {plan_id}", False, str(why)),)


def _runs_again(plan: Plan, first: int, world: World) -> bool:
    """Stopped for a repair that is still to be done, but started since (the machine booted): it must be stopped once more.

    A gateway that came up with the broken file would go on without it, whatever lies in its place by then.
    """
    repairs = any(step.kind != "gateway" for step in plan.steps[first:])
    return repairs and STOP in plan.steps[:first] and world.gateway.alive is not False


def _otherwise(plan: Plan, first: int, world: World) -> str:
    """The first step to come that would be done by another command, or to another process, than a person said yes to."""
    for number, step in enumerate(plan.steps[first:], first):
        gone = step == STOP and world.gateway.alive is False  # stopped already: nothing is done to anything
        if not gone and (now := KINDS[step.kind].describe(step.args, world)) != plan.words[number]:
            return f"{number + 1} ({now})"
    return ""


def abandon(plan_id: int, store: Store, world: World, by: str) -> Outcome:
    """Leave an interrupted plan as it is: a person's choice."""
    find_interrupted(store, world)
    stored = rows.get(store, plan_id)
    if stored is None or stored.state not in ("interrupted", *rows.OPEN):
        raise WatchdogError(
            f"plan {plan_id} is {stored.state if stored else 'not there'}; only an open or interrupted plan can be abandoned"
        )
    says = f"abandoned by {by}"
    alive = world.now_gateway().alive
    if alive is False and STOP in stored.plan.steps:
        says += f"; THE GATEWAY IS NOT RUNNING; to {KINDS['gateway'].describe(START.args, world)}"
    with store.atomic():
        rows.move(store, plan_id, ("interrupted", *rows.OPEN), "abandoned", finished_at=text_of(world.clock()), says=says)
        for recipe, key, _ in stored.plan.parts:
            rows.end_action(store, plan_id, recipe, key, "undone")
        rows.audit(store, "abandoned", world.clock(), stored.plan, by, "command line", says)
    return Outcome(stored.plan.digest, f"plan {plan_id}", True, says)

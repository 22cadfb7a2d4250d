"""Carry out an approved plan: claim, look again, steps, verify, roll back, record. Exactly those steps, once."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from watchdog.actions import KINDS
from watchdog.approval import disarm
from watchdog.history import with_starts
from watchdog.lock import no_hurry
from watchdog.model import Outcome, Plan, Step
from watchdog.plan import START, STOP, digest_of, make_plans, name_of
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.plans import Stored, text_of
from watchdog.text import clock as shown
from watchdog.text import harmless
from watchdog.verify import LookAgain, look_safely, unverified, verify
from watchdog.world import World

# Every place where the power may fail; a test dies at each of them.
POINTS = ("checked", "claimed", "looked", "begun", "step begun", "step done", "verified", "rolled back", "recorded")
at_point: Callable[[str], None] = lambda point: None  # noqa: E731
UNRECORDED = "it cannot be recorded"


class NotNow(Exception):
    """The plan is not carried out; the text says why."""


def carry_out(
    plan_id: int, store: Store, world: World, look_again: LookAgain, clock: Callable[[], datetime] | None = None
) -> tuple[Outcome, ...]:
    """What came of it, step by step, and the whole at last. Nothing is done that is not recorded first."""
    world = replace(world, clock=clock) if clock else world
    stored = rows.get(store, plan_id)
    if stored is None:
        return (Outcome("", f"plan {plan_id}", False, f"there is no plan {plan_id}; see: hermes-watchdog plans"),)
    try:
        with acting(world), no_hurry():
            _check(stored, store, world)
            at_point("checked")
            _claim(stored, store, world)
            at_point("claimed")
            _still_right(stored.plan, store, world, look_again)
            at_point("looked")
            with store.atomic():
                rows.begin_action(store, stored.plan, world.clock())
                rows.audit(store, "begun", world.clock(), stored.plan, stored.answered_by, stored.answered_via, stored.plan.title)
            at_point("begun")
            return run_steps(stored.plan, store, world, look_again, first=0)
    except NotNow as why:
        return (Outcome(stored.plan.digest, f"plan {plan_id}", False, str(why)),)
    except sqlite3.Error as error:
        # Before the first step nothing was done; _act tells by itself what happened after it.
        return (Outcome(stored.plan.digest, f"plan {plan_id}", False, f"cannot record in {store.path}: {error}; so nothing was started"),)


@contextmanager
def acting(world: World) -> Iterator[None]:
    """One actor at a time on this machine; the kernel frees the lock of one that dies."""
    path = world.state / "acting.lock"
    try:
        world.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotNow(f"cannot write {path}: {error.strerror}; so nothing was started") from None
    try:
        for attempt in range(20):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if attempt == 19:
                    raise NotNow("another hermes-watchdog is acting right now") from None
                world.sleep(0.1)
        yield
    finally:
        os.close(fd)


def _check(stored: Stored, store: Store, world: World) -> None:
    """The approval: there, for exactly this, not too old, and nobody said stop since."""
    now, plan = world.clock(), stored.plan
    current = rows.get(store, stored.id) or stored
    if current.state != "approved":
        raise NotNow(f"plan {stored.id} is {current.state}, not approved" + (f": {current.says}" if current.says else ""))
    if not digest_of(plan) == plan.digest == stored.answered_digest:
        _lapse(
            stored,
            store,
            now,
            f"plan {stored.id} changed since it was approved at {shown(stored.answered_at or now)}; look at it "
            f"again: hermes-watchdog plan {stored.id}",
        )
    if (plan.host, plan.home) != (world.host, str(world.home)):
        _lapse(stored, store, now, f"plan {stored.id} is for {plan.home} on {plan.host}, this is {world.home} on {world.host}")
    late = (stored.answered_at or stored.asked_at) + world.limits.carry_out_within
    if now >= max(late, stored.expires_at) or now < stored.asked_at - timedelta(minutes=5):
        _lapse(stored, store, now, f"plan {stored.id} was approved at {shown(stored.answered_at or now)} and not carried out in time")
    known = rows.history(store, now, besides=stored.id)
    if known.disarmed:
        raise NotNow(f"disarmed since {shown(known.disarmed.at)}: {known.disarmed.why}; after a look: hermes-watchdog arm")
    if known.unfinished:
        raise NotNow(
            f"plan {known.unfinished[0]} was begun and not finished; first: hermes-watchdog resume {known.unfinished[0]}, or abandon"
        )


def _claim(stored: Stored, store: Store, world: World) -> None:
    with store.atomic():
        if not rows.move(store, stored.id, ("approved",), "claimed", claimed_at=text_of(world.clock()), claimed_by=f"pid {os.getpid()}"):
            raise NotNow(f"plan {stored.id} was taken up by another hermes-watchdog")
        rows.audit(store, "claimed", world.clock(), stored.plan)


def _still_right(plan: Plan, store: Store, world: World, look_again: LookAgain) -> None:
    """Made anew from what is seen now and what the recipe files say now, it must be the same plan, and free to go."""
    stored = rows.get(store, plan.id)
    assert stored is not None
    now, look = world.clock(), look_safely(look_again, None)
    if isinstance(look, str):
        _lapse(stored, store, now, f"it could not be looked at again: {look}; nothing was done")
        return
    wanted = {key for _, key, _ in plan.parts}
    still = {name_of(one) for one in look.incidents if one.status == "open"}
    if not wanted & still:
        blind = sorted({key.split(" ")[0] for key in wanted} & set(look.not_checked))
        off = sorted({key.split(" ")[0] for key in wanted} & set(look.off))
        why = f"{off[0]} was switched off in {look.off[off[0]]}; nothing was done" if off else "no longer needed: the fault is gone"
        why = f"{blind[0]} could not be checked: {look.not_checked[blind[0]]}" if blind else why
        _lapse(stored, store, now, why)
    known = with_starts(rows.history(store, now, look.maintenance_until, look.not_checked, besides=plan.id), world.starts)
    fresh = make_plans(look.incidents, look.recipes, known, world, now)
    same = next((one for one in fresh if one.digest == plan.digest), None)
    if same is None:
        _lapse(stored, store, now, "the situation changed since it was approved; the plan for it now is asked anew")
    elif same.hold is not None:
        _lapse(stored, store, now, f"it must wait: {same.hold.reason}")


def _lapse(stored: Stored, store: Store, now: datetime, why: str) -> None:
    with store.atomic():
        rows.move(store, stored.id, ("approved", "claimed"), "lapsed", finished_at=text_of(now), says=why)
        rows.audit(store, "lapsed", now, stored.plan, says=why)
    raise NotNow(why)


def run_steps(
    plan: Plan, store: Store, world: World, look_again: LookAgain, first: int, again: tuple[int, ...] = ()
) -> tuple[Outcome, ...]:
    """The steps from `first` on, and those before it that must be done again; then verify, roll back, record."""
    began, outcomes = world.clock(), []
    bad: Outcome | None = None
    proof = "verified"
    failed_at = len(plan.steps)
    for number, step in enumerate(plan.steps):
        if number < first and number not in again:
            continue
        outcome = _step(plan, "steps", number, step, store, world)
        outcomes.append(outcome)
        if not outcome.ok:
            bad, failed_at = outcome, number
            break
    if bad is None:
        checked, noisy = verify(plan, world, look_again, began)
        outcomes.append(checked)
        at_point("verified")
        bad = None if checked.ok else checked
        proof = unverified(checked.says) or proof
    else:
        noisy = frozenset(key for _, key, _ in plan.parts)
    if bad is not None:
        outcomes += _roll_back(plan, failed_at, store, world)
        at_point("rolled back")
    outcomes.append(_record(plan, bad, failed_at, noisy, store, world, proof))
    at_point("recorded")
    return tuple(outcomes)


def _step(plan: Plan, part: str, number: int, step: Step, store: Store, world: World) -> Outcome:
    """Write down that it begins, do it, write down how it ended. What cannot be written down is not begun."""
    began = world.clock()
    total = len(plan.steps if part == "steps" else plan.rollback)
    name = f"step {number + 1} of {total}" if part == "steps" else "roll back"
    try:
        with store.atomic():
            rows.begin_step(store, plan.id, part, number, began)
    except sqlite3.Error as error:
        return Outcome(plan.digest, name, False, f"not begun, because {UNRECORDED}: {error}")
    at_point("step begun")
    try:
        outcome = KINDS[step.kind].run(step.args, world)
    except Exception as error:  # a step must not take the record of itself with it
        outcome = Outcome("", step.kind, False, f"{type(error).__name__}: {harmless(str(error))}")
    outcome = replace(outcome, plan_digest=plan.digest, step=f"{name}, {outcome.step}", took=world.clock() - began)
    try:
        with store.atomic():
            rows.end_step(store, plan.id, part, number, outcome, world.clock())
            rows.audit(
                store,
                "step done" if outcome.ok else "step failed",
                world.clock(),
                plan,
                says=f"{outcome.step}: {outcome.says}",
                more={"output": outcome.output[:32_000], "took": outcome.took.total_seconds()},
            )
    except sqlite3.Error as error:
        outcome = replace(outcome, ok=False, says=f"{outcome.says}; but {UNRECORDED}: {error}")
    at_point("step done")
    return outcome


def undoing(plan: Plan, failed_at: int, alive: bool | None) -> tuple[Step, ...]:
    """Which steps take back what was done: only repairs that this very run finished, and the gateway is not left stopped.

    A repair that failed left its file as it was; undoing it would take back an older, good one. And a heal that passed its
    gate stays when it was another repair that failed: the broken file would help nobody.
    """
    another = failed_at < len(plan.steps) and plan.steps[failed_at].kind != "gateway"
    repaired = {
        (step.kind, step.args.database)
        for step in plan.steps[:failed_at]
        if hasattr(step.args, "database") and not (another and step.kind == "heal_database")
    }
    mine = any(step.kind == "command" for step in plan.steps[: failed_at + 1])
    undo = tuple(
        step for step in plan.rollback if (step.kind, getattr(step.args, "database", "")) in repaired or (step.kind == "command" and mine)
    )
    stopped = STOP in plan.steps[: failed_at + 1]
    if undo:
        around = STOP in plan.steps
        return (*((STOP,) if alive and around else ()), *undo, *((START,) if plan.restarts and around else ()))
    return (START,) if stopped and plan.restarts and not alive else ()


def _roll_back(plan: Plan, failed_at: int, store: Store, world: World) -> list[Outcome]:
    outcomes = []
    for number, step in enumerate(undoing(plan, failed_at, world.now_gateway().alive)):
        outcome = _step(plan, "rollback", number, step, store, world)
        if UNRECORDED in outcome.says and not outcome.ok and step == START:
            # A gateway that is up and unrecorded is better than one that is down and unrecorded; the outcome tells.
            outcome = replace(KINDS["gateway"].run(step.args, world), plan_digest=plan.digest)
        outcomes.append(outcome)
    return outcomes


def _record(plan: Plan, bad: Outcome | None, failed_at: int, noisy: frozenset[str], store: Store, world: World, proof: str) -> Outcome:
    now, name = world.clock(), f"plan {plan.id}"
    done = "done and verified" if proof == "verified" else f"done; {proof}"
    says = f"{plan.title}: {done}" if bad is None else f"{plan.title}: {bad.step}: {bad.says}"
    if bad is not None and plan.restarts and not world.now_gateway().alive:
        start = KINDS["gateway"].describe(START.args, world)
        says += f"; THE GATEWAY IS NOT RUNNING; to {start}"
    try:
        with store.atomic():
            rows.move(store, plan.id, rows.UNFINISHED, "done" if bad is None else "failed", finished_at=text_of(now), says=says)
            for recipe, key, place in plan.parts:
                ill = bad is not None and (
                    place == failed_at
                    or (failed_at == len(plan.steps) and (key in noisy or not noisy))
                    or (failed_at < len(plan.steps) and plan.steps[failed_at].kind == "gateway")
                )
                rows.end_action(store, plan.id, recipe, key, "ok" if bad is None else "failed" if ill else "undone")
            rows.audit(store, "done" if bad is None else "failed", now, plan, says=says)
            if bad is not None:
                disarm(store, f"plan {plan.id} did not help: {bad.step}: {bad.says}", now)
    except sqlite3.Error as error:
        return Outcome(plan.digest, name, bad is None, f"{says}; but {UNRECORDED}: {error}")
    return Outcome(plan.digest, name, bad is None, says)

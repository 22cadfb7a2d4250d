"""After a crash in the middle of a plan: reported, never repeated; a person decides how it goes on."""

from __future__ import annotations

import os
from dataclasses import replace

from watchdog.errors import WatchdogError
from watchdog.gateway.command import gateway_command
from watchdog.gateway.machine import Machine
from watchdog.gateway.supervisor import PROCESS, UNKNOWN
from watchdog.model import Outcome, Plan, Reason
from watchdog.model.plan_reasons import CutOff, Describe, Ended, Refused
from watchdog.plan.planner import START, STOP, digest_of
from watchdog.repair.job import PlanRefused, RepairJob, acting, for_another, not_done
from watchdog.repair.run_steps import STEPS, run_steps
from watchdog.steps import gateway
from watchdog.store import Store, questions
from watchdog.store import plans as rows
from watchdog.store.plans import StepRow, Stored
from watchdog.system.lock import no_hurry

_STARTS = (Describe.START_PROCESS, Describe.RESTART_PROCESS)
_GATEWAY = {True: CutOff.GATEWAY_RUNS, False: CutOff.GATEWAY_DOWN, None: CutOff.GATEWAY_UNKNOWN}


def find_interrupted(store: Store, machine: Machine) -> tuple[Outcome, ...]:
    """Plans whose watchdog died in the middle: each told once, never run again by itself."""
    if not rows.in_state(store, "claimed"):
        return ()
    try:
        with acting(replace(machine, sleep=lambda _: None)):
            found = []
            for stored in rows.in_state(store, "claimed"):
                reason = _where(stored, store, machine)
                with store.atomic():
                    if rows.move(store, stored.id, ("claimed",), "interrupted", reason=reason):
                        rows.audit(store, "interrupted", machine.clock(), stored.plan, reason=reason)
                        found.append(not_done(stored.plan.digest, stored.id, reason))
            return tuple(found)
    except PlanRefused:
        return ()  # the watchdog that began it is still running


def _where(stored: Stored, store: Store, machine: Machine) -> Reason:
    begun = [row for row in rows.steps_of(store, stored.id) if row["part"] == STEPS]
    where = Reason(CutOff.BEFORE_FIRST)
    if begun:
        number = begun[-1]["number"]
        place = {"number": number + 1, "total": len(stored.plan.steps), "step": stored.plan.words[number]}
        where = Reason(CutOff.AFTER if begun[-1]["ended_at"] else CutOff.WITHIN, place)
    alive = Reason(_GATEWAY[machine.now_gateway().alive])
    return Reason(CutOff.TOLD, {"where": where, "gateway": alive, "plan": stored.id})


def resume_plan(plan_id: int, job: RepairJob, by: str) -> tuple[Outcome, ...]:
    """Go on with an interrupted plan where it stopped: a person's choice."""
    find_interrupted(job.store, job.machine)
    stored = rows.get(job.store, plan_id)
    if stored is None or stored.state != "interrupted":
        fields = {"plan": plan_id, "state": stored.state if stored else "not there"}
        return (not_done("", plan_id, Reason(CutOff.NOT_INTERRUPTED, fields)),)
    plan = stored.plan
    job = replace(job, machine=with_approved_start(plan, job.machine))
    ended = {row["number"]: row for row in rows.steps_of(job.store, plan_id) if row["part"] == STEPS}
    first = next(
        (number for number in range(len(plan.steps)) if number not in ended or not ended[number]["ended_at"]),
        len(plan.steps),
    )
    again = (plan.steps.index(STOP),) if _runs_again(plan, first, job.machine) else ()
    if why := _why_not(stored, job, first, min((*again, first))):
        return (not_done(plan.digest, plan_id, why),)
    try:
        with acting(job.machine), no_hurry():
            with job.store.atomic():
                claimed = {"claimed_by": f"pid {os.getpid()}"}
                if not rows.move(job.store, plan_id, ("interrupted",), "claimed", **claimed):
                    raise PlanRefused(Reason(Refused.TAKEN, {"plan": plan_id}))
                questions.reopen(job.store, plan_id)
                for number in (*again, first):
                    rows.forget_step(job.store, StepRow(plan_id, STEPS, number))
                reason = Reason(CutOff.RESUMED_STOPPING if again else CutOff.RESUMED, {"number": first + 1})
                who = rows.Who(by, "command line")
                rows.audit(job.store, "resumed", job.now(), plan, who, reason=reason)
                if not rows.action_begun(job.store, plan_id):
                    rows.begin_action(job.store, plan, job.now())
            job.hear()
            return run_steps(plan, job, first, again)
    except PlanRefused as refused:
        return (not_done(plan.digest, plan_id, refused.reason),)


def _why_not(stored: Stored, job: RepairJob, first: int, lowest: int) -> Reason | None:
    """Why this plan cannot go on at step `first`, with `lowest` as the first step that would be done."""
    plan, number = stored.plan, {"plan": stored.id}
    if digest_of(plan) != plan.digest or stored.answered_digest != plan.digest:
        return Reason(CutOff.CHANGED, number)
    if elsewhere := for_another(plan, job.machine):
        return elsewhere
    done = rows.steps_of(job.store, stored.id)
    if any((row["ended_at"] and not row["ok"]) or row["part"] != STEPS for row in done):
        return Reason(CutOff.STEP_FAILED, number)
    begun = any(row["number"] == first for row in done)
    if begun and not job.kinds[plan.steps[first].kind].REPEATABLE:
        return Reason(CutOff.HALF_WAY, {**number, "number": first + 1, "step": plan.words[first]})
    for place, step in enumerate(plan.steps[lowest:], lowest):
        now = job.kinds[step.kind].describe(step.args, job.machine)
        gone = step == STOP and job.machine.gateway.alive is False  # stopped already: nothing is done
        if not gone and not _same(plan.words[place], now, job.machine):
            return Reason(CutOff.OTHER_COMMAND, {**number, "number": place + 1, "step": now})
    return None


def _same(approved: Reason, now: Reason, machine: Machine) -> bool:
    """Whether a step would be done by the command, and to the process, that a person said yes to."""
    if approved.key == now.key == Describe.RESTART_PROCESS and machine.gateway.alive is False:
        # Its process was ended already; what is left of the restart is the start.
        return all(approved.fields.get(name) == now.fields[name] for name in ("user", "command"))
    return approved == now


def _runs_again(plan: Plan, first: int, machine: Machine) -> bool:
    """Stopped for a repair that is still to be done, but started since (the machine booted): it must be
    stopped once more.

    A gateway that came up with the broken file would go on without it, whatever lies in its place by then.
    """
    repairs = any(step.kind != "gateway" for step in plan.steps[first:])
    return repairs and STOP in plan.steps[:first] and machine.gateway.alive is not False


def with_approved_start(plan: Plan, machine: Machine) -> Machine:
    """The machine with the start command that was approved with this plan, where it starts a stopped gateway itself.

    A running gateway shows the command it was started with; once stopped, its files may tell none, or another
    one: gateway.pid has Python's sys.argv, which leaves out the interpreter.
    """
    now = machine.supervisor
    if machine.gateway.alive is not False or not (
        now.kind == UNKNOWN or (now.kind == PROCESS and now.may_act)
    ):
        return machine
    for word in plan.words:
        argv = gateway_command(tuple(word.fields.get("argv", ()))) if word.key in _STARTS else ()
        if argv and now.uid in (None, word.fields["uid"]):
            approved = {"user": word.fields["user"], "argv": argv, "uid": word.fields["uid"]}
            known = replace(now, kind=PROCESS, may_act=True, why_not=None, **approved)
            return replace(machine, supervisor=known)
    return machine


def abandon(plan_id: int, store: Store, machine: Machine, by: str) -> Outcome:
    """Leave an interrupted plan as it is: a person's choice; tells how to start a gateway that it left stopped."""
    find_interrupted(store, machine)
    stored = rows.get(store, plan_id)
    if stored is None or stored.state not in ("interrupted", *rows.OPEN):
        raise WatchdogError(
            f"plan {plan_id} is {stored.state if stored else 'not there'}; only an open or interrupted plan can be abandoned"
        )
    plan, reason = stored.plan, Reason(CutOff.ABANDONED, {"by": by})
    if any(step.kind == "gateway" for step in plan.steps) and machine.now_gateway().alive is False:
        start = _start_command(plan, machine)
        reason = Reason(Ended.GATEWAY_DOWN, {"result": reason, "start": start})
    with store.atomic():
        rows.move(
            store,
            plan_id,
            ("interrupted", *rows.OPEN),
            "abandoned",
            finished_at=machine.clock(),
            reason=reason,
        )
        for recipe, key, _ in plan.parts:
            rows.end_action(store, plan_id, recipe, key, "undone")
        rows.audit(store, "abandoned", machine.clock(), plan, rows.Who(by, "command line"), reason=reason)
    return replace(not_done(plan.digest, plan_id, reason), ok=True)


def _start_command(plan: Plan, machine: Machine) -> Reason:
    return gateway.describe(START.args, with_approved_start(plan, machine))

"""Carry out an approved plan: claim, look again, steps, verify, roll back, record.

Exactly those steps, once. The first half is the run; the second what must hold before the first step.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import timedelta

from watchdog.approval.record import approved
from watchdog.model import Hold, Outcome, Plan, Reason, plain
from watchdog.model.plan_reasons import About, Ended, Lapse, Refused, Wait
from watchdog.plan.limits import disarmed, unfinished
from watchdog.plan.planner import digest_of, make_plans
from watchdog.repair.job import PlanRefused, RepairJob, acting, for_another, not_done
from watchdog.repair.resume import find_interrupted
from watchdog.repair.run_steps import run_steps
from watchdog.repair.verify import Look, look_safely
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.system.lock import no_hurry


def carry_out_approved(job: RepairJob) -> tuple[Outcome, ...]:
    """Everything that a person (or the settings) said yes to, and what was cut off before."""
    outcomes = list(find_interrupted(job.store, job.machine))
    for plan_id in approved(job.store, job.now(), job.machine.limits):
        before = rows.get(job.store, plan_id)
        known = before.reason if before else None  # what an earlier check said about why it waits
        outcomes += (outcome for outcome in carry_out(plan_id, job) if outcome.reason != known)
    return tuple(outcomes)


def carry_out(plan_id: int, job: RepairJob) -> tuple[Outcome, ...]:
    """What came of it, step by step, and the whole at last. Nothing is done that is not recorded first."""
    stored = rows.get(job.store, plan_id)
    if stored is None:
        return (not_done("", plan_id, Reason(Refused.NO_PLAN, {"plan": plan_id})),)
    plan = stored.plan
    try:
        with acting(job.machine), no_hurry():
            _check_approval(stored, job)
            job.at_point("checked")
            _claim(stored, job)
            job.at_point("claimed")
            _check_still_right(stored, job)
            job.at_point("looked")
            job.hear()
            _begin(stored, job)
            job.at_point("begun")
            return run_steps(plan, job, first=0)
    except PlanRefused as refused:
        return (not_done(plan.digest, plan_id, refused.reason),)
    except sqlite3.Error as error:
        # Before the first step nothing was done; run_steps tells by itself what happened after it.
        fields = {"path": job.store.path, "error": str(error)}
        return (not_done(plan.digest, plan_id, Reason(Refused.NO_RECORD, fields)),)


def _check_approval(stored: Stored, job: RepairJob) -> None:
    """The approval: there, for exactly this plan, not too old, and not withdrawn since."""
    now, plan, machine = job.now(), stored.plan, job.machine
    current = rows.get(job.store, stored.id) or stored
    if current.state != "approved":
        fields = {"plan": stored.id, "state": current.state}
        if current.reason is None:
            raise PlanRefused(Reason(Refused.NOT_APPROVED, fields))
        raise PlanRefused(Reason(Refused.NOT_APPROVED_WHY, {**fields, "why": current.reason}))
    approved = {"plan": stored.id, "at": stored.answered_at or now}
    if not digest_of(plan) == plan.digest == stored.answered_digest:
        _lapse(stored, job, Reason(Lapse.CHANGED, approved))
    if elsewhere := for_another(plan, machine):
        _lapse(stored, job, elsewhere)
    late = (stored.answered_at or stored.asked_at) + machine.limits.carry_out_within
    if now >= max(late, stored.expires_at) or now < stored.asked_at - timedelta(minutes=5):
        _lapse(stored, job, Reason(Lapse.TOO_LATE, approved))
    known = rows.history(job.store, now, besides=stored.id)
    if known.disarmed:
        raise PlanRefused(disarmed(known.disarmed))
    if known.unfinished:
        raise PlanRefused(unfinished(known.unfinished))


def _claim(stored: Stored, job: RepairJob) -> None:
    """Take it up, once: the second to try is refused."""
    with job.store.atomic():
        by = f"pid {os.getpid()}"
        if not rows.move(job.store, stored.id, ("approved",), "claimed", claimed_at=job.now(), claimed_by=by):
            raise PlanRefused(Reason(Refused.TAKEN, {"plan": stored.id}))
        rows.audit(job.store, "claimed", job.now(), stored.plan)


def _check_still_right(stored: Stored, job: RepairJob) -> None:
    """Made anew from what is seen and written now, it must be the same plan, and free to go."""
    look = look_safely(job.look_again, None)
    if isinstance(look, str):
        _lapse(stored, job, Reason(Lapse.CANNOT_LOOK, {"error": look}))
        return
    if gone := _gone(stored.plan, look):
        _lapse(stored, job, gone)
    now = job.now()
    known = rows.history(job.store, now, look.not_checked, besides=stored.id)
    fresh = make_plans(look.incidents, look.book, known, job.machine, now)
    same = next((plan for plan in fresh if plan.digest == stored.plan.digest), None)
    if same is None:
        _lapse(stored, job, Reason(Lapse.OTHER_PLAN))
    elif same.hold is not None:
        _wait(stored, job, same.hold)


def _gone(plan: Plan, look: Look) -> Reason | None:
    """Why nothing of what the plan is for can be seen any more; None when something can."""
    wanted = {key for _, key, _ in plan.parts}
    if wanted & {incident.name for incident in look.incidents if incident.status == "open"}:
        return None
    rules = {key.split(" ")[0] for key in wanted}
    if blind := sorted(rules & set(look.not_checked)):
        return Reason(Lapse.RULE_BLIND, {"rule": blind[0], "why": plain(look.not_checked[blind[0]])})
    if off := sorted(rules & set(look.off)):
        return Reason(Lapse.RULE_OFF, {"rule": off[0], "file": look.off[off[0]]})
    return Reason(Lapse.GONE)


def _wait(stored: Stored, job: RepairJob, hold: Hold) -> None:
    """Leave it approved until it may be carried out; void where no one knows when, or that is too far off.

    It then has as long as a question has, so that the next scheduled check takes it up.
    """
    must_wait = Reason(Lapse.MUST_WAIT, {"why": hold.reason})
    approved_at, until, lasts = stored.answered_at or stored.asked_at, hold.until, stored.plan.lasts
    if until is None or hold.reason.key == Wait.REFUSED or until > approved_at + lasts:
        _lapse(stored, job, must_wait)
        return
    why = Reason(Refused.WAITS, {"plan": stored.id, "until": until, "why": hold.reason})
    with job.store.atomic():
        refused = _refused(stored, job)
        if refused is None:
            rows.move(job.store, stored.id, ("claimed",), "approved", reason=why, expires_at=until + lasts)
            if stored.reason != why:
                rows.audit(job.store, "waits", job.now(), stored.plan, reason=why)
    raise PlanRefused(refused or why)


def _lapse(stored: Stored, job: RepairJob, why: Reason) -> None:
    with job.store.atomic():
        refused = _refused(stored, job)
        if refused is None:
            states = ("approved", "claimed")
            rows.move(job.store, stored.id, states, "lapsed", finished_at=job.now(), reason=why)
            rows.audit(job.store, "lapsed", job.now(), stored.plan, reason=why)
    raise PlanRefused(refused or why)


def _begin(stored: Stored, job: RepairJob) -> None:
    """Counted from here on; a no that came since it was taken up ends it instead."""
    with job.store.atomic():
        refused = _refused(stored, job)
        if refused is None:
            rows.begin_action(job.store, stored.plan, job.now())
            who = rows.Who(stored.answered_by, stored.answered_via)
            rows.audit(job.store, "begun", job.now(), stored.plan, who, reason=stored.plan.title_reason)
    if refused:
        raise PlanRefused(refused)


def _refused(stored: Stored, job: RepairJob) -> Reason | None:
    """Ends a plan that was refused before its first step; the caller holds the transaction."""
    by = rows.refused_by(job.store, stored.id)
    if not by:
        return None
    what = Reason(About.PLAN, {"plan": stored.id})
    why = Reason(Ended.REFUSED, {"title": stored.plan.title_reason, "what": what, "by": by})
    rows.move(job.store, stored.id, ("claimed",), "refused", finished_at=job.now(), reason=why)
    rows.audit(job.store, "not begun", job.now(), stored.plan, reason=why)
    return why

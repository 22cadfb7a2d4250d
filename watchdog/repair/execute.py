"""Carry out an approved plan: claim, look again, steps, verify, roll back, record.

Exactly those steps, once.
"""

from __future__ import annotations

import sqlite3

from watchdog.approval.record import approved
from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason
from watchdog.repair.claim import begin, check_approval, check_still_right, claim
from watchdog.repair.job import PlanRefused, RepairJob, acting, not_done
from watchdog.repair.reasons import Refused
from watchdog.repair.resume import find_interrupted
from watchdog.repair.run_steps import run_steps
from watchdog.repair.verify import LookAgain
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.system.lock import no_hurry


def carry_out_approved(store: Store, machine: Machine, look_again: LookAgain) -> tuple[Outcome, ...]:
    """Everything that a person (or the settings) said yes to, and what was cut off before."""
    outcomes = list(find_interrupted(store, machine))
    for plan_id in approved(store, machine.clock(), machine.limits):
        outcomes += carry_out(plan_id, RepairJob(store, machine, look_again))
    return tuple(outcomes)


def carry_out(plan_id: int, job: RepairJob) -> tuple[Outcome, ...]:
    """What came of it, step by step, and the whole at last. Nothing is done that is not recorded first."""
    stored = rows.get(job.store, plan_id)
    if stored is None:
        return (not_done("", plan_id, Reason(Refused.NO_PLAN, {"plan": plan_id})),)
    plan = stored.plan
    try:
        with acting(job.machine), no_hurry():
            check_approval(stored, job)
            job.at_point("checked")
            claim(stored, job)
            job.at_point("claimed")
            check_still_right(stored, job)
            job.at_point("looked")
            begin(stored, job)
            job.at_point("begun")
            return run_steps(plan, job, first=0)
    except PlanRefused as refused:
        return (not_done(plan.digest, plan_id, refused.reason),)
    except sqlite3.Error as error:
        # Before the first step nothing was done; run_steps tells by itself what happened after it.
        fields = {"path": job.store.path, "error": str(error)}
        return (not_done(plan.digest, plan_id, Reason(Refused.NO_RECORD, fields)),)

"""Answering outside of a check, from the command line and from the page: whose plan it is, doing it, telling."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from watchdog.errors import WatchdogError
from watchdog.job import Job, Run
from watchdog.model import Outcome
from watchdog.pipeline import check, record, repair_job, tell
from watchdog.repair import carry_out, find_interrupted, resume_plan
from watchdog.service.status import machine_of
from watchdog.store import Store
from watchdog.store.plans import home_of
from watchdog.values import replace


def sibling_jobs(job: Job) -> list[Job]:
    """This job, then those of the other homes whose stores lie beside its own and say which home is theirs."""
    found = [job]
    for path in sorted(job.state.parent.glob("*/watchdog.db")):
        with suppress(WatchdogError, sqlite3.Error, ValueError, KeyError, TypeError):
            store = Store.look(path) if path.parent != job.state else None
            if store is not None:
                with store:
                    home = home_of(store)
                found += [replace(job, home_dir=home, state_dir=str(path.parent))] if home else []
    return found


def carry_out_now(
    job: Job, store: Store, plan_id: int, resumed_by: str = ""
) -> tuple[tuple[Outcome, ...], Run]:
    """(outcomes, the run at its end for `tell_outcomes`); with `resumed_by` an interrupted plan goes on."""
    machine = machine_of(job)
    run = job.run(store, machine.clock())
    repair = repair_job(run, machine)
    repair.hear()  # a check that is at work may have heard before the last answer came
    try:
        outcomes = resume_plan(plan_id, repair, resumed_by) if resumed_by else carry_out(plan_id, repair)
    except KeyboardInterrupt:
        outcomes = find_interrupted(store, machine)
    return outcomes, replace(run, now=machine.clock())


def tell_outcomes(outcomes: tuple[Outcome, ...], run: Run) -> None:
    """Look again, remember, and tell everyone who was asked what came of the plan."""
    report = record(check(run, run.start), run)
    tell(replace(report, outcomes=outcomes), run)

"""Answering outside of a check, from the command line and from the page: whose plan it is, doing it, telling."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from watchdog.approval.ends import outcome_of
from watchdog.errors import WatchdogError
from watchdog.job import Job, Run
from watchdog.model import Outcome, OutcomeKind
from watchdog.pipeline import check, record, repair_job, tell
from watchdog.repair import carry_out, find_interrupted, resume_plan
from watchdog.service.status import machine_of
from watchdog.store import Store
from watchdog.store import plans as rows
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


def resume_now(job: Job, store: Store, plan_id: int, by: str) -> tuple[tuple[Outcome, ...], Run]:
    """(outcomes, the run at its end for `tell_outcomes`) of an interrupted plan that goes on."""
    machine = machine_of(job)
    run = job.run(store, machine.clock())
    repair = repair_job(run, machine)
    repair.hear()
    try:
        outcomes = resume_plan(plan_id, repair, by)
    except KeyboardInterrupt:
        outcomes = find_interrupted(store, machine)
    return outcomes, replace(run, now=machine.clock())


def carry_out_now(
    job: Job, store: Store, plan_id: int, say: Callable[[Outcome], None]
) -> tuple[tuple[Outcome, ...], Run]:
    """The same of an approved plan; one that must wait is waited for, after `say` was given why.

    Interrupted while it waits, it stays approved: the next check carries it out.
    """
    waits: tuple[Outcome, ...] = ()
    while True:
        machine = machine_of(job)
        run = job.run(store, machine.clock())
        repair = repair_job(run, machine)
        repair.hear()  # a check that is at work may have heard before the last answer came
        try:
            outcomes = carry_out(plan_id, repair)
            if outcomes[-1].kind != OutcomeKind.WAITS:
                break
            waits = outcomes
            say(waits[-1])
            machine.sleep(max((waits[-1].reason.fields["until"] - machine.clock()).total_seconds(), 0.1))
        except KeyboardInterrupt:
            outcomes = find_interrupted(store, machine) or waits
            break
    if waits and len(outcomes) == 1:  # nothing was done here: a check may have carried it out meanwhile
        outcomes = outcome_of(rows.get(store, plan_id)) or outcomes
    return outcomes, replace(run, now=machine.clock())


def tell_outcomes(outcomes: tuple[Outcome, ...], run: Run) -> None:
    """Look again, remember, and tell everyone who was asked what came of the plan."""
    report = record(check(run, run.start), run)
    tell(replace(report, outcomes=outcomes), run)

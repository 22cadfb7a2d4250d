"""The steps of a claimed plan: each recorded before and after, then verified; what failed is rolled back."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace

from watchdog.approval.record import disarm
from watchdog.model import Outcome, OutcomeKind, Plan, Reason, Step
from watchdog.model.plan_reasons import About, Ended, Failed, What
from watchdog.plan.planner import START, STOP
from watchdog.repair.job import RepairJob
from watchdog.repair.verify import verify
from watchdog.store import plans as rows
from watchdog.store.plans import StepRow
from watchdog.text import harmless

STEPS, ROLLBACK = "steps", "rollback"


@dataclass(frozen=True)
class Failure:
    """The first thing that went wrong, and at which step; the number of steps when it was the verification."""

    outcome: Outcome
    place: int
    noisy: frozenset[str]  # incidents that still hold
    refused_by: str = ""  # a person's no stopped it


def run_steps(plan: Plan, job: RepairJob, first: int, again: Collection[int] = ()) -> tuple[Outcome, ...]:
    """The steps from `first` on, and those before it that must be done again; then verify, roll back, record."""
    began = job.now()
    outcomes: list[Outcome] = []
    failure: Failure | None = None
    checked: Outcome | None = None
    for number, step in enumerate(plan.steps):
        if number < first and number not in again:
            continue
        failure = _stopped_by_refusal(plan, number, job) or _step_failure(plan, number, step, job, outcomes)
        if failure:
            break
    if failure is None:
        checked, noisy = verify(plan, job.machine, job.look_again, began)
        outcomes.append(checked)
        job.at_point("verified")
        failure = None if checked.ok else Failure(checked, len(plan.steps), noisy)
    if failure is not None:
        outcomes += _roll_back(plan, failure.place, job)
        job.at_point("rolled back")
    whole = _record(plan, failure, checked, job)
    outcomes.append(replace(whole, took=job.now() - began))
    job.at_point("recorded")
    return tuple(outcomes)


def _step_failure(
    plan: Plan, number: int, step: Step, job: RepairJob, outcomes: list[Outcome]
) -> Failure | None:
    outcome, _ = _step(plan, StepRow(plan.id, STEPS, number), step, job)
    outcomes.append(outcome)
    return None if outcome.ok else Failure(outcome, number, frozenset(key for _, key, _ in plan.parts))


def _stopped_by_refusal(plan: Plan, number: int, job: RepairJob) -> Failure | None:
    """A no that came while it is being carried out, where stopping is safe: as long as nothing is repaired yet.

    A gateway that was stopped for the repair is started again by rolling back. After a repair, the remaining
    steps are what makes the gateway run on it: they are finished.
    """
    if any(step.kind != "gateway" for step in plan.steps[:number]):
        return None
    try:
        if number:
            job.hear()  # before the first step the caller did it
        by = rows.refused_by(job.store, plan.id)
    except sqlite3.Error:
        return None
    if not by:
        return None
    what = plan.words[number]
    why = Reason(Ended.REFUSED, {"title": plan.title_reason, "what": what, "by": by})
    outcome = Outcome(plan.digest, OutcomeKind.STEP, what, False, why)
    return Failure(outcome, number, frozenset(), refused_by=by)


def _step(plan: Plan, row: StepRow, step: Step, job: RepairJob) -> tuple[Outcome, bool]:
    """(outcome, whether it was begun): recorded before and after; what cannot be recorded is not begun."""
    began = job.now()
    undo = row.part == ROLLBACK
    place = {"number": row.number + 1, "total": len(plan.steps)}

    def about(what: Reason) -> Reason:
        return Reason(About.UNDO, {"what": what}) if undo else Reason(About.STEP, {**place, "what": what})

    kind = Reason(What.KIND, {"kind": step.kind})
    outcome = Outcome(plan.digest, OutcomeKind.UNDO if undo else OutcomeKind.STEP, about(kind), False, kind)
    try:
        with job.store.atomic():
            rows.begin_step(job.store, row, began)
    except sqlite3.Error as error:
        return replace(outcome, reason=Reason(Ended.NOT_BEGUN, {"error": str(error)})), False
    job.at_point("step begun")
    try:
        ran = job.kinds[step.kind].run(step.args, job.machine)
        outcome = replace(outcome, what=about(ran.what), ok=ran.ok, reason=ran.reason, output=ran.output)
    except Exception as error:  # a step must not take the record of itself with it
        raised = {"kind": type(error).__name__, "error": harmless(str(error))}
        outcome = replace(outcome, reason=Reason(Failed.RAISED, raised))
    outcome = replace(outcome, took=job.now() - began)
    try:
        with job.store.atomic():
            rows.end_step(job.store, row, outcome, job.now())
            rows.audit(
                job.store,
                "step done" if outcome.ok else "step failed",
                job.now(),
                plan,
                reason=Reason(Ended.STEP, {"what": outcome.what, "result": outcome.reason}),
                output=outcome.output[:32_000],
                took=outcome.took.total_seconds(),
            )
    except sqlite3.Error as error:
        fields = {"result": outcome.reason, "error": str(error)}
        outcome = replace(outcome, ok=False, reason=Reason(Ended.UNRECORDED, fields))
    job.at_point("step done")
    return outcome, True


def undoing(plan: Plan, failed_at: int, alive: bool | None) -> tuple[Step, ...]:
    """Which steps take back what was done: only repairs that this very run finished, and the gateway is not
    left stopped.

    A repair that failed left its file as it was; undoing it would take back an older, good one. And a heal
    that passed its gate stays when it was another repair that failed: putting the broken file back would help no one.
    """
    another = failed_at < len(plan.steps) and plan.steps[failed_at].kind != "gateway"
    repaired = {
        (step.kind, step.args.database)
        for step in plan.steps[:failed_at]
        if hasattr(step.args, "database") and not (another and step.kind == "heal_database")
    }
    ran_command = any(step.kind == "command" for step in plan.steps[: failed_at + 1])
    undo = tuple(
        step
        for step in plan.rollback
        if (step.kind, getattr(step.args, "database", "")) in repaired
        or (step.kind == "command" and ran_command)
    )
    stopped = STOP in plan.steps[: failed_at + 1]
    if undo:
        around = STOP in plan.steps
        return (
            *((STOP,) if alive and around else ()),
            *undo,
            *((START,) if plan.restarts and around else ()),
        )
    return (START,) if stopped and plan.restarts and not alive else ()


def _roll_back(plan: Plan, failed_at: int, job: RepairJob) -> list[Outcome]:
    outcomes = []
    for number, step in enumerate(undoing(plan, failed_at, job.machine.now_gateway().alive)):
        outcome, begun = _step(plan, StepRow(plan.id, ROLLBACK, number), step, job)
        if not begun and step == START:
            # A gateway that is up and unrecorded is better than one that is down and unrecorded; the outcome
            # tells.
            ran = job.kinds["gateway"].run(step.args, job.machine)
            outcome = replace(ran, plan_digest=plan.digest, kind=OutcomeKind.UNDO)
        outcomes.append(outcome)
    return outcomes


def _record(plan: Plan, failure: Failure | None, checked: Outcome | None, job: RepairJob) -> Outcome:
    now, reason = job.now(), _end(plan, failure, checked, job)
    outcome = Outcome(
        plan.digest,
        OutcomeKind.PLAN,
        Reason(About.PLAN, {"plan": plan.id}),
        failure is None,
        reason,
        unproven=checked.unproven if checked else (),
        unconnected=checked.unconnected if checked else (),
        restarted_for=_restarted_for(plan) if failure is None else (),
    )
    state = "done" if failure is None else "refused" if failure.refused_by else "failed"
    try:
        with job.store.atomic():
            rows.move(job.store, plan.id, rows.UNFINISHED, state, finished_at=now, reason=reason)
            for recipe, key, place in plan.parts:
                rows.end_action(job.store, plan.id, recipe, key, _action_state(plan, failure, key, place))
            rows.audit(job.store, state, now, plan, reason=reason)
            if failure is not None and not failure.refused_by:
                bad = {"plan": plan.id, "what": failure.outcome.what, "why": failure.outcome.reason}
                disarm(job.store, Reason(Ended.DID_NOT_HELP, bad), now)
    except sqlite3.Error as error:
        return replace(outcome, reason=Reason(Ended.UNRECORDED, {"result": reason, "error": str(error)}))
    return outcome


def _restarted_for(plan: Plan) -> tuple[str, ...]:
    """The rules whose faults a plan with a restart was for."""
    restarts = any(step.kind == "gateway" and step.args.do == "restart" for step in plan.steps)
    return tuple(dict.fromkeys(name.split(" ")[0] for _, name, _ in plan.parts)) if restarts else ()


def _end(plan: Plan, failure: Failure | None, checked: Outcome | None, job: RepairJob) -> Reason:
    """How the plan ended, and that the gateway is down where it should not be."""
    if failure is None:
        fields = {"title": plan.title_reason}
        if checked and checked.unconnected:
            return Reason(Ended.NOT_CONNECTED, {**fields, "platforms": checked.unconnected})
        if checked and checked.unproven:
            return Reason(Ended.UNPROVEN, {**fields, "rules": checked.unproven})
        return Reason(Ended.VERIFIED, fields)
    bad = failure.outcome
    reason = Reason(Ended.FAILED, {"title": plan.title_reason, "what": bad.what, "why": bad.reason})
    if failure.refused_by:
        reason = bad.reason
    if not plan.restarts or job.machine.now_gateway().alive is not False:
        return reason
    start = job.kinds["gateway"].describe(START.args, job.machine)
    return Reason(Ended.GATEWAY_DOWN, {"result": reason, "start": start})


def _action_state(plan: Plan, failure: Failure | None, key: str, place: int) -> str:
    """What budgets and later plans make of one recipe of this plan: ok, failed, or undone with the others."""
    if failure is None:
        return "ok"
    if failure.refused_by:
        return "undone"
    if failure.place == len(plan.steps):
        return "failed" if key in failure.noisy or not failure.noisy else "undone"
    failed = place == failure.place or plan.steps[failure.place].kind == "gateway"
    return "failed" if failed else "undone"

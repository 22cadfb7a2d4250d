"""Plans and permission to carry them out: plans, plan, approve, refuse, arm, disarm, resume, abandon."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from watchdog.approval import record
from watchdog.approval.record import COMMAND_LINE, LENGTH, GivenAnswer
from watchdog.cli.command import command, flag, number_of, option
from watchdog.cli.context import (
    CONFIG,
    WELL,
    WRONG,
    job_of,
    need_known,
    print_json,
    show,
    store_of,
    typed_code,
)
from watchdog.errors import WatchdogError
from watchdog.job import Job, Run
from watchdog.model import Outcome, Reason, plain
from watchdog.model.plan_reasons import Note
from watchdog.notify.translate import in_english
from watchdog.repair import abandon, is_acting
from watchdog.reports.language import command_of, reader_anyhow, reader_for
from watchdog.reports.plans import (
    Answering,
    for_scripts,
    full_lines,
    held_json,
    outcome_lines,
    stored_json,
    stored_lines,
    unasked_json,
    unasked_lines,
)
from watchdog.service.answering import carry_out_now, resume_now, sibling_jobs, tell_outcomes
from watchdog.service.status import machine_of, unasked_plans
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.system.users import person
from watchdog.text import harmless, picked

ID = option("id", "PLAN", "number of the plan", type=number_of("a plan"))
CODE = option(
    "code", "CODE", "the eight characters from the message; - reads them from standard input", nargs="?"
)
BECAUSE = option("--because", "WORDS", "the reason, for the audit and for the next person", default="")


@command("plans")
def run_plans(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog plans               open questions first, then what waits, then what became of the others
      hermes-watchdog plans --json

    exit codes: 0 nothing waits · 1 a question is open, a plan is on hold or was interrupted, or the watchdog is disarmed
    """
    job = job_of(args)
    need_known(job)
    store = job.look_at_store()
    newest = rows.newest(store) if store else ()
    waiting = [stored for stored in newest if stored.state in (*rows.OPEN, *rows.UNFINISHED)]
    unasked = unasked_plans(job, store, machine_of) if store else ()
    held = [plan for plan in unasked if plan.hold]
    ready = [plan for plan in unasked if not plan.hold]
    disarmed = rows.history(store, job.now).disarmed
    value = {
        "plans": [stored_json(stored) for stored in newest],
        "on_hold": [held_json(plan) for plan in held],
        "ready": [unasked_json(plan) for plan in ready],
        "disarmed": disarmed and {**picked(disarmed, "at by"), "why": in_english(disarmed.why)},
    }

    def lines() -> Iterator[str]:
        reader = reader_for(job, args.language)
        if disarmed:
            off = reader.paint(reader("plan.disarmed"), "high")
            yield reader("plan.disarmed-by", off=off, by=disarmed.by, why=reader.reason(disarmed.why))
            yield "  " + reader("plan.arm")
        for stored in waiting:
            yield from stored_lines(stored, reader)
        for plan in (*ready, *held):
            yield from unasked_lines(plan, reader)
        for stored in newest:
            if stored not in waiting:
                yield from stored_lines(stored, reader)
        if not newest and not unasked:
            yield reader("plan.none")

    show(args, value, lines)
    return WRONG if waiting or unasked or disarmed else WELL


@command("plan", ID, flag("--code", "make a code to answer with in this shell"))
def run_plan(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog plan 7              steps, side effects, evidence, output of what was done
      hermes-watchdog plan 7 --code       also make a fresh code to answer with, for this shell
    """
    job = job_of(args)
    store = job.look_at_store()
    stored = _get(store, args.id)
    assert store is not None
    code = ""
    if args.code:
        _need_open(stored, job)
        with store_of(job) as writable:
            code = record.new_code(writable, stored.id, COMMAND_LINE, job.now)
    steps = rows.steps_of(store, stored.id)
    value = {
        **stored_json(stored),
        "done": for_scripts(steps),
        "audit": for_scripts(rows.audit_lines(store, stored.id)),
        **({"code": code} if code else {}),
    }
    answering = Answering(code, at_work=is_acting(job.state))
    reader = partial(reader_for, job, args.language)
    show(args, value, lambda: full_lines(stored, steps, reader(), answering))
    return WELL


def _need_open(stored: Stored, job: Job) -> None:
    if stored.state != "pending" or stored.expires_at <= job.now:
        state = "expired" if stored.state == "pending" else stored.state
        raise WatchdogError(f"plan {stored.id} is {state}; there is nothing to answer")


@command("approve", CODE)
def run_approve(args: argparse.Namespace) -> int:
    """
    Without a code, on a terminal, it shows the plan and asks. A code is for exactly the commands that 'plan' shows, works
    once, and is void after the time in the message. Before acting the watchdog looks again: when the fault is gone, or the
    plan would be another one by now, nothing is done.

    examples:
      hermes-watchdog approve             shows the plan and asks y/n
      hermes-watchdog approve K7MNPQRS    the code from the message
      hermes-watchdog approve -           read the code from standard input, so that no process list shows it

    exit codes: 0 done and verified · 1 not done, or it did not help · 2 the code or the arguments are wrong
    """
    return _answer(args)


@command("refuse", CODE)
def run_refuse(args: argparse.Namespace) -> int:
    """
    The same fix is not proposed again for some hours (settings: approval: refused_for).

    examples:
      hermes-watchdog refuse              shows the plan and asks y/n
      hermes-watchdog refuse K7MNPQRS
    """
    return _answer(args)


def _answer(args: argparse.Namespace) -> int:
    """Take a yes or no by code, or by asking; a yes is carried out here and now."""
    job = job_of(args)
    if args.code is None:
        chosen = _ask_person(args, job)
        if chosen is None:
            return WRONG
        with store_of(job) as store:
            word = record.new_code(store, chosen.id, COMMAND_LINE, job.now)
    else:
        word = typed_code(args)
        jobs = sibling_jobs(job) if args.home is None else [job]
        _need_code(word, args.command, jobs)
        job = _first(jobs, lambda store: record.knows(store, word))
    with store_of(job) as store:
        given = GivenAnswer(word, args.command == "approve", person(), COMMAND_LINE)
        answer = record.answer(store, given, job.now, job.settings.limits)
        if not answer.ok or not answer.approved:
            _say(args, job, answer.reason, answer.ok, answer.plan_id)
            return WELL if answer.ok else WRONG if answer.plan_id else CONFIG
        if not args.json:
            print(reader_for(job, args.language).reason(answer.reason), flush=True)
        done = carry_out_now(job, store, answer.plan_id, lambda waits: _say_waits(args, job, waits))
        return _end(args, job, answer.plan_id, *done)


def _need_code(word: str, command: str, jobs: Sequence[Job]) -> None:
    """WatchdogError for a word that cannot be a code: no try is counted for it."""
    letters = [letter for letter in word if letter.isalnum()]
    if not word:
        raise WatchdogError(
            "no code was given; it is in the message, or make one: {watchdog} plan PLAN --code"
        )
    if len(letters) != LENGTH:
        number = int(word) if word.isdecimal() else 0
        asks = _first(jobs, lambda store: any(plan.id == number for plan in rows.in_state(store, "pending")))
        raise WatchdogError(
            f"'{harmless(word, 40)}' is not a code: a code has {LENGTH} letters and digits and is in the message; "
            f"to answer here: {command_of(asks)} {f'plan {number} --code' if number else command}"
        )


def _first(jobs: Sequence[Job], wanted: Callable[[Store], bool]) -> Job:
    """The first job whose store is the wanted one; the given home where none is."""
    for job in jobs:
        store = job.look_at_store()
        if store is not None:
            with store:
                if wanted(store):
                    return job
    return jobs[0]


def _ask_person(args: argparse.Namespace, job: Job) -> Stored | None:
    """The plan that the person at this terminal says yes (or no) to; None when they do not."""
    store = job.look_at_store()
    waiting = rows.in_state(store, "pending") if store else ()
    waiting = tuple(stored for stored in waiting if stored.expires_at > job.now)
    if not waiting:
        need_known(job)
        raise WatchdogError("no plan waits for an answer; see: {watchdog} plans")
    if args.json or not sys.stdin.isatty():
        raise WatchdogError(
            f"no code was given; it is in the message, or make one: {{watchdog}} plan {waiting[0].id} --code"
        )
    assert store is not None
    for stored in waiting:
        steps, reader = rows.steps_of(store, stored.id), reader_for(job, args.language)
        print("\n".join(full_lines(stored, steps, reader, Answering(asked_now=True))))
        question = reader("answering.now" if args.command == "approve" else "answering.refuse")
        if input("\n" + reader("answering.y-n", question=question)).strip().lower() in ("y", "yes", "是"):
            return stored
    print(reader("answering.nothing" if args.command == "refuse" else "answering.open"))
    return None


def _say_waits(args: argparse.Namespace, job: Job, waits: Outcome) -> None:
    if not args.json:
        reader = reader_for(job, args.language)
        print("\n".join([*outcome_lines((waits,), reader), reader("answering.waits")]), flush=True)


def _end(args: argparse.Namespace, job: Job, plan_id: int, outcomes: tuple[Outcome, ...], run: Run) -> int:
    """Say what came of a plan, here first: it is said even when nothing can be recorded any more."""
    ok = bool(outcomes) and outcomes[-1].ok
    parts = [
        {
            "step": in_english(part.what),
            "ok": part.ok,
            "says": in_english(part.reason),
            "took": part.took.total_seconds(),
        }
        for part in outcomes
    ]
    value = {"plan": plan_id, "ok": ok, "outcomes": parts}
    show(args, value, lambda: outcome_lines(outcomes, reader_for(job, args.language)))
    tell_outcomes(outcomes, run)
    return WELL if ok else WRONG


@command("arm", BECAUSE, flag("--forget", "a fix that failed may be tried again for the same fault"))
def run_arm(args: argparse.Namespace) -> int:
    """
    The watchdog disarms itself when an action did not help or the fault came back. Look at the cause first.

    examples:
      hermes-watchdog arm --because 'disk replaced'
      hermes-watchdog arm --forget        also try again what failed before
    """
    job = job_of(args)
    with store_of(job) as store:
        changed = record.arm(store, person(), job.now, args.because, args.forget)
    return _say(args, job, Reason("answering.armed" if changed else "answering.was-armed"))


@command("disarm", BECAUSE)
def run_disarm(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog disarm --because 'migrating the server this week'
    """
    job = job_of(args)
    reason = plain(args.because) if args.because else Reason(Note.BY_HAND)
    with store_of(job) as store:
        changed = record.disarm(store, reason, job.now, person())
    return _say(args, job, Reason("answering.disarmed" if changed else "answering.was-disarmed"))


@command("resume", ID)
def run_resume(args: argparse.Namespace) -> int:
    """
    Steps that were finished are not repeated. A command that may have run half way is not started again.

    examples:
      hermes-watchdog plan 7              first see where it stopped
      hermes-watchdog resume 7
    """
    job = job_of(args)
    with store_of(job) as store:
        _get(store, args.id)
        return _end(args, job, args.id, *resume_now(job, store, args.id, person()))


@command("abandon", ID)
def run_abandon(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog abandon 7
    """
    job = job_of(args)
    with store_of(job) as store:
        _get(store, args.id)
        outcome = abandon(args.id, store, machine_of(job), person())
    return _say(args, job, outcome.reason, plan_id=args.id)


def _get(store: Store | None, number: int) -> Stored:
    stored = rows.get(store, number) if store else None
    if stored is None:
        raise WatchdogError(f"there is no plan {number}; see: {{watchdog}} plans")
    return stored


def _say(args: argparse.Namespace, job: Job, reason: Reason, ok: bool = True, plan_id: int = 0) -> int:
    """The reason in the reader's language, also where rules or settings are wrong; for scripts in English."""
    if args.json:
        says = in_english(reason, str(command_of(job)))
        print_json({"ok": ok, "says": says, "plan": plan_id or None})
    else:
        print(reader_anyhow(job, args.language).reason(reason), file=sys.stdout if ok else sys.stderr)
    return WELL

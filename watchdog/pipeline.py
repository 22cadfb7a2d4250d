"""The line: read what the gateway left behind, decide what is wrong, propose a repair, carry out what was
approved, tell people.

    sources → events → findings → incidents → plans → approvals → outcomes → notifications

Everything begins with `check`, which reads and decides, and writes nothing:

    full_check   check → record → hear → act → tell, then backups and the fleet
    dry_run      check → propose
    replay       check, over old logs, without a store
    look_again   check, before and after a repair, with the clock of that moment

The stages behind plan, approval, notify, repair and fleet are loaded on their first use: a quiet check needs none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from watchdog import approval, fleet, notify, plan, repair, sqlite, store
from watchdog.detect.evaluate import Evaluation, Seen, evaluate, lines_by_source
from watchdog.detect.incidents import fold
from watchdog.job import Run
from watchdog.model import Incident, Plan, Report, Rule
from watchdog.sources.logfile import with_line_numbers
from watchdog.sources.read import Reading, Sources, read_all, unwatched_databases
from watchdog.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from watchdog.approval import ReplyResult
    from watchdog.gateway import Machine
    from watchdog.repair import Look, RepairJob

AT_ONCE = timedelta(0)


def full_check(run: Run) -> Report:
    """Look, remember, hear what people answered, act on what they approved, tell what changed."""
    with store.recording(run.memory):
        report = record(check(run, run.start), run)
        _, unheard = hear(run)
        report = tell(act(report.noted(unheard), run), run)
        if any(notification.news in store.QUESTIONS for notification in report.notifications):
            # A question was asked just now: the person with the phone may answer at once.
            replies, unheard = hear(run, run.settings.notify.replies.wait)
            report = report.noted(unheard)
            report = report.followed_by(tell(act(report.anew(), run), run)) if replies else report
        if run.settings.backups:
            failed = sqlite.take_due_backups(run.home_dir, run.state_dir, run.settings.keep_backups, run.now)
            report = report.noted(failed)
        if run.settings.fleet:
            now = datetime.now(run.now.tzinfo)
            report = report.noted(fleet.publish(report, run.memory, run.settings, now))
        return report


def dry_run(run: Run) -> Report:
    """What a full check would find and propose, with holds and exact commands; writes nothing."""
    report = check(run, run.start)
    report = replace(report, cut_off=store.work_left(run.store)[1])
    if any(incident.needs_plan for incident in report.incidents):
        machine = run.machine(report.turns, report.hung)
        report = replace(report, plans=propose(report.incidents, report.not_checked, run, machine))
    return report


def replay(run: Run, first: datetime) -> Report:
    """What checks since `first` would have found, at any pace: findings keep the time of the logs."""
    return replace(check(replace(run, store=None), None), start=first)


def look_again(run: Run, machine: Machine, since: datetime | None) -> Look:
    """What is wrong now, as a repair asks before it begins; with `since`, what has been wrong from then on."""
    now = replace(run, now=machine.clock(), rules=run.book.rules)
    report = check(now, now.start) if since is None else check(replace(now, store=None), since)
    return repair.Look.of(report, run.book)


def check(run: Run, start: datetime | None) -> Report:
    """Read from `start` on, evaluate the rules that are due, and say what changes about the incidents."""
    seen, reading = look(run.rules, run.sources_from(start), start, run.now)
    start = start or run.now
    known = store.known_incidents(run.store, start)
    changes = fold(known, seen, run.not_due, start, run.now)
    changed = {change.incident.id for change in changes}
    return Report(
        start=start,
        now=run.now,
        home=run.home_dir,
        blind=reading.blind,
        notes=(*dict.fromkeys(reading.notes), *seen.notes, *unwatched_databases(run.sources)),
        not_checked=seen.not_checked,
        findings=seen.findings,
        changes=changes,
        turns=seen.turns,
        hung=seen.hung,
        pending_since=seen.pending_since,
        kept=tuple(old for old in known if old.status != "resolved" and old.id not in changed),
        unsure=seen.unsure,
        measured=reading.measured,
    )


def look(
    rules: Sequence[Rule], sources: Sources, start: datetime | None, now: datetime
) -> tuple[Evaluation, Reading]:
    """Read what the rules want to see, and ask them; the findings name their evidence by line."""
    with read_all(sources, lines_by_source(rules), start, now) as reading:
        beside = Seen(reading.blind, reading.traces, reading.slow, reading.lost, sources.tool_calls)
        seen = evaluate(rules, reading.events, beside, now)
        reading.blind.update({**reading.lost(), **seen.doubtful})
        set_back = reading.set_back()
    if set_back and not sources.set_back:  # the clock was, as only the end shows: all is dated by that of now
        return look(rules, replace(sources, set_back=set_back), start, now)
    return replace(seen, findings=with_line_numbers(seen.findings, sources.logs)), reading


def record(report: Report, run: Run) -> Report:
    """Remember what a check decided: all of it or nothing."""
    changes, newly_blind = store.record_check(run.memory, report, [rule.id for rule in run.rules])
    return replace(report, changes=changes, newly_blind=newly_blind)


def hear(run: Run, wait: timedelta = AT_ONCE) -> tuple[tuple[ReplyResult, ...], tuple[str, ...]]:
    """The answers since the last look, and what did not work; waits this long for one while a question is open."""
    if not run.settings.notify.replies.channels or not store.any_asked(run.memory, run.now):
        return (), ()
    return approval.hear(run.messenger(), run.settings.limits, approval.Patience(wait))


def act(report: Report, run: Run) -> Report:
    """Propose for what is open, record what needs a person's answer, carry out what was approved."""
    wrong = store.all_incidents(run.memory, only_open=True)
    waiting, cut_off = store.work_left(run.memory)
    if not waiting and not any(incident.needs_plan for incident in wrong):
        return replace(report, cut_off=cut_off)
    machine = run.machine(report.turns, report.hung)
    plans = ask(wrong, report.not_checked, run, machine)
    outcomes = repair.carry_out_approved(repair_job(run, machine))
    if any(outcome.verified for outcome in outcomes):
        # What is new since the check began waits for the next one: two looks within seconds confirm no fault.
        afterwards = check(replace(run, now=machine.clock()), run.start)
        report = report.with_ends(store.record_ends(run.memory, afterwards.changes))
    return replace(report, plans=plans, outcomes=outcomes, cut_off=store.work_left(run.memory)[1])


def ask(wrong: Sequence[Incident], unseen: Collection[str], run: Run, machine: Machine) -> tuple[Plan, ...]:
    """Propose, and record what may be asked; stop acting first where the repairs do not last."""
    if why := plan.must_disarm(wrong, run.book.recipes, store.history(run.store, run.now), run.now):
        approval.disarm(run.memory, why, run.now)
    plans = propose(wrong, unseen, run, machine)
    store.note_starts(run.memory, machine.starts)
    return approval.submit(run.memory, plans, run.now)


def propose(
    wrong: Sequence[Incident], unseen: Collection[str], run: Run, machine: Machine
) -> tuple[Plan, ...]:
    """The plans for what is open, each with the reason it must wait, if there is one; writes nothing."""
    history = store.history(run.store, run.now, unseen)
    return plan.make_plans(wrong, run.book, history, machine, run.now)


def repair_job(run: Run, machine: Machine) -> RepairJob:
    """What a repair works with: it looks again, and hears a no until it can no longer stop."""
    look = partial(look_again, run, machine)
    return repair.RepairJob(run.memory, machine, look, lambda: hear(replace(run, now=machine.clock())))


def tell(report: Report, run: Run) -> Report:
    """Close questions, choose what is worth saying, ask, deliver; notes what did not work."""
    if not store.worth_telling(run.memory, report, run.settings.notify, run.now):
        return report
    messenger = run.messenger()
    ended, unclosed = approval.close_questions(report.outcomes, messenger)
    proposals = approval.proposals(report, ended, messenger)
    queue = notify.write(report, proposals, messenger)
    answers, unasked = approval.ask_questions(queue, proposals, messenger)
    undelivered = notify.deliver_all(queue, answers, messenger)
    sent = tuple(notification for _, notification in queue)
    return replace(report, notifications=sent).noted((*unclosed, *unasked, *undelivered))

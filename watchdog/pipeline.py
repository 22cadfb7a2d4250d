"""The line: read what the gateway left behind, decide what is wrong, propose the fix, do it if allowed, tell a person.

    sources → events → findings → incidents → plans → (approval) → outcomes → notices
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from watchdog.errors import WatchdogError
from watchdog.evaluate import Evaluation, evaluate, lines_by_source
from watchdog.incidents import fold
from watchdog.model import Finding, Incident, Outcome, Report, Rule
from watchdog.paths import Path
from watchdog.reading import LOGS, Reading, Sources, read_all
from watchdog.rulebook import LONGEST_LOOK_BACK, Rulebook
from watchdog.sources.logfile import LogFile, placed
from watchdog.store import Store
from watchdog.store.incidents import all_incidents, finish_check, known_incidents, last_blind, last_check, save_changes, waiting_since
from watchdog.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from watchdog.settings import Settings


def full_check(
    book: Rulebook, sources: Sources, store: Store, settings: Settings, state: Path, now: datetime, rules: Sequence[Rule] | None = None
) -> Report:
    """The whole line: decide, remember, hear what people answered, act on what they approved, tell what changed."""
    try:
        return _full_check(book, sources, store, settings, state, now, rules)
    except sqlite3.Error as error:
        raise WatchdogError(
            f"cannot record in {store.path}: {error}; what could not be recorded was not begun. "
            "Free space there, or give another folder with --state DIR"
        ) from error


def _full_check(
    book: Rulebook, sources: Sources, store: Store, settings: Settings, state: Path, now: datetime, rules: Sequence[Rule] | None
) -> Report:
    from watchdog.telling import hear, tell

    due = book.rules if rules is None else rules
    report = record(check(book, sources, store, now, due), store, due)
    _, unheard = hear(store, settings.notify, now, limits=settings.limits)
    report = act(report, book, sources, store, settings, state, now)
    notices, untold = tell(report, store, settings.notify, now, rules=book.rules)
    report = replace(report, notices=notices, notes=(*report.notes, *unheard, *untold))
    if any(notice.reason in ("approval needed", "reminder") for notice in notices):
        # A question was asked just now: whoever holds the phone may answer at once.
        answers, unheard = hear(store, settings.notify, now, wait=settings.notify.replies.wait, limits=settings.limits)
        report = replace(report, notes=(*report.notes, *unheard))
        if answers:
            done = act(replace(report, outcomes=()), book, sources, store, settings, state, now)
            more, untold = tell(done, store, settings.notify, now, rules=book.rules)
            outcomes = (*report.outcomes, *done.outcomes)
            report = replace(done, outcomes=outcomes, notices=(*notices, *more), notes=(*report.notes, *untold))
    if settings.backups:
        from watchdog.backups import take_due

        report = replace(report, notes=(*report.notes, *take_due(sources.home, state, settings.keep_backups, now)))
    return report


def dry_run(book: Rulebook, sources: Sources, store: Store | None, settings: Settings, state: Path, now: datetime) -> Report:
    """The same line stopped before the first write: what is wrong, and the plans with their holds and exact commands."""
    report = check(book, sources, store, now, book.rules)
    if store is not None:
        report = replace(report, cut_off=_plans(store)[1])
    wrong = [incident for incident in report.incidents if incident.status == "open"]
    if any(incident.recipe for incident in wrong):
        from watchdog.acting import propose
        from watchdog.world import measure_world

        world = measure_world(sources.home, state, settings.limits, _unit(settings), zone=settings.zone)
        report = replace(report, plans=propose(wrong, book.recipes, store, world, now, report.not_checked))
    return report


def check(book: Rulebook, sources: Sources, store: Store | None, now: datetime, due: Sequence[Rule]) -> Report:
    """Read the window, evaluate the rules that are due, and say what that changes about the incidents; writes nothing."""
    start = look_back(book, store, now)
    seen, reading = look(due, sources, start, now)
    not_due = {rule.id: "not due" for rule in book.rules} if due is not book.rules else {}
    for rule in due:
        not_due.pop(rule.id, None)
    known = known_incidents(store, start)
    changes = fold(known, seen.findings, {**seen.not_checked, **not_due}, seen.unsure, start, now)
    changed = {change.incident.id for change in changes}
    return Report(
        start=start,
        now=now,
        home=str(sources.home),
        blind=reading.blind,
        notes=(*notes(reading, seen), *_passed_over(sources)),
        not_checked=seen.not_checked,
        findings=seen.findings,
        changes=changes,
        turns=seen.turns,
        pending_since=seen.pending_since,
        kept=tuple(one for one in known if one.status != "resolved" and one.id not in changed),
    )


def act(
    report: Report, book: Rulebook, sources: Sources, store: Store, settings: Settings, state: Path, now: datetime
) -> Report:
    """Propose for what is open, ask what needs asking, carry out what was approved. Nothing open: nothing to do."""
    wrong = all_incidents(store, only_open=True)
    waiting, cut_off = _plans(store)
    if not waiting and not any(incident.recipe for incident in wrong):
        return replace(report, cut_off=cut_off) if cut_off else report
    from watchdog.acting import ask, carry_out_approved, looking, propose
    from watchdog.world import measure_world

    world = measure_world(sources.home, state, settings.limits, _unit(settings), zone=settings.zone)
    if not world.gateway.turns:  # Hermes 0.13 does not count them
        world = replace(world, gateway=replace(world.gateway, turns=report.turns))
    plans = propose(wrong, book.recipes, store, world, now, report.not_checked)
    plans = ask(plans, store, world, wrong, book.recipes, now)
    outcomes = carry_out_approved(store, world, looking(book, sources, store, world))
    return replace(report, plans=plans, outcomes=(*report.outcomes, *outcomes), cut_off=_plans(store)[1])


def _plans(store: Store) -> tuple[bool, tuple[int, ...]]:
    """(whether any may be asked about, done or found cut off now, those that were begun and not finished)."""
    found = store.db.execute(
        "SELECT id, state FROM plans WHERE state IN ('pending', 'approved', 'claimed', 'interrupted') ORDER BY id"
    ).fetchall()
    cut_off = tuple(row["id"] for row in found if row["state"] in ("claimed", "interrupted"))
    return any(row["state"] != "interrupted" for row in found), cut_off


def tell_outcomes(outcomes: Sequence[Outcome], book: Rulebook, sources: Sources, store: Store, settings: Settings, now: datetime) -> None:
    """After a plan was carried out from the command line: look again, remember, and tell everyone who was asked."""
    from watchdog.telling import tell

    report = record(check(book, sources, store, now, book.rules), store, book.rules)
    tell(replace(report, outcomes=tuple(outcomes)), store, settings.notify, now, rules=book.rules)


def _unit(settings: Settings) -> str:
    return "" if settings.unit == "auto" else settings.unit


def look(rules: Sequence[Rule], sources: Sources, start: datetime | None, now: datetime) -> tuple[Evaluation, Reading]:
    """Read the window and ask the rules: the part of the line that a replay and a verification share."""
    with read_all(sources, lines_by_source(rules), start, now) as reading:
        seen = evaluate(rules, reading.events, reading.blind, now, reading.traces, reading.attention)
    return replace(seen, findings=_placed(seen.findings, sources)), reading


def _placed(findings: Sequence[Finding], sources: Sources) -> tuple[Finding, ...]:
    """The same with their evidence told by line, which only a finding is worth counting for."""
    lines = placed(sources.logs, (event.where for finding in findings for event in finding.evidence))
    return tuple(
        replace(one, evidence=tuple(replace(event, where=lines.get(event.where, event.where)) for event in one.evidence)) for one in findings
    )


def record(report: Report, store: Store, rules: Sequence[Rule]) -> Report:
    """Remember what a check decided: all of it or nothing."""
    with store.atomic():
        newly_blind = last_blind(store).keys() != report.blind.keys()
        changes = save_changes(store, report.changes)
        finish_check(store, report.now, report.start, report.blind, (rule.id for rule in rules), report.pending_since)
    return replace(report, changes=changes, newly_blind=newly_blind)


def look_back(book: Rulebook, store: Store | None, now: datetime) -> datetime:
    """The longest window of any rule, further back to the last finished check, to what still waits, and to what is open."""
    start = min(now, last_check(store) or now) - book.window
    if (waiting := waiting_since(store)) is not None:
        start = min(start, waiting - timedelta(seconds=1))
    for incident in known_incidents(store, now):
        if incident.status != "resolved":
            start = min(start, incident.first_at - timedelta(seconds=1))
    return max(start, now - LONGEST_LOOK_BACK)


def notes(reading: Reading, seen: Evaluation) -> list[str]:
    """Worth knowing, no fault."""
    found = list(dict.fromkeys(reading.notes))
    found += seen.notes
    found += [f"{event.where}: not used, because it is {event.ambiguous}" for event in seen.ambiguous.first]
    if left := seen.ambiguous.count - len(seen.ambiguous.first):
        found.append(f"{left} more records whose chat text imitates log fields were not used")
    return found


def _passed_over(sources: Sources) -> tuple[str, ...]:
    """Databases that are there and that nobody looks at: blind is not quiet."""
    if not os.path.isdir(sources.home / "kanban" / "boards"):
        return ()
    from watchdog.sqlite.look import passed_over

    told = passed_over(sources.home)
    return (told,) if told else ()


def span_of(sources: Sources) -> tuple[datetime | None, datetime | None]:
    """When the first and the last record of any log were written."""
    times = []
    for name in LOGS:
        log = LogFile(sources.logs / name, sources.zone, whole=True)
        try:
            log.open(None)
            times += [at for at in log.ends() if at is not None]
        except OSError:
            continue
        finally:
            log.close()
    return min(times, default=None), max(times, default=None)


@dataclass(frozen=True)
class Replay:
    """Old logs walked in their own time."""

    start: datetime
    until: datetime
    incidents: tuple[Incident, ...]
    noticed: tuple[datetime, ...]  # when a check would first have told of each
    report: Report


def replay(book: Rulebook, sources: Sources, start: datetime, until: datetime, every: timedelta) -> Replay:
    """What checks at this pace would have found. Findings have a beginning and an end of their own, so that one pass serves any pace."""
    seen, reading = look(book.rules, sources, None, until)
    changes = fold((), seen.findings, seen.not_checked, seen.unsure, start, until)
    report = Report(
        start, until, str(sources.home), reading.blind, tuple(notes(reading, seen)), seen.not_checked, seen.findings, changes
    )
    noticed = tuple(_next_check(incident.opened_at, start, until, every) for incident in report.incidents)
    return Replay(start, until, report.incidents, noticed, report)


def _next_check(at: datetime, start: datetime, until: datetime, every: timedelta) -> datetime:
    rounds = max(0, -((start - at) // every)) if at > start else 0
    return min(start + rounds * every, until)

"""The line: read what the gateway left behind, decide what is wrong, propose the fix, do it if allowed, tell a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.evaluate import Evaluation, evaluate, lines_by_source
from watchdog.incidents import fold
from watchdog.model import Incident, Report, Rule
from watchdog.reading import LOGS, Reading, Sources, read_all
from watchdog.rulebook import LONGEST_LOOK_BACK, Rulebook
from watchdog.store import Store
from watchdog.store.incidents import finish_check, known_incidents, last_check, save_changes


if TYPE_CHECKING:
    from watchdog.settings import Settings


def check(book: Rulebook, sources: Sources, store: Store | None, now: datetime, rules: Sequence[Rule] | None = None) -> Report:
    """One pass that decides and, when there is a store to write to, remembers. A dry run hands in a read-only store."""
    due = book.rules if rules is None else rules
    start = look_back(book, store, now)
    seen, reading = look(due, sources, start, now)
    changes = fold(known_incidents(store, start), seen.findings, {**seen.not_checked, **_others(book, due)}, seen.unsure, start, now)
    return Report(
        start=start,
        now=now,
        home=str(sources.home),
        blind=reading.blind,
        notes=tuple(notes(reading, seen)),
        not_checked=seen.not_checked,
        findings=seen.findings,
        changes=changes,
    )


def dry_run(book: Rulebook, sources: Sources, store: Store | None, settings: Settings, state: Path, now: datetime) -> Report:
    """The same line stopped before the first write."""
    return check(book, sources, store, now)


def look(rules: Sequence[Rule], sources: Sources, start: datetime | None, now: datetime) -> tuple[Evaluation, Reading]:
    """Read the window and ask the rules: the part of the line that a replay and a verification share."""
    reading = read_all(sources, lines_by_source(rules), start, now)
    return evaluate(rules, reading.events, reading.blind, now), reading


def record(report: Report, store: Store, rules: Sequence[Rule]) -> Report:
    """Remember what a check decided: all of it or nothing."""
    from dataclasses import replace

    with store.atomic():
        changes = save_changes(store, report.changes)
        finish_check(store, report.now, report.start, report.blind, (rule.id for rule in rules))
    return replace(report, changes=changes)


def look_back(book: Rulebook, store: Store | None, now: datetime) -> datetime:
    """The longest window of any rule, further back to the last finished check and to the first evidence of what is open."""
    start = min(now, last_check(store) or now) - book.window
    for incident in known_incidents(store, now):
        if incident.status != "resolved":
            start = min(start, incident.first_at - timedelta(seconds=1))
    return max(start, now - LONGEST_LOOK_BACK)


def _others(book: Rulebook, due: Sequence[Rule]) -> dict[str, str]:
    return {rule.id: "not due" for rule in book.rules if rule not in due}


def notes(reading: Reading, seen: Evaluation) -> list[str]:
    """Worth knowing, no fault."""
    found = list(dict.fromkeys(reading.notes))
    found += [f"{event.where}: not used, because it is {event.ambiguous}" for event in seen.ambiguous[:5]]
    if len(seen.ambiguous) > 5:
        found.append(f"{len(seen.ambiguous) - 5} more records whose chat text imitates log fields were not used")
    return found


def span_of(sources: Sources) -> tuple[datetime | None, datetime | None]:
    """When the first and the last record of any log were written."""
    from watchdog.sources.logfile import LogFile

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

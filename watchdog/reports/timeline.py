"""The timeline of a page: a row of bars for the checks, each rule, the actions and each source that was not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from watchdog.reports.history import Past, PastIncident, Unseen
from watchdog.reports.history_text import gap_text, outcome
from watchdog.reports.language import Reader
from watchdog.store.plans import Stored
from watchdog.text import clock, harmless

WIDE = 1000.0  # units of the timeline, whatever the width of the screen
ROWS = 12  # rules in the timeline, and sources
BARS = 260  # in all rows together: a page stays under 100 KB
NARROWEST = 6.0  # units; a minute in a week must still be seen
ALIKE = (
    ("critical", "high", "medium", "low", "info"),
    ("failed", "worked"),
    ("gap",),
    ("seen",),
)  # worst first


@dataclass(frozen=True)
class Bar:
    """One stretch of a row."""

    kind: str  # a class of the style sheet
    x: float
    width: float
    say: Callable[[], str]  # of thousands of bars a few are drawn, and only those need words
    count: int = 1  # how many it stands for

    @property
    def tip(self) -> str:
        return self.say()

    @property
    def end(self) -> float:
        return self.x + self.width

    @property
    def y(self) -> int:
        """Where it begins from above: what failed is half as tall, to be seen without colours too."""
        return 9 if self.kind == "failed" else 2


@dataclass(frozen=True)
class TimelineRow:
    name: str
    count: str
    bars: tuple[Bar, ...]
    gaps: tuple[Bar, ...] = ()  # drawn below the bars: no check was made


@dataclass(frozen=True)
class Tick:
    """A moment below the timeline, at so many percent of its width."""

    left: float
    text: str


def timeline(past: Past, reader: Reader) -> list[TimelineRow]:
    """All rows; bars that lie close together become one until no more than BARS are left."""
    rows = _rows(past, reader)
    for distance in (2.0, 8.0, 20.0, 50.0, 125.0, WIDE):
        merged = [
            replace(row, bars=_merged(row.bars, distance, reader), gaps=_merged(row.gaps, distance, reader))
            for row in rows
        ]
        if sum(len(row.bars) + len(row.gaps) for row in merged) <= BARS:
            break
    return merged


def _rows(past: Past, reader: Reader) -> list[TimelineRow]:
    rows = [TimelineRow(reader("report.checks-row"), f"{past.checks:,}", _check_bars(past, reader))]
    gaps = _gaps(past, [gap for gap in past.unseen if not gap.source], reader)
    by_rule: dict[str, list[PastIncident]] = {}
    for entry in past.incidents:
        by_rule.setdefault(entry.incident.rule, []).append(entry)
    for rule in sorted(by_rule)[:ROWS]:
        bars = tuple(_incident_bar(past, entry, reader) for entry in by_rule[rule])
        name = reader.title(by_rule[rule][0].incident)
        rows.append(TimelineRow(name, reader("report.bars", count=len(bars)), bars, gaps))
    if len(by_rule) > ROWS:
        rows.append(TimelineRow(reader("report.more", count=len(by_rule) - ROWS), "", ()))
    done = [stored for stored in past.actions if stored.state in ("done", "failed")]
    if done:
        marks = tuple(_mark(past, stored, reader) for stored in done)
        rows.append(TimelineRow(reader("report.actions-row"), str(len(marks)), marks))
    for source in sorted({gap.source for gap in past.unseen if gap.source})[:ROWS]:
        blind = _gaps(past, [gap for gap in past.unseen if gap.source == source], reader)
        rows.append(TimelineRow(reader("report.not-seen", source=harmless(source, 100)), "", blind))
    return rows


def _merged(bars: Sequence[Bar], distance: float, reader: Reader) -> tuple[Bar, ...]:
    """The same with neighbours that are alike made one, which has the worst kind of its parts and counts them."""
    found: list[Bar] = []
    for bar in sorted(bars, key=lambda bar: bar.x):
        last = found[-1] if found else bar
        alike = next(kinds for kinds in ALIKE if bar.kind in kinds)
        if not found or bar.x - last.end > distance or last.kind not in alike:
            found.append(bar)
            continue
        kind = min(last.kind, bar.kind, key=alike.index)
        width = round(max(last.end, bar.end) - last.x, 1)
        found[-1] = Bar(kind, last.x, width, last.say, last.count + bar.count)
    return tuple(
        replace(bar, say=partial(_first_of, bar, reader)) if bar.count > 1 and bar.kind != "seen" else bar
        for bar in found
    )


def _first_of(bar: Bar, reader: Reader) -> str:
    return f"{bar.say()} ({reader('report.more', count=bar.count - 1)})"


def _check_bars(past: Past, reader: Reader) -> tuple[Bar, ...]:
    """Green where checks were made; what is left between them is drawn as a gap, also before the first."""
    bars, before = [], past.start
    for start, end in (*past.watched, (past.end, past.end)):
        if start - before > past.pause:
            bars.append(_bar(past, (before, start), "gap", partial(reader, "report.no-check-made")))
        if start < past.end:
            bars.append(_bar(past, (start, end), "seen", partial(reader, "report.checks-row")))
        before = end
    return tuple(bars)


def _gaps(past: Past, unseen: Sequence[Unseen], reader: Reader) -> tuple[Bar, ...]:
    return tuple(_bar(past, (gap.start, gap.end), "gap", partial(gap_text, gap, reader)) for gap in unseen)


def _incident_bar(past: Past, entry: PastIncident, reader: Reader) -> Bar:
    incident = entry.incident

    def say() -> str:
        return f"{reader(f'severity.{incident.severity}')}: {reader.says(incident)}"

    return _bar(past, (incident.opened_at, incident.resolved_at or past.end), incident.severity, say)


def _mark(past: Past, stored: Stored, reader: Reader) -> Bar:
    at = stored.finished_at or stored.asked_at

    def say() -> str:
        title = reader.plan_title(stored.plan)
        return f"{reader('report.plan', plan=stored.id)}: {title}; {outcome(stored, reader)}"

    return _bar(past, (at, at), "worked" if stored.state == "done" else "failed", say)


def _bar(past: Past, span: tuple[datetime, datetime], kind: str, say: Callable[[], str]) -> Bar:
    start, end = span
    left = _x(past, start)
    width = max(_x(past, end) - left, NARROWEST)
    left = min(left, WIDE - width)

    def tip() -> str:
        return f"{clock(start)} – {clock(end)}: {harmless(say(), 100)}"

    return Bar(kind, round(left, 1), round(width, 1), tip)


def _x(past: Past, at: datetime) -> float:
    share = (at - past.start) / max(past.end - past.start, timedelta(seconds=1))
    return WIDE * min(max(share, 0.0), 1.0)


def ticks(past: Past) -> list[Tick]:
    """Midnights below the timeline, at most eight; of less than two days, hours."""
    span = past.end - past.start
    if span <= timedelta(days=2):
        moments = [past.start + span * share for share in (0.0, 0.25, 0.5, 0.75)]
        return [Tick(_x(past, at) / WIDE * 100, f"{at.astimezone():%H:%M}") for at in moments]
    first = past.start.astimezone().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    days = max(1, span.days)
    step = -(-days // 7)
    moments = [first + timedelta(days=day) for day in range(0, days, step)]
    return [Tick(_x(past, at) / WIDE * 100, f"{at:%m-%d}") for at in moments if _x(past, at) < WIDE * 0.93]

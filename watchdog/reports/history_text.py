"""The history of some days in sentences: as text for a terminal and as Markdown for a chat or an issue."""

from __future__ import annotations

from datetime import timedelta

from watchdog.reports.history import Ending, Past, PastIncident, Unseen
from watchdog.reports.language import Reader
from watchdog.store.plans import Stored
from watchdog.text import clock, harmless, redact, units

SHOWN = 200  # incidents, actions and gaps in a text; the rest is counted


def summary(past: Past, reader: Reader) -> list[str]:
    """The three or four sentences that people read."""
    total = len(past.incidents)
    if not total:
        return [reader("report.quiet", count=past.checks) if past.checks else reader("report.no-checks")]
    keys = {Ending.BY_US: "by-us", Ending.BY_ITSELF: "by-itself", Ending.OPEN: "still-open"}
    endings = [
        reader(f"report.{key}", count=count) for ending, key in keys.items() if (count := past.count(ending))
    ]
    lines = [
        reader(
            "report.found",
            checks=reader("report.checks", count=past.checks),
            incidents=reader("report.incidents", count=total),
            endings=reader.joined(endings),
        )
    ]
    if past.noticing is not None:
        key = "report.noticed" if units(past.noticing) else "report.noticed-all-at-once"
        lines.append(reader(key, span=reader.span(past.noticing)))
    if past.resolving is not None and units(past.resolving):
        lines.append(reader("report.resolved", span=reader.span(past.resolving)))
    return lines


def times(entry: PastIncident, reader: Reader) -> str:
    """'from … to … (26 minutes), noticed after 3 minutes, healed by the watchdog'."""
    start = clock(entry.incident.opened_at)
    if entry.incident.resolved_at is not None and entry.lasted is not None:
        end = clock(entry.incident.resolved_at)
        parts = [reader("report.from-to", start=start, end=end, span=reader.span(entry.lasted))]
    else:
        parts = [reader("report.from-open", start=start)]
    parts += [noticed] if (noticed := noticed_text(entry, reader)) else []
    parts += [reader("report.ended.by-us")] if entry.ending is Ending.BY_US else []
    return reader.joined(parts)


def noticed_text(entry: PastIncident, reader: Reader) -> str:
    """'noticed after 3 minutes'; '' when it is not known."""
    if entry.to_notice is None:
        return ""
    if entry.to_notice < timedelta(seconds=1):
        return reader("report.noticed-at-once")
    return reader("report.noticed-after", span=reader.span(entry.to_notice))


def outcome(stored: Stored, reader: Reader) -> str:
    """'done by ann at …: done and verified'."""
    text = reader.plan_state(stored.state)
    if stored.answered_by:
        text = reader("report.state-by", state=text, by=harmless(stored.answered_by, 60))
    if stored.finished_at:
        text = reader("report.state-at", state=text, at=clock(stored.finished_at))
    why = redact(reader.reason(stored.reason))
    return f"{text}: {why}" if why else text


def gap_text(gap: Unseen, reader: Reader) -> str:
    """'journal: permission denied'."""
    if not gap.source:
        return f"{reader('report.everything')}: {reader('report.no-check-made')}"
    return f"{gap.source}: {reader.phrase(gap.why)}"


def as_text(past: Past, reader: Reader) -> str:
    """The report for a terminal or a mail."""
    lines = [
        reader("report.range", home=past.home, start=clock(past.start), end=clock(past.end)),
        *summary(past, reader),
    ]
    lines += [""] if past.incidents else []
    for entry in past.incidents[-SHOWN:]:
        incident = entry.incident
        lines += [
            f"{reader(f'severity.{incident.severity}'):<9} {incident.name}",
            f"          {reader.says(incident)}",
            f"          {times(entry, reader)}",
        ]
    lines += _left_out(len(past.incidents), reader)
    if past.actions:
        lines += ["", reader("report.heading.actions")]
        for stored in past.actions[-SHOWN:]:
            title = reader.plan_title(stored.plan)
            asked = reader("report.action", plan=stored.id, at=clock(stored.asked_at), title=title)
            lines += [f"  {asked}", f"    {outcome(stored, reader)}"]
        lines += _left_out(len(past.actions), reader)
    if past.unseen:
        lines += ["", reader("report.heading.unseen")]
        lines += [
            f"  {clock(gap.start)} – {clock(gap.end)}  {gap_text(gap, reader)}"
            for gap in past.unseen[-SHOWN:]
        ]
        lines += _left_out(len(past.unseen), reader)
    return "\n".join(lines).rstrip()


def _left_out(total: int, reader: Reader) -> list[str]:
    return [reader("report.more", count=total - SHOWN)] if total > SHOWN else []


def as_markdown(past: Past, reader: Reader) -> str:
    """The report for a chat or an issue."""
    title = reader("report.title", start=clock(past.start)[:10], end=clock(past.end)[:10])
    lines = [f"# {title}", "", f"`{past.home}`", "", *summary(past, reader)]
    if past.incidents:
        columns = ("severity", "what", "from", "lasted", "noticed", "ended")
        names = [reader(f"report.column.{name}") for name in columns]
        lines += ["", f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
        lines += [f"| {' | '.join(_row(entry, reader))} |" for entry in past.incidents[-SHOWN:]]
        lines += ["", *_left_out(len(past.incidents), reader)] if len(past.incidents) > SHOWN else []
    if past.actions:
        lines += ["", f"## {reader('report.heading.actions')}", ""]
        for stored in past.actions[-SHOWN:]:
            title = _cell(reader.plan_title(stored.plan))
            asked = reader("report.action", plan=stored.id, at=clock(stored.asked_at), title=title)
            lines.append(f"- {asked}; {_cell(outcome(stored, reader))}")
    if past.unseen:
        lines += ["", f"## {reader('report.heading.unseen')}", ""]
        lines += [
            f"- {clock(gap.start)} – {clock(gap.end)}: {_cell(gap_text(gap, reader))}"
            for gap in past.unseen[-SHOWN:]
        ]
    return "\n".join(lines)


def _row(entry: PastIncident, reader: Reader) -> tuple[str, ...]:
    incident = entry.incident
    return (
        reader(f"severity.{incident.severity}"),
        f"**{incident.rule}** {_cell(incident.key)}: {_cell(reader.says(incident))}",
        clock(incident.opened_at),
        reader.span(entry.lasted) if entry.lasted is not None else reader("report.ended.open"),
        reader.span(entry.to_notice) if entry.to_notice is not None else reader("report.none"),
        reader(f"report.ended.{entry.ending}"),
    )


def _cell(text: str) -> str:
    """Text from elsewhere, fit for a table: nothing of it becomes markup, and no secret stays in it."""
    text = redact(harmless(text, 2000))
    for sign in "\\`*_[]<>|#~":
        text = text.replace(sign, f"\\{sign}")
    return text

"""Report → text for people, in their language, or the documented JSON, in English."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchdog.model import SEVERITIES, Event, Incident, Report
from watchdog.reports.language import Reader
from watchdog.reports.plans import outcome_json, outcome_lines, proposed_json, proposed_lines
from watchdog.text import clock, harmless, iso, picked, redact
from watchdog.values import Any, replace

ALL_WELL = "Gateway watchdog: OK"
INDENT = " " * 6


def as_json(report: Report) -> dict[str, Any]:
    """The contract of docs/json.md."""
    return {
        "home": report.home,
        "from": iso(report.start),
        "to": iso(report.now),
        "blind": dict(report.blind),
        "not_checked": dict(report.not_checked),
        "notes": list(report.notes),
        "incidents": [incident_json(incident) for incident in report.incidents],
        "plans": [proposed_json(plan) for plan in report.plans],
        "outcomes": [outcome_json(outcome) for outcome in report.outcomes],
        "plans_cut_off": list(report.cut_off),
    }


def incident_json(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id or None,
        **picked(incident, "rule key severity status title"),
        "says": redact(incident.says),
        **picked(incident, "opened_at last_seen_at resolved_at recipe advice"),
        "evidence": [evidence_json(event) for event in incident.evidence],
    }


def evidence_json(event: Event) -> dict[str, Any]:
    return {"where": event.where, "at": iso(event.at), "text": redact(harmless(event.text, 300))}


def as_text(report: Report, reader: Reader, dry_run: bool = False) -> str:
    """What cannot be seen first, then what is wrong, then what is proposed; calm and short."""
    reader = replace(reader, now=report.now)
    restarted = restart_lines(report, reader)
    lines = list(restarted)
    if dry_run:
        lines.append(reader.paint(reader("check.dry-run", home=report.home, at=clock(report.now)), "dim"))
    lines += blind_lines(report, reader)
    open_now = [known for known in report.incidents if known.status == "open"]
    suspected = [known for known in report.incidents if known.status == "suspected"]
    over = [known for known in report.incidents if known.status == "resolved"]
    for incident in sorted(open_now, key=by_severity):
        lines += incident_lines(incident, reader)
    for incident in suspected:
        mark = reader.paint(reader("check.suspected"), "medium")
        lines += [f"{mark}  {incident.rule}: {reader.says(incident)}", INDENT + reader("check.confirm")]
    for incident in over:
        mark = reader.paint(reader("check.resolved"), "good")
        times = {"start": clock(incident.opened_at), "end": clock(incident.resolved_at or report.now)}
        lines += [f"{mark}  {incident.rule}: {reader.says(incident)}", INDENT + reader("check.was", **times)]
    ended = {outcome.plan_digest for outcome in report.outcomes}
    for plan in report.plans:
        lines += proposed_lines(plan, reader) if plan.digest not in ended else []
    lines += outcome_lines(report.outcomes, reader)
    for number in report.cut_off:
        lines.append(
            f"{reader.paint(reader('check.cut-off'), 'high')}  {reader('check.cut-off-plan', plan=number)}"
        )
    lines += note_lines(report, reader)
    well = all(outcome.ok for outcome in report.outcomes)
    if well and not (open_now or suspected or report.cut_off):
        if not report.blind and not restarted:
            lines.insert(0, reader.paint(ALL_WELL, "good"))
        key = "check.nothing-seen" if report.blind else "check.nothing-wrong"
        lines.append(reader.paint(reader(key, home=report.home, start=clock(report.start)), "dim"))
    return "\n".join(lines)


def restart_lines(report: Report, reader: Reader) -> list[str]:
    """'Gateway watchdog: restarted the gateway, chat unstuck': in the owner's language, for terminal and cron."""
    rules = {rule for outcome in report.outcomes if outcome.verified for rule in outcome.restarted_for}
    keys = [f"rule.{rule}.cleared" for rule in sorted(rules)]
    cleared = [str(reader.texts[key]) for key in keys if reader.has(key)]
    if not cleared:
        return []
    return [reader.paint(reader("check.restarted", cleared=reader.joined(cleared)), "good")]


def blind_lines(report: Report, reader: Reader) -> list[str]:
    """What cannot be seen and why, and the rules that were therefore not checked."""
    blind, not_checked = report.blind, report.not_checked
    mark = reader.paint(reader("status.label.blind"), "medium")
    lines = [f"{mark}  {source}: {reader.phrase(why)}" for source, why in sorted(blind.items())]
    rules = sorted(rule for rule, why in not_checked.items() if why.split(":")[0] in blind)
    if rules:
        lines.append(INDENT + reader("check.not-checked-for", rules=reader.joined(rules)))
    mark = reader.paint(reader("check.not-checked"), "medium")
    lines += [
        f"{mark}  {rule}: {reader.phrase(why)}"
        for rule, why in sorted(not_checked.items())
        if why.split(":")[0] not in blind
    ]
    return lines


def note_lines(report: Report, reader: Reader) -> list[str]:
    return [reader.paint(f"{reader('check.note')}  {reader.phrase(note)}", "dim") for note in report.notes]


def incident_lines(incident: Incident, reader: Reader) -> list[str]:
    """An incident with its sentence, since when, what shows it, and what helps."""
    severity = reader.paint(reader(f"severity.{incident.severity}"), incident.severity)
    name = f"{incident.rule} {harmless(incident.key)}".strip()
    since = reader(
        "check.since", what=name, at=clock(incident.opened_at), ago=reader.since(incident.opened_at)
    )
    lines = [
        f"{severity}  {reader.paint(reader.title(incident), 'bold')}",
        INDENT + reader.says(incident),
        reader.paint(INDENT + since, "dim"),
    ]
    for event in incident.evidence[-2:]:
        shown = f"{harmless(event.where)}  {reader.evidence(event, 140)}"
        lines.append(reader.paint(INDENT + shown, "dim"))
    if incident.recipe:
        lines.append(INDENT + reader("check.proposed", recipe=incident.recipe))
    if advice := reader.advice(incident):
        lines.append(INDENT + advice)
    return lines


def noticed(report: Report, every: timedelta) -> list[datetime]:
    """When a check would first have reported each incident of a replay, at this pace."""
    rounds = [max(0, -((report.start - incident.opened_at) // every)) for incident in report.incidents]
    return [min(report.start + count * every, report.now) for count in rounds]


def as_replay(report: Report, every: timedelta, reader: Reader) -> str:
    """A replay as people read it: what would have been noticed at this pace, when, and how it ended."""
    times = {"start": clock(report.start), "end": clock(report.now)}
    lines = [reader.paint(reader("check.replay", home=report.home, **times), "dim")]
    lines += blind_lines(report, reader)
    pairs = zip(report.incidents, noticed(report, every), strict=True)
    for incident, at in sorted(pairs, key=lambda pair: pair[1]):
        severity = reader.paint(reader(f"severity.{incident.severity}"), incident.severity)
        lines.append(f"{clock(at)}  {severity}  {incident.rule}: {reader.says(incident)}")
        start, end = clock(incident.opened_at), incident.resolved_at
        key = "check.true-until" if end else "check.true-still"
        below = [reader(key, start=start, end=end and clock(end))]
        below += [f"{event.where}  {reader.evidence(event, 120)}" for event in incident.evidence[:1]]
        if incident.recipe:
            below.append(reader("check.would-propose", recipe=incident.recipe))
        elif advice := reader.advice(incident):
            below.append(advice)
        lines += [reader.paint(f"{'':21}{line}", "dim") for line in below]
    lines += note_lines(report, reader)
    if not report.incidents:
        lines.append(reader.paint(reader("check.nothing-found"), "good"))
    return "\n".join(lines)


def by_severity(incident: Incident) -> tuple[int, datetime]:
    """The worst first, then the oldest."""
    return -SEVERITIES.index(incident.severity), incident.opened_at

"""Report → text for people, or the documented JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.model import SEVERITIES, Event, Incident, Plan, Reason, Report
from watchdog.model.plan_reasons import Chain
from watchdog.notify.translate import in_english
from watchdog.reports.language import Reader
from watchdog.text import ago, clock, harmless, iso, paint, redact
from watchdog.values import Any

ALL_WELL = "Gateway watchdog: OK"


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
        "plans": [plan_json(plan) for plan in report.plans],
        "outcomes": [
            {
                "step": in_english(outcome.what),
                "ok": outcome.ok,
                "says": in_english(outcome.reason),
                "seconds": outcome.took.total_seconds(),
            }
            for outcome in report.outcomes
        ],
        "plans_cut_off": list(report.cut_off),
    }


def incident_json(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id or None,
        "rule": incident.rule,
        "key": incident.key,
        "severity": incident.severity,
        "status": incident.status,
        "title": incident.title,
        "says": redact(incident.says),
        "opened_at": iso(incident.opened_at),
        "last_seen_at": iso(incident.last_seen_at),
        "resolved_at": iso(incident.resolved_at),
        "recipe": incident.recipe,
        "advice": incident.advice,
        "evidence": [evidence_json(event) for event in incident.evidence],
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "id": plan.id or None,
        "title": plan.title,
        "incidents": list(plan.incidents),
        "recipes": list(plan.recipes),
        "steps": [in_english(word) for word in plan.words],
        "digest": plan.digest,
        "approval": plan.approval,
        "hold": {"reason": in_english(plan.hold.reason), "until": iso(plan.hold.until)}
        if plan.hold
        else None,
    }


def evidence_json(event: Event) -> dict[str, Any]:
    return {"where": event.where, "at": iso(event.at), "text": redact(harmless(event.text, 300))}


def as_text(report: Report, reader: Reader, colour: bool = False, dry_run: bool = False) -> str:
    """What cannot be seen first, then what is wrong, then what is proposed; calm and short."""
    restarted = restart_lines(report, reader, colour)
    lines = list(restarted)
    if dry_run:
        lines.append(
            paint(f"Dry run over {report.home} at {clock(report.now)}; nothing was written.", "dim", colour)
        )
    lines += blind_lines(report.blind, report.not_checked, colour)
    open_now = [known for known in report.incidents if known.status == "open"]
    suspected = [known for known in report.incidents if known.status == "suspected"]
    over = [known for known in report.incidents if known.status == "resolved"]
    for incident in sorted(open_now, key=by_severity):
        lines += incident_lines(incident, report.now, colour)
    for incident in suspected:
        lines.append(f"{paint('suspected', 'medium', colour)}  {incident.rule}: {incident.says}")
        lines.append("           the next check confirms it or drops it")
    for incident in over:
        lines.append(f"{paint('resolved', 'good', colour)}  {incident.rule}: {incident.says}")
        lines.append(f"      from {clock(incident.opened_at)} to {clock(incident.resolved_at or report.now)}")
    for plan in report.plans:
        lines += plan_lines(plan, reader.command, colour)
    for outcome in report.outcomes:
        mark = paint("done", "good", colour) if outcome.ok else paint("failed", "high", colour)
        lines.append(
            f"{mark}  {in_english(outcome.what)}: {harmless(in_english(outcome.reason, reader.command), 2000)}"
        )
    for number in report.cut_off:
        line = f"plan {number} was begun and not finished; see: {reader.command} plan {number}, then resume or abandon"
        lines.append(f"{paint('cut off', 'high', colour)}  {line}")
    lines += [paint(f"note  {note}", "dim", colour) for note in report.notes]
    if (
        not open_now
        and not suspected
        and not report.cut_off
        and all(outcome.ok for outcome in report.outcomes)
    ):
        if not report.blind and not restarted:
            lines.insert(0, paint(ALL_WELL, "good", colour))
        verdict = "Nothing is wrong" if not report.blind else "Nothing wrong was seen in what can be read"
        lines.append(
            paint(f"{verdict} ({report.home}, looked back to {clock(report.start)}).", "dim", colour)
        )
    return "\n".join(lines)


def restart_lines(report: Report, reader: Reader, colour: bool) -> list[str]:
    """'Gateway watchdog: restarted the gateway, chat unstuck': in the owner's language, for terminal and cron."""
    rules = {rule for outcome in report.outcomes if outcome.verified for rule in outcome.restarted_for}
    keys = [f"rule.{rule}.cleared" for rule in sorted(rules)]
    cleared = [str(reader.words.texts[key]) for key in keys if reader.has(key)]
    if not cleared:
        return []
    return [paint(reader("check.restarted", cleared=reader.joined(cleared)), "good", colour)]


def blind_lines(blind: Mapping[str, str], not_checked: Mapping[str, str], colour: bool) -> list[str]:
    lines = [
        f"{paint('cannot see', 'medium', colour)}  {source}: {why}" for source, why in sorted(blind.items())
    ]
    rules = sorted(rule for rule, why in not_checked.items() if why.split(":")[0] in blind)
    if rules:
        lines.append(f"            not checked for that reason: {', '.join(rules)}")
    lines += [
        f"{paint('not checked', 'medium', colour)}  {rule}: {why}"
        for rule, why in sorted(not_checked.items())
        if why.split(":")[0] not in blind
    ]
    return lines


def incident_lines(incident: Incident, now: datetime, colour: bool) -> list[str]:
    head = f"{paint(incident.severity, incident.severity, colour)}  {paint(incident.title, 'bold', colour)}"
    lines = [head, f"      {redact(incident.says)}"]
    lines.append(
        paint(
            f"      {incident.rule}{' ' + harmless(incident.key) if incident.key else ''}, since {clock(incident.opened_at)} "
            f"({ago(incident.opened_at, now)})",
            "dim",
            colour,
        )
    )
    for event in incident.evidence[-2:]:
        lines.append(
            paint(f"      {harmless(event.where)}  {redact(harmless(event.text, 140))}", "dim", colour)
        )
    if incident.recipe:
        lines.append(f"      proposed: {incident.recipe}")
    if incident.advice:
        lines.append(f"      {incident.advice}")
    return lines


def chain_of(plan: Plan) -> str:
    """'A → B; also open: C': what the plan is for, and what else is open."""
    also = Reason(Chain.ALSO_OPEN, {"titles": plan.also}) if plan.also else None
    return "; ".join(filter(None, (in_english(plan.chain), in_english(also))))


def plan_lines(plan: Plan, command: str, colour: bool) -> list[str]:
    lines = [f"{paint('plan', 'bold', colour)}  {plan.title}" + (f" (plan {plan.id})" if plan.id else "")]
    if chain := chain_of(plan):
        lines.append(f"      {chain}")
    lines += [f"      {number}. {in_english(word, command)}" for number, word in enumerate(plan.words, 1)]
    lines += [f"      {in_english(warning, command)}" for warning in plan.warnings]
    if plan.costs:
        lines.append(f"      side effect: {in_english(plan.costs)}")
    if plan.hold:
        until = f" until {clock(plan.hold.until)}" if plan.hold.until else ""
        lines.append(
            f"      {paint('on hold', 'medium', colour)}: {in_english(plan.hold.reason, command)}{until}"
        )
    elif plan.approval == "ask":
        lines.append(
            "      waits for a person's approval"
            + (f"; a code for it: {command} plan {plan.id} --code" if plan.id else "")
        )
    return lines


def noticed(report: Report, every: timedelta) -> list[datetime]:
    """When a check would first have reported each incident of a replay, at this pace."""
    rounds = [max(0, -((report.start - incident.opened_at) // every)) for incident in report.incidents]
    return [min(report.start + count * every, report.now) for count in rounds]


def timeline(report: Report, every: timedelta, colour: bool = False) -> str:
    """A replay as people read it: what would have been noticed at this pace, when, and how it ended."""
    lines = [
        paint(
            f"Replay of {report.home} from {clock(report.start)} to {clock(report.now)}",
            "dim",
            colour,
        )
    ]
    lines += blind_lines(report.blind, report.not_checked, colour)
    pairs = zip(report.incidents, noticed(report, every), strict=True)
    for incident, at in sorted(pairs, key=lambda pair: pair[1]):
        lines.append(
            f"{clock(at)}  {paint(incident.severity, incident.severity, colour)}  {incident.rule}: {redact(incident.says)}"
        )
        held = (
            f"until {clock(incident.resolved_at)}"
            if incident.resolved_at
            else "and it was not over at the end"
        )
        lines.append(
            paint(f"                     true from {clock(incident.opened_at)} {held}", "dim", colour)
        )
        for event in incident.evidence[:1]:
            lines.append(
                paint(
                    f"                     {event.where}  {redact(harmless(event.text, 120))}", "dim", colour
                )
            )
        if incident.recipe or incident.advice:
            lines.append(
                paint(
                    f"                     {'would propose ' + incident.recipe if incident.recipe else incident.advice}",
                    "dim",
                    colour,
                )
            )
    lines += [paint(f"note  {note}", "dim", colour) for note in report.notes]
    if not report.incidents:
        lines.append(paint("Nothing would have been found.", "good", colour))
    return "\n".join(lines)


def by_severity(incident: Incident) -> tuple[int, datetime]:
    """The worst first, then the oldest."""
    return -SEVERITIES.index(incident.severity), incident.opened_at

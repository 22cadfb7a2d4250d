"""Findings folded into incidents: what opened, what goes on, what has ended.

Pure: it neither reads nor writes the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from watchdog.detect.evaluate import Evaluation
from watchdog.model import SEVERITIES, Change, Finding, Incident
from watchdog.text import english, harmless
from watchdog.values import Any, replace


def fold(
    known: Iterable[Incident], seen: Evaluation, not_due: Collection[str], start: datetime, now: datetime
) -> tuple[Change, ...]:
    """What this check changes. `known` holds all open incidents and those resolved since `start`.

    An incident whose rule could not be evaluated, or is not due, stays as it is: not seen is not gone.
    """
    incidents: dict[tuple[str, str], list[Incident]] = {}
    for incident in known:
        incidents.setdefault((incident.rule, incident.key), []).append(incident)
    changes: dict[int | tuple[str, str, datetime], Change] = {}
    again: set[int] = set()
    for finding in seen.findings:
        same = next(
            (known for known in incidents.get((finding.rule, finding.key), ()) if _same(known, finding)), None
        )
        if same is None:
            change = _new(finding, now)
            changes[finding.rule, finding.key, finding.opened_at] = change
            incidents.setdefault((finding.rule, finding.key), []).append(change.incident)
            continue
        if same.id:
            again.add(same.id)
        change_again = _again(same, finding, now)
        if change_again is not None:
            changes[same.id or (same.rule, same.key, same.opened_at)] = change_again
            incidents[finding.rule, finding.key][incidents[finding.rule, finding.key].index(same)] = (
                change_again.incident
            )
    blind_to = {*seen.not_checked, *not_due}
    for group in incidents.values():
        for incident in group:
            if incident.id and incident.id not in again and incident.status != "resolved":
                if (
                    incident.rule in blind_to
                    or (incident.rule, incident.key) in seen.unsure
                    or _out_of_reach(incident, start)
                ):
                    continue
                if incident.status == "suspected":
                    changes[incident.id] = Change(
                        "unconfirmed", replace(incident, status="resolved", resolved_at=now)
                    )
                else:
                    changes[incident.id] = Change(
                        "resolved", replace(incident, status="resolved", resolved_at=now)
                    )
    return tuple(
        sorted(
            changes.values(),
            key=lambda change: (change.incident.opened_at, change.incident.rule, change.incident.key),
        )
    )


def _same(incident: Incident, finding: Finding) -> bool:
    """One fault over time: the finding goes on where the incident was, or where it has not ended."""
    if incident.status != "resolved" or incident.resolved_at is None:
        # A finding that was over before this incident began is an older story.
        return finding.ended_at is None or finding.ended_at >= incident.opened_at
    return finding.opened_at < incident.resolved_at and (
        finding.ended_at is None or finding.ended_at >= incident.opened_at
    )


def _out_of_reach(incident: Incident, start: datetime) -> bool:
    return incident.first_at < start and incident.first_at != incident.opened_at


def _new(finding: Finding, now: datetime) -> Change:
    incident = Incident(
        id=0,
        rule=finding.rule,
        key=finding.key,
        severity=finding.severity,
        status="open",
        title=finding.title,
        says=finding.says,
        first_at=finding.first_at,
        opened_at=finding.opened_at,
        last_seen_at=finding.last_seen_at,
        recipe=finding.recipe,
        advice=finding.advice,
        facts=finding.facts,
        evidence=finding.evidence,
        fields=finding.fields,
    )
    if finding.ended_at is not None:
        return Change("passed", replace(incident, status="resolved", resolved_at=finding.ended_at))
    if finding.confirm > 1:
        return Change("suspected", replace(incident, status="suspected"))
    return Change("opened", incident)


def _first_seen(incident: Incident) -> dict[str, Any]:
    """What stays as the first check saw it: when something was found missing. What was over is found anew."""
    if incident.status == "resolved":
        return {}
    return {name: value for name, value in incident.fields.items() if name == "missing_at"}


def _again(incident: Incident, finding: Finding, now: datetime) -> Change | None:
    """The same fault seen again; None when nothing about it is new."""
    if incident.status == "resolved" and finding.ended_at is not None:
        return None  # over then, over now
    if finding.past and incident.resolved_at is not None and finding.last_seen_at <= incident.resolved_at:
        return None  # what ended it was seen after the last of these events
    worse = SEVERITIES.index(finding.severity) > SEVERITIES.index(incident.severity)
    first_seen = _first_seen(incident)
    fields = {**finding.fields, **first_seen}
    updated = replace(
        incident,
        severity=finding.severity,
        says=harmless(english(finding.say, fields, now), 600) if first_seen and finding.say else finding.says,
        last_seen_at=max(incident.last_seen_at, finding.last_seen_at),
        times_seen=incident.times_seen + 1,
        facts=finding.facts,
        evidence=finding.evidence or incident.evidence,
        fields=fields,
    )
    if finding.ended_at is not None:
        return Change("resolved", replace(updated, status="resolved", resolved_at=finding.ended_at))
    if incident.status == "resolved":
        return Change("opened", replace(updated, status="open", resolved_at=None))
    if incident.status == "suspected":
        if updated.times_seen < finding.confirm:
            return Change("suspected", updated)
        return Change("opened", replace(updated, status="open"))
    return Change("worse" if worse else "seen", updated)

"""What a page shows of an incident, a plan or an action, as text in the reader's language; templates escape it."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.model import Incident
from watchdog.reports.history import PastIncident
from watchdog.reports.history_text import noticed_text, outcome
from watchdog.reports.language import Reader
from watchdog.store.plans import Stored
from watchdog.text import clock

_KINDS = {"done": "good", "failed": "critical", "interrupted": "critical"}  # class of the badge, by state


@dataclass(frozen=True)
class Card:
    """A headline with a coloured word, lines, and details to unfold."""

    title: str
    lines: tuple[str, ...] = ()
    badge: str = ""
    kind: str = ""  # class of the badge
    soft: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanCard:
    """A plan with all that a person must know before saying yes."""

    number: int
    title: str
    why: tuple[str, ...]
    steps: tuple[str, ...]  # the exact commands
    notes: tuple[str, ...]  # side effect, warnings
    evidence: tuple[str, ...]
    state: str
    badge: str
    kind: str
    digest: str
    waiting: bool  # it can be answered now
    result: str = ""  # who answered, and what came of it


def incident_card(entry: PastIncident, reader: Reader) -> Card:
    """One incident of the report."""
    incident = entry.incident
    how = reader(f"report.ended.{entry.ending}")
    if entry.lasted is not None:
        how = reader("report.ended-after", how=how, span=reader.span(entry.lasted))
    soft = " · ".join(part for part in (clock(incident.opened_at), how, noticed_text(entry, reader)) if part)
    return _card(incident, soft, reader)


def open_card(incident: Incident, reader: Reader) -> Card:
    """One open incident of the status page."""
    since = reader("report.since", start=clock(incident.opened_at))
    return _card(incident, f"{since} ({reader.since(incident.opened_at)})", reader)


def _card(incident: Incident, soft: str, reader: Reader) -> Card:
    advice = reader.advice(incident)
    evidence = [f"{event.where}  {reader.evidence(event, 200)}" for event in incident.evidence[-3:]]
    return Card(
        reader.title(incident),
        (reader.says(incident),),
        reader(f"severity.{incident.severity}"),
        incident.severity,
        soft,
        (incident.name, *([advice] if advice else []), *evidence),
    )


def action_card(stored: Stored, reader: Reader) -> Card:
    """One plan of the past and what became of it."""
    return Card(
        f"{reader('report.plan', plan=stored.id)}: {reader.plan_title(stored.plan)}",
        (outcome(stored, reader),),
        reader.plan_state(stored.state),
        _KINDS.get(stored.state, "info"),
        reader("report.asked-at", at=clock(stored.asked_at)),
    )


def plan_card(stored: Stored, reader: Reader) -> PlanCard:
    plan, waiting = stored.plan, stored.state == "pending" and stored.expires_at > reader.now
    notes = [reader("page.cost", costs=reader.reason(plan.costs))] if plan.costs else []
    state = "expired" if stored.state == "pending" and not waiting else stored.state
    return PlanCard(
        stored.id,
        reader.plan_title(plan),
        tuple(filter(None, [reader.reason(plan.chain)])),
        tuple(reader.reason(step) for step in plan.words),
        (*notes, *(reader.reason(warning) for warning in plan.warnings)),
        tuple(reader.phrase(text) for text in plan.evidence[:8]),
        state,
        reader("plan.until", until=clock(stored.expires_at)) if waiting else reader.plan_state(state),
        "medium" if waiting else _KINDS.get(state, "info"),
        plan.digest,
        waiting,
        "" if state in ("pending", "expired") else outcome(stored, reader),
    )

"""Open incidents → alerts for Alertmanager; a function of what is open and what was posted before."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from watchdog.fleet.facts import Facts
from watchdog.model import SEVERITIES, Incident
from watchdog.notify.sanitize import exact, fit
from watchdog.notify.translate import in_english

MOST = 20  # alerts of one home; then one that says how many more
REPEATS = 3  # a resolved alert is posted when it ends and at the next two checks
SLACK = timedelta(minutes=5)
LEVELS = {"critical": "critical", "high": "warning", "medium": "warning", "low": "info", "info": "info"}
OMITTED = "omitted"


@dataclass(frozen=True)
class Alert:
    """What Alertmanager is told; its labels are its identity there."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime


def compose(
    facts: Facts, state: Mapping[str, Any], mailbox: bool
) -> tuple[tuple[Alert, ...], dict[str, Any]]:
    """The alerts to post now, and the state to keep for the next check.

    Labels are those of an incident's first post, so that they stay the same while it is open even when its
    severity changes; the annotation `severity_now` says how it stands.
    """
    given = state.get("salt")
    salt = given if isinstance(given, str) and given else secrets.token_hex(16)
    known = _posted(state)
    ends_at = facts.now + 3 * facts.interval + SLACK
    chosen = _chosen(facts.incidents, known)
    posted: dict[str, Any] = {}
    alerts: list[Alert] = []

    def post(ref: str, labels: dict[str, str], annotations: dict[str, str], since: datetime) -> None:
        before = known.get(ref)
        if before and before["ended"] is None:
            labels = before["labels"]
        posted[ref] = {"labels": labels, "since": since.isoformat(), "ended": None, "left": REPEATS}
        alerts.append(Alert(labels, annotations, min(since, facts.now), ends_at))

    who = {"instance": facts.instance, "profile": facts.profile}
    for incident in chosen:
        labels = {
            "alertname": "HermesIncident",
            "rule": incident.rule,
            "severity": LEVELS[incident.severity],
            **who,
            # Keys hold chat numbers, and a plain hash of a number is found by trying them all.
            "key": hmac.new(salt.encode(), incident.key.encode(), hashlib.sha256).hexdigest()[:12],
        }
        post(str(incident.id), labels, _annotations(incident, facts, mailbox), incident.opened_at)
    if left := len(facts.incidents) - len(chosen):
        about = {
            "summary": f"{left} more incidents are open on {facts.instance} ({facts.profile})",
            "description": f"Only {MOST} incidents of one home are posted. On that host: hermes-watchdog incidents",
        }
        since = _time(known.get(OMITTED, {}).get("since")) or facts.now
        post(OMITTED, {"alertname": "HermesIncidentsOmitted", "severity": "warning", **who}, about, since)
    for ref, before in sorted(known.items()):
        if ref in posted or before["left"] <= 0 or len(alerts) > 2 * MOST:
            continue
        since, ended = _time(before["since"]) or facts.now, _time(before["ended"]) or facts.now
        ended = min(ended, facts.now)  # a clock that was set back must not keep it firing
        alerts.append(Alert(before["labels"], {}, min(since, ended), ended))
        posted[ref] = {**before, "ended": ended.isoformat(), "left": before["left"] - 1}
    return tuple(alerts), {"salt": salt, "alerts": posted}


def _chosen(incidents: tuple[Incident, ...], known: Mapping[str, Any]) -> list[Incident]:
    """Those posted before come first, so that none vanishes while it is open; then the worst, then the oldest."""

    def order(incident: Incident) -> tuple[bool, int, datetime, int]:
        before = known.get(str(incident.id))
        new = before is None or before["ended"] is not None
        return new, -SEVERITIES.index(incident.severity), incident.opened_at, incident.id

    return sorted(incidents, key=order)[:MOST]


def _annotations(incident: Incident, facts: Facts, mailbox: bool) -> dict[str, str]:
    about = {
        "summary": fit(incident.title, 200),
        "description": fit(incident.says, 600),
        "severity_now": incident.severity,
    }
    if incident.advice:
        about["advice"] = fit(incident.advice, 600)
    name = f"{incident.rule} {incident.key}".strip()
    asked = next((each for each in facts.pending if name in each.plan.incidents), None)
    if asked is not None:
        about["proposed"] = "\n".join(exact(in_english(word), 500) for word in asked.plan.words[:10])
        ways = [f"on {facts.instance}: hermes-watchdog plan {asked.id} --code"]
        if mailbox:
            ways.insert(0, "from anywhere: hermes-watchdog fleet plans")
        about["how_to_approve"] = "; ".join(ways)  # never a code: who may read alerts may not approve
    return about


def _posted(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What was posted before, as far as it can be understood."""
    alerts = state.get("alerts")
    return {
        str(ref): posted
        for ref, posted in (alerts if isinstance(alerts, dict) else {}).items()
        if isinstance(posted, dict)
        and isinstance(posted.get("labels"), dict)
        and isinstance(posted.get("left"), int)
        and {"since", "ended"} <= posted.keys()
    }


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo else None

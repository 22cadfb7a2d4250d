"""Open incidents → alerts, and the way of those to one Alertmanager, within its time whatever it answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from watchdog.errors import FleetError
from watchdog.fleet.facts import Facts
from watchdog.model import SEVERITIES, Incident
from watchdog.notify.sanitize import exact, fit
from watchdog.notify.translate import in_english

MOST = 20  # alerts of one home; then one that says how many more
REPEATS = 3  # a resolved alert is posted when it ends and at the next two checks
SLACK = timedelta(minutes=5)
LEVELS = {"critical": "critical", "high": "warning", "medium": "warning", "low": "info", "info": "info"}
OMITTED = "omitted"
READ = 16_384  # bytes of an answer; more is not read
CLOCKS = timedelta(seconds=60)  # difference of two clocks from which on times are corrected


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
            "description": f"Only {MOST} incidents of one home are posted. On that host: {facts.command} incidents",
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
    asked = next((each for each in facts.pending if incident.name in each.plan.incidents), None)
    if asked is not None:
        about["proposed"] = "\n".join(exact(in_english(word), 500) for word in asked.plan.words[:10])
        ways = [f"on {facts.instance}: {facts.command} plan {asked.id} --code"]
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


class Post:
    """Alerts on their way to one instance; `stop` ends it from another thread."""

    def __init__(self, url: str, alerts: Sequence[Alert], now: datetime, limit: float):
        self.parts = urlsplit(url)
        self.tls = self.parts.scheme == "https"
        self.name = f"alertmanager {self.parts.hostname}:{self.parts.port or (443 if self.tls else 80)}"
        self.alerts, self.now, self.limit = alerts, now, limit
        self.sockets: list[socket.socket] = []

    def run(self) -> str:
        """Post; a line about a clock that is off, else ''. FleetError when it did not work."""
        self.began = time.monotonic()
        make = http.client.HTTPSConnection if self.tls else http.client.HTTPConnection
        self.connection = make(self.parts.hostname or "", self.parts.port, timeout=self.limit)
        try:
            behind = self._behind()
            body = json.dumps([_wire(alert, behind) for alert in self.alerts]).encode()
            status, _ = self._ask("POST", "/api/v2/alerts", body)
        except TimeoutError:
            raise FleetError(f"no answer within {self.limit:g} s") from None
        except ConnectionRefusedError:
            raise FleetError("the connection was refused") from None
        except socket.gaierror:
            raise FleetError("its name cannot be resolved") from None
        except ssl.SSLError as error:
            raise FleetError(f"the encrypted connection failed ({type(error).__name__})") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The text of these may hold the address; their kind says enough.
            raise FleetError(f"the connection failed ({type(error).__name__})") from None
        finally:
            self.connection.close()
        if status != 200:
            raise FleetError(f"it answered {status}")
        if not behind:
            return ""
        side = "behind" if behind > timedelta(0) else "ahead of"
        minutes = abs(behind).total_seconds() / 60
        return f"this host's clock is {minutes:.0f} minutes {side} that of {self.name}, whose time was used"

    def stop(self) -> None:
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _behind(self) -> timedelta:
        """How far our clock is behind the instance's; zero within a minute.

        Asked before alerts are posted: from a clock an hour behind, `endsAt` would lie in the past, and an open
        incident would be taken for resolved.
        """
        _, date = self._ask("GET", "/-/healthy")
        with suppress(TypeError, ValueError, IndexError, OverflowError):
            ours = self.now + timedelta(seconds=time.monotonic() - self.began)
            behind = parsedate_to_datetime(date) - ours
            if CLOCKS < abs(behind) < timedelta(days=3650):
                return behind
        return timedelta(0)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        left = self.limit - (time.monotonic() - self.began)
        if left <= 0:
            raise TimeoutError
        if self.connection.sock is None:
            self.connection.timeout = left
            self.connection.connect()
        plug: socket.socket = self.connection.sock
        self.sockets.append(plug)
        plug.settimeout(left)
        headers = {"User-Agent": "hermes-watchdog", "Content-Type": "application/json"}
        if self.parts.username:
            login = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self.connection.request(method, self.parts.path.rstrip("/") + path, body, headers)
        with self.connection.getresponse() as answer:
            answer.read(READ)
            if not answer.isclosed():
                self.connection.close()  # the rest of a long answer is not read; the next request connects anew
            return answer.status, answer.getheader("Date", "")


def _wire(alert: Alert, behind: timedelta) -> dict[str, object]:
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": (alert.starts_at + behind).isoformat(),
        "endsAt": (alert.ends_at + behind).isoformat(),
    }

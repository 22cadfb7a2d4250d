"""Whether the gateway's process lives: measured, or what the logs say of its starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Span
from watchdog.pattern import Pattern
from watchdog.text import ago
from watchdog.values import dataclass
from watchdog.yamlfile import Section

KIND = "gateway"
STATES = ("running", "dead", "frozen", "wanted")  # wanted: running or dead, but not stopped on purpose
STARTED = Pattern(r"Starting Hermes Gateway", "detect/gateway.py")
STOPPED = Pattern(r"Received SIG\w+ — initiating shutdown|Stopping gateway|Gateway stopped|Exiting with code", "detect/gateway.py")
RESTARTED = Pattern(r"\S+: Scheduled restart job", "detect/gateway.py")
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Gateway:
    state: str


def read(section: Section) -> Gateway:
    want = Gateway(section.choice("is", STATES))
    section.done()
    return want


def lines(want: Gateway) -> list[tuple[str, Line, bool]]:
    return [
        ("fact", Line("gateway"), True),
        ("started", Line("gateway.log", STARTED), False),
        ("stopped", Line("gateway.log", STOPPED), False),
        # A start that fails before it can log is told by systemd alone.
        ("started", Line("journal", RESTARTED, logger=("systemd",)), False),
    ]


def reach(want: Gateway) -> timedelta:
    return timedelta(0)


def says(want: Gateway) -> frozenset[str]:
    return frozenset({"pid", "ago", "home", "why", "silent"})


class Watch:
    def __init__(self, want: Gateway):
        self.want = want
        self.fact: Event | None = None
        self.stopped_at: datetime | None = None

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "fact" in roles:
            self.fact = event
        elif "started" in roles:
            self.stopped_at = None
        elif "stopped" in roles and self.stopped_at is None:
            self.stopped_at = event.at

    def spans(self, now: datetime) -> list[Span]:
        if self.fact is None:
            return []
        facts = self.fact.facts
        state = facts.get("state", "unknown")
        if self.stopped_at is not None and ((state == "dead" and not facts.get("unsaid")) or facts.get("stated")):
            state = "stopped"  # its last words were a farewell: somebody wanted it so
        since = datetime.fromisoformat(facts["since"]) if facts.get("since") else self.fact.at
        quotes = {name: facts[name] for name in ("why", "pid", "home", "silent") if facts.get(name)} | {"ago": ago(since, now)}
        if self.want.state in ("running", "wanted"):
            # Before it stopped it was running: what happened then happened to a living gateway.
            holds = state in ("running", "frozen") or (state == "dead" and self.want.state == "wanted")
            ended = None if holds else self.stopped_at or since
            return [Span("", LONG_AGO, LONG_AGO, now, ended, quotes, facts)]
        if self.want.state != state:
            return []
        return [Span("gateway", since, since, self.fact.at, None, quotes, facts, (self.fact,))]

    def state(self, now: datetime) -> list[str]:
        """For explain: what is known of the process."""
        if self.fact is None:
            return ["nothing is known of the process"]
        facts = self.fact.facts
        stopped = f"; its log shows a stop {ago(self.stopped_at, now)}" if self.stopped_at else ""
        return [f"the gateway is {facts.get('state')}{' as stated' if facts.get('stated') else ''}"
                f"{', pid ' + facts['pid'] if facts.get('pid') else ''}{stopped} (wanted: {self.want.state})"]

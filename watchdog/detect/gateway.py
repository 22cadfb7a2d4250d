"""Whether the gateway's process is alive: measured, or what the logs say of its starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Reason, Span
from watchdog.text import ago
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "gateway"
# wanted: running, dead or refused, but not stopped on purpose; refused: it ended because a start cannot succeed
STATES = ("running", "dead", "frozen", "wanted", "refused", "stopped")
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
LOOP, LOOP_WITHIN = 3, timedelta(minutes=15)  # so many starts in so short a time are tried again from outside


@dataclass(frozen=True)
class Gateway:
    state: str
    longer_than: timedelta | None = None
    started: tuple[Line, ...] = ()
    stopped: tuple[Line, ...] = ()
    refused: tuple[Line, ...] = ()
    failed: tuple[Line, ...] = ()


def read(section: Section) -> Gateway:
    words = section.vocabulary
    return Gateway(
        section.choice("is", STATES),
        section.duration("longer_than", None),
        words.role("started"),
        words.role("stopped"),
        words.role("refused"),
        words.role("failed"),
    )


def lines(want: Gateway) -> list[tuple[str, Line, bool]]:
    return [
        ("fact", Line("gateway"), True),
        *(("started", line, False) for line in want.started),
        *(("stopped", line, False) for line in want.stopped),
        *(("refused", line, False) for line in want.refused),
        *(("failed", line, False) for line in want.failed),
    ]


def says(want: Gateway) -> frozenset[str]:
    return frozenset(
        {
            "pid",
            "ago",
            "home",
            "why",
            "silent",
            "alive_at",
            "missing_at",
            "exit_code",
            "exit_reason",
            "stopped_at",
            "longer_than",
        }
    )


class Detector:
    def __init__(self, want: Gateway):
        self.want = want
        self.fact: Event | None = None
        self.stopped_at: datetime | None = None
        self.starts: list[datetime] = []
        self.refusal: tuple[Event, str] | None = None  # of the last start, with its reason
        self.acts = {
            "fact": self._fact,
            "started": self._started,
            "failed": self._failed,
            "refused": self._refused,
            "stopped": self._stopped,
        }

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        for role, act in self.acts.items():
            if role in roles:
                act(roles[role], event)
                return

    def _fact(self, _: Captures, event: Event) -> None:
        self.fact = event

    def _started(self, _: Captures, event: Event) -> None:
        self.stopped_at = self.refusal = None
        self.starts.append(event.at)
        while event.at - self.starts[0] > LOOP_WITHIN:
            del self.starts[0]

    def _failed(self, _: Captures, __: Event) -> None:
        self.stopped_at = None

    def _refused(self, captures: Captures, event: Event) -> None:
        self.refusal = event, captures.get("exit_reason", "")

    def _stopped(self, _: Captures, event: Event) -> None:
        if self.stopped_at is None:
            self.stopped_at = event.at

    def _state(self, facts: Mapping[str, str]) -> str:
        """What it is: measured, and where a process is gone, how its log says that it ended."""
        state = facts.get("state", "unknown")
        if state in ("dead", "stopped") and self.refusal is not None:
            return "refused"
        if state == "dead" and facts.get("refused") and not self._is_tried_again(facts):
            return "refused"
        farewell = self.stopped_at is not None
        if farewell and ((state == "dead" and not facts.get("unsaid")) or facts.get("stated")):
            return "stopped"  # its last words were a farewell: it was meant to stop
        return state

    def _is_tried_again(self, facts: Mapping[str, str]) -> bool:
        """A failed start that is repeated from outside is a crash loop, unless Hermes itself says that none can succeed."""
        return len(self.starts) >= LOOP and facts.get("exit_code") != "78"

    def spans(self, now: datetime) -> list[Span]:
        if self.fact is None:
            return []
        facts = self.fact.facts
        state = self._state(facts)
        since = datetime.fromisoformat(facts["since"]) if facts.get("since") else self.fact.at
        if self.want.state in ("running", "wanted"):
            # Before it stopped it was running: what happened then happened to a living gateway.
            holds = state in ("running", "frozen") or (
                state in ("dead", "refused") and self.want.state == "wanted"
            )
            ended = None if holds else self.stopped_at or since
            return [Span("", LONG_AGO, LONG_AGO, now, ended, self._quotes(since, now), facts)]
        if self.want.state != state:
            return []
        if state == "stopped":
            since = self.stopped_at or since
        opened = since + (self.want.longer_than or timedelta(0))
        if opened > now:
            return []
        evidence = (self.fact,) if self.refusal is None else (self.refusal[0], self.fact)
        return [
            Span("gateway", opened, opened, self.fact.at, None, self._quotes(since, now), facts, evidence)
        ]

    def _quotes(self, since: datetime, now: datetime) -> dict[str, Any]:
        assert self.fact is not None
        facts = self.fact.facts
        quotes: dict[str, Any] = {name: facts[name] for name in ("why", "pid", "home") if facts.get(name)}
        quotes |= {"ago": ago(since, now), "silent": now - since}
        if self.want.state in ("dead", "refused"):  # when it died is known only as far as it was looked at
            quotes["alive_at"] = datetime.fromisoformat(facts["alive_at"]) if facts.get("alive_at") else since
            missing_at = facts.get("missing_at")
            quotes["missing_at"] = datetime.fromisoformat(missing_at) if missing_at else self.fact.at
        if self.want.state == "stopped":
            quotes["stopped_at"] = since
        if facts.get("exit_code"):
            quotes["exit_code"] = facts["exit_code"]
        # Why it ended, in its own words: shown, and no fact that could fill a step.
        reason = self.fact.more or (self.refusal[1] if self.refusal else "")
        if reason or self.want.state == "refused":
            quotes["exit_reason"] = reason or "—"
        return quotes

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: what is known of the process."""
        if self.fact is None:
            return [Reason("explain.no-process")]
        facts = self.fact.facts
        fields = {
            "process": facts.get("state", "unknown"),
            "stated": Reason("explain.stated") if facts.get("stated") else "",
            "pid": Reason("explain.pid", {"pid": facts["pid"]}) if facts.get("pid") else "",
            "stopped": Reason("explain.stopped", {"at": self.stopped_at}) if self.stopped_at else "",
            "wanted": self.want.state,
        }
        return [Reason("explain.process", fields)]

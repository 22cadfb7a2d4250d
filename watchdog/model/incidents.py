"""What is wrong: spans that a condition found, findings of a rule, incidents over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from watchdog.model.events import Event
from watchdog.model.reason import nothing
from watchdog.values import Any, dataclass, field

SEVERITIES = ("info", "low", "medium", "high", "critical")


@dataclass(frozen=True)
class Span:
    """A stretch of time during which one condition held."""

    key: str
    first_at: datetime  # the oldest evidence
    opened_at: datetime  # when the limit was passed
    last_at: datetime  # the newest evidence
    ended_at: datetime | None = None  # None: it still holds
    # captured from log text, or computed for its sentence: shown, never used by a step
    quotes: Mapping[str, Any] = field(default_factory=nothing)
    # measured by us or written in the rule: may fill a step
    facts: Mapping[str, str] = field(default_factory=nothing)
    evidence: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What one rule found under one key, with its sentence."""

    rule: str
    key: str
    severity: str
    title: str
    says: str
    first_at: datetime
    opened_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None = None
    recipe: str | None = None
    advice: str = ""
    quotes: Mapping[str, str] = field(default_factory=nothing)
    facts: Mapping[str, str] = field(default_factory=nothing)
    evidence: tuple[Event, ...] = ()
    confirm: int = 1
    fields: Mapping[str, Any] = field(default_factory=nothing)  # of its sentence, to say it in any language
    say: str = ""  # the template that `says` was made from


@dataclass(frozen=True)
class Incident:
    """A fault over time: one per rule and key until it is resolved."""

    id: int  # 0 while not stored
    rule: str
    key: str
    severity: str
    status: str  # suspected (waits for its second check), open, resolved
    title: str
    says: str
    first_at: datetime
    opened_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None = None
    recipe: str | None = None
    advice: str = ""
    times_seen: int = 1
    facts: Mapping[str, str] = field(default_factory=nothing)
    evidence: tuple[Event, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=nothing)  # of its sentence

    @property
    def needs_plan(self) -> bool:
        """Whether it is there, and a recipe says what to do about it."""
        return bool(self.recipe) and self.status != "resolved"


@dataclass(frozen=True)
class Change:
    """What a check changed about one incident."""

    what: str  # suspected, opened, worse, seen, resolved, passed (opened and over between two checks)
    incident: Incident

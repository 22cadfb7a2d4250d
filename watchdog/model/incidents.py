"""What can be wrong, and what is: rules and recipes, spans that a condition found, findings of a rule, incidents over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.model.events import Event, Line
from watchdog.model.reason import nothing
from watchdog.values import Any, dataclass, field

MISSING: Any = object()  # the default of a key that must be there
EVERY_CHECK = "15m"  # the pace of cron, and of a rule that names none


@dataclass(frozen=True)
class Condition:
    """One condition of a rule: a kind from detect/ and what it wants."""

    kind: str
    want: Any
    line: int = 0
    reach: timedelta = timedelta(0)  # how far back it must look
    says: frozenset[str] = frozenset()  # the fields that the rule's sentence may use
    # role, the records that it must see, whether it is blind without their source
    lines: tuple[tuple[str, Line, bool], ...] = ()


@dataclass(frozen=True)
class Rule:
    """When all of these hold, say this, and perhaps propose that."""

    id: str
    title: str
    severity: str
    when: tuple[Condition, ...]
    say: str
    where: str
    every: str = EVERY_CHECK  # a duration or a cron expression; config.schedule reads it
    confirm: int = 1  # checks in a row before it counts
    recipe: str | None = None
    advice: str = ""
    cleared: str = ""  # what a restart that helped did: "chat unstuck"; a check prints it
    headline: str = ""  # for a lock screen: the fault in the owner's words, at most 40 characters
    translations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # zh -> title, say, …
    restart: str = "unknown"  # whether restarting the gateway helps: helps, useless, unknown
    causes: tuple[str, ...] = ()  # rules: where both are open, this one is the reason
    displaces: tuple[str, ...] = ()  # rules whose recipe is not proposed beside this one's
    starts_itself: bool = False  # the starts since it began are the fault, and use up no budget
    lines: Mapping[str, int] = field(default_factory=dict)  # of `causes` and `displaces`, for messages
    # cause → the same rule with what it says and does where that is the cause
    if_cause: Mapping[str, Rule] = field(default_factory=dict)

    def for_cause(self, fields: Mapping[str, Any]) -> Rule:
        """The rule as it is for the cause that these fields of a finding or incident tell."""
        return self.if_cause.get(str(fields.get("cause", "")), self) if self.if_cause else self


@dataclass(frozen=True)
class Step:
    """One thing to do: a kind from actions/ with its arguments filled in."""

    kind: str
    args: Any
    line: int = 0


@dataclass(frozen=True)
class Verify:
    """How a person would know that it worked: rules are quiet, the gateway runs (or is proven stopped)."""

    quiet: tuple[str, ...]
    alive: bool = True
    within: timedelta = timedelta(minutes=3)


@dataclass(frozen=True)
class Recipe:
    """How to repair one class of fault."""

    id: str
    title: str
    steps: tuple[Step, ...]
    where: str
    approval: str = "ask"  # ask, auto, never
    approval_lasts: timedelta = timedelta(minutes=30)
    cooldown: timedelta = timedelta(hours=1)
    max_per_day: int = 2
    hold_while: tuple[str, ...] = ()
    verify: Verify | None = None
    rollback: tuple[Step, ...] = ()
    ask: str = ""  # the question that follows a rule's headline: "Restart?"
    done: str = ""  # the headline of its success: "Gateway restarted"
    translations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # zh -> title, ask, done
    otherwise: str = ""  # the recipe to propose when this one failed for a key
    lines: Mapping[str, int] = field(default_factory=dict)  # key -> line in the file, for messages


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
    past: bool = False  # it counts events: without one more there is nothing new


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
    past: bool = False  # as of the span


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
    def name(self) -> str:
        """What it is called everywhere: its rule, and its key where it has one."""
        return f"{self.rule} {self.key}".strip()

    @property
    def needs_plan(self) -> bool:
        """Whether it is there, and a recipe says what to do about it."""
        return bool(self.recipe) and self.status != "resolved"


@dataclass(frozen=True)
class Change:
    """What a check changed about one incident."""

    what: str  # suspected, opened, worse, seen, resolved, passed (opened and over between two checks)
    incident: Incident

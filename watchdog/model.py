"""The nouns: what is read, found, proposed, done and said. Only values here, no behaviour that could fail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from watchdog.values import Any, dataclass, field

EMPTY: Mapping[str, Any] = MappingProxyType({})


def nothing() -> Mapping[str, Any]:
    """The empty mapping, shared."""
    return EMPTY


EVERY_CHECK = "15m"  # the pace of cron, and of a rule that names none
SEVERITIES = ("info", "low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing seen: a log record, a journal entry, a process, a database."""

    at: datetime  # always aware, UTC
    source: str  # "gateway.log", "journal", "gateway", "databases"
    text: str  # the message alone; chat text already cut
    where: str = ""  # "gateway.log.1:1042", for people
    logger: str = ""
    level: str = ""
    session: str = ""
    facts: Mapping[str, str] = field(default_factory=nothing)  # measured by us: pid, path, header
    more: str = ""  # the traceback that followed the record
    next_at: datetime | None = None  # when the same file's next record was written, whatever it says; for lines that ask
    hits: tuple[int, ...] | None = None  # which literals the reader saw in it; None: not looked
    ambiguous: str = ""  # why this record cannot be trusted: chat text imitates log fields


@dataclass(frozen=True)
class Line:
    """Records of one source that a condition wants to see."""

    source: str
    pattern: Any = None  # Pattern; None: every record of the source
    level: tuple[str, ...] = ()
    logger: tuple[str, ...] = ()
    followed: bool = False  # whether it matters when the next record came
    aside: bool = False  # only when it was written and for which session matters (trace.py)
    once: bool = False  # of a session that its watch knows already, it tells nothing new
    meanwhile: bool = False  # matters only while its watch has something open (sources/attention.py)


@dataclass(frozen=True)
class Condition:
    """One witness of a rule: a kind from detect/ and what it wants."""

    kind: str
    want: Any
    line: int = 0


@dataclass(frozen=True)
class Rule:
    """When all of these hold, say this, and perhaps propose that."""

    id: str
    title: str
    severity: str
    when: tuple[Condition, ...]
    say: str
    where: str
    every: str = EVERY_CHECK  # a duration or a cron expression; schedule.py reads it
    confirm: int = 1  # checks in a row before it counts
    recipe: str | None = None
    advice: str = ""
    titles: Mapping[str, str] = field(default_factory=nothing)  # language -> title
    says: Mapping[str, str] = field(default_factory=nothing)  # language -> sentence template
    advices: Mapping[str, str] = field(default_factory=nothing)


@dataclass(frozen=True)
class Span:
    """A stretch of time during which one condition held."""

    key: str
    first_at: datetime  # the oldest evidence
    opened_at: datetime  # when the limit was passed
    last_at: datetime  # the newest evidence
    ended_at: datetime | None = None  # None: it still holds
    quotes: Mapping[str, str] = field(default_factory=nothing)  # captured from log text: shown, never used by a step
    facts: Mapping[str, str] = field(default_factory=nothing)  # measured by us or written in the rule: may fill a step
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


@dataclass(frozen=True)
class Change:
    """What a check changed about one incident."""

    what: str  # suspected, opened, worse, seen, resolved, passed (opened and over between two checks)
    incident: Incident


@dataclass(frozen=True)
class Step:
    """One thing to do: a kind from actions/ with its arguments filled in."""

    kind: str
    args: Any
    line: int = 0


@dataclass(frozen=True)
class Verify:
    """How a person would know that it worked: these rules are quiet, and the gateway lives (or is proven stopped)."""

    quiet: tuple[str, ...]
    alive: bool = True
    within: timedelta = timedelta(minutes=3)


@dataclass(frozen=True)
class Recipe:
    """How to mend one class of fault."""

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
    titles: Mapping[str, str] = field(default_factory=nothing)
    otherwise: str = ""  # the recipe to propose when this one failed for a key
    lines: Mapping[str, int] = field(default_factory=nothing)  # key -> line in the file, for messages


@dataclass(frozen=True)
class Hold:
    """Why a plan must wait, and until when if known."""

    reason: str
    until: datetime | None = None
    final: bool = False  # a refusal: no waiting will change it


@dataclass(frozen=True)
class Plan:
    """The exact steps proposed for one case: one or more incidents with one cause."""

    title: str
    incidents: tuple[str, ...]  # "rule key" of each, the cause first
    recipes: tuple[str, ...]
    steps: tuple[Step, ...]
    words: tuple[str, ...]  # each step described: what a person approves
    digest: str  # of recipes and filled-in steps
    approval: str = "ask"
    hold: Hold | None = None
    verify: Verify | None = None
    rollback: tuple[Step, ...] = ()
    costs: str = ""  # turns in flight and the like
    id: int = 0
    chain: str = ""  # the cause and what followed from it, as one sentence
    advice: tuple[str, ...] = ()  # what no restart cures, and what does
    warnings: tuple[str, ...] = ()  # worth knowing before saying yes
    restarts: bool = False  # the gateway is started or restarted
    stops: bool = False  # the gateway is stopped and stays so
    lasts: timedelta = timedelta(minutes=30)  # how long the question stays open
    host: str = ""
    home: str = ""
    evidence: tuple[str, ...] = ()  # "rule key: sentence (where)" of each incident
    parts: tuple[tuple[str, str, int], ...] = ()  # recipe, "rule key", place of its last own step in `steps`


@dataclass(frozen=True)
class Outcome:
    """What came of a plan, or of one of its steps."""

    plan_digest: str
    step: str
    ok: bool
    says: str
    took: timedelta = timedelta(0)
    output: str = ""


@dataclass(frozen=True)
class Notice:
    """Something worth telling a person, and why."""

    reason: str
    title: str
    body: str
    severity: str = "medium"
    incidents: tuple[int, ...] = ()
    plan: int = 0


@dataclass(frozen=True)
class Report:
    """Everything one check saw, decided and did."""

    start: datetime
    now: datetime
    home: str
    blind: Mapping[str, str]  # source -> why it cannot be read
    notes: tuple[str, ...]  # worth knowing, no fault
    not_checked: Mapping[str, str]  # rule -> why
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]
    plans: tuple[Plan, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    notices: tuple[Notice, ...] = ()
    turns: int = 0  # chats being worked on, as the logs tell
    pending_since: datetime | None = None  # from when the next check must read to see what still waits
    newly_blind: bool = True  # what cannot be seen is not what the last check could not see
    kept: tuple[Incident, ...] = ()  # open, and not looked at this time: their rule was blind or not due
    cut_off: tuple[int, ...] = ()  # plans that were begun and not finished

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return (*(change.incident for change in self.changes), *self.kept)

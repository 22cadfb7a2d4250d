"""What is proposed, what came of it, what is said; and a report of all that one check did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.model.incidents import Change, Finding, Incident, Step, Verify
from watchdog.model.reason import PLAN_TITLE, Reason, nothing
from watchdog.values import Any, dataclass, field, replace


@dataclass(frozen=True)
class Hold:
    """Why a plan must wait, and until when if known."""

    reason: Reason
    until: datetime | None = None


@dataclass(frozen=True)
class Plan:
    """The exact steps proposed for one case: one or more incidents with one cause."""

    title: str
    incidents: tuple[str, ...]  # "rule key" of each, the cause first
    recipes: tuple[str, ...]
    steps: tuple[Step, ...]
    words: tuple[Reason, ...]  # each step described: what a person approves
    digest: str  # of recipes and filled-in steps
    approval: str = "ask"
    hold: Hold | None = None
    verify: Verify | None = None
    rollback: tuple[Step, ...] = ()
    costs: Reason | None = None  # replies in progress and the like
    id: int = 0
    chain: Reason | None = None  # what it is for: the cause and what followed from it
    also: tuple[Reason, ...] = ()  # what else is open and has nothing to do with it
    advice: tuple[Reason, ...] = ()  # what no restart repairs, and what does
    warnings: tuple[Reason, ...] = ()  # worth knowing before saying yes
    restarts: bool = False  # the gateway is started or restarted
    stops: bool = False  # the gateway is stopped and stays so
    lasts: timedelta = timedelta(minutes=30)  # how long the question stays open
    host: str = ""
    home: str = ""
    evidence: tuple[str, ...] = ()  # "rule key: sentence (where)" of each incident
    parts: tuple[tuple[str, str, int], ...] = ()  # recipe, "rule key", place of its last own step in `steps`

    @property
    def title_reason(self) -> Reason:
        """Its title, to be said in the reader's language."""
        return Reason(PLAN_TITLE, {"recipes": self.recipes, "title": self.title})


class OutcomeKind(StrEnum):
    """What an outcome is the outcome of."""

    STEP = "step"
    UNDO = "undo"  # a step that takes something back
    VERIFICATION = "verification"
    PLAN = "plan"  # the whole; the last of its outcomes
    WAITS = "waits"  # nothing was done yet: it stays approved until it may be carried out


@dataclass(frozen=True)
class Outcome:
    """What came of a plan, or of one of its steps."""

    plan_digest: str
    kind: OutcomeKind
    what: Reason  # "step 1 of 3, stop the gateway", "plan 7"
    ok: bool
    reason: Reason
    took: timedelta = timedelta(0)
    output: str = ""
    unproven: tuple[str, ...] = ()  # rules that are switched off and could not tell whether it helped
    unconnected: tuple[str, ...] = ()  # platforms that were connected before and are not now
    restarted_for: tuple[str, ...] = ()  # rules whose fault ended with the restart of the gateway

    @property
    def verified(self) -> bool:
        return self.ok and not self.unproven and not self.unconnected


@dataclass(frozen=True)
class Notification:
    """One message for people: a headline, what matters, and details below it."""

    news: str  # why it is sent: store.messages.News
    title: str
    body: str
    severity: str = "medium"
    incidents: tuple[int, ...] = ()
    plan: int = 0
    details: str = ""  # exact commands, evidence; below the lines that tell how to answer


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
    notifications: tuple[Notification, ...] = ()
    turns: int = 0  # chats being worked on, as the logs tell
    hung: int = 0  # chats that wait and are not worked on
    pending_since: datetime | None = None  # from when the next check must read to see what still waits
    newly_blind: bool = True  # what cannot be seen is not what the last check could not see
    kept: tuple[Incident, ...] = ()  # open, and not looked at this time: their rule was blind or not due
    # (rule, key) that could be judged neither there nor gone
    unsure: frozenset[tuple[str, str]] = frozenset()
    cut_off: tuple[int, ...] = ()  # plans that were begun and not finished
    measured: Mapping[str, Any] = field(default_factory=nothing)  # for the next checks to compare with

    @property
    def has_news(self) -> bool:
        """Whether anything happened or changed since the last check."""
        return (
            bool(self.outcomes) or self.newly_blind or any(change.what != "seen" for change in self.changes)
        )

    def noted(self, notes: Sequence[str]) -> Report:
        """The same report with these notes, too."""
        return replace(self, notes=(*self.notes, *notes)) if notes else self

    def anew(self) -> Report:
        """The same sight of things, with nothing done or said about it."""
        return replace(self, outcomes=(), notifications=())

    def followed_by(self, later: Report) -> Report:
        """The later report with what this one did and said before it."""
        outcomes, said_before = (*self.outcomes, *later.outcomes), self.notifications
        return replace(later, outcomes=outcomes, notifications=(*said_before, *later.notifications))

    def with_ends(self, ended: Sequence[Change]) -> Report:
        """The same report after these incidents have ended."""
        gone = {change.incident.id for change in ended}
        going_on = [change for change in self.changes if change.incident.id not in gone]
        kept = tuple(incident for incident in self.kept if incident.id not in gone)
        return replace(self, changes=(*going_on, *ended), kept=kept)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return (*(change.incident for change in self.changes), *self.kept)

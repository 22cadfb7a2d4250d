"""What was done before, as the planner wants to know it: plain values, read from the store by store/plans.py."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from watchdog.values import dataclass, replace


@dataclass(frozen=True)
class Action:
    """One recipe carried out (or begun) for one incident."""

    recipe: str
    key: str  # "rule key"
    at: datetime
    restarted: bool  # the gateway was started by it
    state: str  # begun, ok, failed
    plan: int = 0
    since_armed: bool = True  # after a person last armed the watchdog


@dataclass(frozen=True)
class Refusal:
    """A person said no: this recipe is not proposed again before `until`."""

    recipe: str
    until: datetime
    by: str
    at: datetime


@dataclass(frozen=True)
class Disarmed:
    """The watchdog may not act until a person arms it."""

    at: datetime
    by: str
    why: str


@dataclass(frozen=True)
class History:
    """Everything that can make a plan wait."""

    actions: tuple[Action, ...] = ()
    starts: tuple[datetime, ...] = ()  # of the gateway, by anyone, as seen in its process or its log
    refusals: tuple[Refusal, ...] = ()
    disarmed: Disarmed | None = None
    unfinished: tuple[int, ...] = ()  # plans that were begun and not finished
    maintenance_until: datetime | None = None  # planned work: look, tell, do nothing
    not_checked: frozenset[str] = frozenset()  # rules that could not be evaluated: blind is not quiet


def with_starts(history: History, starts: Iterable[datetime]) -> History:
    """The same, knowing of further starts; one that was seen twice (by its process and by its log) is one."""
    # A gateway on a busy machine needs many seconds from its first breath to its first line.
    new = [at for at in starts if not any(abs(at - other) < timedelta(seconds=60) for other in history.starts)]
    return replace(history, starts=tuple(sorted((*history.starts, *new)))) if new else history

"""What carrying out a plan works with, and the lock that lets one watchdog act at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, OutcomeKind, Plan, Reason
from watchdog.model.plan_reasons import About, Lapse, Refused
from watchdog.repair.verify import LookAgain
from watchdog.steps import KINDS
from watchdog.store import Store
from watchdog.system.lock import take
from watchdog.system.procfs import lock_holder

LOCK = "acting.lock"
# Every place where the power may fail; a test dies at each of them.
BEFORE = ("checked", "claimed", "looked", "begun")
POINTS = (*BEFORE, "step begun", "step done", "verified", "rolled back", "recorded")


class PlanRefused(Exception):
    """The plan is not carried out; its only argument is the reason."""

    @property
    def reason(self) -> Reason:
        reason: Reason = self.args[0]
        return reason


@dataclass(frozen=True)
class RepairJob:
    """What carrying out works with: the record, the machine, how to look again and hear answers."""

    store: Store
    machine: Machine
    look_again: LookAgain
    hear: Callable[[], object] = lambda: None  # reads the answers in the chats: a no among them stops it
    kinds: Mapping[str, Any] = field(default_factory=lambda: KINDS)  # of steps
    at_point: Callable[[str], None] = lambda point: None  # called at each of POINTS

    def now(self) -> datetime:
        return self.machine.clock()


def not_done(digest: str, plan_id: int, reason: Reason) -> Outcome:
    """The outcome of a plan of which no step was done."""
    kind = OutcomeKind.WAITS if reason.key == Refused.WAITS else OutcomeKind.PLAN
    return Outcome(digest, kind, Reason(About.PLAN, {"plan": plan_id}), False, reason)


def for_another(plan: Plan, machine: Machine) -> Reason | None:
    """Why this plan is not for this home on this machine."""
    if (plan.host, plan.home) == (machine.host, str(machine.home)):
        return None
    here = {"here": str(machine.home), "this": machine.host}
    return Reason(Lapse.ELSEWHERE, {"plan": plan.id, "home": plan.home, "host": plan.host, **here})


def is_acting(state: Path) -> bool:
    """Whether some process carries out a plan of this home now, as far as that can be told."""
    return bool(lock_holder(str(state / LOCK)))


@contextmanager
def acting(machine: Machine) -> Iterator[None]:
    """One actor at a time on this machine; the kernel frees the lock of one that dies."""
    path = machine.state / LOCK
    try:
        machine.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        fields = {"path": str(path), "error": error.strerror}
        raise PlanRefused(Reason(Refused.NO_LOCK, fields)) from None
    try:
        if not take(fd, 20, machine.sleep):
            raise PlanRefused(Reason(Refused.BUSY))
        yield
    finally:
        os.close(fd)

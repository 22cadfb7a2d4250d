"""Did it help? The rules that must be quiet are, and the gateway gives a sign of life that lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchdog.config.rulebook import Rulebook
from watchdog.gateway.machine import GatewayProcess, Machine
from watchdog.model import Incident, Outcome, OutcomeKind, Plan, Reason, Report, Verify, plain
from watchdog.model.plan_reasons import About, Verification
from watchdog.plan.planner import untreated
from watchdog.text import harmless

SETTLED = timedelta(seconds=20)  # a gateway that still runs so long after its start did not fail at starting
POLL = 5.0  # seconds


@dataclass(frozen=True)
class Look:
    """What is wrong right now, asked for again just before and after acting."""

    incidents: tuple[Incident, ...]
    book: Rulebook
    not_checked: Mapping[str, str] = field(default_factory=dict)  # rule -> why; blind is not quiet
    # rule -> the file that switched it off: it is not evaluated
    off: Mapping[str, str] = field(default_factory=dict)
    # incidents (rule and key) that could be judged neither there nor gone
    unsure: frozenset[str] = frozenset()

    @classmethod
    def of(cls, report: Report, book: Rulebook) -> Look:
        """What a check saw."""
        unsure = frozenset(f"{rule} {key}".strip() for rule, key in report.unsure)
        return cls(report.incidents, book, report.not_checked, book.off, unsure)


LookAgain = Callable[[datetime | None], Look]  # since: judge only what happened after it; None: everything


def look_safely(look_again: LookAgain, since: datetime | None) -> Look | str:
    """What is wrong now, or the error that kept us from looking: it must not leave a plan half way."""
    try:
        return look_again(since)
    except Exception as error:
        return f"{type(error).__name__}: {harmless(str(error), 200)}"


@dataclass(frozen=True)
class Sight:
    """What one look after the steps showed."""

    look: Look
    gateway: GatewayProcess
    noisy: frozenset[str]  # incidents that the plan was to end and that still hold
    unsure: frozenset[str]  # of those, the ones that could be judged neither there nor gone
    lived: timedelta  # for how long the same process was seen


def verify(
    plan: Plan, machine: Machine, look_again: LookAgain, since: datetime
) -> tuple[Outcome, frozenset[str]]:
    """Look until it is well or the time has passed; also which of its incidents still hold.

    What cannot be seen for now is waited for, and is not well. A platform that was connected before and does
    not come back is waited for, too; its provider may be down, so that is no failure, but it is said. A rule that its owner switched off will not be
    seen at all: a repair that everything else calls good is not taken back for it, but it is not called
    verified either.
    """
    wanted = plan.verify
    assert wanted is not None
    began = settled_at = machine.clock()
    first: GatewayProcess | None = None
    # Repairs that leave the gateway alone ask only that it is not worse off than before.
    expects = any(step.kind == "gateway" for step in plan.steps) or bool(machine.gateway.alive)
    ours = frozenset(key for _, key, _ in plan.parts)
    noisy = frozenset[str]()
    outcome = Outcome(
        plan.digest, OutcomeKind.VERIFICATION, Reason(About.VERIFICATION), False, Reason(Verification.WELL)
    )
    for _ in range(int(wanted.within.total_seconds() / POLL) + 2):  # the clock may be set back while we wait
        look, gateway, now = look_safely(look_again, since), machine.now_gateway(), machine.clock()
        if first is None or (first.pid, first.start_time) != (gateway.pid, gateway.start_time):
            first, settled_at = gateway, now
        if isinstance(look, str):
            why: Reason | None = Reason(Verification.CANNOT_LOOK, {"error": look})
        else:
            # What was ill before and got no step of this plan is no failure of its cure.
            noisy = _noisy(wanted, look) - untreated(plan)
            sight = Sight(look, gateway, noisy, ours & look.unsure, now - settled_at)
            why = not_yet(wanted, sight, expects)
            lost = lost_platforms(machine.gateway, gateway) if wanted.alive and expects else ()
            if why is None and (not lost or now >= began + wanted.within):
                off = tuple(rule for rule in wanted.quiet if rule in look.off)
                reason = _well(wanted, sight, off, machine)
                good = replace(outcome, ok=True, reason=reason, took=now - began)
                return replace(good, unproven=off, unconnected=lost), noisy
        if now >= began + wanted.within:
            break
        machine.sleep(POLL)
    reason = Reason(Verification.NOT_BETTER, {"within": wanted.within, "why": why})
    return replace(outcome, reason=reason, took=machine.clock() - began), noisy


def lost_platforms(before: GatewayProcess, after: GatewayProcess) -> tuple[str, ...]:
    """The platforms that were connected before and are not, or not yet: their chats would get no answer."""
    return tuple(name for name in before.connected or () if name not in (after.connected or ()))


def _noisy(wanted: Verify, look: Look) -> frozenset[str]:
    return frozenset(
        incident.name
        for incident in look.incidents
        if incident.status != "resolved" and incident.rule in wanted.quiet
    )


def not_yet(wanted: Verify, sight: Sight, expects: bool) -> Reason | None:
    """Why this is not well yet; None when it is. `expects`: whether a gateway should be alive at all."""
    look, gateway = sight.look, sight.gateway
    if sight.noisy:
        return Reason(Verification.STILL_THERE, {"incidents": tuple(sorted(sight.noisy)[:3])})
    for rule in wanted.quiet:
        if rule in look.not_checked:
            return Reason(Verification.RULE_BLIND, {"rule": rule, "why": plain(look.not_checked[rule])})
    if doubtful := sorted(name for name in sight.unsure if name.split(" ")[0] in wanted.quiet):
        return Reason(Verification.UNSURE, {"incident": doubtful[0]})
    if not wanted.alive:
        return None if gateway.alive is False else Reason(Verification.STILL_RUNS)
    if not expects:
        return None
    if not gateway.alive:
        return Reason(Verification.NO_PROCESS)
    if gateway.up is False:
        return Reason(Verification.NOT_UP)
    return Reason(Verification.ONLY_STARTED) if sight.lived < min(SETTLED, wanted.within / 2) else None


def _life(before: GatewayProcess, after: GatewayProcess, place: Reason | None) -> Reason:
    """That it runs, and whether its platforms are connected as before."""
    runs = Reason(Verification.RUNNING, {"pid": after.pid})
    if place:
        runs = Reason(Verification.RUNNING_IN, {"place": place})
    if lost := lost_platforms(before, after):
        key = Verification.NOT_CONNECTED if after.connected is not None else Verification.UNSEEN
        platforms = Reason(key, {"platforms": lost})
    elif after.connected:
        platforms = Reason(Verification.CONNECTED, {"platforms": after.connected})
    else:
        return runs
    return Reason(Verification.AND, {"first": runs, "second": platforms})


def _well(wanted: Verify, sight: Sight, off: Sequence[str], machine: Machine) -> Reason:
    life = None
    if sight.gateway.alive:
        life = _life(machine.gateway, sight.gateway, machine.supervisor.place(sight.gateway.pid))
    elif not wanted.alive:
        life = Reason(Verification.STOPPED)
    quiet = None
    if len(off) < len(wanted.quiet):
        quiet = Reason(Verification.OTHERS_WELL if off else Verification.WELL)
    both = Reason(Verification.AND, {"first": quiet, "second": life}) if quiet and life else quiet or life
    if not off:
        return both or Reason(Verification.WELL)
    if both is None:
        return Reason(Verification.UNPROVEN_ALONE, {"rules": tuple(off)})
    return Reason(Verification.UNPROVEN, {"rules": tuple(off), "rest": both})

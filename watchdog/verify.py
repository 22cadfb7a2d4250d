"""Did it help? The rules that must be quiet are, and the gateway gives a sign of life that lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.model import Incident, Outcome, Plan, Recipe, Verify
from watchdog.plan import name_of, untreated
from watchdog.text import UNVERIFIED, harmless, spell
from watchdog.world import Gateway, World

SETTLED = timedelta(seconds=20)  # a gateway that lives this long after a start did not die of starting
POLL = 5.0  # seconds


@dataclass(frozen=True)
class Look:
    """What is wrong right now, asked for again just before and after acting."""

    incidents: tuple[Incident, ...]
    recipes: Mapping[str, Recipe]
    not_checked: Mapping[str, str] = field(default_factory=dict)  # rule -> why; blind is not quiet
    alive: bool | None = None  # a sign of life that only logs tell (connected, answered); None: none asked for
    life: str = ""  # which one
    maintenance_until: datetime | None = None
    off: Mapping[str, str] = field(default_factory=dict)  # rule -> the file that switched it off: nobody looks with it
    unsure: frozenset[str] = frozenset()  # incidents (rule and key) that could be judged neither there nor gone


LookAgain = Callable[[datetime | None], Look]  # since: judge only what happened after it; None: everything


def look_safely(look_again: LookAgain, since: datetime | None) -> Look | str:
    """What is wrong now, or why that cannot be told: a fault in looking must not leave a plan half way."""
    try:
        return look_again(since)
    except Exception as error:
        return f"{type(error).__name__}: {harmless(str(error), 200)}"


def verify(plan: Plan, world: World, look_again: LookAgain, since: datetime) -> tuple[Outcome, frozenset[str]]:
    """Look until it is well or the time is over; also which of its incidents still hold.

    What cannot be seen for now is waited for, and is not well. A rule that its owner switched off will not be seen at all: a
    repair that everything else calls good is not taken back for it, but it is not called verified either.
    """
    wanted = plan.verify
    assert wanted is not None
    began = settled_at = world.clock()
    first: Gateway | None = None
    # Repairs that leave the gateway alone ask only that it is not worse off than before.
    expects = any(step.kind == "gateway" for step in plan.steps) or bool(world.gateway.alive)
    why, noisy, not_ours = "", frozenset[str](), untreated(plan)
    ours = frozenset(key for _, key, _ in plan.parts)
    for _ in range(int(wanted.within.total_seconds() / POLL) + 2):  # the clock may be set back while we wait
        look, gateway, now = look_safely(look_again, since), world.now_gateway(), world.clock()
        if first is None or (first.pid, first.start_time) != (gateway.pid, gateway.start_time):
            first, settled_at = gateway, now
        if isinstance(look, str):
            why = f"it could not be looked at: {look}"
        else:
            noisy = frozenset(name_of(one) for one in look.incidents if one.status != "resolved" and one.rule in wanted.quiet)
            noisy -= not_ours  # what was ill before and got no step of this plan is no failure of its cure
            why = not_yet(wanted, look, noisy, gateway, expects, now - settled_at, ours & look.unsure)
            if not why:
                return Outcome(plan.digest, "verify", True, _well(wanted, look, gateway), now - since), noisy
        if now >= began + wanted.within:
            break
        world.sleep(POLL)
    return Outcome(plan.digest, "verify", False, f"not better within {spell(wanted.within)}: {why}", world.clock() - since), noisy


def not_yet(
    wanted: Verify,
    look: Look,
    noisy: frozenset[str],
    gateway: Gateway,
    expects: bool,
    settled: timedelta,
    unsure: frozenset[str] = frozenset(),
) -> str:
    """Why this is not well yet; '' when it is."""
    if noisy:
        return f"still there: {', '.join(sorted(noisy)[:3])}"
    for rule in wanted.quiet:
        if rule in look.not_checked:
            return f"{rule} could not be checked: {look.not_checked[rule]}"
    if doubtful := sorted(name for name in unsure if name.split(" ")[0] in wanted.quiet):
        return f"{doubtful[0]} could not be judged"
    if not wanted.alive:
        return "" if gateway.alive is False else "the gateway still runs"
    if not expects:
        return ""
    if not gateway.alive:
        return "no gateway process"
    if look.alive is False or gateway.up is False:
        return look.life or "the gateway starts, but does not say that it runs"
    return "the gateway has only just started" if settled < min(SETTLED, wanted.within / 2) else ""


def _well(wanted: Verify, look: Look, gateway: Gateway) -> str:
    life = look.life or (f"process {gateway.pid} lives" if gateway.alive else "" if wanted.alive else "the gateway is stopped")
    off = [rule for rule in wanted.quiet if rule in look.off]
    quiet = "its rules are quiet" if not off else "its other rules are quiet" if len(off) < len(wanted.quiet) else ""
    return "; ".join(filter(None, (f"{UNVERIFIED}{', '.join(off)} (switched off)" if off else "", quiet, life)))


def unverified(says: str) -> str:
    """Of what a verification says, by which rules it could not look; '' when it looked with all of them."""
    return says.partition("; ")[0] if says.startswith(UNVERIFIED) else ""

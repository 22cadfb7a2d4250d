"""Stop, start or restart the gateway, through whatever runs it."""

from __future__ import annotations

from datetime import timedelta

from watchdog.actions import bare
from watchdog.actions.common import failed, ok, written
from watchdog.model import Outcome
from watchdog.supervisor import PROCESS
from watchdog.text import spell
from watchdog.values import dataclass
from watchdog.world import Gateway, World
from watchdog.yamlfile import Section

KIND = "gateway"
REPEATABLE = True  # each first looks whether it is already as wanted
CHANGES = True
_VERBS = ("stop", "start", "restart")
_UP_WITHIN = timedelta(seconds=90)


@dataclass(frozen=True)
class Args:
    do: str  # stop, start, restart


def read(section: Section) -> Args:
    told = [verb for verb in _VERBS if section.flag(verb, False)]
    section.done()
    if len(told) != 1:
        section.wrong("say one of stop: true, start: true, restart: true")
    return Args(told[0] if told else "stop")


def describe(args: Args, world: World) -> str:
    who = world.supervisor
    if not getattr(who, args.do) and who.kind != PROCESS:
        return f"{args.do} the gateway: nothing tells how"
    if who.kind != PROCESS:
        return f"{args.do} the gateway ({who.name}): {written(getattr(who, args.do))}"
    start = f"start it detached as {who.user}: {written(('env', f'HERMES_HOME={world.home}', *who.argv))}"
    if args.do == "start":
        return start.replace("start it", "start the gateway", 1)
    stop = f"SIGTERM, and SIGKILL if it is still there after {spell(who.patience)}"
    if args.do == "stop":
        return f"stop the gateway (process {world.gateway.pid}): {stop}" if world.gateway.pid else "stop the gateway: it is not running"
    return f"restart the gateway (process {world.gateway.pid}): {stop}; then {start}"


def run(args: Args, world: World) -> Outcome:
    name = f"{args.do} the gateway"
    if not world.supervisor.may_act:
        return failed(name, world.supervisor.why_not)
    before = world.now_gateway()
    waited = _let_turns_end(world, before) if args.do != "start" else ""
    if args.do == "start" and before.alive:
        return ok(name, f"already running (pid {before.pid})")
    if world.supervisor.kind == PROCESS:
        return _bare(args, world, before, waited)
    patience = world.supervisor.patience
    ran = world.run(getattr(world.supervisor, args.do), patience.total_seconds())
    if ran.code != 0:
        return failed(name, f"exit code {ran.code} from: {written(getattr(world.supervisor, args.do))}", ran.output)
    if args.do == "stop":
        gone = world.wait_for(lambda seen: seen.alive is False, timedelta(seconds=20))
        return ok(name, f"stopped{waited}", ran.output) if gone else failed(name, "told to stop, but it still runs", ran.output)
    return _up(name, world, before, ran.output, waited)


def _bare(args: Args, world: World, before: Gateway, waited: str) -> Outcome:
    name = f"{args.do} the gateway"
    if args.do != "start":
        told = bare.stop(world, before)
        if not told.ok or args.do == "stop":
            return told
    bare.start(world)
    return _up(name, world, before, "", waited)


def _up(name: str, world: World, before: Gateway, output: str, waited: str) -> Outcome:
    def new(seen: Gateway) -> bool:
        return seen.alive is True and (seen.pid, seen.start_time) != (before.pid, before.start_time)

    seen = world.wait_for(new, _UP_WITHIN)
    if seen is None:
        return failed(name, f"no new gateway process within {spell(_UP_WITHIN)}", output)
    return ok(name, f"running as pid {seen.pid}{waited}", output)


def _let_turns_end(world: World, before: Gateway) -> str:
    """Wait, bounded, for answers that are being written; what waited too long is cut off, and said so."""
    if not before.alive or not before.turns or not world.limits.wait_for_turns:
        return ""
    seen = world.wait_for(lambda seen: not seen.alive or not seen.turns, world.limits.wait_for_turns, every=1.0)
    return "" if seen else f"; {before.turns} turn(s) were still in progress after {spell(world.limits.wait_for_turns)}"

"""Stop, start or restart the gateway, through whatever runs it."""

from __future__ import annotations

from datetime import timedelta

from watchdog.config.yaml import Section
from watchdog.gateway.machine import GatewayProcess, Machine
from watchdog.gateway.supervisor import PROCESS
from watchdog.model import Outcome, Reason
from watchdog.model.plan_reasons import Describe, Done, Failed, What
from watchdog.steps import bare_process as bare
from watchdog.steps.common import command_failure, failed, ok, written
from watchdog.values import dataclass, replace

KIND = "gateway"
REPEATABLE = True  # each first looks whether it is already as wanted
_VERBS = ("stop", "start", "restart")
_UP_WITHIN = timedelta(seconds=90)


@dataclass(frozen=True)
class Args:
    do: str  # stop, start, restart


def read(section: Section) -> Args:
    chosen = [verb for verb in _VERBS if section.flag(verb, False)]
    section.done()
    if len(chosen) != 1:
        section.wrong("say one of stop: true, start: true, restart: true")
    return Args(chosen[0] if chosen else "stop")


def describe(args: Args, machine: Machine) -> Reason:
    supervisor = machine.supervisor
    if supervisor.by_signal:
        stop = {"pid": machine.gateway.pid, "patience": supervisor.patience, "name": supervisor.name}
        return Reason(
            Describe.RESTART_SIGNALLED if args.do == "restart" else Describe(f"step.{args.do}-unknown"), stop
        )
    if supervisor.kind == PROCESS:
        return _describe_process(args, machine)
    command = getattr(supervisor, args.do)
    if not command:
        return Reason(Describe(f"step.{args.do}-unknown"))
    fields = {"name": supervisor.name, "command": written(command)}
    if supervisor.kill and args.do != "start":
        kill = {"kill": written(supervisor.kill), "patience": supervisor.patience}
        return Reason(Describe(f"step.{args.do}-service"), {**fields, **kill})
    return Reason(Describe(f"step.{args.do}-unit"), fields)


def _describe_process(args: Args, machine: Machine) -> Reason:
    supervisor = machine.supervisor
    start = {
        "user": supervisor.user,
        "command": written(("env", f"HERMES_HOME={machine.home}", *supervisor.argv)),
        # Not shown: what starts it again when nothing else tells, once it has stopped (repair/resume.py).
        "argv": supervisor.argv,
        "uid": supervisor.uid,
    }
    stop = {"pid": machine.gateway.pid, "patience": supervisor.patience}
    if args.do == "start":
        return Reason(Describe.START_PROCESS, start)
    if args.do == "restart":
        return Reason(Describe.RESTART_PROCESS, {**stop, **start})
    if machine.gateway.pid:
        return Reason(Describe.STOP_PROCESS, stop)
    return Reason(Describe.STOP_UNKNOWN if machine.gateway.alive is None else Describe.STOP_NOTHING)


def run(args: Args, machine: Machine) -> Outcome:
    what = Reason(What(f"what.{args.do}"))
    supervisor = machine.supervisor
    if refused := supervisor.refusal((args.do,)):
        return failed(what, refused)
    before = machine.now_gateway()
    if before.alive is None and supervisor.kind == PROCESS:
        return failed(what, Reason(Failed.INVISIBLE))
    if args.do == "start" and before.alive:
        return ok(what, Reason(Done.ALREADY_RUNNING, {"pid": before.pid}))
    cut_off = args.do != "start" and not _turns_ended(machine, before)
    signalled = supervisor.kind == PROCESS or supervisor.by_signal
    outcome = _bare(args, machine, before) if signalled else _by_command(args, machine, before)
    if not outcome.ok or not cut_off:
        return outcome
    fields = {
        "result": outcome.reason,
        "count": machine.replies(before),
        "wait": machine.limits.wait_for_turns,
    }
    return replace(outcome, reason=Reason(Done.CUT_OFF, fields))


def _by_command(args: Args, machine: Machine, before: GatewayProcess) -> Outcome:
    what, supervisor = Reason(What(f"what.{args.do}")), machine.supervisor
    outcome = _ordered(args, machine, before, getattr(supervisor, args.do))
    if outcome.reason.key not in (Failed.STILL_RUNS, Failed.NO_NEW_PROCESS) or not supervisor.kill:
        return outcome
    if args.do == "start" or _is_new(machine.now_gateway(), before):
        return outcome
    # s6 sends SIGTERM and waits for ever; what was approved names this, too.
    killed = _ordered(args, machine, before, supervisor.kill)
    if not killed.ok:
        return killed
    fields = {"result": killed.reason, "patience": supervisor.patience}
    return ok(what, Reason(Done.AFTER_KILL, fields), killed.output)


def _ordered(args: Args, machine: Machine, before: GatewayProcess, command: tuple[str, ...]) -> Outcome:
    """The command, and what came of it."""
    what, patience = Reason(What(f"what.{args.do}")), machine.supervisor.patience
    ran = machine.run(command, patience.total_seconds())
    if ran.code != 0:
        return failed(what, command_failure(ran, command, patience), ran.output)
    if args.do != "stop":
        return replace(_up(what, machine, before), output=ran.output)
    # systemd and docker return when it has ended; s6 at once
    within = patience if machine.supervisor.kill else timedelta(seconds=20)
    if machine.wait_for(lambda seen: seen.alive is False, within):
        return ok(what, Reason(Done.STOPPED), ran.output)
    return failed(what, Reason(Failed.STILL_RUNS), ran.output)


def _bare(args: Args, machine: Machine, before: GatewayProcess) -> Outcome:
    if args.do != "start":
        stopped = bare.stop(machine, before)
        if not stopped.ok or args.do == "stop":
            return stopped
    what = Reason(What(f"what.{args.do}"))
    if not machine.supervisor.by_signal and (why := bare.start(machine)):  # s6 starts it by itself
        return failed(what, why)
    return _up(what, machine, before)


def _is_new(seen: GatewayProcess, before: GatewayProcess) -> bool:
    """A process whose start time cannot be read, as one that is just ending, counts by its number alone."""
    started = seen.start_time or before.start_time
    return seen.alive is True and (seen.pid, started) != (before.pid, before.start_time)


def _up(what: Reason, machine: Machine, before: GatewayProcess) -> Outcome:
    within = max(_UP_WITHIN, machine.supervisor.patience) if machine.supervisor.kill else _UP_WITHIN
    seen = machine.wait_for(lambda seen: _is_new(seen, before), within)
    if seen is None:
        return failed(what, Reason(Failed.NO_NEW_PROCESS, {"within": within}))
    if place := machine.supervisor.place(seen.pid):
        return ok(what, Reason(Done.RUNNING_IN, {"place": place}))
    return ok(what, Reason(Done.RUNNING, {"pid": seen.pid}))


def _turns_ended(machine: Machine, before: GatewayProcess) -> bool:
    """Waits, for a bounded time, until no reply is in progress; False when some still are."""
    if not before.alive or not machine.replies(before) or not machine.limits.wait_for_turns:
        return True
    wait = machine.limits.wait_for_turns
    return machine.wait_for(lambda seen: not seen.alive or not machine.replies(seen), wait, 1.0) is not None

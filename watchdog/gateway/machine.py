"""What planning and repairing need to know of the machine, as one value: tests hand in their own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.config.settings import Limits, Settings
from watchdog.gateway.evidence import read_evidence
from watchdog.gateway.last_life import missing
from watchdog.gateway.probe import Asked, find_supervisor
from watchdog.gateway.reasons import MayNot, Warn
from watchdog.gateway.state import Why, state_of
from watchdog.gateway.supervisor import DOCKER, PODMAN, PROCESS, Supervisor, unknown
from watchdog.model import Reason
from watchdog.system import commands
from watchdog.system.commands import Runner
from watchdog.system.files import free_bytes
from watchdog.system.procfs import began_at, start_time_of
from watchdog.system.users import me
from watchdog.values import dataclass, field, replace


@dataclass(frozen=True)
class GatewayProcess:
    """The gateway of this home, measured now: what a step needs of its state (state.py), or what a container's engine
    tells where its lock cannot be seen.
    """

    alive: bool | None = None  # None: cannot be told
    pid: int = 0
    start_time: int = 0  # field 22 of /proc/PID/stat: the same pid later is not the same process
    argv: tuple[str, ...] = ()
    turns: int | None = None  # being answered right now, when this release tells
    started_at: datetime | None = None
    up: bool | None = None  # it says of itself that it runs, not only starts; None: it says nothing
    exit_code: int | None = None  # of the last run, when it was written down
    why: Reason | None = None  # what tells all this
    version: str = ""  # of Hermes, when it says so
    # Platforms that this process, or the last one before it died, had connected; None: it says nothing.
    connected: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Machine:
    """One home on one machine: who runs its gateway, how commands are run, what time it is."""

    home: Path
    state: Path  # the watchdog's own folder
    supervisor: Supervisor = field(default_factory=lambda: unknown(Reason(MayNot.NOT_LOOKED)))
    gateway: GatewayProcess = field(default_factory=GatewayProcess)  # as it was when this value was made
    limits: Limits = field(default_factory=Limits)
    host: str = ""
    user: str = ""
    free: int | None = None  # bytes left on the volume of the home
    # of the gateway in the last day, by anyone: its process, and what its log says
    starts: tuple[datetime, ...] = ()
    run: Runner = commands.run
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep
    look: Callable[[], GatewayProcess] | None = None  # how to measure the gateway again
    ask: Runner = commands.ask  # how questions are asked, which change nothing; `run` is for steps
    kept: dict[str, Any] = field(default_factory=dict)  # what one step leaves for a later one; never stored
    hung: int = 0  # of the turns that the gateway counts: those that are not worked on

    def replies(self, seen: GatewayProcess) -> int:
        """Replies in progress, which a stop would cut off."""
        return max(0, (seen.turns or 0) - self.hung)

    def now_gateway(self) -> GatewayProcess:
        if self.look is not None:
            return self.look()
        seen = look_at_gateway(self.home)
        if seen.alive is None and self.supervisor.kind in (DOCKER, PODMAN) and self.supervisor.restart:
            return look_at_container(self.supervisor.restart, seen, self.ask)
        return seen

    def wait_for(
        self, wanted: Callable[[GatewayProcess], bool], within: timedelta, every: float = 0.5
    ) -> GatewayProcess | None:
        """The gateway once it is as wanted; None when it was not within the time."""
        end = self.clock() + within
        rounds = int(within.total_seconds() / every) + 1  # the clock may be set back while we wait
        for _ in range(rounds):
            seen = self.now_gateway()
            if wanted(seen):
                return seen
            if self.clock() >= end:
                break
            self.sleep(every)
        return None


FIRST_LINE = timedelta(seconds=60)  # from its first breath to its first line, on a busy machine


def measure_machine(
    home: Path,
    state: Path,
    settings: Settings,
    starts: tuple[datetime, ...] = (),
    ask: Runner = commands.ask,
) -> Machine:
    """The machine as it is, with the starts in the log; asks systemd, docker and sudo, and does nothing."""
    gateway = look_at_gateway(home)
    unit = "" if settings.unit == "auto" else settings.unit
    asked = Asked(home, state, gateway.pid if gateway.alive else 0, gateway.argv, unit)
    supervisor = find_supervisor(asked, ask)
    if gateway.exit_code and not supervisor.exit_status:
        supervisor = replace(supervisor, exit_status=gateway.exit_code)
    if gateway.why is not None and gateway.why.key == Why.OTHER_HOME:
        supervisor = replace(supervisor, warnings=(*supervisor.warnings, _is_a_copy(gateway.why)))
    if supervisor.kind == PROCESS and not gateway.alive and (lost := missing(home, state, os.environ)):
        supervisor = replace(supervisor, warnings=(*supervisor.warnings, _will_lack(lost)))
    return Machine(
        home,
        state,
        supervisor,
        gateway,
        settings.limits,
        socket.gethostname(),
        me(),
        free_bytes(home),
        every_start(starts, gateway.started_at),
        ask=ask,
    )


def _is_a_copy(why: Reason) -> Reason:
    return Reason(Warn.COPY_OF_HOME, {"pid": why.fields["pid"], "lock": why.fields["locks"][0]})


def _will_lack(names: tuple[str, ...]) -> Reason:
    more = (f"+{len(names) - 10}",) if len(names) > 10 else ()
    return Reason(Warn.WILL_LACK, {"names": (*names[:10], *more)})


def every_start(told: tuple[datetime, ...], process: datetime | None) -> tuple[datetime, ...]:
    """The starts in the log, and the process's own unless the log has it (a little later), too."""
    if process is None or any(timedelta(seconds=-2) < at - process < FIRST_LINE for at in told):
        return tuple(sorted(told))
    return tuple(sorted((*told, process)))


def look_at_gateway(home: Path) -> GatewayProcess:
    """The gateway of this home as it is now; opens nothing for writing."""
    seen = read_evidence(home, datetime.now(UTC))
    found = state_of(seen)
    file, process = seen.state_file, found.process
    recorded = seen.record.argv if seen.record else ()
    base = GatewayProcess(
        found.alive, argv=recorded, turns=file.turns, why=found.reason, version=file.version
    )
    if process is None:
        return replace(base, exit_code=found.exit_code, connected=file.connected)
    return replace(
        base,
        pid=process.pid,
        start_time=process.start_time,
        argv=process.argv or recorded,
        started_at=began_at(process.start_time) if process.start_time else None,
        up=found.up,
        connected=file.connected if found.up is not None else None,
    )


def look_at_container(restart: tuple[str, ...], seen: GatewayProcess, ask: Runner) -> GatewayProcess:
    """Whether the container runs, where its gateway's lock cannot be seen: we are in a container ourselves."""
    engine = restart[: restart.index("restart")]
    answer = ask(
        (*engine, "inspect", "--format", "{{.State.Running}} {{.State.Pid}}", restart[-1]), commands.QUICK
    )
    words = answer.output.split()
    if answer.code != 0 or len(words) != 2:
        return GatewayProcess(None, turns=seen.turns)
    pid = int(words[1]) if words[1].isdigit() else 0
    return GatewayProcess(words[0] == "true", pid, (start_time_of(pid) or 0) if pid else 0, (), seen.turns)

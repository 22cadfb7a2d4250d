"""What acting needs from the machine, as one value: tests hand in their own."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from watchdog import running
from watchdog.limits import Limits
from watchdog.process import began_at, lock_holder, start_time_of
from watchdog.running import Runner
from watchdog.supervisor import CONTAINER, UNKNOWN, Supervisor
from watchdog.values import dataclass, field


@dataclass(frozen=True)
class Gateway:
    """What gateway.pid, its process and its lock say, measured now."""

    alive: bool | None = None  # None: cannot be told (a lock is held but no such process is visible)
    pid: int = 0
    start_time: int = 0  # field 22 of /proc/PID/stat: the same pid later is not the same process
    argv: tuple[str, ...] = ()
    turns: int | None = None  # being answered right now, when this release tells
    started_at: datetime | None = None
    up: bool | None = None  # it says of itself that it runs, not only starts; None: it says nothing


@dataclass(frozen=True)
class World:
    """One home on one machine: who runs its gateway, how commands are run, what time it is."""

    home: Path
    state: Path  # the watchdog's own folder
    supervisor: Supervisor = field(default_factory=lambda: Supervisor(UNKNOWN, may_act=False, why_not="not looked for"))
    gateway: Gateway = field(default_factory=Gateway)  # as it was when this value was made
    limits: Limits = field(default_factory=Limits)
    host: str = ""
    user: str = ""
    free: int | None = None  # bytes left where the home lives
    starts: tuple[datetime, ...] = ()  # of the gateway in the last day, by anyone: its process, and what its log says
    run: Runner = running.run
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep
    look: Callable[[], Gateway] | None = None  # how to measure the gateway again
    kept: dict[str, Any] = field(default_factory=dict)  # what one step leaves for a later one; never stored

    def now_gateway(self) -> Gateway:
        if self.look is not None:
            return self.look()
        seen = look_at_gateway(self.home)
        return look_at_container(self.supervisor.restart, seen, self.run) if self.supervisor.kind == CONTAINER else seen

    def wait_for(self, wanted: Callable[[Gateway], bool], within: timedelta, every: float = 0.5) -> Gateway | None:
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


def measure_world(
    home: Path, state: Path, limits: Limits | None = None, unit: str = "", run: Runner = running.run, zone: tzinfo | None = None
) -> World:
    """The real thing. Asks systemd, docker and sudo what they would do, and does nothing. `zone` is that of the logs."""
    from watchdog.surroundings import find_supervisor, inside_gateway

    gateway = look_at_gateway(home)
    pid = gateway.pid if gateway.alive else 0
    supervisor = find_supervisor(home, pid, gateway.argv, run, "" if unit == "auto" else unit, inside_gateway(pid))
    starts = every_start(starts_in_log(home, zone, datetime.now(UTC)), gateway.started_at)
    return World(
        home, state, supervisor, gateway, limits or Limits(), socket.gethostname(), _user(), free_bytes(home), starts, run
    )


def every_start(told: tuple[datetime, ...], process: datetime | None) -> tuple[datetime, ...]:
    """The starts that the log tells of, and that of the process unless the log tells of it, too: a little later than it was."""
    if process is None or any(timedelta(seconds=-2) < at - process < FIRST_LINE for at in told):
        return tuple(sorted(told))
    return tuple(sorted((*told, process)))


def starts_in_log(home: Path, zone: tzinfo | None, now: datetime) -> tuple[datetime, ...]:
    """When the gateway said that it starts, in the last day. Log text only ever holds us back here."""
    from watchdog.model import Line
    from watchdog.pattern import Pattern
    from watchdog.sources.gate import Gate
    from watchdog.sources.logfile import LogFile

    line, since = Line("gateway.log", Pattern("Starting Hermes Gateway")), now - timedelta(days=1)
    log = LogFile(home / "logs" / "gateway.log", zone)
    try:
        log.open(since)
        return tuple(event.at for event in log.events(Gate([line]), since, now) if line.pattern.match(event.text) is not None)[-500:]
    except OSError:
        return ()
    finally:
        log.close()


def look_at_gateway(home: Path) -> Gateway:
    """Pid file, process and lock; opens nothing for writing."""
    record = _json(home / "gateway.pid")
    state = _json(home / "gateway_state.json")
    turns = state.get("active_agents")
    turns = turns if isinstance(turns, int) and 0 <= turns < 10_000 else None
    held = lock_holder(str(home / "gateway.lock")) != 0  # what cannot be told is not free
    if not record:
        return Gateway(None if held else False, turns=turns)
    pid, start = record.get("pid"), record.get("start_time")
    recorded = tuple(word for word in record.get("argv", ()) if isinstance(word, str)) if isinstance(record.get("argv"), list) else ()
    if not isinstance(pid, int) or pid <= 0 or pid > 2**31:
        return Gateway(None if held else False, argv=recorded, turns=turns)
    started = start_time_of(pid)
    same = start == started if isinstance(start, int) else "gateway" in command_of(pid)
    if started is None or not same:
        return Gateway(None if held else False, argv=recorded, turns=turns)
    own = state.get("pid") == pid and state.get("start_time") in (None, started)
    # degraded is up, too: some platform is still being tried
    up = state.get("gateway_state") in ("running", "degraded") if own else None
    return Gateway(True, pid, started, command_of(pid) or recorded, turns, began_at(started), up)


def look_at_container(restart: tuple[str, ...], seen: Gateway, run: Runner) -> Gateway:
    """The pid in gateway.pid means something only inside; the one who runs the container knows the outer one."""
    told = run((restart[0], "inspect", "--format", "{{.State.Running}} {{.State.Pid}}", restart[-1]), 10)
    words = told.output.split()
    if told.code != 0 or len(words) != 2:
        return Gateway(None, turns=seen.turns)
    pid = int(words[1]) if words[1].isdigit() else 0
    return Gateway(words[0] == "true", pid, (start_time_of(pid) or 0) if pid else 0, (), seen.turns)


def command_of(pid: int) -> tuple[str, ...]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return tuple(word.decode("utf-8", "replace") for word in file.read(32_000).split(b"\0")[:-1])
    except OSError:
        return ()


def free_bytes(folder: Path) -> int | None:
    try:
        told = os.statvfs(folder)
        return told.f_bavail * told.f_frsize
    except OSError:
        return None


def _json(path: Path) -> dict[str, Any]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            told = json.loads(file.read(200_000))
        return told if isinstance(told, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())

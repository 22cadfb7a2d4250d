"""What a home and its processes show of the gateway: measured here, judged in state.py.

Everything in the home is written by the gateway's user and may lie; what it says is bounded, and never more
than one witness. Opens nothing for writing, takes no lock, signals nothing.
"""

from __future__ import annotations

import os
import stat
import time
from datetime import UTC, datetime, timedelta

from watchdog.gateway.command import gateway_command
from watchdog.system import procfs
from watchdog.system.files import free_bytes, read_object
from watchdog.text import harmless, redact
from watchdog.values import Any, StrPath, dataclass, replace

SILENT = timedelta(minutes=5)  # a shorter silence of the logs is no reason to ask whether the loop is frozen
STALE = timedelta(minutes=3)  # Hermes writes its heartbeat every 30 seconds
AHEAD = timedelta(minutes=2)  # clocks differ by a little; what lies further in the future is not believed
TICK_WITHIN = 0.2  # seconds; a healthy loop answers in a millisecond
_ROOM = 1_000_000  # bytes; with less left, logs and heartbeat stop though the loop is well


@dataclass(frozen=True)
class Process:
    """A process that may be the gateway."""

    pid: int
    start_time: int = 0  # field 22 of /proc/PID/stat; 0: hidden from us
    argv: tuple[str, ...] = ()
    locks: tuple[str, ...] | None = ()  # files called gateway.lock that it has open; None: hidden from us


@dataclass(frozen=True)
class PidFile:
    """gateway.pid: what the gateway said of itself when it started."""

    pid: int = 0
    start_time: int | None = None
    argv: tuple[str, ...] = ()


@dataclass(frozen=True)
class StateFile:
    """gateway_state.json. It is written on events only: an old one is no bad sign."""

    state: str = ""
    pid: int = 0
    start_time: int | None = None
    turns: int | None = None
    at: datetime | None = None
    exit_reason: str = ""
    version: str = ""
    connected: tuple[str, ...] | None = None  # platforms; None: it says nothing about any


@dataclass(frozen=True)
class Heartbeat:
    """state/gateway.heartbeat (from 0.19.0): every 30 seconds, by the event loop."""

    pid: int
    at: datetime
    age: timedelta  # without the time that the machine slept


@dataclass(frozen=True)
class Lifecycle:
    """state/gateway.lifecycle.json (from 0.20.5): how the last life began or ended."""

    phase: str  # running, exited
    pid: int
    at: datetime
    exit_code: int | None = None
    exit_reason: str = ""


@dataclass(frozen=True)
class Witnesses:
    """Whether the event loop of a living gateway turns; each alone proves nothing."""

    silent_since: datetime | None = None  # the last line in any log, when it is old
    busy: bool = False  # wants the CPU whenever one looks, or is held by a signal
    tick: bool | None = None  # its socket answered; False: no answer in time; None: there is none to ask
    room: bool = True  # logs and heartbeat can be written


@dataclass(frozen=True)
class Evidence:
    """All that was seen, at one moment."""

    now: datetime
    home: str = ""
    unreadable: str = ""  # why gateway.pid, which is there, cannot be read
    record: PidFile | None = None
    lock: int | None = 0  # who holds gateway.lock; 0: no process; None: that cannot be seen
    lock_file: bool = False
    holder: Process | None = None  # the process that holds the lock
    named: Process | None = None  # the living process that gateway.pid names, when no process holds the lock
    state_file: StateFile = StateFile()
    heartbeat: Heartbeat | None = None
    lifecycle: Lifecycle | None = None
    witnesses: Witnesses = Witnesses()
    last_line_at: datetime | None = None  # in any log


def read_evidence(home: StrPath, now: datetime, last_line_at: datetime | None = None) -> Evidence:
    """What is there to be seen now; `last_line_at` is what the reader of the logs knows."""
    seen = read_saved_evidence(home, now, last_line_at)
    lock_path = os.path.join(home, "gateway.lock")
    lock, lock_file = procfs.lock_holder(lock_path), os.path.lexists(lock_path)
    holder = _process(lock) if lock else None
    named = _named(seen.record, lock_file) if seen.record and not lock else None
    seen = replace(seen, lock=lock, lock_file=lock_file, holder=holder, named=named)
    return replace(seen, witnesses=_witnesses(home, holder, seen)) if holder else seen


def read_saved_evidence(home: StrPath, now: datetime, last_line_at: datetime | None = None) -> Evidence:
    """What the files of a gateway tell; of one that is known not to run, as in saved files, that is all there is.

    A heartbeat of another life than gateway.pid is left out.
    """
    unreadable, record, state_file = "", None, StateFile()
    try:
        record = _pid_file(read_object(os.path.join(home, "gateway.pid"), follow=False))
        state_file = _state_file(read_object(os.path.join(home, "gateway_state.json"), follow=False), now)
    except PermissionError as error:
        unreadable = f"{os.path.basename(error.filename or 'gateway.pid')}: {error.strerror}"
    beat = _heartbeat(_object(home, "gateway.heartbeat"), now)
    return Evidence(
        now=now,
        home=str(home),
        unreadable=unreadable,
        record=record,
        state_file=state_file,
        heartbeat=None if beat and record and beat.pid != record.pid else beat,
        lifecycle=_lifecycle(_object(home, "gateway.lifecycle.json"), now),
        last_line_at=last_line_at,
    )


def _object(home: StrPath, name: str) -> dict[str, Any]:
    """A file of the home's state folder, or beside the logs in a folder of saved files."""
    for path in (os.path.join(home, "state", name), os.path.join(home, name)):
        try:
            if found := read_object(path, follow=False):
                return found
        except PermissionError:
            return {}
    return {}


def _pid_file(value: dict[str, Any]) -> PidFile | None:
    if not value:
        return None
    argv = value.get("argv")
    words = tuple(word for word in argv if isinstance(word, str)) if isinstance(argv, list) else ()
    start = value.get("start_time")
    return PidFile(_pid(value.get("pid")), start if type(start) is int else None, words)


def _state_file(value: dict[str, Any], now: datetime) -> StateFile:
    turns, start = value.get("active_agents"), value.get("start_time")
    return StateFile(
        _word(value.get("gateway_state")),
        _pid(value.get("pid")),
        start if type(start) is int else None,
        turns if type(turns) is int and 0 <= turns < 10_000 else None,
        _time(value.get("updated_at"), now),
        _sentence(value.get("exit_reason")),
        _word(value.get("code_version")),
        _connected(value.get("platforms")),
    )


def _connected(platforms: object) -> tuple[str, ...] | None:
    """The names of the platforms that are connected by the gateway's own account."""
    if not isinstance(platforms, dict):
        return None
    states = {_word(name): entry.get("state") for name, entry in platforms.items() if isinstance(entry, dict)}
    return tuple(sorted(name for name, state in states.items() if name and state == "connected"))


def _heartbeat(value: dict[str, Any], now: datetime) -> Heartbeat | None:
    at = _time(value.get("updated_at"), now)
    if at is None:
        return None
    age, ticks = max(now - at, timedelta(0)), value.get("monotonic")
    # Wall clocks jump and machines sleep; the monotonic clock, which all processes share, does neither.
    if isinstance(ticks, int | float) and 0 <= (awake := time.monotonic() - ticks) < 10**9:
        age = min(age, timedelta(seconds=awake))
    return Heartbeat(_pid(value.get("pid")), at, age)


def _lifecycle(value: dict[str, Any], now: datetime) -> Lifecycle | None:
    phase = _word(value.get("phase"))
    at = _time(value.get("exited_at" if phase == "exited" else "started_at"), now)
    if phase not in ("running", "exited") or at is None:
        return None
    code = value.get("exit_code")
    return Lifecycle(
        phase,
        _pid(value.get("pid")),
        at,
        code if type(code) is int and -256 < code < 256 else None,
        _sentence(value.get("exit_reason")),
    )


def _process(pid: int) -> Process | None:
    """The process of that number; None when there is none: one that ended, and left its lock to a child."""
    start = procfs.start_time_of(pid)
    if start is None:
        return Process(pid, locks=None) if procfs.exists(pid) else None
    return Process(pid, start, procfs.command_of(pid))


def _named(record: PidFile, lock_file: bool) -> Process | None:
    """The living process that gateway.pid names, unless its number was given to another one since.

    Without a start time that cannot be decided; then only the lock counts, where there is one.
    """
    start = procfs.start_time_of(record.pid) if record.pid else None
    if start is None or record.start_time not in (None, start):
        return None
    argv = procfs.command_of(record.pid)
    if record.start_time is None and (lock_file or not gateway_command(argv)):
        return None
    files = procfs.open_files(record.pid)
    locks = None if files is None else tuple(path for path in files if "/gateway.lock" in path)
    return Process(record.pid, start, argv, locks)


def _witnesses(home: StrPath, process: Process, seen: Evidence) -> Witnesses:
    """What speaks for or against a frozen loop; a gateway that logs and beats is asked nothing more."""
    last = seen.last_line_at
    silent_since = last if last is not None and seen.now - last > SILENT else None
    stale = seen.heartbeat is not None and seen.heartbeat.age > STALE
    if silent_since is None and not stale:
        return Witnesses()
    busy = _is_busy(process.pid)
    tick = None
    if stale or busy:  # in a container the socket bears the number that the process has inside
        tick = _ticks(home, seen.record.pid if seen.record else process.pid)
    return Witnesses(silent_since, busy, tick, (free_bytes(home) or 0) > _ROOM)


def _is_busy(pid: int) -> bool:
    """Whether it wants the CPU whenever one looks, or was halted: an idle gateway sleeps."""
    for _ in range(10):
        if not procfs.is_runnable(pid) and not procfs.is_halted(pid):
            return False
        time.sleep(0.03)
    return True


def _ticks(home: StrPath, pid: int) -> bool | None:
    """Whether the loop answers on its socket: connect, send nothing, read one byte.

    False: a process listens and no '1' came in time. None: none listens.
    """
    import socket  # not at the top: only a gateway that may be frozen is asked

    path, end = os.path.join(home, "state", f"gateway.loop-tick.{pid}.sock"), time.monotonic() + TICK_WITHIN
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as line:
            line.settimeout(TICK_WITHIN)
            line.connect(path)
            line.settimeout(max(end - time.monotonic(), 0.001))
            return line.recv(1) == b"1"
    except TimeoutError:
        return False
    except OSError:
        return None


def _pid(value: Any) -> int:
    return value if type(value) is int and 0 < value < 2**31 else 0


def _word(value: Any) -> str:
    return harmless(value, 40) if isinstance(value, str) else ""


def _sentence(value: Any) -> str:
    """Text of the gateway, for a person to read: one line, bounded, without secrets."""
    return redact(harmless(value, 300)) if isinstance(value, str) else ""


def _time(value: Any, now: datetime) -> datetime | None:
    """An ISO time with its zone; None when it is none, or lies in the future."""
    try:
        at = (
            datetime.fromisoformat(value).astimezone(UTC)
            if isinstance(value, str) and len(value) < 64
            else None
        )
    except (ValueError, OverflowError):
        return None
    return at if at is not None and at <= now + AHEAD else None

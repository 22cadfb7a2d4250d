"""Is the gateway of this home alive? The one answer, decided from evidence and nothing else.

A process is this home's gateway only while it holds this home's gateway.lock. What cannot be seen is
unknown: never running, never dead, and never signalled.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.gateway.command import gateway_command
from watchdog.gateway.evidence import SILENT, STALE, Evidence, Lifecycle, Process
from watchdog.model import Reason
from watchdog.text import harmless
from watchdog.values import dataclass

PLANNED_RESTART, FATAL_CONFIG = 75, 78  # exit codes of a gateway that ended by itself
_BY_ITSELF = frozenset({PLANNED_RESTART, FATAL_CONFIG})
_GIVEN_UP = frozenset({"loop_liveness_watchdog", "shutdown_watchdog"})  # exit reasons of the same kind
_UP = frozenset({"running", "degraded"})  # degraded: some platform is still being tried
_CLOSE = timedelta(seconds=2)
_LATER = timedelta(minutes=1)  # what was written so long after a last word belongs to another life


class State(StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    FROZEN = "frozen"  # it runs and its event loop does not turn
    STOPPED = "stopped"  # on purpose
    DEAD = "dead"  # not on purpose
    UNKNOWN = "unknown"


class Why(StrEnum):
    HOLDS_LOCK = "gateway.holds-lock"
    STARTED_BY_SYSTEMD = "gateway.started-by-systemd"
    LOOP_STANDS = "gateway.loop-stands"
    STOPPED = "gateway.stopped"
    ENDED = "gateway.ended"
    GAVE_UP = "gateway.gave-up"  # it ended by itself, with an exit code that says why
    OTHER_HOME = "gateway.other-home"  # gateway.pid names the gateway of another home: this one is a copy
    NEVER_STARTED = "gateway.never-started"
    PID_FILE_UNREADABLE = "gateway.pid-file-unreadable"
    LOCK_HIDDEN = "gateway.lock-hidden"
    HOLDER_HIDDEN = "gateway.holder-hidden"
    HOLDER_STRANGE = "gateway.holder-strange"
    LOCK_FILE_GONE = "gateway.lock-file-gone"
    PROCESS_HIDDEN = "gateway.process-hidden"


class LastWord(StrEnum):
    """The last that was heard of the gateway's coming and going, by its log or by systemd."""

    STARTED = "started"
    STOPPED = "stopped"
    DIED = "died"
    RESTARTING = "restarting"


@dataclass(frozen=True)
class LastWords:
    """What the readers of logs and journal know; '' where they know nothing."""

    log: LastWord | str = ""
    log_at: datetime | None = None
    systemd: LastWord | str = ""
    systemd_at: datetime | None = None


@dataclass(frozen=True)
class GatewayState:
    """What the gateway is, why we think so, and since when."""

    state: State
    reason: Reason
    alive: bool | None = None  # whether its process is there; None: that cannot be told
    process: Process | None = None
    up: bool | None = None  # it says of itself that it runs, not only starts; None: it says nothing
    since: datetime | None = None
    alive_at: datetime | None = None  # the last sign of life of a gateway that is not there
    missing_at: datetime | None = None  # when it was seen not to be there
    exit_code: int | None = None
    exit_reason: str = ""  # in the gateway's own words: shown, never used by a step
    startup_failed: bool = False
    sure: bool = False  # an ending that no farewell in the log can explain

    @property
    def refused(self) -> bool:
        """It ended by itself because a start cannot succeed."""
        return self.state is State.DEAD and (self.exit_code == FATAL_CONFIG or self.startup_failed)


def state_of(seen: Evidence, words: LastWords | None = None) -> GatewayState:
    """The one answer. Without `words`, which tell a stop from a death, a gateway that is not there is dead."""
    found = _gateway_process(seen)
    if isinstance(found, Reason):
        return GatewayState(State.UNKNOWN, found)
    if found is not None:
        return _living(seen, found)
    if seen.named is not None and seen.named.locks:
        reason = Reason(Why.OTHER_HOME, {"pid": seen.named.pid, "locks": seen.named.locks})
        return GatewayState(State.STOPPED, reason, alive=False)
    return _ended(seen, words or LastWords(log=LastWord.STARTED))


def _gateway_process(seen: Evidence) -> Process | Reason | None:
    """The process that is this home's gateway, None when there is none, or why that cannot be told."""
    if seen.lock is None:
        return Reason(Why.LOCK_HIDDEN)
    if seen.lock:
        if seen.holder is None:
            return Reason(Why.HOLDER_HIDDEN, {"pid": seen.lock})
        # Who may read the file may lock it. Only Hermes writes gateway.pid, and only a gateway looks like one.
        named = seen.record is not None and seen.record.pid == seen.lock
        if seen.holder.argv and not named and not gateway_command(seen.holder.argv):
            return Reason(
                Why.HOLDER_STRANGE, {"pid": seen.lock, "program": harmless(seen.holder.argv[0], 60)}
            )
        return seen.holder
    if seen.unreadable:
        return Reason(Why.PID_FILE_UNREADABLE, {"why": seen.unreadable})
    if seen.named is None:
        return None
    fields = {"pid": seen.named.pid}
    if seen.named.locks is None:
        return Reason(Why.PROCESS_HIDDEN, fields)
    # A lock file that was deleted or replaced under a living gateway: it still holds a lock that cannot be seen.
    ours = any(path.startswith(f"{seen.home}/gateway.lock") for path in seen.named.locks)
    if ours or not (seen.lock_file or seen.named.locks):
        return Reason(Why.LOCK_FILE_GONE, fields)
    return None


def _living(seen: Evidence, process: Process) -> GatewayState:
    own = seen.state_file.pid == (seen.record.pid if seen.record else process.pid)
    own = own and (seen.state_file.start_time in (None, process.start_time) or not process.start_time)
    up = seen.state_file.state in _UP if own else None
    silent_since = _stands_since(seen)
    if silent_since is not None:
        reason = Reason(Why.LOOP_STANDS, {"pid": process.pid, "silent": seen.now - silent_since})
        return GatewayState(State.FROZEN, reason, True, process, up, silent_since)
    state = State.STARTING if own and seen.state_file.state == "starting" else State.RUNNING
    return GatewayState(state, Reason(Why.HOLDS_LOCK, {"pid": process.pid}), True, process, up)


def _stands_since(seen: Evidence) -> datetime | None:
    """Since when the event loop stands still, when two witnesses say so and none says that it turns.

    Releases without a heartbeat have two: no line in any log, and a process that always wants the CPU.
    """
    witnesses, beat = seen.witnesses, seen.heartbeat
    fresh = beat is not None and beat.age <= STALE
    if witnesses.tick or (fresh and witnesses.tick is None):
        return None
    stale = beat is not None and not fresh and witnesses.room
    silent = witnesses.silent_since is not None and (witnesses.room or witnesses.busy)
    if sum((silent, witnesses.busy, stale, witnesses.tick is False)) < 2:
        return None
    since = [at for at in (witnesses.silent_since, beat.at if beat and stale else None) if at is not None]
    return max(since) if since else seen.now - SILENT


def _ended(seen: Evidence, words: LastWords) -> GatewayState:
    """Stopped on purpose, dead, or just being started: by systemd where it knows, else by what was written last."""
    life = _believed(seen)
    if not words.log and life is None:
        return GatewayState(State.UNKNOWN, Reason(Why.NEVER_STARTED), alive=False)
    if words.systemd == LastWord.STARTED:
        # And not ended since: it has just begun and not come to write its files, or it cannot.
        return GatewayState(State.STARTING, Reason(Why.STARTED_BY_SYSTEMD), False, since=seen.now)
    exit_code = life.exit_code if life and life.phase == "exited" else None
    failed = seen.state_file.state == "startup_failed"
    exit_reason = (life.exit_reason if life else "") or seen.state_file.exit_reason
    if failed and seen.state_file.exit_reason:
        exit_reason = seen.state_file.exit_reason
    gave_up = failed or exit_code in _BY_ITSELF or (life is not None and life.exit_reason in _GIVEN_UP)
    # It began after the farewell in the log: that is another life's.
    cut_off = (
        life is not None
        and life.phase == "running"
        and words.log_at is not None
        and life.at > words.log_at + _CLOSE
    )
    farewell = words.log == LastWord.STOPPED or (life is not None and life.phase == "exited")
    stopped = words.systemd == LastWord.STOPPED or (
        farewell and not words.systemd and not gave_up and not cut_off
    )
    missing_at = seen.now
    if words.systemd == LastWord.DIED and words.systemd_at is not None:
        missing_at = words.systemd_at
    elif life is not None and life.phase == "exited":
        missing_at = life.at
    signs = (last_sign_of_life(seen), words.log_at if words.log == LastWord.STOPPED else None)
    last_sign = max((at for at in signs if at is not None), default=missing_at)
    alive_at = min(last_sign, missing_at)
    return GatewayState(
        State.STOPPED if stopped else State.DEAD,
        Reason(Why.STOPPED if stopped else Why.GAVE_UP if gave_up else Why.ENDED),
        alive=False,
        since=missing_at if words.systemd == LastWord.DIED else alive_at,
        alive_at=alive_at,
        missing_at=missing_at,
        exit_code=exit_code,
        exit_reason=exit_reason if gave_up else "",
        startup_failed=failed,
        sure=not stopped and (gave_up or cut_off or words.systemd == LastWord.DIED),
    )


def last_sign_of_life(seen: Evidence) -> datetime | None:
    """The newest of log line, heartbeat, lifecycle and state file: a gateway that is gone lived until then at least."""
    beat, life = seen.heartbeat, seen.lifecycle
    signs = (seen.last_line_at, beat and beat.at, life and life.at, seen.state_file.at)
    return max((at for at in signs if at), default=None)


def _believed(seen: Evidence) -> Lifecycle | None:
    """The lifecycle file, unless something else shows that it is of an earlier life: another pid, or later words."""
    life = seen.lifecycle
    if life is None or (seen.record and seen.record.pid and seen.record.pid != life.pid):
        return None
    beat = seen.heartbeat.at if seen.heartbeat else None
    if life.phase == "exited" and (_after(seen.last_line_at, life.at) or _after(beat, life.at)):
        return None
    return life


def _after(later: datetime | None, at: datetime) -> bool:
    return later is not None and later > at + _LATER

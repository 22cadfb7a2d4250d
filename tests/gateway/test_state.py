"""Is the gateway alive? Decided from evidence, as tables of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchdog.gateway.evidence import (
    Evidence,
    Heartbeat,
    Lifecycle,
    PidFile,
    Process,
    StateFile,
    Witnesses,
)
from watchdog.gateway.state import LastWord, LastWords, State, Why, state_of
from watchdog.values import replace

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)
HOME = "/home/hermes/.hermes"
US = Process(812, 5000, ("/v/bin/hermes", "gateway", "run"))
STRANGER = Process(99, 1, ("flock", "-s", "gateway.lock", "sleep", "9"))
RUNS = Evidence(NOW, HOME, record=PidFile(812, 5000), lock=812, lock_file=True, holder=US)
GONE = Evidence(NOW, HOME, record=PidFile(812, 5000), lock_file=True)


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def beat(age: timedelta, pid: int = 812) -> Heartbeat:
    return Heartbeat(pid, NOW - age, age)


def named(*locks: str, start: int | None = 5000, **more: object) -> Evidence:
    """Nobody holds the lock, and the process that gateway.pid names lives."""
    return replace(
        GONE, record=PidFile(812, start), named=replace(US, locks=more.pop("hidden", locks)), **more
    )


@pytest.mark.parametrize(
    ("seen", "state", "why", "alive"),
    [
        (RUNS, State.RUNNING, Why.HOLDS_LOCK, True),
        (replace(RUNS, record=None), State.RUNNING, Why.HOLDS_LOCK, True),
        (replace(RUNS, record=PidFile(7, 1)), State.RUNNING, Why.HOLDS_LOCK, True),
        (replace(RUNS, unreadable="gateway.pid: Permission denied"), State.RUNNING, Why.HOLDS_LOCK, True),
        (
            replace(RUNS, state_file=StateFile("starting", 812, 5000)),
            State.STARTING,
            Why.HOLDS_LOCK,
            True,
        ),
        (GONE, State.DEAD, Why.ENDED, False),
        (replace(GONE, lock=None), State.UNKNOWN, Why.LOCK_HIDDEN, None),
        (replace(GONE, lock=99), State.UNKNOWN, Why.HOLDER_HIDDEN, None),
        (replace(GONE, lock=99, holder=STRANGER), State.UNKNOWN, Why.HOLDER_STRANGE, None),
        (
            replace(GONE, lock=99, holder=STRANGER, record=PidFile(99, 1)),
            State.RUNNING,
            Why.HOLDS_LOCK,
            True,
        ),
        (
            replace(GONE, unreadable="gateway.pid: Permission denied"),
            State.UNKNOWN,
            Why.PID_FILE_UNREADABLE,
            None,
        ),
        (named("/home/hermes/other/gateway.lock"), State.STOPPED, Why.OTHER_HOME, False),
        (named(f"{HOME}/gateway.lock (deleted)"), State.UNKNOWN, Why.LOCK_FILE_GONE, None),
        (named(f"{HOME}/gateway.lock.old"), State.UNKNOWN, Why.LOCK_FILE_GONE, None),
        (named(lock_file=False), State.UNKNOWN, Why.LOCK_FILE_GONE, None),
        (named(hidden=None), State.UNKNOWN, Why.PROCESS_HIDDEN, None),
        (named(), State.DEAD, Why.ENDED, False),
    ],
    ids=[
        "holds the lock",
        "without a pid file",
        "with the pid of a container",
        "whose pid file may not be read",
        "says that it starts",
        "nobody holds the lock",
        "the lock cannot be seen",
        "the holder cannot be seen",
        "the holder is no gateway",
        "the holder looks like none, and wrote gateway.pid",
        "free, and the pid file may not be read",
        "named, and the gateway of another home",
        "named, and its lock file was deleted",
        "named, and its lock file was replaced",
        "named, and there is no lock file",
        "named, and hidden from us",
        "named, and holds no lock at all",
    ],
)
def test_a_process_is_the_gateway_only_while_it_holds_the_lock(seen, state, why, alive):
    found = state_of(seen)
    assert (found.state, found.reason.key, found.alive) == (state, why, alive)
    assert (found.process is not None) == (alive is True)


MINUTES = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("heart", "witnesses", "state"),
    [
        (None, Witnesses(ago(minutes=6), busy=True), State.FROZEN),
        (None, Witnesses(ago(minutes=6)), State.RUNNING),
        (None, Witnesses(None, busy=True), State.RUNNING),
        (beat(MINUTES), Witnesses(ago(minutes=6), busy=True), State.RUNNING),
        (beat(MINUTES), Witnesses(ago(minutes=6), busy=True, tick=False), State.FROZEN),
        (beat(9 * MINUTES), Witnesses(), State.RUNNING),
        (beat(9 * MINUTES), Witnesses(busy=True), State.FROZEN),
        (beat(9 * MINUTES), Witnesses(ago(minutes=9)), State.FROZEN),
        (beat(9 * MINUTES), Witnesses(ago(minutes=9), room=False), State.RUNNING),
        (beat(9 * MINUTES), Witnesses(tick=False), State.FROZEN),
        (beat(9 * MINUTES), Witnesses(ago(minutes=9), busy=True, tick=True), State.RUNNING),
    ],
    ids=[
        "old release: silent and spinning",
        "silent alone",
        "spinning alone",
        "silent and spinning, but the heart beats",
        "silent, spinning, and the loop does not answer",
        "no heartbeat alone",
        "no heartbeat and spinning",
        "no heartbeat and silent",
        "the same on a full disk",
        "no heartbeat and no answer",
        "the loop answers, whatever else",
    ],
)
def test_two_witnesses_are_needed_before_a_gateway_is_called_frozen(heart, witnesses, state):
    assert state_of(replace(RUNS, heartbeat=heart, witnesses=witnesses)).state == state


def exited(code: int | None, reason: str = "graceful_shutdown", at: datetime | None = None) -> Lifecycle:
    return Lifecycle("exited", 812, at or ago(minutes=9), code, reason)


RUNNING = Lifecycle("running", 812, ago(hours=2))
STARTED, STOPPED = LastWords(LastWord.STARTED, ago(hours=2)), LastWords(LastWord.STOPPED, ago(minutes=9))


@pytest.mark.parametrize(
    ("life", "words", "state"),
    [
        (None, STARTED, State.DEAD),
        (None, STOPPED, State.STOPPED),
        (exited(1), STARTED, State.STOPPED),
        (exited(0), STOPPED, State.STOPPED),
        (RUNNING, STARTED, State.DEAD),
        (RUNNING, STOPPED, State.STOPPED),
        (replace(RUNNING, at=ago(minutes=3)), STOPPED, State.DEAD),
        (exited(78), STARTED, State.DEAD),
        (exited(75), STOPPED, State.DEAD),
        (exited(1, "loop_liveness_watchdog"), STARTED, State.DEAD),
        (exited(1), replace(STARTED, systemd=LastWord.DIED, systemd_at=ago(minutes=1)), State.DEAD),
        (exited(78), replace(STARTED, systemd=LastWord.STOPPED), State.STOPPED),
        (None, replace(STARTED, systemd=LastWord.STARTED), State.STARTING),
        (replace(exited(1), pid=7), STARTED, State.DEAD),
        (exited(1, at=ago(hours=3)), STARTED, State.DEAD),
    ],
    ids=[
        "no word of a stop",
        "a farewell in the log",
        "exited, and the log lost its last lines",
        "exited and said so",
        "still running, says the file (kill -9, docker kill)",
        "killed while it stopped",
        "began after the farewell, and was cut off",
        "exit 78: its start cannot succeed",
        "exit 75: nobody started it again",
        "it gave itself up",
        "systemd knows better",
        "somebody stopped the unit",
        "just started by systemd",
        "a lifecycle file of another pid",
        "a lifecycle file older than the log",
    ],
)
def test_a_planned_stop_is_told_from_a_death(life, words, state):
    seen = replace(GONE, lifecycle=life, last_line_at=ago(minutes=9))
    assert state_of(seen, words).state == state


def test_a_death_lies_between_the_last_sign_of_life_and_the_moment_it_was_missed():
    seen = replace(
        GONE,
        last_line_at=ago(minutes=9),
        heartbeat=beat(timedelta(seconds=11)),
        state_file=StateFile(at=ago(hours=1)),
    )
    found = state_of(seen, STARTED)
    assert (found.alive_at, found.missing_at) == (ago(seconds=11), NOW)
    known = state_of(seen, replace(STARTED, systemd=LastWord.DIED, systemd_at=ago(seconds=8)))
    assert (known.alive_at, known.missing_at) == (ago(seconds=11), ago(seconds=8))


def test_a_start_that_cannot_succeed_is_told_with_its_reason():
    failed = StateFile("startup_failed", 812, at=ago(minutes=9), exit_reason="telegram: token rejected")
    found = state_of(replace(GONE, record=None, state_file=failed, lifecycle=exited(78)), STOPPED)
    assert (found.state, found.reason.key, found.exit_code) == (State.DEAD, Why.GAVE_UP, 78)
    assert found.startup_failed and found.exit_reason == "telegram: token rejected" and found.sure


def test_where_no_gateway_ever_ran_nothing_is_known_and_nothing_runs():
    found = state_of(Evidence(NOW, HOME), LastWords())
    assert (found.state, found.reason.key, found.alive) == (State.UNKNOWN, Why.NEVER_STARTED, False)

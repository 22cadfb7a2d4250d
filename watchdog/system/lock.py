"""One check at a time per home, and a wall-clock limit on the whole of it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from watchdog.errors import WatchdogError
from watchdog.system.procfs import lock_holder
from watchdog.text import ago
from watchdog.values import StrPath

NAME = "check.lock"
LAST_RESORT = 15.0  # seconds after the limit for a check that hangs where no signal reaches it


class Busy(WatchdogError):
    """Another check of this home is at work; nothing is wrong with that."""

    exit_code = 0


class TooLong(WatchdogError):
    """The check passed its limit and was given up."""

    exit_code = 3


@contextmanager
def one_at_a_time(state: StrPath, now: datetime, what: str = "check", name: str = NAME) -> Iterator[None]:
    """Hold the lock of this home, or say who does. The kernel lets go of it however this process ends."""
    path = os.path.join(state, name)
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        space = "free space or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        how = f"{space}give another folder with --state DIR"
        raise WatchdogError(f"cannot write {path}: {error.strerror}; {how}") from None
    try:
        if not take(fd):
            raise Busy(f"{_holder(fd, now)} is at work on this home; this one leaves it to it")
        _write(fd, {"pid": os.getpid(), "since": now.isoformat(), "what": what})
        try:
            yield
        finally:
            _write(fd, None)
    finally:
        os.close(fd)


def take(fd: int, tries: int = 1, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Take the exclusive flock of an open file or folder, trying again every tenth of a second; whether we have it."""
    for attempt in range(tries):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < tries:
                sleep(0.1)
    return False


def at_work(state: StrPath, now: datetime) -> str:
    """Who holds the lock, in words; '' when no process does. Leaves no trace and never holds the lock itself."""
    path = os.path.join(state, NAME)
    if not lock_holder(path):
        return ""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return _holder(fd, now)
    finally:
        os.close(fd)


def _write(fd: int, who: dict[str, object] | None) -> None:
    try:
        os.ftruncate(fd, 0)
        if who is not None:
            os.pwrite(fd, json.dumps(who).encode(), 0)
    except OSError:
        pass  # a full disk: the lock itself needs no byte, only its story is lost


def _holder(fd: int, now: datetime) -> str:
    try:
        who = json.loads(os.pread(fd, 1000, 0))
        return (
            f"a {who['what']} (pid {int(who['pid'])}, begun {ago(datetime.fromisoformat(who['since']), now)})"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "another check"


class _Limit:
    """The alarm of one check; it does not ring while a repair is going on."""

    def __init__(self, seconds: float):
        self.seconds, self.left, self.pauses = seconds, seconds, 0
        self.over = False
        self.done = threading.Event()

    def start(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.left)

    def stop(self) -> None:
        self.left = signal.setitimer(signal.ITIMER_REAL, 0)[0]


_running: list[_Limit] = []


@contextmanager
def time_limit(seconds: float, last_resort: float = LAST_RESORT) -> Iterator[None]:
    """Give the check up when it is not done by then: TooLong out of whatever it was doing.

    A check that hangs where no Python runs (a dead network mount) cannot be interrupted; for that case a
    second clock ends the process. Nothing is lost by either: a check records all of what it saw, or nothing.
    """
    if not _in_main_thread():
        yield  # signals reach the main thread only; checks in another thread need a limit of their own
        return
    limit = _Limit(seconds)

    def ring(number: int, frame: object) -> None:
        if not limit.over:
            raise TooLong(
                f"the check was not done after {seconds:g} seconds and was given up; the next one looks again at what it had not recorded. "
                "Raise time_limit in settings.yaml, or see what is slow: {watchdog} doctor"
            )

    before = signal.signal(signal.SIGALRM, ring)
    _running.append(limit)
    threading.Thread(target=_last_resort, args=(limit, last_resort), daemon=True).start()
    try:
        limit.start()
        yield
    finally:
        limit.over = True
        limit.done.set()
        limit.stop()
        _running.remove(limit)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def no_hurry() -> Iterator[None]:
    """The limit's clock stands still meanwhile: a repair has limits of its own."""
    limit = _running[-1] if _running and _in_main_thread() else None
    if limit is None:
        yield
        return
    if limit.pauses == 0:
        limit.stop()
    limit.pauses += 1
    try:
        yield
    finally:
        limit.pauses -= 1
        if limit.pauses == 0 and not limit.over:
            limit.left = max(limit.left, 1.0)
            limit.start()


def repairing() -> bool:
    """Whether the running check is in the middle of a repair."""
    return any(limit.pauses for limit in _running)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _last_resort(limit: _Limit, patience: float) -> None:
    left, before = limit.seconds + patience, time.monotonic()
    while not limit.done.wait(min(max(left, 0.05), 5.0)):
        now = time.monotonic()
        left -= 0 if limit.pauses else now - before
        before = now
        if left <= 0:
            says = "the check hangs where it cannot be interrupted; it ends here; the next one looks again at what it had not recorded"
            print(f"hermes-watchdog: {says}", file=sys.stderr, flush=True)
            os._exit(3)

"""Whether it is certain that no process has a database open: by /proc, and by asking the kernel for a lease."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Iterator

from watchdog.sqlite.files import SIDECARS
from watchdog.sqlite.openers import Holder, of, scan
from watchdog.sqlite.refusals import Obstacle, every


def open_elsewhere(path: str) -> bool | None:
    """Whether anyone at all has this file open: the kernel grants a write lease only to the sole opener.

    It sees other users' processes and other containers, which /proc does not. None when it cannot be asked.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    # Someone who opens the file in the instant of the lease makes the kernel send SIGIO, whose default is
    # death.
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGIO, signal.SIG_IGN) if main else None
    try:
        if not main:
            return None
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EBUSY) else None
    finally:
        os.close(fd)
        if main:
            signal.signal(signal.SIGIO, before)


def why_not_free(path: str) -> str:
    """'' when it is certain that no process has the database open, else the reason and what to do about it."""
    taken = scan()
    if holders := of(path, taken):
        return every(_opens(path, holders))
    leases = [open_elsewhere(path + part) for part in ("", *SIDECARS)]
    if any(lease is True for lease in leases):
        return Obstacle.OPEN_ELSEWHERE()
    if taken.hidden and any(lease is None for lease in leases):
        pids = ", ".join(str(pid) for pid in list(_userland(taken.hidden))[:5])
        return Obstacle.CANNOT_TELL(pids=pids)
    return ""


def _opens(path: str, holders: tuple[Holder, ...]) -> Iterator[str]:
    """What each process has open, one reason for each."""
    for pid, name, deleted in dict.fromkeys((each.pid, each.name, each.deleted) for each in holders):
        parts = dict.fromkeys(each.file for each in holders if (each.pid, each.deleted) == (pid, deleted))
        files = ", ".join(os.path.basename(path) + part for part in parts)
        yield (Obstacle.OPEN_DELETED if deleted else Obstacle.OPEN)(pid=pid, name=name, files=files)


def _userland(pids: tuple[int, ...]) -> Iterator[int]:
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = file.read().rsplit(b")", 1)[1].split()[1]
            if parent != b"2" and pid != 2:
                yield pid
        except (OSError, IndexError):
            yield pid

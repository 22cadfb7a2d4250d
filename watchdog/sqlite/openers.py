"""Which processes have a database open: by inode from /proc, and by asking the kernel for a lease."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Iterator

from watchdog.values import dataclass

SIDECARS = ("-wal", "-shm", "-journal")
DELETED = " (deleted)"
FEW = 50  # processes that a quick look looks into one by one


@dataclass(frozen=True)
class Holder:
    pid: int
    name: str
    file: str  # '' for the database itself, '-wal', '-shm', '-journal'
    fd: int
    deleted: bool  # the name no longer leads to what the process has open

    def __str__(self) -> str:
        what = f"its {self.file}" if self.file else "it"
        return f"process {self.pid} ({self.name}) has {what} open" + (", deleted" if self.deleted else "")


@dataclass(frozen=True)
class Scan:
    """Everything open on this machine whose name could be a database: taken once, asked for each file."""

    seen: tuple[tuple[int, int, str, int, int], ...]  # pid, fd, link, device, inode
    hidden: tuple[int, ...]  # processes that we may not look into


def scan(wanted: frozenset[str] | None = None) -> Scan:
    """All open files; or, quicker, those named like one of the wanted ones, standard streams left out."""
    seen, hidden = [], []
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return Scan((), (1,))  # no /proc at all: we cannot tell
    if 1 not in pids:
        hidden.append(1)  # hidepid: other people's processes are not even listed
    mine = os.getpid()
    if wanted is not None and len(pids) > FEW:
        # A process that has a WAL database open holds a lock on its -shm, deleted or not: these are enough for a
        # quick look.
        locked = _lock_holders()
        pids = [pid for pid in pids if pid in locked] if locked is not None else pids
    # Since Linux 6.2 the size of the folder is the number of open files: most processes need no closer look.
    counted = wanted is not None and os.stat("/proc/self/fd").st_size > 0
    for pid in pids:
        if pid == mine:
            continue
        folder = f"/proc/{pid}/fd"
        try:
            if counted and os.stat(folder).st_size <= 3:
                continue
            fds = os.listdir(folder)
        except FileNotFoundError:
            continue  # it ended meanwhile
        except OSError:
            hidden.append(pid)
            continue
        for fd in fds:
            if wanted is not None and fd in ("0", "1", "2"):
                continue
            try:
                link = os.readlink(f"{folder}/{fd}")
                if link[0] != "/" or (wanted is not None and not any(name in link for name in wanted)):
                    continue
                status = os.stat(f"{folder}/{fd}")
            except OSError:
                continue
            seen.append((pid, int(fd), link, status.st_dev, status.st_ino))
    return Scan(tuple(seen), tuple(hidden))


def _lock_holders() -> set[int] | None:
    try:
        with open("/proc/locks", "rb") as file:
            return {
                int(fields[4]) for line in file if (fields := line.replace(b"->", b"").split())[1] == b"POSIX"
            }
    except (OSError, ValueError, IndexError):
        return None


def of(path: str, taken: Scan) -> tuple[Holder, ...]:
    """Who has this database or a sidecar open, deleted ones included."""
    found = []
    for part in ("", *SIDECARS):
        full = path + part
        try:
            status = os.stat(full)
            here = (status.st_dev, status.st_ino)
        except OSError:
            here = (-1, -1)
        for pid, fd, link, device, inode in taken.seen:
            if (device, inode) == here:
                found.append(Holder(pid, name_of(pid), part, fd, False))
            elif link == full + DELETED:
                found.append(Holder(pid, name_of(pid), part, fd, True))
    return tuple(found)


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return "?"


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
    holders = of(path, scan())
    if holders:
        return "; ".join(str(holder) for holder in holders) + "; stop it first"
    taken = scan()
    leases = [open_elsewhere(path + part) for part in ("", *SIDECARS)]
    if any(lease is True for lease in leases):
        return (
            "a process that cannot be seen from here has it open (another user's, or in another container); stop the "
            "gateway there first"
        )
    if taken.hidden and any(lease is None for lease in leases):
        pids = ", ".join(str(pid) for pid in list(_userland(taken.hidden))[:5])
        return f"cannot tell whether it is open: no permission to look into other processes ({pids}); run it as root"
    return ""


def _userland(pids: tuple[int, ...]) -> Iterator[int]:
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = file.read().rsplit(b")", 1)[1].split()[1]
            if parent != b"2" and pid != 2:
                yield pid
        except (OSError, IndexError):
            yield pid

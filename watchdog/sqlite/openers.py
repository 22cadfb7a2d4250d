"""Which processes have a database open: by inode from /proc."""

from __future__ import annotations

import os

from watchdog.sqlite.files import SIDECARS
from watchdog.values import dataclass

DELETED = " (deleted)"
FEW = 50  # processes that a quick look looks into one by one


@dataclass(frozen=True)
class Holder:
    pid: int
    name: str
    file: str  # '' for the database itself, '-wal', '-shm', '-journal'
    fd: int
    deleted: bool  # the name no longer leads to what the process has open


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

"""What /proc says about a process: read only, no signal, no lock taken."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from datetime import UTC, datetime

from watchdog.system.files import read_small

LOCKS = "/proc/locks"
LOOK_TWICE_MORE = 2  # times, before a lock that is not listed counts as free
OUR_NAMESPACE = "/proc/self/ns/pid"
_FIRST_NAMESPACE = 0xEFFFFFFC  # the inode of the machine's own pid namespace (PROC_PID_INIT_INO)


def start_time_of(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; None when there is none, or only its zombie."""
    fields = _stat(pid)
    try:
        return None if not fields or fields[0] in (b"Z", b"X") else int(fields[19])
    except (IndexError, ValueError):
        return None


def began_at(ticks: int) -> datetime | None:
    """The same moment as a time."""
    try:
        with open("/proc/stat", "rb") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
        return datetime.fromtimestamp(boot + ticks / os.sysconf("SC_CLK_TCK"), UTC)
    except (OSError, StopIteration, ValueError):
        return None


def exists(pid: int) -> bool:
    """Whether there is such a process, also where hidepid keeps it out of our /proc; asks, and signals nothing."""
    try:
        os.close(os.pidfd_open(pid))
        return True
    except (OSError, OverflowError):
        return False


def parent_of(pid: int) -> int:
    """The process that started it, or adopted it; 0 when there is none to be seen."""
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def command_of(pid: int) -> tuple[str, ...]:
    """The argument list of a process; () when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return tuple(word.decode("utf-8", "replace") for word in file.read(32_000).split(b"\0")[:-1])
    except OSError:
        return ()


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with, to be held in memory only: there are secrets in it.

    OSError where they cannot be read.
    """
    words = read_small(f"/proc/{pid}/environ", 1_000_000).split(b"\0")
    pairs = [word.partition(b"=") for word in words if b"=" in word]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def open_files(pid: int) -> tuple[str, ...] | None:
    """The paths that a process has open, ' (deleted)' behind those that are gone; None when we may not look."""
    folder, found = f"/proc/{pid}/fd", []
    try:
        for fd in os.listdir(folder):
            try:
                found.append(os.readlink(f"{folder}/{fd}"))
            except FileNotFoundError:
                continue
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    return tuple(found)


def is_runnable(pid: int) -> bool:
    """Whether the process wants the CPU at this very moment."""
    fields = _stat(pid)
    return bool(fields) and fields[0] == b"R"


def is_halted(pid: int) -> bool:
    """Whether a signal (SIGSTOP) or a debugger holds the process: it exists and does nothing."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in (b"T", b"t")


def lock_holder(path: str) -> int | None:
    """Who holds a flock on the file: its pid, 0 when no process does, None when that cannot be told.

    /proc/locks is read instead of trying the lock: even a shared lock of ours, held for an instant, could
    make a gateway that starts in that instant believe that another one runs. Inside a container the list
    leaves out the locks of processes that are not in it (fs/locks.c, locks_show); there, a file that another process
    has open may be locked, and who does cannot be told.
    """
    try:
        linked = os.lstat(path)
        status = os.stat(path)
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    holder = _listed_holder(status)
    for _ in range(LOOK_TWICE_MORE if holder == 0 else 0):
        # The list is read a page at a time, and a lock that ends meanwhile can make it leave out another one.
        holder = holder or _listed_holder(status)
    if (
        holder
        and (stat.S_ISLNK(linked.st_mode) or linked.st_nlink > 1)
        and not _opened_in(holder, path, status)
    ):
        return None  # it may hold the lock of another folder, to which this is only another name
    return holder if holder != 0 or _sees_every_process() or _is_open_nowhere(path) else None


def _sees_every_process() -> bool:
    try:
        return os.stat(OUR_NAMESPACE).st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def _is_open_nowhere(path: str) -> bool:
    """Whether no process of any namespace has the file open; False also where that cannot be told.

    The kernel grants a write lease only on such a file, and who opens it meanwhile waits until the lease is
    given back, which is at once. fcntl(2), F_SETLEASE.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default; SIGIO would end us
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _listed_holder(status: os.stat_result) -> int | None:
    """Who holds a flock on the file, as /proc/locks has it."""
    holder: int | None = 0
    try:
        with open(LOCKS, "rb") as file:
            for line in file:
                words = line.split()
                if (
                    len(words) < 6
                    or words[1] != b"FLOCK"
                    or words[5].rpartition(b":")[2] != b"%d" % status.st_ino
                ):
                    continue
                major, minor, _ = words[5].split(b":")
                pid = int(words[4])
                if os.makedev(int(major, 16), int(minor, 16)) == status.st_dev:
                    return pid
                if os.major(status.st_dev):
                    continue  # a disk of its own has one number everywhere: this is another disk's file
                # btrfs and overlays show a file on a device that the kernel's list does not know it by.
                opened = _has_open(pid, status)
                if opened:
                    return pid
                holder = None if opened is None else holder
    except (OSError, ValueError):
        return None
    return holder


def _opened_in(pid: int, path: str, status: os.stat_result) -> bool:
    """Whether the process opened this file by a name in the same folder."""
    folder = os.stat(os.path.dirname(path) or ".")
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            file = f"/proc/{pid}/fd/{fd}"
            if os.path.samestat(os.stat(file), status):
                return os.path.samestat(os.stat(os.path.dirname(os.readlink(file))), folder)
    except OSError:
        return False
    return False


def _has_open(pid: int, status: os.stat_result) -> bool | None:
    """Whether the process has this very file open; None when we may not look."""
    folder = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return None if exists(pid) else False  # hidepid hides what exists
    except OSError:
        return None
    for fd in fds:
        try:
            opened = os.stat(f"{folder}/{fd}")
        except OSError:
            continue
        if (opened.st_dev, opened.st_ino) == (status.st_dev, status.st_ino):
            return True
    return False


def _stat(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in brackets may hold anything, brackets too: what counts stands after the last one.
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return []

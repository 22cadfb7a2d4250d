"""What /proc tells of a process: read only, no signal, no lock taken."""

from __future__ import annotations

import os
from datetime import UTC, datetime

LOCKS = "/proc/locks"


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


def is_runnable(pid: int) -> bool:
    """Whether the process wants the CPU at this very moment."""
    fields = _stat(pid)
    return bool(fields) and fields[0] == b"R"


def is_halted(pid: int) -> bool:
    """Whether a signal (SIGSTOP) or a debugger holds the process: it lives and does nothing."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in (b"T", b"t")


def lock_holder(path: str) -> int | None:
    """Who holds a flock on the file: its pid, 0 when nobody does, None when that cannot be told.

    /proc/locks is read instead of trying the lock: even a shared lock of ours, held for an instant, could make a gateway
    that starts in that instant believe that another one runs.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    holder: int | None = 0
    try:
        with open(LOCKS, "rb") as file:
            for line in file:
                words = line.split()
                if len(words) < 6 or words[1] != b"FLOCK" or words[5].rpartition(b":")[2] != b"%d" % status.st_ino:
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


def _has_open(pid: int, status: os.stat_result) -> bool | None:
    """Whether the process has this very file open; None when nobody lets us look."""
    folder = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None
    for fd in fds:
        try:
            one = os.stat(f"{folder}/{fd}")
        except OSError:
            continue
        if (one.st_dev, one.st_ino) == (status.st_dev, status.st_ino):
            return True
    return False


def _stat(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in brackets may hold anything, brackets too: what counts stands after the last one.
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return []

"""Room on the home's volume, memory and open files of the gateway's process → events; and whether the kernel killed in its
group for memory.

What concerns the process is read from /proc and the cgroup file system: nothing is asked of the process.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from watchdog.model import Event, Measurement, phrase
from watchdog.system.files import read_text
from watchdog.text import harmless, size
from watchdog.values import Any, StrPath

SOURCE = "disk"
LITTLE = 5 * 10**9  # bytes; with more left, what takes the room does not matter
LITTLE_SHARE = 10  # the volume has less than a tenth left: the same
MOST_FILES = 20_000  # looked at to find the biggest heaps; it takes a fraction of a second
SHOWN = 3
_COPIES = (".malformed-backup-", ".quarantine", ".corrupt.")  # many files of one kind are one heap


def measure_disk(home: StrPath) -> dict[str, int]:
    """Bytes free for an ordinary user, bytes in all and, where the file system counts them, free inodes; OSError."""
    volume = os.statvfs(home)
    found = {"free": volume.f_bavail * volume.f_frsize, "size": volume.f_blocks * volume.f_frsize}
    if volume.f_files:
        found["inodes"] = volume.f_favail
    return found


def disk_event(values: Mapping[str, Any], at: datetime, home: StrPath | None = None) -> Event:
    """What was measured at one moment; `home` is looked through when there is little room, now only."""
    facts: dict[str, str] = {name: str(values[name]) for name in ("free", "size", "inodes") if name in values}
    free, all_of_it = int(values.get("free", 0)), int(values.get("size", 0))
    if home is not None and (
        free < LITTLE or free * 100 < all_of_it * LITTLE_SHARE or facts.get("inodes") == "0"
    ):
        facts["heaps"] = heaps(home)
    text = phrase("event.disk", "{free} of {size} are free", free=size(free), size=size(all_of_it))
    return Event(at, SOURCE, text, "disk", facts=facts)


def heaps(home: StrPath) -> str:
    """What takes the most room in the home: 'checkpoints 4.2 GB, state.db.malformed-backup-* 1.1 GB (3)'."""
    found: dict[str, list[int]] = {}
    left = MOST_FILES
    try:
        entries = sorted(os.scandir(home), key=lambda entry: entry.name)
        device = os.stat(home).st_dev
    except OSError:
        return ""
    for entry in entries:
        name = _heap(entry.name)
        if name == "logs":
            name = "logs/"
        for used in _sizes(entry, device):
            found.setdefault(name, []).append(used)
            left -= 1
            if not left:
                break
        if not left:
            break
    biggest = sorted(found.items(), key=lambda item: -sum(item[1]))[:SHOWN]
    return ", ".join(
        f"{harmless(name, 60)} {size(sum(sizes))}{f' ({len(sizes)} files)' if len(sizes) > 1 else ''}"
        for name, sizes in biggest
        if sum(sizes) >= 1_000_000
    )


def _heap(name: str) -> str:
    """The heap that a file at the top of the home belongs to."""
    for mark in _COPIES:
        before, found, _ = name.partition(mark)
        if found:
            return f"{before}{mark}*"
    return name


def _sizes(entry: os.DirEntry[str], device: int) -> Iterator[int]:
    """The room that each file below takes on this volume; links are not followed."""
    try:
        status = entry.stat(follow_symlinks=False)
        if status.st_dev != device:
            return
        if stat.S_ISREG(status.st_mode):
            yield status.st_blocks * 512
        elif stat.S_ISDIR(status.st_mode):
            with os.scandir(entry.path) as below:
                for each in below:
                    yield from _sizes(each, device)
    except OSError:
        return


SAVED = "measured.jsonl"
MEMORY, OPEN_FILES = "memory", "open_files"
NO_LIMIT = 1 << 60  # bytes; cgroup v1 writes a number near 2^63 for "none"
# cgroup v2, v1: limit, what is in use, and how much of that is only cached (with shared memory, which is not)
_LIMITS = (
    ("memory.max", "memory.current", "file", "shmem"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"),
)
_MEMORY_FACTS = ("pid", "rss", "used", "limit", "limit_of", "oom_kills", "cgroup")
_FILE_FACTS = ("pid", "fds", "fd_limit")


def measure_memory(pid: int, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """What the process takes, and the tightest limit above it: of its unit, its container or the machine."""
    status = _fields(f"{proc}/{pid}/status")
    if "VmRSS" not in status:
        return {}
    found: dict[str, Any] = {"pid": str(pid), "rss": (status["VmRSS"] + status.get("VmSwap", 0)) * 1024}
    machine = _fields(f"{proc}/meminfo")
    total, available = machine.get("MemTotal", 0) * 1024, machine.get("MemAvailable", 0) * 1024
    limits = [(available, total, "this machine")] if total else []
    path = _cgroup(read_text(f"{proc}/{pid}/cgroup"))
    if path:
        found["cgroup"] = path
        kills = oom_kills(path, cgroups)
        if kills is not None:
            found["oom_kills"] = kills
    group = path
    while group:
        room, limit = _room(cgroups + group)
        if limit:
            limits.append((room, limit, harmless(os.path.basename(group) or "its container", 40)))
        if group in ("/", "/memory"):
            break
        group = os.path.dirname(group)
    if limits:
        room, limit, name = min(limits)
        found |= {"used": limit - room, "limit": limit, "limit_of": name}
    return found


def oom_kills(group: str, cgroups: str = "/sys/fs/cgroup") -> int | None:
    """How often the kernel killed in this group for memory; None where that is not counted, or the group is gone."""
    if not group.startswith("/") or ".." in group:
        return None
    counts = _words(f"{cgroups}{group}/memory.events") or _words(f"{cgroups}{group}/memory.oom_control")
    return counts.get("oom_kill")


def measure_files(pid: int, proc: str = "/proc") -> dict[str, Any]:
    """How many files the process has open, and how many it may have; PermissionError for another user's process."""
    limit = 0
    for line in read_text(f"{proc}/{pid}/limits").splitlines():
        if line.startswith("Max open files"):
            soft = line.removeprefix("Max open files").split()[0]
            limit = int(soft) if soft.isdigit() else 0
    try:
        count = len(os.listdir(f"{proc}/{pid}/fd"))
    except FileNotFoundError:
        return {}
    return {"pid": str(pid), "fds": count, "fd_limit": limit} if limit else {}


def memory_event(values: Mapping[str, Any], at: datetime) -> Event:
    facts = {name: str(values[name]) for name in _MEMORY_FACTS if values.get(name) not in (None, "")}
    if "rss" not in values:
        english = "the kernel has killed {count} times in its control group"
        text = phrase("event.kills", english, count=values["oom_kills"])
        return Event(at, MEMORY, text, values["cgroup"], facts=facts)
    text = phrase("event.memory", "memory: {rss}", rss=size(int(values["rss"])))
    if values.get("limit"):
        taken = {name: size(int(values[name])) for name in ("rss", "used", "limit")}
        english = "memory: {rss}; {used} of {limit} of {unit} are taken"
        text = phrase("event.memory-of", english, **taken, unit=values["limit_of"])
    return Event(at, MEMORY, text, "/proc", facts=facts)


def files_event(values: Mapping[str, Any], at: datetime) -> Event:
    facts = {name: str(values[name]) for name in _FILE_FACTS if values.get(name)}
    text = phrase(
        "event.files", "{open} of {limit} files are open", open=values["fds"], limit=values["fd_limit"]
    )
    return Event(at, OPEN_FILES, text, "/proc", facts=facts)


def after_death(past: Sequence[Measurement], cgroups: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """Whether the kernel killed in the group of a process that is gone: by the group's count, or, where an engine
    has removed the group with its container, by the engine's word.
    """
    alive = next((before.facts for before in reversed(past) if before.facts.get("pid")), {})
    group = str(alive.get("cgroup", ""))
    kills = oom_kills(group, cgroups) if group else None
    if group and kills is None:
        from watchdog.gateway.containers import killed_for_memory  # only for a gateway that is dead

        kills = int(alive.get("oom_kills") or 0) + 1 if killed_for_memory(group) else None
    return {} if kills is None else {"cgroup": group, "oom_kills": kills}


def saved_measurements(folder: StrPath) -> tuple[Measurement, ...]:
    """What lies beside saved logs (measured.jsonl) and only the machine itself could have told, oldest first.

    One JSON object per line: `at` (ISO, with its zone) and the names that store/incidents.py keeps. Lines that
    are none are passed over.
    """
    found = []
    for line in read_text(os.path.join(folder, SAVED)).splitlines():
        try:
            values = json.loads(line)
            at = datetime.fromisoformat(values.pop("at"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
        if at.tzinfo is not None:
            found.append(Measurement(at, values))
    return tuple(sorted(found, key=lambda measurement: measurement.at))


def _cgroup(text: str) -> str:
    """The folder, below /sys/fs/cgroup, of the group that limits the process's memory; '' where none can be seen.

    Where memory has a hierarchy of its own (cgroup v1, or both side by side) that one limits, not the common one.
    """
    found = ""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path.startswith("/") or ".." in path:
            continue
        path = path.removesuffix(" (deleted)")
        if "memory" in controllers.split(","):
            return ("/memory" + path).rstrip("/")
        if not controllers:
            found = path
    return found


def _room(folder: str) -> tuple[int, int]:
    """(bytes left, limit) of a group; (0, 0) where it has none. What is only cached counts as free."""
    for limit_file, usage_file, cache, shared in _LIMITS:
        limit, current = (read_text(f"{folder}/{name}").strip() for name in (limit_file, usage_file))
        if limit.isdigit() and current.isdigit() and int(limit) < NO_LIMIT:  # else 'max', or no such file
            stat = _words(f"{folder}/memory.stat")
            cached = max(0, stat.get(cache, 0) - stat.get(shared, 0))
            return max(0, int(limit) - max(0, int(current) - cached)), int(limit)
    return 0, 0


def _fields(path: str) -> dict[str, int]:
    """'Name:  123 kB' lines as numbers."""
    found = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _words(path: str) -> dict[str, int]:
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}

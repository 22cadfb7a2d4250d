"""Memory and open files of the gateway's process → events; and whether the kernel killed in its group for memory.

Read from /proc and the cgroup file system: nothing is opened that belongs to the home, and nothing is asked of
the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from watchdog.model import Event, Measurement
from watchdog.system.files import read_text
from watchdog.text import harmless, size
from watchdog.values import Any

MEMORY, OPEN_FILES = "memory", "open_files"
NO_LIMIT = 1 << 60  # bytes; cgroup v1 writes a number near 2^63 for "none"
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
        room, limit = _room(Path(cgroups + group))
        if limit:
            limits.append((room, limit, harmless(os.path.basename(group) or "its container", 40)))
        if group == "/":
            break
        group = os.path.dirname(group)
    if limits:
        room, limit, name = min(limits)
        found |= {"used": limit - room, "limit": limit, "limit_of": name}
    return found


def oom_kills(group: str, cgroups: str = "/sys/fs/cgroup") -> int | None:
    """How often the kernel killed in this group for memory; None where nobody counts, or the group is gone."""
    if not group.startswith("/") or ".." in group:
        return None
    for line in read_text(f"{cgroups}{group}/memory.events").splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdigit():
            return int(count)
    return None


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
    text = f"memory: {size(int(values.get('rss', 0)))}"
    if values.get("limit"):
        text += (
            f"; {size(int(values['used']))} of {size(int(values['limit']))} of {values['limit_of']} are taken"
        )
    return Event(at, MEMORY, text, "/proc", facts=facts)


def files_event(values: Mapping[str, Any], at: datetime) -> Event:
    facts = {name: str(values[name]) for name in _FILE_FACTS if values.get(name)}
    return Event(
        at, OPEN_FILES, f"{values['fds']} of {values['fd_limit']} files are open", "/proc", facts=facts
    )


def after_death(past: Sequence[Measurement], cgroups: str = "/sys/fs/cgroup") -> dict[str, Any]:
    """What the group of a process that is gone still tells: whether the kernel killed in it."""
    group = next((str(one.facts["cgroup"]) for one in reversed(past) if one.facts.get("cgroup")), "")
    kills = oom_kills(group, cgroups) if group else None
    return {} if kills is None else {"cgroup": group, "oom_kills": kills}


def _cgroup(text: str) -> str:
    """The path of the process's group in the one hierarchy of cgroup v2; '' in the old ones."""
    for line in text.splitlines():
        if line.startswith("0::/") and ".." not in line:
            return line[3:].removesuffix(" (deleted)")
    return ""


def _room(folder: Path) -> tuple[int, int]:
    """(bytes left, limit) of a group; (0, 0) where it has none. What is only cached counts as free."""
    try:
        limit, current = (int(read_text(folder / name)) for name in ("memory.max", "memory.current"))
    except ValueError:  # 'max', or no such file
        return 0, 0
    if limit >= NO_LIMIT:
        return 0, 0
    stat = _words(folder / "memory.stat")
    cached = max(0, stat.get("file", 0) - stat.get("shmem", 0))
    return max(0, limit - max(0, current - cached)), limit


def _fields(path: str) -> dict[str, int]:
    """'Name:  123 kB' lines as numbers."""
    found = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _words(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}

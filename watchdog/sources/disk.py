"""The volume of a home → one event: how much room is left on it and, where that is little, what takes the most."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime

from watchdog.model import Event, phrase
from watchdog.text import harmless, size
from watchdog.values import Any, StrPath

SOURCE = "disk"
LITTLE = 5 * 10**9  # bytes; with more left, nobody asks what takes the room
LITTLE_SHARE = 10  # the volume has less than a tenth left: the same
MOST_FILES = 20_000  # looked at to find the biggest heaps; it takes a fraction of a second
SHOWN = 3
_COPIES = (".malformed-backup-", ".quarantine", ".corrupt.")  # many files of one kind are one heap


def measure(home: StrPath) -> dict[str, int]:
    """Bytes free for an ordinary user, bytes in all and, where the file system counts them, free inodes; OSError."""
    volume = os.statvfs(home)
    found = {"free": volume.f_bavail * volume.f_frsize, "size": volume.f_blocks * volume.f_frsize}
    if volume.f_files:
        found["inodes"] = volume.f_favail
    return found


def event_of(values: Mapping[str, Any], at: datetime, home: StrPath | None = None) -> Event:
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

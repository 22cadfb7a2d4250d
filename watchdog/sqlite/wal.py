"""The write-ahead log read as bytes: which pages a commit put there, and where."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from watchdog.sqlite.raw import SIZES
from watchdog.values import dataclass, field

WAL_MAGIC = (0x377F0682, 0x377F0683)


@dataclass(frozen=True)
class Wal:
    """What a WAL holds: for each page the offset of its newest committed image."""

    page_size: int = 0
    frames: Mapping[int, int] = field(default_factory=dict)
    pages: int = 0                  # size of the database after the last commit, in pages
    size: int = 0
    fault: str = ""                 # why the WAL, or its tail, is not believed
    complete: bool = True           # False when a bounded read stopped before the end


def read_wal(fd: int, most: int = 0, verify: bool = True) -> Wal:
    """The committed frames of a WAL file; `most` bounds the frames that are looked at."""
    size = os.fstat(fd).st_size
    if size == 0:
        return Wal()
    head = os.pread(fd, 32, 0)
    if len(head) < 32:
        return Wal(size=size, fault=f"the -wal has {size} bytes, less than its own header")
    magic, _, page_size, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", head)
    order = ">" if magic & 1 else "<"
    if magic not in WAL_MAGIC or page_size not in SIZES or checksum(head[:24], order) != (sum1, sum2):
        return Wal(size=size, fault="the header of the -wal is damaged; SQLite ignores such a WAL")
    frames: dict[int, int] = {}
    pending: dict[int, int] = {}
    running, pages, offset, count = (sum1, sum2), 0, 32, 0
    while offset + 24 + page_size <= size:
        if most and count >= most:
            return Wal(page_size, frames, pages, size, complete=False)
        frame = os.pread(fd, 24 + page_size if verify else 24, offset)
        page, commit, one, two, sum1, sum2 = struct.unpack_from(">6I", frame)
        if (one, two) != (salt1, salt2) or page == 0:
            break                   # frames of an earlier round follow: the normal end
        if verify:
            running = checksum(frame[24:], order, checksum(frame[:8], order, running))
            if running != (sum1, sum2):
                break               # a write that never finished
        pending[page] = offset + 24
        if commit:
            frames.update(pending)
            pending.clear()
            pages = commit
        offset += 24 + page_size
        count += 1
    return Wal(page_size, frames, pages, size)


def checksum(data: bytes, order: str, start: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """SQLite's own running checksum of a WAL."""
    one, two = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = one + even + two & 0xFFFFFFFF
        two = two + odd + one & 0xFFFFFFFF
    return one, two


def read_shm(fd: int, wal_head: bytes) -> dict[int, int] | None:
    """The frames that the live WAL index knows; None when the index is not of this WAL."""
    head = os.pread(fd, 136, 0)
    if len(head) < 136 or head[:48] != head[48:96] or len(wal_head) < 32 or head[32:40] != wal_head[16:24]:
        return None
    version, _, _, flags, last = struct.unpack_from("=5I", head)
    if version != 3007000 or not flags & 0xFF:
        return None
    step = struct.unpack_from(">I", wal_head, 8)[0] + 24
    found: dict[int, int] = {}
    first, block = 0, 0             # frames before this block of the index
    while first < last:
        room, at = (4062, 136) if block == 0 else (4096, block * 32768)
        data = os.pread(fd, 4 * min(room, last - first), at)
        pages = struct.unpack(f"={len(data) // 4}I", data)
        found.update((page, 56 + (first + number) * step) for number, page in enumerate(pages))
        first += room
        block += 1
    return found

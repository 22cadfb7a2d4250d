"""The rollback journal read as bytes: a transaction that did not end, and how the pages were before it."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from watchdog.sqlite.format import SIZES
from watchdog.values import dataclass, field

MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_LONGEST_NAME = 4096


@dataclass(frozen=True)
class Journal:
    """A rollback journal. Hot: the transaction was cut short, and the next opener takes it back."""

    hot: bool = False
    page_size: int = 0
    pages: int = 0  # size of the database before the transaction
    frames: Mapping[int, int] = field(default_factory=dict)  # page -> offset of its content before
    torn: bool = False  # a record is damaged: what follows it is not taken back


def read_journal(fd: int) -> Journal:
    """What the journal behind this descriptor takes back; not hot when SQLite would not use it."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, 28, 0)
    if len(head) < 28 or head[:8] != MAGIC:
        return Journal()  # empty, or its header was zeroed: the transaction ended
    records, _, pages, sector, page_size = struct.unpack_from(">5I", head, 8)
    if page_size not in SIZES or not 32 <= sector <= 65536:
        return Journal()
    name = _super_journal(fd, size)
    if name and not os.path.exists(name):
        return Journal()  # all databases of the transaction were committed
    frames: dict[int, int] = {}
    torn = False
    offset = 0
    while offset + sector <= size and not torn:
        head = os.pread(fd, 28, offset)
        if head[:8] != MAGIC:
            break
        records, nonce = struct.unpack_from(">2I", head, 8)
        offset += sector
        if records == 0xFFFFFFFF:
            records = (size - offset) // (page_size + 8)
        for _ in range(records):
            record = os.pread(fd, page_size + 8, offset)
            if len(record) < page_size + 8:
                torn = True
                break
            number = struct.unpack_from(">I", record)[0]
            if not number or _checksum(record[4:-4], nonce) != struct.unpack(">I", record[-4:])[0]:
                torn = True
                break
            if number <= pages:
                frames.setdefault(number, offset + 4)
            offset += page_size + 8
        offset = -(-offset // sector) * sector
    return Journal(True, page_size, pages, frames, torn and bool(frames))


def _checksum(data: bytes, nonce: int) -> int:
    return (nonce + sum(data[len(data) - 200 : 0 : -200])) & 0xFFFFFFFF


def _super_journal(fd: int, size: int) -> str:
    tail = os.pread(fd, 16, max(0, size - 16))
    if len(tail) < 16 or tail[8:] != MAGIC:
        return ""
    length, total = struct.unpack_from(">2I", tail)
    if not 0 < length < min(_LONGEST_NAME, size):
        return ""
    name = os.pread(fd, length, size - 16 - length)
    return os.fsdecode(name) if sum(name) & 0xFFFFFFFF == total and b"\0" not in name else ""

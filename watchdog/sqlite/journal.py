"""The rollback journal read as bytes: a transaction that did not end, and how the pages were before it."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from watchdog.sqlite.format import SIZES
from watchdog.values import dataclass, field

MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
SECTORS = (512, 4096, *(1 << bits for bits in (5, 6, 7, 8, 10, 11, 13, 14, 15, 16)))  # the usual ones first
_LONGEST_NAME = 4096


@dataclass(frozen=True)
class Journal:
    """A rollback journal. Hot: the transaction was cut short, and the next opener takes it back."""

    hot: bool = False
    page_size: int = 0
    pages: int = 0  # size of the database before the transaction
    frames: Mapping[int, int] = field(default_factory=dict)  # page -> offset of its content before
    torn: bool = False  # a record is damaged: what follows it is not taken back
    counted: bool = True  # False when only its length tells how many records it has: it may have been longer


def read_journal(fd: int) -> Journal:
    """What the journal behind this descriptor takes back; not hot when SQLite would not use it."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, 28, 0)
    if len(head) < 28 or head[:8] != MAGIC:
        return Journal()  # empty, or its header was zeroed: the transaction ended
    _, nonce, pages, sector, page_size = struct.unpack_from(">5I", head, 8)
    if page_size not in SIZES:
        return Journal(torn=True)
    if sector not in SECTORS:  # SQLite gives up here
        sector = next((step for step in SECTORS if _proved(fd, step, page_size, nonce)), 0)
        if not sector:
            return Journal(torn=True)
    name = _super_journal(fd, size)
    if name and not os.path.exists(name):
        return Journal()  # all databases of the transaction were committed
    frames: dict[int, int] = {}
    torn, counted = False, True
    offset = 0
    while offset + sector <= size and not torn:
        head = os.pread(fd, 28, offset)
        if head[:8] != MAGIC:
            break
        records, nonce = struct.unpack_from(">2I", head, 8)
        offset += sector
        if records == 0xFFFFFFFF:
            records, counted = (size - offset) // (page_size + 8), False
        if records and not _proved(fd, offset, page_size, nonce):
            nonce = _nonce(fd, offset, page_size)
        for _ in range(records):
            number = _proved(fd, offset, page_size, nonce)
            if not number:
                torn = True
                break
            if number <= pages:
                frames.setdefault(number, offset + 4)
            offset += page_size + 8
        offset = -(-offset // sector) * sector
    return Journal(True, page_size, pages, frames, torn, counted)


def _proved(fd: int, offset: int, page_size: int, nonce: int) -> int:
    """The page that a record is of; 0 when its checksum is wrong."""
    record = os.pread(fd, page_size + 8, offset)
    if len(record) < page_size + 8 or _checksum(record[4:-4], nonce) != struct.unpack(">I", record[-4:])[0]:
        return 0
    return int(struct.unpack_from(">I", record)[0])


def _nonce(fd: int, offset: int, page_size: int) -> int:
    """What the checksums of the first records begin with, when the header has lost it and two of them agree."""
    first, second = (os.pread(fd, page_size + 8, offset + step * (page_size + 8)) for step in range(2))
    if len(second) < page_size + 8:
        return 0
    nonce = (struct.unpack(">I", first[-4:])[0] - _checksum(first[4:-4], 0)) & 0xFFFFFFFF
    return nonce if _proved(fd, offset + page_size + 8, page_size, nonce) else 0


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

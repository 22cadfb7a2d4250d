"""The rollback journal read as bytes: a transaction that did not end, and how the pages were before it."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from watchdog.sqlite.format import SIZES
from watchdog.values import dataclass, field, replace

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
    header: bytes = b""  # what its first bytes should be, where SQLite would not take the journal as it is


def read_journal(fd: int, main: int) -> Journal:
    """What the journal behind this descriptor takes back from the database behind `main`; not hot when it ended."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, 28, 0)
    if len(head) < 28 or head[:8] != MAGIC:
        return _headless(fd, main, size)
    _, nonce, pages, sector, page_size = struct.unpack_from(">5I", head, 8)
    if page_size not in SIZES:
        found = _headless(fd, main, size)
        return found if found.hot else Journal(torn=True)
    if sector not in SECTORS:  # SQLite gives up here
        sector = next((step for step in SECTORS if _proved(fd, step, page_size, nonce)), 0)
        if not sector:
            return Journal(torn=True)
    name = _super_journal(fd, size)
    if name and not os.path.exists(name):
        return Journal()  # all databases of the transaction were committed
    found, there = _records(fd, size, sector, page_size)
    before = os.pread(fd, 100, found.frames[1]) if 1 in found.frames else os.pread(main, 100, 0)
    valid = len(before) == 100 and before[24:28] == before[92:96]
    counts = struct.unpack_from(">I", before, 28)[0] if valid else 0
    if counts > pages and counts * page_size <= os.fstat(main).st_size:
        pages = counts  # a size that is too small would cut pages off
    if not _proved(fd, sector, page_size, nonce):
        nonce = _nonce(fd, sector, page_size)
    count = max(there, struct.unpack_from(">I", head, 8)[0])
    header = MAGIC + struct.pack(">5I", count, nonce, pages, sector, page_size)
    return replace(
        found,
        pages=pages,
        frames={number: at for number, at in found.frames.items() if number <= pages},
        header=header if header[8:] != head[8:] and _takes_back(fd, main, found) else b"",
    )


def _takes_back(fd: int, main: int, journal: Journal) -> bool:
    """Whether a page in the file is not what it was before the transaction."""
    size = journal.page_size
    return any(
        os.pread(fd, size, at) != os.pread(main, size, (number - 1) * size)
        for number, at in journal.frames.items()
    )


def mend_header(path: str) -> None:
    """Put the header of a journal right, so that SQLite takes its transaction back. For private copies only."""
    with open(path, "rb") as main, open(path + "-journal", "r+b") as journal:
        found = read_journal(journal.fileno(), main.fileno())
        if found.hot and found.header:
            journal.write(found.header)


def _records(fd: int, size: int, sector: int, page_size: int, offset: int = 0) -> tuple[Journal, int]:
    """The records of a journal up to the first that is damaged, and how many follow its first header.

    A record holds a page as it was before the transaction, so one that its checksum proves is good to take back,
    also behind the number that the header gives.
    """
    frames: dict[int, int] = {}
    torn, counted, after_first = False, True, 0
    while offset + sector <= size and not torn:
        head = os.pread(fd, 28, offset)
        if head[:8] != MAGIC:
            break
        records, nonce = struct.unpack_from(">2I", head, 8)
        first = not offset
        offset += sector
        if records == 0xFFFFFFFF or (records == 0 and first):
            # without its count SQLite takes it for one that was not yet in use: to roll back then changes nothing
            records, counted = (size - offset) // (page_size + 8), False
        if not _proved(fd, offset, page_size, nonce):
            nonce = _nonce(fd, offset, page_size) or nonce
        found = 0
        while number := _proved(fd, offset, page_size, nonce):
            frames.setdefault(number, offset + 4)
            offset += page_size + 8
            found += 1
        torn = found < records
        after_first = found if first else after_first
        offset = -(-offset // sector) * sector
    return Journal(True, page_size, 0, frames, torn, counted), after_first


def _headless(fd: int, main: int, size: int) -> Journal:
    """A journal whose header is gone; not hot when its transaction ended, which zeroes the header, too.

    An ended transaction has counted up the change counter on page 1. So one that finds the counter of its own record
    of page 1 in the file was cut short.
    """
    data = os.pread(main, 100, 0)
    declared = struct.unpack_from(">H", data, 16)[0] if len(data) == 100 else 0
    page_size = 65536 if declared == 1 else declared
    if page_size not in SIZES:
        return Journal()
    for sector in SECTORS:
        nonce = _nonce(fd, sector, page_size)
        if not nonce or size < sector + page_size + 8:
            continue
        frames: dict[int, int] = {}
        offset = sector
        while number := _proved(fd, offset, page_size, nonce):
            frames.setdefault(number, offset + 4)
            offset += page_size + 8
        rest, _ = _records(fd, size, sector, page_size, -(-offset // sector) * sector)
        frames = {**rest.frames, **frames}
        before = os.pread(fd, 100, frames[1]) if 1 in frames else b""
        if before[24:28] != data[24:28] or not before:
            return Journal()
        pages = struct.unpack_from(">I", before, 28)[0]
        header = MAGIC + struct.pack(
            ">5I", (offset - sector) // (page_size + 8), nonce, pages, sector, page_size
        )
        return Journal(True, page_size, pages, frames, rest.torn, counted=False, header=header)
    return Journal()


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

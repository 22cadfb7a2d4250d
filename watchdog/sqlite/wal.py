"""The write-ahead log read as bytes: which pages a commit put there, and where."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from watchdog.sqlite.faults import Detail
from watchdog.sqlite.format import SIZES
from watchdog.values import dataclass, field, replace

WAL_MAGIC = (0x377F0682, 0x377F0683)


@dataclass(frozen=True)
class Wal:
    """What a WAL holds: for each page the offset of its newest committed image."""

    page_size: int = 0
    frames: Mapping[int, int] = field(default_factory=dict)  # as SQLite reads it: up to the first bad frame
    pages: int = 0  # size of the database after the last commit, in pages
    size: int = 0
    fault: str = ""  # why the WAL is not believed at all
    complete: bool = True  # False when a bounded read stopped before the end
    torn: int = 0  # number of the first bad frame that committed frames follow; 0 when there is none
    behind: int = 0  # committed frames behind it, each proved by the checksum of the one before
    rest: Mapping[int, int] = field(default_factory=dict)  # pages by these frames, put over `frames`
    rest_pages: int = 0  # size of the database after the last of them
    unfinished: bool = False  # a commit follows the last good frame, and its checksum is wrong
    stale: frozenset[int] = frozenset()  # pages whose newest image is in a bad frame: what there is, is older


def read_wal(fd: int, most: int = 0, verify: bool = True) -> Wal:
    """The committed frames of a WAL file; `most` bounds the frames that are looked at."""
    size = os.fstat(fd).st_size
    if size == 0:
        return Wal()
    head = os.pread(fd, 32, 0)
    if len(head) < 32:
        return Wal(
            size=size,
            fault=Detail.WAL_SHORT(size=size),
        )
    magic, _, page_size, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", head)
    order = ">" if magic & 1 else "<"
    sound = magic in WAL_MAGIC and page_size in SIZES and checksum(head[:24], order) == (sum1, sum2)
    if not sound:
        known = _chain(fd, size, head) if verify else None
        if known is None:
            return Wal(size=size, fault=Detail.WAL_IGNORED())
        page_size, order, (salt1, salt2), (sum1, sum2) = known
    frames: dict[int, int] = {}
    pending: dict[int, int] = {}
    running, pages, offset, count = (sum1, sum2), 0, 32, 0
    while offset + 24 + page_size <= size:
        if most and count >= most:
            return Wal(page_size, frames, pages, size, complete=False)
        frame = os.pread(fd, 24 + page_size if verify else 24, offset)
        page, commit, frame_salt1, frame_salt2, sum1, sum2 = struct.unpack_from(">6I", frame)
        if (frame_salt1, frame_salt2) != (salt1, salt2) or page == 0:
            break  # frames of an earlier round follow: the normal end
        if verify:
            if checksum(frame[24:], order, checksum(frame[:8], order, running)) != (sum1, sum2):
                break  # a write that never finished
            running = sum1, sum2
        pending[page] = offset + 24
        if commit:
            frames.update(pending)
            pending.clear()
            pages = commit
        offset += 24 + page_size
        count += 1
    if not sound and frames:  # SQLite would throw all of it away
        return Wal(page_size, {}, 0, size, torn=1, behind=count, rest=frames, rest_pages=pages)
    whole = Wal(page_size, frames, pages, size)
    return _behind(fd, whole, (salt1, salt2, order), (count, pending, running)) if verify else whole


Chain = tuple[int, str, tuple[int, int], tuple[int, int]]  # page size, byte order, salts, first checksum


def _chain(fd: int, size: int, head: bytes) -> Chain | None:
    """How the checksums of the frames begin, by a damaged header; None unless the first frame proves it.

    So a header that was written for another round of frames proves nothing.
    """
    declared = struct.unpack_from(">I", head, 8)[0]
    for page_size in sorted(SIZES, key=lambda size: size != declared):
        frame = os.pread(fd, 24 + page_size, 32)
        if len(frame) < 24 + page_size:
            continue
        salts, carried = struct.unpack_from(">2I", frame, 8), struct.unpack_from(">2I", frame, 16)
        for order in "<>":
            starts = struct.unpack_from(">2I", head, 24), checksum(head[:24], order)
            for start in starts:
                if checksum(frame[24:], order, checksum(frame[:8], order, start)) == carried:
                    return page_size, order, salts, start
            start = _start(frame, order, carried)
            if _made_by_a_header(start, order, page_size, frame[8:16]):
                return page_size, order, salts, start
    return None


ROUNDS = 2000  # of a WAL, which its header counts; the first salt grows by one with each


def _start(frame: bytes, order: str, carried: tuple[int, int]) -> tuple[int, int]:
    """What the checksum began with before this frame, if the frame is whole: the sum taken backwards."""
    data = frame[:8] + frame[24:]
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    first, second = carried
    for at in range(len(words) - 2, -1, -2):
        second = second - words[at + 1] - first & 0xFFFFFFFF
        first = first - words[at] - second & 0xFFFFFFFF
    return first, second


def _made_by_a_header(start: tuple[int, int], order: str, page_size: int, salts: bytes) -> bool:
    """Whether a header with these salts has this checksum: all else in it is known, but for the round."""
    magic = WAL_MAGIC[order == ">"]
    return any(
        checksum(struct.pack(">4I", magic, 3007000, page_size, number) + salts, order) == start
        for number in range(ROUNDS)
    )


def _behind(
    fd: int, wal: Wal, key: tuple[int, int, str], until: tuple[int, dict[int, int], tuple[int, int]]
) -> Wal:
    """The same with what was committed behind the first bad frame.

    A frame carries the running checksum of all before it, so the one behind a bad frame is proved by the
    checksum that the bad one carries, and the next by its own. Left-overs of a transaction that was rolled
    back can look so, too, but no commit follows them.
    """
    *salts, order = key
    first, pending, before = until[0], dict(until[1]), until[2]
    step = 24 + wal.page_size
    bad: set[int] = set()
    waiting: set[int] = set()  # pages of bad frames since the last commit
    rest: dict[int, int] = {}
    pages = behind = run = 0
    unfinished, linked = False, True  # linked: the frame before is proved
    computed: tuple[int, int] | None = None  # what the bad frame before should carry, by its content
    for number in range(first, (wal.size - 32) // step):
        frame = os.pread(fd, step, 32 + number * step)
        page, commit, salt1, salt2, *carried = struct.unpack_from(">6I", frame)
        stored = (carried[0], carried[1])
        sums = [
            checksum(frame[24:], order, checksum(frame[:8], order, start))
            for start in (before, computed)
            if start
        ]
        # The salts are not part of the checksum: a frame with wrong ones may still be proved by it.
        proved = bool(page) and stored in sums and ([salt1, salt2] == salts or linked)
        if proved and stored != sums[0]:  # so the frame before is whole but for the checksum that it carries
            earlier = struct.unpack(">I", os.pread(fd, 4, 32 + (number - 1) * step))[0]
            pending[earlier] = 32 + (number - 1) * step + 24
            waiting.discard(earlier)
            run += 1
        before, computed = stored, None if proved else sums[0] if linked else None
        linked = proved
        # Frames of an earlier round prove each other, but no frame of this round leads to them.
        if not proved:
            if [salt1, salt2] == salts:
                waiting.add(page)
                unfinished = unfinished or bool(page and commit)
                behind += number > first and not pages
            continue
        pending[page] = 32 + number * step + 24
        waiting.discard(page)
        run += 1
        if commit:
            rest.update(pending)
            bad = (bad - pending.keys()) | waiting
            pending.clear()
            waiting.clear()
            pages, unfinished = commit, False
    if not pages and not (unfinished and behind):
        if _written_over(fd, wal, salts[0], first):
            return replace(wal, torn=first + 1, unfinished=True)
        return replace(wal, unfinished=unfinished)  # a write that never finished: the normal end of a crash
    stale = frozenset(page for page in bad if 0 < page <= pages)
    return replace(
        wal,
        torn=first + 1,
        behind=run or behind,
        rest=rest,
        rest_pages=pages,
        stale=stale,
        unfinished=unfinished,
    )


def _written_over(fd: int, wal: Wal, salt: int, first: int) -> bool:
    """Whether a frame is neither of this round nor of an earlier one, though frames of an earlier one follow.

    A crash leaves there what the writes before it left.
    """
    for number in range(first, (wal.size - 32) // (24 + wal.page_size)):
        page, _, other = struct.unpack(">3I", os.pread(fd, 12, 32 + number * (24 + wal.page_size)))
        earlier = bool(page) and 0 < (salt - other & 0xFFFFFFFF) <= ROUNDS
        if earlier or (number == first and other == salt):
            return earlier and number > first
    return False


def checksum(data: bytes, order: str, start: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """SQLite's own running checksum of a WAL."""
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = first + even + second & 0xFFFFFFFF
        second = second + odd + first & 0xFFFFFFFF
    return first, second


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
    first, block = 0, 0  # frames before this block of the index
    while first < last:
        room, at = (4062, 136) if block == 0 else (4096, block * 32768)
        data = os.pread(fd, 4 * min(room, last - first), at)
        pages = struct.unpack(f"={len(data) // 4}I", data)
        found.update((page, 56 + (first + number) * step) for number, page in enumerate(pages))
        first += room
        block += 1
    return found

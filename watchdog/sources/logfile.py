"""A Hermes log and its rotated siblings → events: the window found by bisecting, records joined with their
tracebacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from math import inf
from time import monotonic

from watchdog.config.pattern import LONGEST
from watchdog.model import Event, Finding, phrase
from watchdog.model.trace import Unread
from watchdog.sources.localtime import SLACK, LocalClock, SetBack
from watchdog.sources.records import HEADER, NEXT, STAMP, STAMP_ENDS, RecordReader, Wanted, last_record
from watchdog.system.files import open_regular
from watchdog.values import TYPE_CHECKING, StrPath, replace

if TYPE_CHECKING:
    from typing import IO

BLOCK = 1 << 18  # some minutes of a busy log: short enough that most hold nothing out of the ordinary
BRISK = timedelta(minutes=10)  # a log that fills a block faster gets longer ones
FAR = 1 << 20  # how far to look for a record where one should be
# bytes; Hermes rotates at five million, and in a longer file counting lines would cost more than the check
COUNTED = 8_000_000
HEAD = 1 << 13  # where the first record of a file is looked for first
UNPACKED = 1 << 28  # bytes that are read of a packed part: fifty times what Hermes rotates at
PROBE = 1 << 14  # how much of the file a step of bisecting looks at


class OutOfTime(OSError):
    """The log was not read to its end within the time for it; its argument is how many bytes are left."""


class Segment:
    """One file of a rotated log, held open so that a rotation cannot move it away from us."""

    def __init__(self, path: str):
        self.name = os.path.basename(path)
        self.packed = path.endswith(".gz")
        self.raw = open_regular(path)
        self.file: IO[bytes] = _unpacking(self.raw) if self.packed else self.raw
        status = os.fstat(self.raw.fileno())
        self.identity = status.st_dev, status.st_ino
        self.straight = not self.packed  # the file holds the very bytes that were read from it so far
        self.size = status.st_size
        self.cut = False  # there is more in it than is read

    def close(self) -> None:
        self.file.close()
        self.raw.close()

    def read(self, size: int) -> bytes:
        """The next bytes; of a packed part that was cut short or damaged, what comes before that, and of one that
        unpacks to far more than any log, the beginning.
        """
        if not self.packed:
            return self.file.read(size)
        if self.file.tell() >= UNPACKED:
            self.cut = True
            return b""
        from gzip import BadGzipFile
        from zlib import error

        try:
            return self.file.read(size)
        except (EOFError, BadGzipFile, error):
            return b""

    def head(self) -> bytes:
        self.file.seek(0)
        return self.read(64).lstrip(b"\0")

    def first_time(self, clock: LocalClock) -> datetime | None:
        """When its first record was written."""
        for size in (HEAD, FAR):  # nearly always it is the first line
            self.file.seek(0)
            head = self.read(size)
            if found := HEADER.match(head.lstrip(b"\0")) or HEADER.search(head):
                return clock.read(found["stamp"])
        return None

    def last_time(self, clock: LocalClock) -> datetime | None:
        """When its last record was written."""
        self.file.seek(0 if self.packed else max(0, self.size - FAR))
        last = None
        while block := self.read(FAR):
            last = HEADER.match(block, last_record(block)) or HEADER.search(block) or last
        return clock.read(last["stamp"]) if last else None

    def start_of(self, stamp: bytes) -> int:
        """Where the records at or after this local time begin, found by bisecting."""
        low, high = 0, self.size
        while high - low > 16 * 1024:
            middle = (low + high) // 2
            self.file.seek(middle)
            probe = self.file.read(PROBE)
            found = NEXT.search(probe)
            if found is None:
                probe += self.file.read(FAR)
                found = NEXT.search(probe)
            if found is None:
                # No record begins in the next megabyte (a huge line, a hole of zeros): look left of it.
                high = middle
                continue
            # The newest of several: a time that a user name made up must not hide what comes before it.
            # Nearly every line is older or no record: those cost a comparison each, and no match.
            near = probe[found.start() : found.start() + PROBE].split(b"\n")
            if any(line[:STAMP_ENDS] >= stamp and STAMP.match(line) is not None for line in near):
                high = middle
            else:
                low = middle + found.end()
        return low


class LogFile:
    """gateway.log with gateway.log.1, .2.gz … as one stream of records."""

    def __init__(
        self,
        path: StrPath,
        zone: tzinfo | None = None,
        whole: bool = False,
        set_back: Sequence[SetBack] = (),
    ):
        self.path, self.zone, self.whole = os.fspath(path), zone, whole
        self.known_set_back = set_back
        self.set_back: list[SetBack] = []  # where its clock was set back; known once it has been read
        self.name = os.path.basename(path)
        self.notes: list[str] = []
        self.last_at: datetime | None = None  # of the newest record of the log, wanted or not
        self.segments: list[Segment] = []
        self.block = BLOCK
        self.lost: list[str] = []  # why parts of it could not be read again
        self.read_until = inf  # monotonic seconds; later no further block is read

    def open(self, since: datetime | None) -> None:
        """Hold all files that the window needs; OSError when the log itself cannot be read."""
        for _ in range(3):
            self.close()
            main = Segment(self.path)
            self.segments = [main]
            self._open_older(since)
            try:
                if os.stat(self.path).st_ino == main.identity[1]:
                    break  # not rotated between the first and the last open
            except FileNotFoundError:
                break  # rotated away this moment; what we hold is all there was
        if since is not None and len(self.segments) > 1:
            oldest = self.segments[0].first_time(LocalClock(self.zone))
            if oldest and oldest > since + SLACK:
                english = "{log} reaches back only to {at}"
                at = oldest.isoformat(timespec="seconds")
                self.notes.append(phrase("note.reaches-back", english, log=self.name, at=at))

    def can_open(self, since: datetime | None) -> bool:
        try:
            self.open(since)
        except OSError:
            return False
        return True

    def _open_older(self, since: datetime | None) -> None:
        for sibling in _siblings(self.path):
            try:
                if since is not None and not self._reaches_further(since):
                    return
                segment = Segment(sibling)
            except (OSError, EOFError) as error:
                name, why = os.path.basename(sibling), _reason(error)
                self.notes.append(
                    phrase("note.part-unreadable", "{name} could not be read: {why}", name=name, why=why)
                )
                continue
            if segment.identity in {held.identity for held in self.segments} or self._is_copy(segment):
                segment.close()  # rotated while we opened: the same file under two names, or copied (copytruncate)
            else:
                self.segments.insert(0, segment)

    def _is_copy(self, segment: Segment) -> bool:
        """Whether logrotate is about to truncate what it has just copied there: both begin with the same record."""
        head = segment.head()
        return bool(head) and head == self.segments[0].head()

    def _reaches_further(self, since: datetime) -> bool:
        first = self.segments[0].first_time(LocalClock(self.zone))
        return first is None or first > since

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        self.segments = []

    def ends(self) -> tuple[datetime | None, datetime | None]:
        """When the first and the last record were written, without reading what lies between."""
        if not self.segments:
            return None, None
        clock = LocalClock(self.zone)
        first = self.segments[0].first_time(clock)
        return first, self.segments[-1].last_time(clock) or first

    def events(
        self, wanted: Wanted, since: datetime | None, until: datetime, signs: Wanted | None = None
    ) -> Iterator[list[Event]]:
        """The wanted records of the window in the file's order, by the block: a million records one by one
        would cost more than reading them. Signs are noted in their traces when they are asked for.
        """
        clock, beside = (LocalClock(self.zone, self.known_set_back) for _ in range(2))
        reader = RecordReader(self.name, clock, wanted, since, until)
        later = RecordReader(self.name, beside, signs, since, until) if signs else None
        for segment, offset, block, following in self._blocks(clock, since):
            before = clock.state
            events = reader.records(segment.name, offset, block, following)
            if later is not None and reader.first_at is not None and reader.last_at is not None:
                again = partial(self._read_again, later, before, segment, offset, block)
                if segment.straight:
                    again = partial(self._read_again, later, before, segment, offset, len(block))
                unread = Unread(reader.first_at - SLACK, reader.last_at + SLACK, again)
                for trace in later.wanted.traces.values():
                    trace.unread.append(unread)
            yield events
            if (
                reader.first_at is not None
                and reader.last_at is not None
                and reader.last_at - reader.first_at < BRISK
                and self.block < FAR
            ):
                self.block *= 2
        self.last_at, self.set_back = reader.last_at, clock.met
        self.notes += [
            f"{segment.name} unpacks to more than {UNPACKED >> 20} MB; the rest was not read"
            for segment in self.segments
            if segment.cut
        ]
        if reader.future and not self.whole:
            self.notes.append(f"{self.name}: {reader.future} records are dated after now; was the clock set?")

    def blocks(self, since: datetime | None) -> Iterator[tuple[str, bytes]]:
        """The window as (name of the file, whole records)."""
        for segment, _, block, _ in self._blocks(LocalClock(self.zone), since):
            yield segment.name, block

    def _read_again(
        self,
        reader: RecordReader,
        before: tuple[datetime, int],
        segment: Segment,
        offset: int,
        block: bytes | int,
    ) -> None:
        """Note the signs in a block; it is read from the file again where that holds just these bytes."""
        if isinstance(block, int):
            size, block = block, os.pread(segment.raw.fileno(), block, offset)
            if len(block) < size:
                self._cut_short(segment)
                return
        reader.clock.resume(before)
        reader.records(segment.name, offset, block, b"")

    def _blocks(
        self, clock: LocalClock, since: datetime | None
    ) -> Iterator[tuple[Segment, int, bytes, bytes]]:
        """Whole records as (file, offset, bytes, what comes next).

        A last, unfinished line is left for the next check.
        """
        for index, segment in enumerate(self.segments):
            newer = self.segments[index + 1 :]
            if index:
                clock.next_file(segment.first_time(LocalClock(self.zone)))
            offset = 0
            if since is not None and not segment.packed:
                offset = segment.start_of(clock.naive(since - SLACK))
            segment.file.seek(offset)
            carry = b""
            while chunk := segment.read(self.block):
                if monotonic() > self.read_until:
                    raise OutOfTime(segment.size - offset + sum(part.size for part in newer))
                if b"\0" in chunk:
                    chunk, segment.straight = chunk.replace(b"\0", b""), False
                block = carry + chunk
                cut_at = last_record(block)
                if cut_at <= 0:
                    if len(block) > 4 * FAR:  # one endless line: keep its head, drop its middle
                        block, segment.straight = block[:LONGEST] + block[-64:], False
                    carry = block
                    continue
                yield segment, offset, block[:cut_at], block[cut_at : cut_at + 64]
                offset += cut_at
                carry = block[cut_at:]
            if not newer and not self.whole:
                carry = carry[: carry.rfind(b"\n") + 1]
            if carry:
                yield segment, offset, carry, newer[0].head() if newer else b""
            if not segment.packed and os.fstat(segment.raw.fileno()).st_size < segment.size:
                self._cut_short(segment)  # copytruncate: what was not read yet is in the copy

    def _cut_short(self, segment: Segment) -> None:
        self.lost.append(f"{segment.name} was cut short while it was read")


def _unpacking(raw: IO[bytes]) -> IO[bytes]:
    from gzip import GzipFile

    return GzipFile(fileobj=raw)  # type: ignore[return-value]


def with_line_numbers(findings: Iterable[Finding], folder: StrPath) -> tuple[Finding, ...]:
    """The same findings with their evidence named by line, which only a finding is worth counting for."""
    found = tuple(findings)
    lines = placed(folder, (event.where for finding in found for event in finding.evidence))
    return tuple(
        replace(
            finding,
            evidence=tuple(event.moved(lines.get(event.where, event.where)) for event in finding.evidence),
        )
        for finding in found
    )


def placed(folder: StrPath, places: Iterable[str]) -> dict[str, str]:
    """'gateway.log@2984' as 'gateway.log:17', as people count; not in a file too long to count.

    Each file is read once.
    """
    found: dict[str, str] = {}
    for name, offsets in _by_file(places).items():
        path = os.path.join(folder, name)
        try:
            if name.endswith(".gz") or os.stat(path).st_size > COUNTED:
                continue
            with open(path, "rb") as file:
                number = 1
                for offset in sorted(offsets):
                    while piece := file.read(min(offset - file.tell(), BLOCK)):
                        number += len(piece.split(b"\n")) - 1  # a quarter of what counting costs
                    if file.tell() == offset:
                        found[f"{name}@{offset}"] = f"{name}:{number}"
        except OSError:
            continue  # rotated away meanwhile: the offset must do
    return found


def _by_file(places: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for where in places:
        name, _, offset = where.partition("@")
        if offset.isdecimal():
            found.setdefault(name, set()).add(int(offset))
    return found


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _siblings(path: str) -> list[str]:
    """The rotated parts, newest first: `.1`, `.2.gz` …, and logrotate's dateext, `-20261116`, `.2026-11-16T0130`."""
    folder, name = os.path.split(path)
    numbered: list[tuple[int, str]] = []
    dated: list[tuple[str, str]] = []
    for entry in os.scandir(folder):
        ending = entry.name.removeprefix(name).removesuffix(".gz")
        digits = ending[1:].replace("-", "").replace("T", "")
        if ending == entry.name or not (digits.isdecimal() and digits.isascii()):
            continue
        if ending[0] == "." and len(ending) <= 5:
            numbered.append((int(digits), entry.path))
        elif ending[0] in ".-_" and 8 <= len(digits) <= 20:
            dated.append((digits, entry.path))
    return [*(part for _, part in sorted(numbered)), *(part for _, part in sorted(dated, reverse=True))]

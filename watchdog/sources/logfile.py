"""A Hermes log and its rotated siblings → events: the window found by bisecting, records joined with their tracebacks."""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path

from watchdog.model import Event
from watchdog.sources.chattext import HONEST, TAIL, cut, may_quote
from watchdog.sources.gate import INBOUND, Gate
from watchdog.sources.localtime import SLACK, LocalClock
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import IO

BLOCK = 1 << 20
COUNTED = 8_000_000  # bytes; Hermes rotates at five million, and in a longer file counting lines would cost more than the check
LONGEST = 64 * 1024  # bytes of one record that are kept; the rest of a 10 MB line says nothing more
_HEADER = re.compile(
    rb"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?P<level>[A-Z]+)(?: \[(?P<session>[^\]\n]{0,200})\])? "
    rb"(?P<logger>[\w.-]{1,200}): "
)
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]")
_NEXT = re.compile(rb"\n(?=%b)" % _STAMP.pattern)
_SIBLING = re.compile(r"\.(\d{1,4})(\.gz)?$")


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading; a pipe or a device of that name would hold us for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, "is not a regular file", str(path))
    return open(fd, "rb", buffering=0)


class Segment:
    """One file of a rotated log, held open so that a rotation cannot move it away from us."""

    def __init__(self, path: Path):
        self.name = path.name
        self.packed = path.suffix == ".gz"
        self.raw = open_regular(path)
        self.file: IO[bytes] = gzip.GzipFile(fileobj=self.raw) if self.packed else self.raw  # type: ignore[assignment]
        status = os.fstat(self.raw.fileno())
        self.identity = status.st_dev, status.st_ino
        self.size = status.st_size

    def close(self) -> None:
        self.file.close()
        self.raw.close()

    def head(self) -> bytes:
        self.file.seek(0)
        return self.file.read(64).lstrip(b"\0")

    def first_time(self, clock: LocalClock) -> datetime | None:
        """When its first record was written."""
        self.file.seek(0)
        head = self.file.read(BLOCK)
        found = _HEADER.match(head.lstrip(b"\0")) or _HEADER.search(head)
        return clock.read(found["stamp"]) if found else None

    def last_time(self, clock: LocalClock) -> datetime | None:
        """When its last record was written."""
        self.file.seek(0 if self.packed else max(0, self.size - BLOCK))
        last = None
        while block := self.file.read(BLOCK):
            last = list(_HEADER.finditer(block))[-1:] or last
        return clock.read(last[0]["stamp"]) if last else None

    def start_of(self, stamp: bytes) -> int:
        """Where the records at or after this local time begin, found by bisecting."""
        low, high = 0, self.size
        while high - low > 16 * 1024:
            middle = (low + high) // 2
            self.file.seek(middle)
            found = _NEXT.search(self.file.read(BLOCK))
            if found is None:
                # No record begins in the next megabyte (a huge line, a hole of zeros): look left of it.
                high = middle
                continue
            at = middle + found.end()
            self.file.seek(at)
            if self.file.read(23) < stamp:
                low = at
            else:
                high = middle
        return low


class LogFile:
    """gateway.log with gateway.log.1, .2.gz … as one stream of records."""

    def __init__(self, path: Path, zone: tzinfo | None = None, whole: bool = False):
        self.path, self.zone, self.whole = path, zone, whole
        self.notes: list[str] = []
        self.last_at: datetime | None = None  # of the newest record of the log, wanted or not
        self.segments: list[Segment] = []

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
                self.notes.append(f"{self.path.name} reaches back only to {oldest.isoformat(timespec='seconds')}")

    def _open_older(self, since: datetime | None) -> None:
        for sibling in _siblings(self.path):
            try:
                if since is not None and not self._reaches_further(since):
                    return
                segment = Segment(sibling)
            except (OSError, EOFError) as error:
                self.notes.append(f"{sibling.name} could not be read: {_reason(error)}")
                continue
            if segment.identity in {held.identity for held in self.segments}:
                segment.close()  # rotated while we opened: the same file under two names
            else:
                self.segments.insert(0, segment)

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

    def events(self, gate: Gate | None, since: datetime | None, until: datetime) -> Iterator[Event]:
        """The records of the window that the gate lets through, in the file's order."""
        clock = LocalClock(self.zone)
        reader = _Reader(self.path.name, clock, gate)
        future = 0
        for segment, offset, block, following in self._blocks(clock, since):
            for event in reader.records(segment, offset, block, following):
                if event.at > until:
                    future += 1
                elif since is None or event.at >= since:
                    yield event
        self.last_at = reader.last_at
        if future and not self.whole:
            self.notes.append(f"{self.path.name}: {future} records are dated after now; was the clock set?")

    def _blocks(self, clock: LocalClock, since: datetime | None) -> Iterator[tuple[str, int, bytes, bytes]]:
        """Whole records as (file, offset, bytes, what comes next); a last, unfinished line is left for the next check."""
        for index, segment in enumerate(self.segments):
            newer = self.segments[index + 1 :]
            offset = 0
            if since is not None and not segment.packed:
                offset = segment.start_of(clock.naive(since - SLACK))
            segment.file.seek(offset)
            carry = b""
            while chunk := _read(segment.file, BLOCK):
                block = carry + (chunk.replace(b"\0", b"") if b"\0" in chunk else chunk)
                cut_at = _last_record(block)
                if cut_at <= 0:
                    if len(block) > 4 * BLOCK:  # one endless line: keep its head, drop its middle
                        block = block[:LONGEST] + block[-64:]
                    carry = block
                    continue
                yield segment.name, offset, block[:cut_at], block[cut_at : cut_at + 64]
                offset += cut_at
                carry = block[cut_at:]
            if not newer and not self.whole:
                carry = carry[: carry.rfind(b"\n") + 1]
            if carry:
                yield segment.name, offset, carry, newer[0].head() if newer else b""


class _Reader:
    """Bytes → events, remembering across blocks what a forged line needs."""

    def __init__(self, source: str, clock: LocalClock, gate: Gate | None):
        self.source, self.clock, self.gate = source, clock, gate
        self.doubt = 0  # up to here in the block, lines may belong to a name that held a line break
        self.doubt_left = 0  # bytes of the next block that may still belong to it
        self.last_at: datetime | None = None

    def records(self, name: str, offset: int, block: bytes, following: bytes) -> Iterator[Event]:
        """The records of one block that some rule may want; all of them when there is no gate."""
        self._distrust(block, 0, self.doubt_left)
        gate = self.gate
        if gate is None or gate.open:
            for start, stop in _all(block):
                if (head := _HEADER.match(block, start)) and (event := self._record(block, head, stop, following, name, offset, None)):
                    yield event
            return
        for head, stop, hits in self._marked(gate, block):
            wanted = gate.wanted(hits, block, head.end())
            if not wanted and (not block.startswith(INBOUND, head.end()) or HONEST.match(block, head.end(), stop)):
                continue
            event = self._record(block, head, stop, following, name, offset, wanted)
            if event is not None and (wanted or event.ambiguous):
                yield event
        if found := _HEADER.match(block, _last_record(block)):  # the newest record, wanted or not
            self.last_at = self.clock.read(found[1]) or self.last_at

    def _marked(self, gate: Gate, block: bytes) -> Iterator[tuple[re.Match[bytes], int, list[int]]]:
        """(header, end, words) of each record that holds a wanted word."""
        head: re.Match[bytes] | None = None
        stop = -1
        hits: list[int] = []
        for number, at in gate.marks(block):
            if at < stop:
                hits.append(number)
                continue
            if head is not None:
                yield head, stop, hits
            start = block.rfind(b"\n", 0, at) + 1
            while not (head := _HEADER.match(block, start)) and start and not _STAMP.match(block, start):
                start = block.rfind(b"\n", 0, start - 1) + 1  # a word in a traceback belongs to its record
            following = _NEXT.search(block, at)
            stop = following.start() + 1 if following else len(block)
            hits = [number]
        if head is not None:
            yield head, stop, hits

    def _record(
        self, block: bytes, head: re.Match[bytes], stop: int, following: bytes, name: str, offset: int, hits: tuple[int, ...] | None
    ) -> Event | None:
        stamp, level, session, logger = head.groups()
        at = self.clock.read(stamp)
        if at is None:
            return None
        self.last_at = at
        start, message = head.span()
        body = block[message : min(stop, message + LONGEST)].decode("utf-8", "replace")
        text, _, more = body.partition("\n")
        text = text.rstrip("\r\0")
        facts = _NOTHING
        ambiguous = "it follows a user name with a line break in it" if start < self.doubt else ""
        if may_quote(text):
            text, facts, why = cut(text)
            if why and not ambiguous:
                ambiguous = why
                if not TAIL.search(block, message, stop):
                    self._distrust(block, stop, LONGEST)
        followed = hits is None or self.gate is None or not self.gate.followed.isdisjoint(hits)
        return Event(
            at,
            self.source,
            text,
            f"{name}@{offset + start}",
            logger.decode("ascii", "replace"),
            level.decode("ascii", "replace"),
            session.decode("utf-8", "replace") if session else "",
            facts,
            more.rstrip("\n") if more else "",
            self.clock.read(block[stop : stop + 23] if stop < len(block) else following[:23]) if followed else None,
            hits,
            ambiguous,
        )

    def _distrust(self, block: bytes, start: int, reach: int) -> None:
        """A name with a line break is being written: until its real end, every line may be the name's."""
        tail = TAIL.search(block, start, start + reach) if reach else None
        self.doubt = tail.end() if tail else min(start + reach, len(block))
        self.doubt_left = 0 if tail else max(0, start + reach - len(block))


_NOTHING: dict[str, str] = {}


def _all(block: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _NEXT.finditer(block):
        yield start, found.start() + 1
        start = found.start() + 1
    yield start, len(block)


def _last_record(block: bytes) -> int:
    """Where the last record of the block begins; it may go on in the next block."""
    end = len(block)
    while (at := block.rfind(b"\n2", 0, end)) >= 0:
        if _HEADER.match(block, at + 1):
            return at + 1
        end = at
    return 0


def _read(file: IO[bytes], size: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        return b""  # a packed part that was cut short: what came before it has been read


def placed(folder: Path, where: str) -> str:
    """'gateway.log@2984' as 'gateway.log:17', as people count; left as it is in a file too long to count."""
    name, at, offset = where.partition("@")
    path = folder / name
    try:
        if not at or path.suffix == ".gz" or path.stat().st_size > COUNTED:
            return where
        with path.open("rb") as file:
            before = file.read(int(offset)).count(b"\n")
        return f"{name}:{before + 1}"
    except (OSError, ValueError):
        return where


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _siblings(path: Path) -> list[Path]:
    """The rotated parts, newest first."""
    found: list[tuple[int, Any]] = []
    for entry in os.scandir(path.parent):
        if entry.name.startswith(path.name + ".") and (match := _SIBLING.fullmatch(entry.name[len(path.name) :])):
            found.append((int(match[1]), Path(entry.path)))
    return [sibling for _, sibling in sorted(found)]

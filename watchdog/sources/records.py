"""Bytes of a log → records: which of them some rule may want, with chat text cut out and tracebacks joined.

This is where a long log costs its time, so what most records need comes first and in plain steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from watchdog.model import Event
from watchdog.pattern import LONGEST, own
from watchdog.sources.attention import AT_THE_END, Attention
from watchdog.sources.chattext import HONEST, Inbounds, cut, end_of_inbound, may_quote
from watchdog.sources.gate import INBOUND, NOBODY, PASSED, Gate, Mark
from watchdog.sources.localtime import LocalClock
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re

# Each digit by itself: re takes longer to count them.
_TIME = rb"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
HEADER: re.Pattern[bytes] = own(
    rb"(?P<stamp>%b) (?P<level>[A-Z]+)(?: \[(?P<session>[^\]\n]{0,200})\])? (?P<logger>[\w.-]{1,200}): " % _TIME
)
STAMP: re.Pattern[bytes] = own(rb"%b [A-Z]" % _TIME)
NEXT: re.Pattern[bytes] = own(rb"\n(?=%b [A-Z])" % _TIME)
EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
MEMORY = 2000  # names remembered
_NOTHING: dict[Any, Any] = {}


class Reader:
    """Bytes → events, remembering across blocks what a forged line needs."""

    def __init__(
        self,
        source: str,
        clock: LocalClock,
        gate: Gate | None,
        since: datetime | None = None,
        until: datetime | None = None,
        attention: Attention | None = None,
    ):
        self.source, self.clock, self.gate, self.attention = source, clock, gate, attention
        self.since, self.until = since or EVER[0], until or EVER[1]
        self.doubt = 0  # up to here in the block, lines may belong to a name that held a line break
        self.doubt_left = 0  # bytes of the next block that may still belong to it
        self.doubted = False  # whether there was such a name in or before this block
        self.first_at: datetime | None = None  # of the block's first record, wanted or not
        self.last_at: datetime | None = None  # of the newest record, wanted or not
        self.future = 0  # records dated after the window
        self.names: dict[bytes, str] = {}
        self.inbound = Inbounds()

    def records(self, name: str, offset: int, block: bytes, following: bytes) -> list[Event]:
        """The records of one block and of the window that some rule may want; all of them when there is no gate."""
        self.doubted = False
        self._distrust(block, 0, self.doubt_left)
        gate = self.gate
        first = HEADER.match(block) or HEADER.search(block)
        self.first_at = self.clock.read(first[1]) if first else None
        if gate is None or gate.open:
            found = [self._record(block, head, stop, following, name, offset, None) for head, stop in _all(block)]
        else:
            found = self._marked(gate, name, offset, block, following)
        if newest := HEADER.match(block, last_record(block)):
            self.last_at = self.clock.read(newest[1]) or self.last_at
        if self.attention is not None and self.last_at is not None:
            self.attention.read(self.last_at)
        return [event for event in found if event is not None]

    def _marked(self, gate: Gate, name: str, offset: int, block: bytes, following: bytes) -> list[Event | None]:
        found: list[Event | None] = []
        marks = gate.marks(block)
        rfind, find, startswith, header, stamped = block.rfind, block.find, block.startswith, HEADER.match, STAMP.match
        usually, record = gate.alone, self._record
        alone, end_begins = (usually, 0) if self.attention is None else self._now_wanted(self.attention, block, marks)
        settled = self.attention.settled if self.attention is not None else _NOTHING
        count, index = len(marks), 0
        while index < count:
            number, at, end = marks[index]
            index += 1
            wanted = alone[number] if at < end_begins else usually[number]
            if wanted is PASSED:
                continue
            if wanted is NOBODY:
                # Read only to see that nothing is forged, which most show in one look.
                honest = HONEST.match(block, at)
                if honest is not None and stamped(block, honest.end()):
                    continue
            start = rfind(b"\n", 0, at) + 1
            stop = find(b"\n", end) + 1 or len(block)
            head = header(block, start)
            if wanted and head is not None and head.end() == at and (index == count or marks[index][1] >= stop) and stamped(block, stop):
                if number not in settled or str(head["session"] or b"", "utf-8", "replace") not in settled[number]:
                    found.append(record(block, head, stop, following, name, offset, wanted))
                continue  # so most of a busy log
            while head is None and start and not stamped(block, start):
                start = rfind(b"\n", 0, start - 1) + 1  # a word in a traceback belongs to its record
                head = header(block, start)
            if stop < len(block) and not stamped(block, stop):
                after = NEXT.search(block, stop)
                stop = after.start() + 1 if after else len(block)
            hits = gate.hits(number, block, end)
            while index < count and marks[index][1] < stop:
                hits += gate.hits(marks[index][0], block, marks[index][2])
                index += 1
            if head is None:
                continue
            message = head.end()
            wanted = gate.wanted(hits, block, message)
            if wanted:
                found.append(record(block, head, stop, following, name, offset, wanted))
            elif startswith(INBOUND, message):
                event = record(block, head, stop, following, name, offset, wanted)
                if event is not None and event.ambiguous:
                    found.append(event)
        return found

    def _now_wanted(self, attention: Attention, block: bytes, marks: Sequence[Mark]) -> tuple[Sequence[tuple[int, ...] | None], int]:
        """(what is wanted now, up to where in the block): what wakes somebody may be written late, in the next block."""
        alone = attention.look(marks)
        if alone is attention.gate.alone:
            return alone, 0
        clock = LocalClock(self.clock.zone)
        last = last_record(block)
        newest = clock.read(block[last : last + 23])
        return alone, start_of(clock.naive(newest - AT_THE_END), block) if newest is not None else 0

    def _name(self, raw: bytes) -> str:
        """Levels and loggers come again and again."""
        if len(self.names) > MEMORY:
            self.names.clear()
        name = self.names[raw] = str(raw, "utf-8", "replace")
        return name

    def _record(
        self, block: bytes, head: re.Match[bytes], stop: int, following: bytes, name: str, offset: int, hits: tuple[int, ...] | None
    ) -> Event | None:
        stamp, level, session, logger = head.groups()
        at = self.clock.read(stamp)
        if at is None:
            return None
        start, message = head.span()
        more = ""
        ambiguous = "it follows a user name with a line break in it" if start < self.doubt else ""
        known = self.inbound.cut(block, message, stop) if block.startswith(INBOUND, message) else None
        if known is not None:
            text, facts = known
        else:
            text = str(block[message : stop if stop - message <= LONGEST else message + LONGEST], "utf-8", "replace")
            text, _, more = text.partition("\n")
            text = text.rstrip("\r\0")
            facts = _NOTHING
            if may_quote(text):
                text, facts, why = cut(text)
                if why and not ambiguous:
                    ambiguous = why
                    if not end_of_inbound(block, message, stop):
                        self._distrust(block, stop, LONGEST)
        if at > self.until or at < self.since:
            self.future += at > self.until
            return None
        next_at = None
        if hits is None or self.gate is None or (self.gate.followed and not self.gate.followed.isdisjoint(hits)):
            next_at = self.clock.read(block[stop : stop + 23] if stop < len(block) else following[:23])
        names = self.names
        return Event(
            at,
            self.source,
            text,
            f"{name}@{offset + start}",
            names.get(logger) or self._name(logger),
            names.get(level) or self._name(level),
            "" if session is None else str(session, "utf-8", "replace"),
            facts,
            more.rstrip("\n") if more else "",
            next_at,
            hits,
            ambiguous,
        )

    def _distrust(self, block: bytes, start: int, reach: int) -> None:
        """A name with a line break is being written: until its real end, every line may be the name's."""
        self.doubted = self.doubted or reach > 0
        end = end_of_inbound(block, start, start + reach) if reach else 0
        self.doubt = end or min(start + reach, len(block))
        self.doubt_left = 0 if end else max(0, start + reach - len(block))


def _all(block: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """(header, end) of each record."""
    start = 0
    for found in NEXT.finditer(block):
        if head := HEADER.match(block, start):
            yield head, found.start() + 1
        start = found.start() + 1
    if head := HEADER.match(block, start):
        yield head, len(block)


def start_of(stamp: bytes, block: bytes) -> int:
    """Where the records of this local time and later begin, as well as bisecting can tell."""
    low, high = 0, len(block)
    while high - low > 64:
        middle = (low + high) // 2
        found = NEXT.search(block, middle)
        if found is not None and block[found.end() : found.end() + 23] < stamp:
            low = found.end()
        else:
            high = middle
    return low


def last_record(block: bytes) -> int:
    """Where the last record of the block begins; it may go on in the next block."""
    end = len(block)
    while (at := block.rfind(b"\n2", 0, end)) >= 0:
        if HEADER.match(block, at + 1):
            return at + 1
        end = at
    return 0

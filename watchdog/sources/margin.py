"""Places in a log that stay unread until somebody asks when certain lines there were written. Most are never asked for."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from watchdog.model import Line
from watchdog.pattern import LONGEST
from watchdog.sources.chattext import may_quote
from watchdog.sources.gate import Gate
from watchdog.sources.localtime import LocalClock
from watchdog.sources.records import Reader
from watchdog.trace import Trace
from watchdog.values import Any

OFTEN = 3  # times that a place was searched for names; asked for once more, all of it is read

Block = tuple[str, int, bytes, bytes]  # as Reader.records takes it
Names = frozenset[str] | None  # of sessions; None: too many to look for
Needs = Callable[[datetime], Names]  # whose signs somebody may still need of a place that ends then
NOBODY: frozenset[str] = frozenset()


class Place:
    """One block of a log: how to read it again, and what the reader knew where it began."""

    __slots__ = ("again", "asked", "doubt", "last", "newest", "oldest")

    def __init__(self, oldest: datetime, newest: datetime, last: datetime, doubt: int | None, again: Callable[[], Block]):
        self.oldest, self.newest = oldest, newest
        self.last, self.doubt = last, doubt  # of the clock; of a name with line breaks, None: nothing in here is doubtful
        self.again = again
        self.asked = 0


class Margin:
    def __init__(
        self, source: str, zone: tzinfo | None, lines: Sequence[Line], since: datetime | None, until: datetime, lost: Callable[[OSError], None]
    ):
        self.traces = {line: Trace(self) for line in lines}
        self.gate = Gate(lines)
        self.reader = _Signs(self.traces, source, LocalClock(zone), self.gate, since, until)
        self.unread: deque[Place] = deque()
        self.followers: list[Needs] = []
        self.lost = lost  # who must know that a place could not be read again

    def read(self, before: datetime) -> None:
        """Read what may be older than this moment and is needed; a place of which only some was needed may be asked for again."""
        if not self.unread or self.unread[0].oldest >= before:
            return
        left: deque[Place] = deque()
        for place in self.unread:
            names = self._needed(place) if place.oldest < before else NOBODY
            if names is not None:
                left.append(place)
            self.read_place(place, names)
        self.unread = left

    def let_go(self, before: datetime) -> bool:
        """Part from what is older than this moment; whether somebody still needed something of it."""
        any_read = False
        while self.unread and self.unread[0].newest < before:
            place = self.unread.popleft()
            names = self._needed(place)
            any_read |= names != NOBODY
            self.read_place(place, names)
        return any_read

    def _needed(self, place: Place) -> Names:
        wanted: set[str] = set()
        for needs in self.followers:
            names = needs(place.newest)
            if names is None:
                return None
            wanted |= names
        place.asked += bool(wanted)
        return frozenset(wanted) if place.asked <= OFTEN else None

    def read_place(self, place: Place, names: Names, block: Block | None = None) -> None:
        """Note the signs of these sessions, or of all."""
        gate = self.gate
        if names is not None:
            if not names:
                return
            # Looking for a few names is much less work than looking at every sign.
            gate = Gate.of([name.encode() for name in sorted(names)], place.doubt is not None)
        self.reader.gate, self.reader.clock.last, self.reader.doubt_left = gate, place.last, place.doubt or 0
        try:
            self.reader.records(*(block or place.again()))
        except OSError as error:
            self.lost(error)


class _Signs(Reader):
    """Notes the time of each record instead of making an event of it."""

    def __init__(self, traces: dict[Line, Trace], *rest: Any):
        super().__init__(*rest)
        self.traces = [(line.pattern.match, line.level, line.logger, trace.note) for line, trace in traces.items()]

    def _record(
        self, block: bytes, head: re.Match[bytes], stop: int, following: bytes, name: str, offset: int, hits: tuple[int, ...] | None
    ) -> None:
        start, message = head.span()
        text = str(block[message : stop if stop - message <= LONGEST else message + LONGEST], "utf-8", "replace").rstrip("\r\n")
        if start < self.doubt or "\n" in text or may_quote(text):
            event = super()._record(block, head, stop, following, name, offset, hits)
            if event is None or event.ambiguous:
                return
            text = f"{event.text}\n{event.more}" if event.more else event.text
        stamp, level, session, logger = head.groups()
        at = self.clock.read(stamp)
        if at is None or not self.since <= at <= self.until:
            return
        for match, levels, loggers, note in self.traces:
            if (levels and self._name(level) not in levels) or (loggers and not self._name(logger).startswith(loggers)):
                continue
            if match(text) is not None:
                note(at, "" if session is None else str(session, "utf-8", "replace"))

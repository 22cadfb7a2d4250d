"""Places in a log that stay unread until somebody asks when certain lines there were written. Most are never asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from datetime import datetime, tzinfo

from watchdog.model import Line
from watchdog.pattern import LONGEST
from watchdog.sources.chattext import may_quote
from watchdog.sources.gate import Gate
from watchdog.sources.localtime import LocalClock
from watchdog.sources.records import Reader
from watchdog.trace import Trace
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re

FEW = 50  # names to look for in a place; with more of them, all of it is read
SIGNS = 100  # to read so many takes somewhat longer than to search a place for names

Block = tuple[str, int, bytes, bytes]  # as Reader.records takes it


class Place:
    """One block of a log: how to read it again, and what the reader knew where it began."""

    __slots__ = ("again", "asked", "doubt", "last", "names", "newest", "oldest")

    def __init__(self, oldest: datetime, newest: datetime, last: datetime, doubt: int | None, again: Callable[[], Block]):
        self.oldest, self.newest = oldest, newest
        self.last, self.doubt = last, doubt  # of the clock; of a name with line breaks, None: nothing in here is doubtful
        self.again = again
        self.names: set[str] | None = set()  # of sessions whose signs were read; None: of all
        self.asked = 0


class Margin:
    """Of one line and one log."""

    def __init__(self, line: Line, zone: tzinfo | None, since: datetime | None, until: datetime, lost: Callable[[OSError], None]):
        self.trace = Trace(self)
        self.gate = Gate([line])
        self.reader = _Signs(line, self.trace, LocalClock(zone), self.gate, since, until)
        self.unread: deque[Place] = deque()
        self.followers: list[Callable[[datetime], None]] = []  # who must know that all before a moment will be forgotten
        self.often = 3  # times that a place is searched for names; asked for once more, all of it is read
        self.lost = lost  # who must know that a place could not be read again

    def read(self, first: datetime, before: datetime, names: Set[str]) -> None:
        """Note what these sessions did in this stretch of time, and perhaps more."""
        for place in self.unread:
            if place.oldest >= before:
                return
            if place.newest < first or place.names is None or not (missing := names - place.names):
                continue
            place.asked += 1
            if place.asked > self.often or len(missing) > FEW:
                place.names = None
                self.trace.count = 0
                self.read_place(place, None)
                self.often = max(2, self.trace.count // SIGNS)
            else:
                place.names |= missing
                self.read_place(place, missing)

    def let_go(self, before: datetime) -> None:
        """Part from what is older than this moment, once everybody has taken from it what they need."""
        if not self.unread or self.unread[0].newest >= before:
            return
        for settle in self.followers:
            settle(before)
        while self.unread and self.unread[0].newest < before:
            self.unread.popleft()
        self.trace.forget(before)

    def read_place(self, place: Place, names: Set[str] | None, block: Block | None = None) -> None:
        """Note the signs of these sessions, or of all."""
        gate = self.gate
        if names is not None:
            # Looking for a few names is much less work than looking at every sign. Names begin alike; how they end tells them apart.
            gate = Gate.of(sorted({name.encode()[-8:] + b"] " for name in names}), place.doubt is not None)
        self.reader.gate, self.reader.clock.last, self.reader.doubt_left = gate, place.last, place.doubt or 0
        try:
            self.reader.records(*(block or place.again()))
        except OSError as error:
            self.lost(error)


class _Signs(Reader):
    """Notes the time of each record instead of making an event of it."""

    def __init__(self, line: Line, trace: Trace, *rest: Any):
        super().__init__(line.source, *rest)
        self.line, self.trace = line, trace

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
        wanted = self.line
        if (wanted.level and self._name(level) not in wanted.level) or (wanted.logger and not self._name(logger).startswith(wanted.logger)):
            return
        if wanted.pattern.match(text) is not None:
            self.trace.note(at, "" if session is None else str(session, "utf-8", "replace"))

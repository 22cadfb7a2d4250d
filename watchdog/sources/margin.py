"""Blocks of a log kept unread until somebody asks when certain of their lines were written. Most are never asked for."""

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

KEPT = 16  # blocks; more of them are read, asked for or not, rather than held

# Oldest and newest record, where the clock and the doubt stood (None: nothing in it is doubtful), the block itself.
Part = tuple[datetime, datetime, datetime, int | None, tuple[str, int, bytes, bytes]]
Names = frozenset[str] | None  # of sessions; None: too many to look for
Needs = Callable[[datetime], Names]  # whose signs somebody may still need of a block that ends then
NOBODY: frozenset[str] = frozenset()


class Margin:
    def __init__(self, source: str, zone: tzinfo | None, lines: Sequence[Line], since: datetime | None, until: datetime):
        self.traces = {line: Trace(self) for line in lines}
        self.gate = Gate(lines)
        self.reader = _Signs(self.traces, source, LocalClock(zone), self.gate, since, until)
        self.unread: deque[Part] = deque()
        self.followers: list[Needs] = []

    def keep(self, part: Part) -> None:
        self.unread.append(part)
        if len(self.unread) > KEPT:
            self._read(self.unread.popleft(), None)

    def read(self, before: datetime) -> None:
        """Read what may be older than this moment and is needed; a block of which only some was needed may be asked for again."""
        if not self.unread or self.unread[0][0] >= before:
            return
        left: deque[Part] = deque()
        for part in self.unread:
            names = self._needed(part) if part[0] < before else NOBODY
            if names is not None:
                left.append(part)
            self._read(part, names)
        self.unread = left

    def let_go(self, before: datetime) -> bool:
        """Part from what is older than this moment; whether somebody still needed something of it."""
        any_read = False
        while self.unread and self.unread[0][1] < before:
            part = self.unread.popleft()
            names = self._needed(part)
            any_read |= names != NOBODY
            self._read(part, names)
        return any_read

    def _needed(self, part: Part) -> Names:
        wanted: set[str] = set()
        for needs in self.followers:
            names = needs(part[1])
            if names is None:
                return None
            wanted |= names
        return frozenset(wanted)

    def _read(self, part: Part, names: Names) -> None:
        _, _, last, doubt, block = part
        gate = self.gate
        if names is not None:
            if not names:
                return
            # Looking for a few names is much less work than looking at every sign.
            gate = Gate.of([name.encode() for name in sorted(names)], doubt is not None)
        self.reader.gate, self.reader.clock.last, self.reader.doubt_left = gate, last, doubt or 0
        self.reader.records(*block)


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
                note(at, self._name(session))

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

KEPT = 32  # blocks; more of them are read, asked for or not, rather than held

Part = tuple[datetime, datetime, datetime, int, tuple[str, int, bytes, bytes]]  # oldest, newest, where the clock and the doubt stood, block
Needs = Callable[[datetime, bytes], bool]


class Margin:
    def __init__(self, source: str, zone: tzinfo | None, lines: Sequence[Line], since: datetime | None, until: datetime):
        self.traces = {line: Trace(self) for line in lines}
        self.reader = _Signs(self.traces, source, LocalClock(zone), Gate(lines), since, until)
        self.unread: deque[Part] = deque()
        self.followers: list[Needs] = []  # whether somebody may still need a block of this age

    def keep(self, part: Part) -> None:
        self.unread.append(part)
        if len(self.unread) > KEPT:
            self._read(self.unread.popleft())

    def read(self, before: datetime) -> None:
        """Read all that may be older than this moment and that somebody needs."""
        if self.unread and self.unread[0][0] < before:
            needed = [part for part in self.unread if part[0] < before and self._needed(part)]
            if needed:
                self.unread = deque(part for part in self.unread if part not in needed)
            for part in needed:
                self._read(part)

    def let_go(self, before: datetime) -> bool:
        """Drop what is older than this moment and nobody needs; whether something had to be read instead."""
        any_read = False
        while self.unread and self.unread[0][1] < before:
            part = self.unread.popleft()
            if self._needed(part):
                self._read(part)
                any_read = True
        return any_read

    def _needed(self, part: Part) -> bool:
        return any(needs(part[1], part[4][2]) for needs in self.followers)

    def _read(self, part: Part) -> None:
        _, _, self.reader.clock.last, self.reader.doubt_left, block = part
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

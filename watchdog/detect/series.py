"""Times of one thing under one key → spans during which it came too often. Burst and loop both count this way."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from watchdog.detect.common import Captures, keep
from watchdog.model import Event, Span


class Series:
    """How often something happened, and when that was too often."""

    def __init__(self, at_least: int, within: timedelta, settles_after: timedelta):
        self.at_least, self.within, self.settles_after = at_least, within, settles_after
        self.recent: deque[Event] = deque(maxlen=at_least)
        self.closed: list[Span] = []
        self.current: Span | None = None
        self.times = 0

    def add(self, key: str, event: Event, quotes: Captures, enough: bool = False) -> None:
        """One more; `enough` alone passes the limit, however few there were."""
        self.settle(event.at)
        self.recent.append(event)
        if self.current is not None:
            self.times += 0 if enough else 1
            self.current = self._grown(self.current, event, quotes)
            return
        in_time = [seen for seen in self.recent if event.at - seen.at <= self.within]
        if enough or len(in_time) >= self.at_least:
            self.times = max(1, len(in_time) - (1 if enough and len(in_time) > 1 else 0))
            self.current = self._grown(Span(key, in_time[0].at, event.at, event.at, evidence=tuple(in_time[:1])), event, quotes)

    def _grown(self, span: Span, event: Event, quotes: Captures) -> Span:
        evidence = span.evidence if event in span.evidence else keep(span.evidence, event)
        known = {**span.quotes, **{name: value for name, value in quotes.items() if value}, "times": str(self.times)}
        return Span(span.key, span.first_at, span.opened_at, max(span.last_at, event.at), None, known, {}, evidence)

    def settle(self, now: datetime) -> None:
        """Close what has not come again for long enough."""
        if self.current is not None and now - self.current.last_at > self.settles_after:
            self.end(self.current.last_at + self.settles_after)

    def end(self, at: datetime) -> None:
        """It is over; what comes next is counted anew."""
        self.recent.clear()
        if self.current is not None:
            span = self.current
            self.closed.append(Span(span.key, span.first_at, span.opened_at, span.last_at, max(at, span.last_at), span.quotes, {}, span.evidence))
            self.current = None

    def spans(self, now: datetime) -> list[Span]:
        self.settle(now)
        return [*self.closed, *([self.current] if self.current is not None else [])]

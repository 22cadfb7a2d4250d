"""Times of one thing under one key → spans during which it came too often. Burst and loop both count this way."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.detect.common import Captures, keep
from watchdog.model import Event, Span
from watchdog.text import ago, spell
from watchdog.values import replace


class Series:
    """How often something happened, and when that was too often."""

    def __init__(self, at_least: int, within: timedelta, settles_after: timedelta | None):
        self.at_least, self.within = at_least, within
        self.settles_after = settles_after  # after a sign of life; None: there is no such sign
        self.alive_at: datetime | None = None
        self.recent: deque[Event] = deque(maxlen=at_least)
        self.closed: list[Span] = []
        self.current: Span | None = None
        self.times = 0

    def add(self, key: str, event: Event, quotes: Captures, enough: bool = False) -> None:
        """One more; `enough` alone passes the limit, however few there were."""
        self.settle(event.at)
        self.alive_at = None
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
        """Close what has lived for long enough, or not come again in a whole window; one more may open it again."""
        if self.current is None:
            return
        over = self.current.last_at + self.within
        if self.settles_after is not None and self.alive_at is not None:
            over = min(over, self.alive_at + self.settles_after)
        if now > over:
            self._close(over)

    def lives(self, at: datetime) -> None:
        """A sign of life; when nothing happens for a while after it, this is over."""
        self.settle(at)
        self.alive_at = self.alive_at or at

    def end(self, at: datetime) -> None:
        """It is over; what comes next is counted anew."""
        self.recent.clear()
        self._close(at)

    def _close(self, at: datetime) -> None:
        if self.current is not None:
            self.closed.append(replace(self.current, ended_at=max(at, self.current.last_at)))
            self.current = None

    def spans(self, now: datetime) -> list[Span]:
        self.settle(now)
        return [*self.closed, *([self.current] if self.current is not None else [])]


def states(series: Mapping[str, Series], at_least: int, within: timedelta, now: datetime) -> list[str]:
    """How near each key is to its limit, in words."""
    found = []
    for key, one in series.items():
        times = one.times if one.current is not None else sum(now - event.at <= within for event in one.recent)
        last = f", last {ago(one.recent[-1].at, now)}" if one.recent else ""
        found.append(f"{key or 'all'}: {times} of {at_least} within {spell(within)}{last}")
    return found or [f"0 of {at_least} within {spell(within)}: no such line in the window"]

"""Times of one thing under one key → spans during which it came too often.

Burst and loop both count this way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from watchdog.detect.common import KEEP_LAST, Captures, with_moments
from watchdog.model import Event, Reason, Span
from watchdog.values import Any, replace

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Series:
    """How often something happened, and when that was too often."""

    def __init__(
        self,
        at_least: int,
        within: timedelta,
        settles_after: timedelta | None,
        quiet_for: timedelta | None = None,
    ):
        self.at_least, self.within = at_least, within
        self.quiet_for = quiet_for or within  # nothing for so long: over
        self.settles_after = settles_after  # after a sign of life; None: there is no such sign
        self.alive_at: datetime | None = None
        self.recent: deque[Event] = deque(maxlen=at_least)
        self.closed: list[Span] = []
        self.current: Span | None = None  # as it began
        self.last_at = LONG_AGO  # of the present one: its newest time, what it quotes, its evidence
        self.quotes: dict[str, Any] = {}
        self.quoted: Captures | None = None  # what was added to that last
        self.first: Event | None = None
        self.newest: deque[Event] = deque(maxlen=KEEP_LAST)
        self.times = 0
        self.sessions: set[str] = set()  # whose lines these are
        self.failed: dict[str, datetime] = {}  # what failed, and when it did last
        self.about: Captures = {}  # what makes its key, by name

    def add(self, key: str, event: Event, quotes: Captures, enough: bool = False) -> None:
        """One more; `enough` alone passes the limit, however few there were."""
        at = event.at
        if self.current is not None and (self.alive_at is not None or at - self.last_at > self.quiet_for):
            self.settle(at)
        self.alive_at = None
        self.recent.append(event)
        if self.current is None:
            in_time = [seen for seen in self.recent if at - seen.at <= self.within]
            if not enough and len(in_time) < self.at_least:
                return
            self.times = max(1, len(in_time) - (1 if enough and len(in_time) > 1 else 0))
            self.current = Span(key, in_time[0].at, at, at, past=True)
            self.last_at, self.quotes, self.quoted, self.first = at, {}, None, in_time[0]
            self.newest = deque(maxlen=KEEP_LAST)
            self.sessions = {seen.session for seen in in_time if seen.session}
        elif not enough:
            self.times += 1
        if self.first is not event:
            self.newest.append(event)
        if at > self.last_at:
            self.last_at = at
        if event.session:
            self.sessions.add(event.session)
        if quotes is not self.quoted and quotes != self.quoted:
            self.quoted = quotes
            self.quotes.update(with_moments(quotes, at))

    @property
    def evidence(self) -> tuple[Event, ...]:
        """The first and the newest few."""
        return (self.first, *self.newest) if self.first is not None else ()

    def _told(self, span: Span, ended: datetime | None) -> Span:
        return replace(
            span,
            last_at=self.last_at,
            ended_at=ended,
            quotes={**self.quotes, "times": str(self.times)},
            evidence=self.evidence,
        )

    def forgotten(self, now: datetime) -> bool:
        """Forget what is too old to count; whether nothing at all is left to tell."""
        self.settle(now)
        if self.current is None and self.recent and now - self.recent[-1].at > self.within:
            self.recent.clear()
        return self.current is None and not self.recent and not self.closed

    def settle(self, now: datetime) -> None:
        """Close what has lived for long enough, or not come again in a whole window; one more may open it
        again.
        """
        if self.current is None or (self.alive_at is None and now - self.last_at <= self.quiet_for):
            return
        over = self.last_at + self.quiet_for
        if self.settles_after is not None and self.alive_at is not None:
            over = min(over, self.alive_at + self.settles_after)
        if now > over:
            self._close(over)

    def alive(self, at: datetime) -> None:
        """A sign of life; when nothing happens for a while after it, this has ended."""
        self.settle(at)
        self.alive_at = self.alive_at or at

    def end(self, at: datetime) -> None:
        """It has ended; what comes next is counted anew."""
        if self.recent or self.failed or self.current is not None:
            self.recent.clear()
            self.failed.clear()
            self._close(at)

    def _close(self, at: datetime) -> None:
        if self.current is not None:
            self.closed.append(self._told(self.current, max(at, self.last_at)))
            self.current = None

    def spans(self, now: datetime) -> list[Span]:
        self.settle(now)
        return [*self.closed, *([self._told(self.current, None)] if self.current is not None else [])]


def tidy(series: dict[str, Series], now: datetime) -> None:
    """Forget keys that need not be remembered: a log of years may have known thousands."""
    for key in [key for key, known in series.items() if known.forgotten(now)]:
        del series[key]


def states(
    series: Mapping[str, Series], at_least: int, within: timedelta, now: datetime
) -> list[Reason | str]:
    """How near each key is to its limit, for explain."""
    found: list[Reason | str] = []
    limit = {"wanted": at_least, "within": within}
    for key, known in series.items():
        times = (
            known.times
            if known.current is not None
            else sum(now - event.at <= within for event in known.recent)
        )
        last = Reason("explain.last", {"at": known.recent[-1].at}) if known.recent else ""
        fields = {**limit, "key": key or Reason("explain.all"), "times": times, "last": last}
        found.append(Reason("explain.times", fields))
    return found or [Reason("explain.never", limit)]

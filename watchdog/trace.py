"""When each session was seen to do something: kept beside the events, because only who and when matter.

A busy log is mostly such lines, and hardly ever does anybody ask for them. So the reader may leave them unread in a
margin (sources/margin.py) until a watch does.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime

from watchdog.values import Any


class Trace:
    """The signs of each session in the order of time."""

    __slots__ = ("count", "margin", "signs")

    def __init__(self, margin: Any = None) -> None:
        self.signs: dict[str, list[datetime]] = {}
        self.count = 0  # how many were noted
        self.margin = margin  # where more of them may wait unread; whoever asks for signs lets it read first

    def note(self, at: datetime, session: str) -> None:
        self.count += 1
        times = self.signs.get(session)
        if times is None:
            self.signs[session] = [at]
        elif at < times[-1]:
            insort(times, at)  # threads write a few seconds out of order
        else:
            times.append(at)

    def between(self, session: str, first: datetime, before: datetime) -> list[datetime]:
        """The signs of a session in this stretch of time."""
        times = self.signs.get(session)
        return times[bisect_left(times, first) : bisect_left(times, before)] if times else []

    def forget(self, before: datetime) -> None:
        """Let go of all that is older."""
        for session in [session for session, times in self.signs.items() if times[0] < before]:
            left = self.signs[session][bisect_left(self.signs[session], before) :]
            if left:
                self.signs[session] = left
            else:
                del self.signs[session]

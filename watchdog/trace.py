"""When each session was seen to do something: kept beside the events, because only who and when matter.

A busy log is mostly such lines, and hardly ever does anybody ask for them. So the reader may leave them unread in a
margin (sources/margin.py) until a watch does.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime

from watchdog.values import Any

Sign = tuple[datetime, str]  # when, and which session


class Trace:
    """Signs in the order of time; whoever takes them takes them once."""

    __slots__ = ("margin", "signs")

    def __init__(self, margin: Any = None) -> None:
        self.signs: list[Sign] = []
        self.margin = margin  # where more of them may wait unread; whoever takes signs lets it read first

    def note(self, at: datetime, session: str) -> None:
        signs = self.signs
        if signs and at < signs[-1][0]:
            insort(signs, (at, session))  # threads write a few seconds out of order
        else:
            signs.append((at, session))

    def before(self, at: datetime) -> list[Sign]:
        """Take all signs from before this moment."""
        count = bisect_left(self.signs, (at,))
        taken = self.signs[:count]
        del self.signs[:count]
        return taken

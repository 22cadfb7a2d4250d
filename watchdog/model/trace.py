"""When each session was seen to do something: kept beside the events, because only who and when matter.

A busy log is mostly such lines, and hardly ever does anybody ask for them. So the reader leaves them in blocks that
are read when a detector asks: measured, a log of nothing but turns costs a third less for it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime


def whose(captures: Mapping[str, str], by: Sequence[str]) -> str:
    """Whose sign it is by what was captured; no session is called so. '' when one of the captures is lacking."""
    names = [captures.get(name, "") for name in by]
    return "\n".join(names) if all(names) else ""


class Unread:
    """A stretch of a log whose signs were not asked for yet."""

    __slots__ = ("newest", "oldest", "read")

    def __init__(self, oldest: datetime, newest: datetime, read: Callable[[], None]):
        self.oldest, self.newest = oldest, newest
        self.read: Callable[[], None] | None = read  # notes all signs in it; None once that is done


class Trace:
    """The signs of each session in the order of time."""

    __slots__ = ("doubts", "followers", "signs", "unread")

    def __init__(self) -> None:
        self.signs: dict[str, list[datetime]] = {}
        self.doubts: dict[str, datetime] = {}  # session → its newest sign that a user name may have written
        self.unread: deque[Unread] = deque()
        # who must take what they need before the signs before a moment are forgotten
        self.followers: list[Callable[[datetime], None]] = []

    def note(self, at: datetime, session: str) -> None:
        times = self.signs.get(session)
        if times is None:
            self.signs[session] = [at]
        elif at < times[-1]:
            insort(times, at)  # threads write a few seconds out of order
        else:
            times.append(at)

    def doubt(self, at: datetime, session: str) -> None:
        """Note a sign that a user name may have written."""
        self.doubts[session] = max(at, self.doubts.get(session, at))

    def read(self, first: datetime, before: datetime) -> None:
        """Make sure that the signs in this stretch of time are known."""
        for unread in self.unread:
            if unread.oldest >= before:
                return
            if unread.newest >= first and unread.read is not None:
                read, unread.read = unread.read, None
                read()

    def between(self, session: str, first: datetime, before: datetime) -> list[datetime]:
        """The known signs of a session in this stretch of time."""
        times = self.signs.get(session)
        return times[bisect_left(times, first) : bisect_left(times, before)] if times else []

    def forget(self, before: datetime) -> None:
        """Drop all that is older, after the followers have taken what they need of it."""
        old = [session for session, times in self.signs.items() if times[0] < before]
        if not old and not (self.unread and self.unread[0].newest < before):
            return
        for settle in self.followers:
            settle(before)
        while self.unread and self.unread[0].newest < before:
            self.unread.popleft()
        # Settling may have read more of it.
        for session in [session for session, times in self.signs.items() if times[0] < before]:
            left = self.signs[session][bisect_left(self.signs[session], before) :]
            if left:
                self.signs[session] = left
            else:
                del self.signs[session]

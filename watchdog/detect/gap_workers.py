"""Which session works for which chat: those that are known, and those that are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchdog.detect.common import Captures
from watchdog.detect.gap_sessions import NEVER, Sessions, Stranger, Waiting, agree

FEW = 20  # chats that are remembered by name; of more, what they said is
ANYWHERE = 1000  # sessions remembered that may be for more chats than these
MEMORY = 10_000  # sessions of which we cannot tell
NO_CHAT = "", NEVER  # works for no chat that we know


class Workers:
    """Looked up from either end: what thousands cost who wait at the same time is what each of them would
    cost alone.
    """

    def __init__(self, waiting: Mapping[str, list[Waiting]]):
        self.waiting = waiting  # by chat; the watch's own
        self.sessions = Sessions()
        self.engaged: dict[str, list[Waiting]] = {}  # session → who has it
        self.strangers: dict[str, Stranger] = {}  # sessions of which it is not known for which chat they work
        self.suspects: dict[str, dict[str, None]] = {}  # key of a chat → those that may work for it
        self.anywhere: dict[str, None] = {}  # those that may work for more than a few

    def engage(self, wait: Waiting, session: str, linked: datetime = NEVER) -> None:
        """This session works for it: its own turn told so, or it answered the last time."""
        self.release(wait)
        wait.session, wait.linked = session, linked
        if session:
            self.engaged.setdefault(session, []).append(wait)

    def release(self, wait: Waiting) -> None:
        """It is answered, or another session is to work for it."""
        if wait.session:
            others = self.engaged[wait.session]
            others.remove(wait)
            if not others:
                del self.engaged[wait.session]

    def meet(self, session: str, stranger: Stranger) -> None:
        """A turn begins, and it is not known for which chat."""
        if len(self.strangers) >= MEMORY:
            self.forget()
        self.strangers[session] = stranger
        self.anywhere.pop(session, None)
        keys = stranger[1]
        for key in keys:
            self.suspects.setdefault(key, {})[session] = None
        if not keys:
            self.anywhere[session] = None
            if len(self.anywhere) > ANYWHERE:
                oldest = next(iter(self.anywhere))
                del self.anywhere[oldest], self.strangers[oldest]

    def forget(self, before: datetime | None = None) -> None:
        """Those whose turn began before all that waits now work for no chat that we know."""
        left = {
            name: wait for name, wait in self.strangers.items() if before is not None and wait[3] >= before
        }
        self.strangers, self.suspects, self.anywhere = {}, {}, {}
        for name, wait in left.items():
            self.meet(name, wait)

    def names(self, wait: Waiting, since: datetime) -> set[str]:
        """The sessions that have worked for it since then, if any of those has of which we can tell."""
        names = {wait.session} if wait.session else set()
        if wait.linked > since and not wait.session:
            names.update(self.sessions.by_key.get(wait.key, ()))
        return names

    def maybe(self, wait: Waiting, since: datetime, anywhere: Iterable[str]) -> list[str]:
        """Those that may have worked for it since then, of which we cannot tell; of those that may be for
        many, look at these.
        """
        if wait.linked <= since:
            return []
        names = (*self.suspects.get(wait.key, ()), *anywhere)
        return [
            name
            for name in names
            if (stranger := self.strangers.get(name)) is not None and self.may_be_for(stranger, wait)
        ]

    def waiting_for(self, session: str, at: datetime) -> list[Waiting]:
        """The waits that this session worked for at that time, or may have; none for a session that may work for many."""
        maybe = [
            *self.engaged.get(session, ()),
            *self.waiting.get(self.sessions.chats.get(session, NO_CHAT)[0], ()),
        ]
        if (stranger := self.strangers.get(session)) is not None:
            maybe += [wait for key in stranger[1] for wait in self.waiting.get(key, ())]
        return [wait for wait in dict.fromkeys(maybe) if self.works_for(session, wait, at)]

    def works_for(self, session: str, wait: Waiting, at: datetime) -> bool:
        """Whether this session worked for it at that time, or may have, when we cannot tell."""
        if at < wait.opened.at or session == wait.session or at >= wait.linked:
            return at >= wait.opened.at and session == wait.session
        key, known = self.sessions.chats.get(session, NO_CHAT)
        if at >= known:
            return bool(key == wait.key and not wait.session)
        stranger = self.strangers.get(session)
        return stranger is not None and at >= stranger[3] and self.may_be_for(stranger, wait)

    def may_be_for(self, stranger: Stranger, wait: Waiting) -> bool:
        """A turn is for something that was said before it began."""
        common, keys, words, began = stranger
        if wait.opened.at > began or not agree(wait, common):
            return False
        if keys or not words:
            return not keys or wait.key in keys
        return any(
            other.said == words and other.opened.at <= began for other in self.waiting.get(wait.key, ())
        )


def few(waits: Iterable[Waiting]) -> list[Waiting]:
    """The same, or the first of them when they are of more chats than matters."""
    found: list[Waiting] = []
    keys: set[str] = set()
    for wait in waits:
        found.append(wait)
        keys.add(wait.key)
        if len(keys) > FEW:
            break
    return found


def stranger(common: Captures, waits: Sequence[Waiting], at: datetime) -> Stranger:
    """A session whose turn may be for any of these; when they are many, for everyone who said the same; when
    there are none, for anybody.
    """
    keys = frozenset(wait.key for wait in waits)
    if len(keys) <= FEW:
        return common, keys, "", at
    words = {wait.said for wait in waits}
    return common, frozenset(), words.pop() if len(words) == 1 else "", at

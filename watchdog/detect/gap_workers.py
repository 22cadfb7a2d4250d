"""Which session works for whom: those that have told, and those of which we cannot tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchdog.detect.common import Captures
from watchdog.detect.gap_sessions import NEVER, Sessions, Stranger, Waiting, agree

FEW = 20  # chats that are remembered by name; of more, what they said is
ANYWHERE = 1000  # sessions remembered that may be for more chats than these
MEMORY = 10_000  # sessions of which we cannot tell
NOBODY = "", NEVER  # works for no chat that we know


class Workers:
    """Looked up from either end: what thousands cost who wait at the same time is what each of them would
    cost alone.
    """

    def __init__(self, waiting: Mapping[str, list[Waiting]]):
        self.waiting = waiting  # by chat; the watch's own
        self.sessions = Sessions()
        self.engaged: dict[str, list[Waiting]] = {}  # session → who has it
        self.strangers: dict[str, Stranger] = {}  # sessions of which we cannot tell for whom they work
        self.suspects: dict[str, dict[str, None]] = {}  # key of a chat → those that may work for it
        self.anywhere: dict[str, None] = {}  # those that may work for more than a few

    def engage(self, one: Waiting, session: str, linked: datetime = NEVER) -> None:
        """This session works for it: its own turn told so, or it answered the last time."""
        self.release(one)
        one.session, one.linked = session, linked
        if session:
            self.engaged.setdefault(session, []).append(one)

    def release(self, one: Waiting) -> None:
        """It is answered, or another session is to work for it."""
        if one.session:
            others = self.engaged[one.session]
            others.remove(one)
            if not others:
                del self.engaged[one.session]

    def meet(self, session: str, stranger: Stranger) -> None:
        """A turn begins, and we cannot tell for whom."""
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
        """Those whose turn began before all that waits now work for nobody that we know."""
        left = {name: one for name, one in self.strangers.items() if before is not None and one[3] >= before}
        self.strangers, self.suspects, self.anywhere = {}, {}, {}
        for name, one in left.items():
            self.meet(name, one)

    def names(self, one: Waiting, since: datetime) -> set[str]:
        """The sessions that have worked for it since then, if any of those has of which we can tell."""
        names = {one.session} if one.session else set()
        if one.linked > since and not one.session:
            names.update(self.sessions.by_key.get(one.key, ()))
        return names

    def maybe(self, one: Waiting, since: datetime, anywhere: Iterable[str]) -> list[str]:
        """Those that may have worked for it since then, of which we cannot tell; of those that may be for
        many, look at these.
        """
        if one.linked <= since:
            return []
        names = (*self.suspects.get(one.key, ()), *anywhere)
        return [
            name
            for name in names
            if (stranger := self.strangers.get(name)) is not None and self.may_be_for(stranger, one)
        ]

    def whom(self, session: str, at: datetime) -> list[Waiting]:
        """Those for whom this session worked at that time, or may have; of one that may be for many, nobody."""
        maybe = [
            *self.engaged.get(session, ()),
            *self.waiting.get(self.sessions.chats.get(session, NOBODY)[0], ()),
        ]
        if (stranger := self.strangers.get(session)) is not None:
            maybe += [one for key in stranger[1] for one in self.waiting.get(key, ())]
        return [one for one in dict.fromkeys(maybe) if self.works_for(session, one, at)]

    def works_for(self, session: str, one: Waiting, at: datetime) -> bool:
        """Whether this session worked for it at that time, or may have, when we cannot tell."""
        if at < one.opened.at or session == one.session or at >= one.linked:
            return at >= one.opened.at and session == one.session
        key, known = self.sessions.chats.get(session, NOBODY)
        if at >= known:
            return bool(key == one.key and not one.session)
        stranger = self.strangers.get(session)
        return stranger is not None and at >= stranger[3] and self.may_be_for(stranger, one)

    def may_be_for(self, stranger: Stranger, one: Waiting) -> bool:
        """A turn is for something that was said before it began."""
        common, keys, told, began = stranger
        if one.opened.at > began or not agree(one, common):
            return False
        if keys or not told:
            return not keys or one.key in keys
        return any(other.said == told and other.opened.at <= began for other in self.waiting.get(one.key, ()))


def few(those: Iterable[Waiting]) -> list[Waiting]:
    """The same, or the first of them when they are of more chats than matters."""
    found: list[Waiting] = []
    keys: set[str] = set()
    for one in those:
        found.append(one)
        keys.add(one.key)
        if len(keys) > FEW:
            break
    return found


def stranger(common: Captures, those: Sequence[Waiting], at: datetime) -> Stranger:
    """A session whose turn may be for any of these; when they are many, for everyone who said the same; when
    there are none, for anybody.
    """
    keys = frozenset(one.key for one in those)
    if len(keys) <= FEW:
        return common, keys, "", at
    said = {one.said for one in those}
    return common, frozenset(), said.pop() if len(said) == 1 else "", at

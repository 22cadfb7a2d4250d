"""What chat or person a line is about, where the line itself does not say it."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.detect.gap_sessions import MOST as KNOWN
from watchdog.detect.gap_sessions import Recent
from watchdog.model import Event

LINK_WITHIN = timedelta(minutes=2)  # a turn that begins later than this is about another message
NAMED_WITHIN = timedelta(minutes=10)  # a line that is older than this no longer names anyone
MOST = 200


class SessionChats:
    """Which chat a session works for: told by sessions.json, or by a turn that begins with a chat's words."""

    def __init__(self) -> None:
        self.chats = Recent()  # session → platform and chat
        # platform and digest of what was said → who said it and when; None where several said the same
        self.said: dict[tuple[str, str], tuple[Captures, datetime] | None] = {}

    def known(self, event: Event) -> None:
        self.chats.update(
            {
                chat["session"]: {"platform": chat["platform"], "chat": chat["chat"]}
                for chat in event.facts["sessions"][-KNOWN:]
            }
        )

    def asked(self, captures: Captures, event: Event) -> None:
        key = captures.get("platform", ""), event.facts.get("said", "")
        before = self.said.get(key)
        unclear = key in self.said and (
            before is None
            or (before[0].get("chat") != captures.get("chat") and event.at - before[1] <= LINK_WITHIN)
        )
        if len(self.said) > MOST:
            self.said.clear()
        self.said[key] = None if unclear else (captures, event.at)

    def began(self, captures: Captures, event: Event) -> None:
        found = self.said.get((captures.get("platform", ""), event.facts.get("said", "")))
        if found is not None and event.at - found[1] <= LINK_WITHIN:
            self.chats.put(captures.get("session", ""), found[0])

    def of(self, session: str) -> Captures:
        """Platform and chat of a session; nothing when that is not known."""
        found: Captures = self.chats.get(session, {})
        return found


class Names:
    """Lines that name someone, for later ones that do not: `Sending response to CHAT`, `Failed to deliver`.

    A line that claims a name keeps it for the end of the same story, whatever else is named meanwhile.
    """

    def __init__(self, same: tuple[str, ...] = ()) -> None:
        self.same = same  # captures that lines of one story have in common, where they have them
        self.named: list[tuple[Captures, datetime]] = []
        self.claimed: list[tuple[Captures, datetime]] = []

    def name(self, captures: Captures, at: datetime) -> None:
        if len(self.named) > MOST or (self.named and at - self.named[0][1] > NAMED_WITHIN):
            self.named = [(known, then) for known, then in self.named[-MOST:] if at - then <= NAMED_WITHIN]
        self.claimed = [(known, then) for known, then in self.claimed[-MOST:] if at - then <= NAMED_WITHIN]
        self.named.append((captures, at))

    def claim(self, captures: Captures, at: datetime) -> None:
        if (found := self._newest(captures, at)) is not None:
            self.named.remove(found)
            self.claimed.append(found)

    def take(self, captures: Captures, at: datetime) -> Captures:
        """Who is meant by a line that ends a story: the oldest claim, else the newest name."""
        claims = [known for known in self.claimed if self._agree(known[0], captures)]
        if claims:
            self.claimed.remove(claims[0])
            return claims[0][0]
        found = self._newest(captures, at)
        return found[0] if found is not None else {}

    def _newest(self, captures: Captures, at: datetime) -> tuple[Captures, datetime] | None:
        fitting = (known for known in reversed(self.named) if self._agree(known[0], captures))
        return next((known for known in fitting if at - known[1] <= NAMED_WITHIN), None)

    def _agree(self, known: Captures, captures: Captures) -> bool:
        return all(known.get(name) == captures[name] for name in self.same if captures.get(name))

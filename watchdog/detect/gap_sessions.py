"""Who waits, and which session works for which chat, as far as the logs have told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.model import Event
from watchdog.values import Any

MOST = 2000  # of each kind that are remembered for sure; twice as many at the most
OF_A_CHAT = 50  # the newest; a group has a session for each member
TURN_BEGINS = timedelta(
    seconds=30
)  # after its message at the latest, unless another turn of the chat is being done

NEVER = datetime.max.replace(tzinfo=UTC)
Owner = tuple[str, str]  # the key of a chat, and a digest of who speaks there
# What is known of its chat, which chats those may be (none: any) in which who said what (nothing: anything),
# and when its turn began.
Stranger = tuple[Captures, frozenset[str], str, datetime]


class Waiting:
    """One thing that has begun and is not answered."""

    session = ""  # who works for it, or worked for the person who asked the last time
    linked = NEVER  # when its own turn told so
    over: datetime | None = None  # its turn has ended; the answer is on its way
    failed: datetime | None = None  # the newest failure before the shorter patience ran out
    failed_late: datetime | None = None  # the first failure after that
    spared = False  # a start right after it was that of the process that it belongs to
    proved = False  # its own turn began, and no other message can have led to that
    doubted: datetime | None = None  # when something may have settled it that a user name may have written

    def __init__(self, key: str, opened: Event, captures: Captures):
        self.key, self.opened, self.captures = key, opened, captures
        self.user, self.said = opened.facts.get("user", ""), opened.facts.get("said", "")
        self.began = self.sign = opened.at  # since when it waits, and when it was last seen to live
        # signs of each kind are known up to then
        self.up_to = {"progress": opened.at, "turn_over": opened.at}
        self.evidence = [opened]

    def prove(self, at: datetime) -> None:
        """Its own turn began, which shows when it was asked where a user name may have written the time of it."""
        if self.opened.doubt is not None and not self.proved:
            self.began = self.sign = max(self.sign, at - TURN_BEGINS)
        self.proved = True

    def in_doubt(self) -> bool:
        """Whether it may not be waiting at all, as far as records tell that a user name cannot have written.

        Its own turn proves that it was asked. Nothing proves that a doubtful answer was none: what its session does
        later may be for the next message of the chat.
        """
        return self.doubted is not None or (self.opened.doubt is not None and not self.proved)


def agree(wait: Waiting, common: Captures) -> bool:
    return all(wait.captures.get(name) == value for name, value in common.items())


class Recent(dict[Any, Any]):
    """A mapping that forgets what was not asked for while many others were."""

    def __init__(self) -> None:
        self.before: dict[Any, Any] = {}  # not asked for since there were too many
        self.most = MOST

    def get(self, name: Any, default: Any = None) -> Any:
        found = dict.get(self, name)
        if found is None:
            if name not in self.before:
                return default
            found = self.before.pop(name)
            self[name] = found
        return found

    def put(self, name: Any, value: Any) -> bool:
        """Remember; whether what is not asked for from now on will be forgotten the next time."""
        self[name] = value
        if len(self) <= self.most:
            return False
        self.before = dict(self)
        self.clear()
        return True


class Sessions:
    """Sessions, the chats that they work for, and back."""

    def __init__(self) -> None:
        self.chats = Recent()  # session → the key of its chat, and since when that is known
        # those of which that was told twice lately: they need not be told again
        self.settled: dict[str, bool] = {}
        self.owners = Recent()  # who speaks where → the session that answers
        self.by_key = Recent()  # key of a chat → its sessions, the newest last

    def know(self, session: str, owner: Owner, at: datetime) -> bool:
        """Remember; whether what is not asked for from now on will be forgotten the next time."""
        key = owner[0]
        others = self.by_key.get(key, ())
        full = [self.chats.put(session, (key, at)), self.owners.put(owner, session)]
        still = [
            other
            for other in others[-OF_A_CHAT:]
            if other != session and (other in self.chats or other in self.chats.before)
        ]
        full.append(self.by_key.put(key, (*still, session)))
        if full[0]:
            self.settled.clear()  # so that a session that is met again stays known
        return any(full)

    def know_all(self, owners: Mapping[str, Owner], at: datetime) -> None:
        """Remember the sessions that sessions.json lists, before anything else is known: the last of them that fit."""
        chats: dict[str, tuple[str, ...]] = {}
        for session, owner in list(owners.items())[-MOST:]:
            key = owner[0]
            self.chats[session] = key, at
            self.owners[owner] = session
            chats[key] = (*chats[key][-OF_A_CHAT:], session) if key in chats else (session,)
        self.by_key.update(chats)

    def keep(self, needed: Collection[tuple[str, Owner]]) -> None:
        """There are waiting chats for these: do not forget them, and make room for as many others as ever."""
        for session, owner in needed:
            self.chats.get(session)
            self.owners.get(owner)
            self.by_key.get(owner[0])
        for memory in (self.chats, self.owners, self.by_key):
            memory.most = MOST + len(needed)

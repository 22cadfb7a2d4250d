"""Which session works for whom, as far as the logs have told."""

from __future__ import annotations

from datetime import datetime

from watchdog.values import Any

MOST = 2000  # of each kind that are remembered for sure; twice as many at the most
OF_A_CHAT = 50  # the newest; a group has a session for each member

Owner = tuple[str, str]  # the key of a chat, and a digest of who speaks there


class Recent(dict[Any, Any]):
    """A mapping that forgets what was not asked for while many others were."""

    def __init__(self) -> None:
        self.before: dict[Any, Any] = {}  # not asked for since there were too many

    def get(self, name: Any, default: Any = None) -> Any:
        found = super().get(name)
        if found is None:
            if name not in self.before:
                return default
            found = self.before.pop(name)
            self[name] = found
        return found

    def put(self, name: Any, value: Any) -> bool:
        """Remember; whether what nobody asks for from now on will be forgotten the next time."""
        self[name] = value
        if len(self) <= MOST:
            return False
        self.before = dict(self)
        self.clear()
        return True


class Sessions:
    """Sessions, the chats that they work for, and back."""

    def __init__(self) -> None:
        self.chats = Recent()  # session → the key of its chat, and since when that is known
        self.settled: dict[str, bool] = {}  # those of which that was told twice lately: they need not be told again
        self.owners = Recent()  # who speaks where → the session that answers
        self.by_key = Recent()  # key of a chat → its sessions, the newest last

    def know(self, session: str, owner: Owner, at: datetime) -> bool:
        """Remember; whether what nobody asks for from now on will be forgotten the next time."""
        key = owner[0]
        others = self.by_key.get(key, ())
        full = [self.chats.put(session, (key, at)), self.owners.put(owner, session)]
        still = [other for other in others[-OF_A_CHAT:] if other != session and (other in self.chats or other in self.chats.before)]
        full.append(self.by_key.put(key, (*still, session)))
        if full[0]:
            self.settled.clear()  # so that whoever is met again is remembered on
        return any(full)

    def keep(self, session: str, owner: Owner) -> None:
        """Somebody waits for it: do not forget it."""
        self.chats.get(session)
        self.owners.get(owner)
        self.by_key.get(owner[0])

"""LISTEN/NOTIFY for the long-running mode: notices that a question of this host was answered.

A notification proves nothing; it only makes the daemon look sooner. Any role may send one, so looks are at least a few
seconds apart. Without a connection, and under cron, answers are polled.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from watchdog.errors import WatchdogError
from watchdog.fleet.errors import FleetError
from watchdog.fleet.postgres import driver, open_connection
from watchdog.fleet.schema import CHANNEL

if TYPE_CHECKING:
    from watchdog.config.settings import Settings

AGAIN = 60.0  # seconds until a broken connection is tried again
PAUSE = 2.0  # seconds between two looks that a notification asks for


class AnswerListener:
    """One listening connection that is opened when it is first asked for, and again after it broke."""

    def __init__(self, dsn: str, clock: Any = time.monotonic):
        self.dsn, self.clock = dsn, clock
        self.connection: Any = None
        self.tried: float | None = None
        self.noticed: float | None = None

    def sockets(self, asking: bool) -> list[Any]:
        """What to wait for in select(); empty while there is no connection, or nothing to ask.

        A connection is held only while a question is open: two thousand idle ones would be too many for a server.
        """
        if not asking:
            self.close()
            self.tried = None
        elif self.connection is None and (self.tried is None or self.clock() - self.tried > AGAIN):
            self._open()
        return [self.connection] if self.connection is not None else []

    def answered(self) -> bool:
        """Whether an answer came since the last time; to be called when the socket can be read."""
        if self.connection is None:
            return False
        try:
            user = self.connection.info.user
            notes = list(self.connection.notifies(timeout=0))
        except Exception:  # the server went away: back to polling until it is tried again
            self.close()
            return False
        now = self.clock()
        if not any(note.payload == user for note in notes) or (
            self.noticed is not None and now - self.noticed < PAUSE
        ):
            return False
        self.noticed = now
        return True

    def close(self) -> None:
        if self.connection is not None:
            with suppress(Exception):
                self.connection.close()
        self.connection = None

    def _open(self) -> None:
        self.tried = self.clock()
        with suppress(FleetError), suppress(driver().Error):
            connection = open_connection(self.dsn)
            connection.execute(f"LISTEN {CHANNEL}")
            self.connection = connection


def listener_for(settings: Settings, before: AnswerListener | None) -> AnswerListener | None:
    """The listener of a host that takes answers from the mailbox, the same as before while its address is the same."""
    fleet = settings.fleet
    address = ""
    if fleet is not None and fleet.postgres is not None and fleet.approvers:
        with suppress(WatchdogError):
            address = fleet.postgres.reveal()
    if before is not None and before.dsn == address:
        return before
    if before is not None:
        before.close()
    return AnswerListener(address) if address else None

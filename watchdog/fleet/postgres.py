"""Connections to the PostgreSQL of a fleet: encrypted, within their time, and no password in any error."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from watchdog.errors import FleetError, WatchdogError
from watchdog.fleet.schema import CHANNEL, SCHEMA, VERSION
from watchdog.text import harmless, redact

if TYPE_CHECKING:
    from psycopg import Connection

    from watchdog.config.settings import Settings

LIMIT = 3.0  # seconds for connecting, for one statement, and twice that for all of them
AGAIN = 60.0  # seconds until a broken listening connection is tried again
PAUSE = 2.0  # seconds between two looks that notifications ask for
# No brackets here: what is shown in a message has none.
NEEDS_EXTRA = "{module} is not installed; run: pipx install --force 'hermes-watchdog[fleet]' (or: uv tool install 'hermes-watchdog[fleet]')"
LOCAL = ("", "localhost", "127.0.0.1", "::1")
UNENCRYPTED = "codes would travel unencrypted; write sslmode=verify-full"
ENCRYPTED = ("require", "verify-ca", "verify-full")


def driver() -> Any:
    """psycopg, which only hosts with a mailbox have; FleetError where the extra is not installed."""
    try:
        import psycopg  # the one place
        import psycopg.conninfo
        import psycopg.sql
    except ImportError:
        raise FleetError(NEEDS_EXTRA.format(module="psycopg")) from None
    return psycopg


@contextmanager
def connected(
    dsn: str, limit: float = LIMIT, check: bool = True, wait: float = 0
) -> Iterator[Connection[Any]]:
    """A connection whose every failure is a FleetError without a password in it; `wait`: time to be added for waiting."""
    psycopg = driver()
    connection = None
    try:
        connection = open_connection(dsn, limit)
        with _within(connection, 2 * limit + wait):
            if check:
                check_version(connection)
            yield connection
    except psycopg.Error as error:
        raise FleetError(_plain(error, dsn)) from None
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def _within(connection: Connection[Any], seconds: float) -> Iterator[None]:
    """FleetError after so long: a server or network that stands still does not keep its own time limit."""
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as plug:
            plug.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except driver().Error:
        if late.is_set():
            raise FleetError(f"no answer within {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


def open_connection(dsn: str, limit: float = LIMIT) -> Connection[Any]:
    """psycopg.Error when it fails; FleetError for an address that would send codes in the clear."""
    psycopg = driver()
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    if not all(map(_is_local, hosts)):
        mode = given.setdefault("sslmode", "require")
        if mode not in ENCRYPTED:
            raise FleetError(UNENCRYPTED)
    given.setdefault("application_name", "hermes-watchdog")
    given["connect_timeout"] = str(max(2, round(limit)))  # libpq takes whole seconds, two at least
    connection = cast("Connection[Any]", psycopg.connect(**given, autocommit=True))
    # The host may also come from a service file or the environment, which only libpq reads.
    if not _is_local(connection.info.host) and not connection.pgconn.ssl_in_use:
        connection.close()
        raise FleetError(UNENCRYPTED)
    with _within(connection, limit):
        connection.execute(f"SET statement_timeout = {int(limit * 1000)}")
        connection.execute("SET search_path = pg_catalog, pg_temp")
    return connection


def _is_local(host: str) -> bool:
    return host in LOCAL or host.startswith("/")


def check_version(connection: Connection[Any]) -> None:
    """FleetError unless the tables are the ones that this program knows."""
    there = connection.execute(f"SELECT to_regclass('{SCHEMA}.schema_version')").fetchone()
    if there is None or there[0] is None:
        raise FleetError(
            "there is no mailbox in this database, or this role may not use it; see: {watchdog} fleet init"
        )
    version = tables_version(connection)
    if version > VERSION:
        raise FleetError(
            f"the mailbox was made by a newer hermes-watchdog (tables {version}, this one knows {VERSION}); upgrade this host"
        )
    if version < VERSION:
        raise FleetError(
            f"the mailbox is older (tables {version}, wanted {VERSION}); run: {{watchdog}} fleet init"
        )


def tables_version(connection: Connection[Any]) -> int:
    """How many migrations the mailbox has seen."""
    row = connection.execute(f"SELECT coalesce(max(version), 0) FROM {SCHEMA}.schema_version").fetchone()
    return int(row[0]) if row else 0


def _plain(error: Exception, dsn: str) -> str:
    """What the server said, on one line, without what the address holds."""
    text = str(error)
    try:
        secret = driver().conninfo.conninfo_to_dict(dsn).get("password")
    except Exception:  # an address that cannot be read: psycopg quotes it in its message
        return "the address of PostgreSQL cannot be read; write 'host=… dbname=… user=…' or postgresql://…"
    if secret:
        text = text.replace(str(secret), "[secret]")
    return redact(harmless(" ".join(text.split()), 300))


class AnswerListener:
    """LISTEN/NOTIFY for the long-running mode: one connection, opened when first asked for and again after it broke.

    A notification proves nothing; it only makes the daemon look sooner. Any role may send any number of them, so they
    are read every few seconds at most. Without a connection, and under cron, answers are polled.
    """

    def __init__(self, dsn: str, clock: Any = time.monotonic):
        self.dsn, self.clock = dsn, clock
        self.connection: Any = None
        self.tried: float | None = None
        self.read_at: float | None = None

    def sockets(self, asking: bool) -> list[Any]:
        """What to wait for in select(); empty while there is no connection, nothing to ask, or it was just read.

        A connection is held only while a question is open: two thousand idle ones would be too many for a server.
        """
        if not asking:
            self.close()
            self.tried = None
        elif self.connection is None and (self.tried is None or self.clock() - self.tried > AGAIN):
            self._open()
        resting = self.read_at is not None and self.clock() - self.read_at < PAUSE
        return [self.connection] if self.connection is not None and not resting else []

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
        self.read_at = self.clock()
        return any(note.payload == user for note in notes)

    def close(self) -> None:
        if self.connection is not None:
            with suppress(Exception):
                self.connection.close()
        self.connection = None

    def _open(self) -> None:
        self.tried = self.clock()
        with suppress(FleetError), suppress(driver().Error):
            connection = open_connection(self.dsn)
            with _within(connection, LIMIT):
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

"""A connection to the PostgreSQL of a fleet: encrypted, within its time, and no password in any error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from watchdog.fleet.errors import FleetError, needs_extra
from watchdog.fleet.schema import SCHEMA, VERSION
from watchdog.text import harmless, redact

if TYPE_CHECKING:
    from psycopg import Connection

LIMIT = 3.0  # seconds for one statement and for connecting
LOCAL = ("", "localhost", "127.0.0.1", "::1")
ENCRYPTED = ("require", "verify-ca", "verify-full")


def driver() -> Any:
    """psycopg, which only hosts with a mailbox have; FleetError where the extra is not installed."""
    try:
        import psycopg  # the one place
        import psycopg.conninfo
        import psycopg.sql
    except ImportError:
        raise needs_extra("psycopg") from None
    return psycopg


@contextmanager
def connected(dsn: str, limit: float = LIMIT, check: bool = True) -> Iterator[Connection[Any]]:
    """A connection whose every failure is a FleetError without a password in it."""
    psycopg = driver()
    try:
        connection = open_connection(dsn, limit)
    except psycopg.Error as error:
        raise FleetError(_plain(error, dsn)) from None
    try:
        if check:
            check_version(connection)
        yield connection
    except psycopg.Error as error:
        raise FleetError(_plain(error, dsn)) from None
    finally:
        connection.close()


def open_connection(dsn: str, limit: float = LIMIT) -> Connection[Any]:
    """psycopg.Error when it fails; FleetError for an address that would send codes in the clear."""
    psycopg = driver()
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    if not all(host in LOCAL or host.startswith("/") for host in hosts):
        mode = given.setdefault("sslmode", "require")
        if mode not in ENCRYPTED:
            raise FleetError(f"codes would travel unencrypted (sslmode={mode}); write sslmode=verify-full")
    given.setdefault("application_name", "hermes-watchdog")
    given["connect_timeout"] = str(max(2, round(limit)))  # libpq takes whole seconds, two at least
    connection = cast("Connection[Any]", psycopg.connect(**given, autocommit=True))
    connection.execute(f"SET statement_timeout = {int(limit * 1000)}")
    connection.execute("SET search_path = pg_catalog, pg_temp")
    return connection


def check_version(connection: Connection[Any]) -> None:
    """FleetError unless the tables are the ones that this program knows."""
    there = connection.execute(f"SELECT to_regclass('{SCHEMA}.schema_version')").fetchone()
    if there is None or there[0] is None:
        raise FleetError(
            "there is no mailbox in this database, or this role may not use it; see: hermes-watchdog fleet init"
        )
    version = tables_version(connection)
    if version > VERSION:
        raise FleetError(
            f"the mailbox was made by a newer hermes-watchdog (tables {version}, this one knows {VERSION}); upgrade this host"
        )
    if version < VERSION:
        raise FleetError(
            f"the mailbox is older (tables {version}, wanted {VERSION}); run: hermes-watchdog fleet init"
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

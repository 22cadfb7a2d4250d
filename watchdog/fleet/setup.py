"""Setting the mailbox up: tables, login roles for hosts and approvers, and whether any of them may do too much."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from watchdog.errors import FleetError
from watchdog.fleet.postgres import driver, tables_version
from watchdog.fleet.schema import (
    APPROVERS,
    HOSTS,
    MIGRATIONS,
    OWNER,
    SCHEMA,
    SWITCHED_OFF,
    TOO_MUCH,
    VERSION,
)
from watchdog.text import harmless

if TYPE_CHECKING:
    from psycopg import Connection


def initialise(connection: Connection[Any]) -> tuple[int, int]:
    """Make or bring up to date the tables; (version before, version now). Safe to run again and by two at once."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('hermes_watchdog'))")
        for role in (OWNER, HOSTS, APPROVERS):
            if not _role_exists(connection, role):
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
        there = connection.execute(f"SELECT to_regclass('{SCHEMA}.schema_version')").fetchone()
        before = tables_version(connection) if there and there[0] else 0
        if before > VERSION:
            raise FleetError(
                f"the mailbox was made by a newer hermes-watchdog (tables {before}, this one knows {VERSION}); upgrade this program"
            )
        if before == VERSION:
            return before, before
        # The tables belong to a role without login, so that functions with its rights can do no more than that.
        strong = connection.execute("SELECT FROM pg_roles WHERE rolname = session_user AND rolsuper")
        borrowed = strong.fetchone() is None
        if borrowed:
            connection.execute(f"GRANT {OWNER} TO CURRENT_USER")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA} AUTHORIZATION {OWNER}")
        connection.execute(f"SET LOCAL ROLE {OWNER}")
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, pg_temp")
        for number, statements in enumerate(MIGRATIONS[before:], before + 1):
            connection.execute(statements)
            connection.execute(f"INSERT INTO {SCHEMA}.schema_version (version) VALUES ({number})")
        connection.execute("RESET ROLE")
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        if borrowed:
            connection.execute(f"REVOKE {OWNER} FROM CURRENT_USER")
    return before, VERSION


def add_role(connection: Connection[Any], name: str, approver: bool) -> str:
    """A login role for a host or an approver; its new password, or '' when the role was there and keeps its own."""
    sql = driver().sql
    group = APPROVERS if approver else HOSTS
    if name.startswith(("pg_", SCHEMA)) or not name.isprintable() or not 0 < len(name.encode()) < 64:
        raise FleetError(
            f"'{harmless(name, 70)}' cannot be the name of a role: 1 to 63 bytes, not pg_… or {SCHEMA}…"
        )
    other = HOSTS if approver else APPROVERS
    with connection.transaction():
        twice = connection.execute(
            """SELECT FROM pg_auth_members WHERE roleid = to_regrole(%s)
               AND member = (SELECT oid FROM pg_roles WHERE rolname = %s)""",
            (other, name),
        ).fetchone()
        if twice is not None:
            raise FleetError(
                f"{name} is {'a host' if approver else 'an approver'} already; a host must not approve"
            )
        password = ""
        if not _role_exists(connection, name):
            password = secrets.token_urlsafe(24)
            # Hashed here, so that no log of the server ever holds it.
            hashed = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN CONNECTION LIMIT {} PASSWORD {}").format(
                    sql.Identifier(name), sql.Literal(60 if approver else 10), sql.Literal(hashed.decode())
                )
            )
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(name)))
    return password


def _role_exists(connection: Connection[Any], name: str) -> bool:
    return connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None


def too_much(connection: Connection[Any]) -> list[tuple[str, str]]:
    """(role, what it may do and should not); and what is switched off, under the name ''."""
    rights = [(str(role), str(may)) for role, may in connection.execute(TOO_MUCH)]
    return rights + [("", str(row[0])) for row in connection.execute(SWITCHED_OFF)]


def who_approves(connection: Connection[Any]) -> list[str]:
    rows = connection.execute(
        f"""SELECT rolname FROM pg_roles WHERE NOT rolsuper AND rolcanlogin
            AND pg_has_role(oid, '{APPROVERS}', 'member') ORDER BY rolname"""
    )
    return [str(row[0]) for row in rows]

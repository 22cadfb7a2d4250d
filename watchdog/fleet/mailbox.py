"""The mailbox of plans in PostgreSQL: every statement that is sent to it, for hosts, approvers and who sets it up."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from watchdog import __version__
from watchdog.fleet.errors import FleetError, needs_extra
from watchdog.fleet.letter import Letter, words_of
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
from watchdog.model import Plan, Reason
from watchdog.notify.translate import in_english
from watchdog.text import harmless, redact

if TYPE_CHECKING:
    from psycopg import Connection

    from watchdog.fleet.facts import Facts

LIMIT = 3.0  # seconds for one statement and for connecting
LOCAL = ("", "localhost", "127.0.0.1", "::1")
ENCRYPTED = ("require", "verify-ca", "verify-full")
_COLUMNS = """id, host, home, machine, plan, digest, title, words, code, state, asked_at, expires_at - clock_timestamp(),
    answered_by, answered_at, answered_seen, says, about, approvers,
    EXISTS (SELECT FROM pg_roles WHERE rolname = host)"""


@contextmanager
def connected(dsn: str, limit: float = LIMIT, check: bool = True) -> Iterator[Connection[Any]]:
    """A connection whose every failure is a FleetError without a password in it."""
    try:
        import psycopg
    except ImportError:
        raise needs_extra("psycopg") from None
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
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(dsn)
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    if not all(host in LOCAL or host.startswith("/") for host in hosts):
        mode = given.setdefault("sslmode", "require")
        if mode not in ENCRYPTED:
            raise FleetError(f"codes would travel unencrypted (sslmode={mode}); write sslmode=verify-full")
    given.setdefault("application_name", "hermes-watchdog")
    given["connect_timeout"] = str(max(2, round(limit)))  # libpq takes whole seconds, two at least
    connection = psycopg.connect(**cast("dict[str, Any]", given), autocommit=True)
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
    version = _version(connection)
    if version > VERSION:
        raise FleetError(
            f"the mailbox was made by a newer hermes-watchdog (tables {version}, this one knows {VERSION}); upgrade this host"
        )
    if version < VERSION:
        raise FleetError(
            f"the mailbox is older (tables {version}, wanted {VERSION}); run: hermes-watchdog fleet init"
        )


# For a host.


def _text(part: Any) -> str:
    """A part of a plan as approvers everywhere read it: in English."""
    if isinstance(part, tuple):
        return "; ".join(map(_text, part))
    return in_english(part) if isinstance(part, Reason) else str(part or "")


def ask(
    connection: Connection[Any], plan: Plan, code: str, lasts: timedelta, approvers: Sequence[str]
) -> int:
    """Put a plan of the own store into the mailbox; the number of the question there."""
    about = {
        "costs": _text(plan.costs),
        "chain": _text(plan.chain),
        "warnings": [_text(warning) for warning in plan.warnings],
        "incidents": list(plan.incidents),
        "evidence": [redact(harmless(_text(line), 300)) for line in plan.evidence[:10]],
    }
    row = connection.execute(
        f"""INSERT INTO {SCHEMA}.plans (home, machine, plan, digest, title, words, about, approvers, code, lasts)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id""",
        (
            plan.home,
            plan.host,
            plan.id,
            plan.digest,
            harmless(_text(plan.title), 300),
            json.dumps(words_of(plan)),
            json.dumps(about),
            list(approvers),
            code,
            lasts,
        ),
    ).fetchone()
    return int(row[0]) if row else 0


def answered(connection: Connection[Any]) -> list[Letter]:
    """The own questions that somebody answered and whose end was not told yet, the oldest first."""
    rows = connection.execute(
        f"""SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE host = session_user AND answered_by IS NOT NULL
            AND closed_at IS NULL AND answered_at > now() - interval '2 days' ORDER BY answered_at LIMIT 500"""
    )
    return [_letter(row) for row in rows]


def close(connection: Connection[Any], question: int, text: str) -> None:
    """What became of a question of the own; after it nobody can answer it."""
    connection.execute(f"SELECT {SCHEMA}.close(%s, %s)", (question, text))


def report(connection: Connection[Any], facts: Facts) -> str:
    """This home's line of `fleet status`, and the end of questions that are over here; a note about the own role."""
    incidents = [
        {"rule": each.rule, "severity": each.severity, "title": harmless(each.title, 100)}
        for each in facts.incidents[:50]
    ]
    connection.execute(
        f"""INSERT INTO {SCHEMA}.homes
               (home, instance, profile, clock, every, incidents, waiting, unseen, armed, version)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            ON CONFLICT (host, home) DO UPDATE SET (instance, profile, clock, every, incidents, waiting, unseen,
               armed, version) = (excluded.instance, excluded.profile, excluded.clock, excluded.every,
               excluded.incidents, excluded.waiting, excluded.unseen, excluded.armed, excluded.version)""",
        (
            facts.home,
            facts.instance,
            facts.profile,
            facts.now,
            facts.interval,
            json.dumps(incidents),
            len(facts.pending),
            facts.unseen,
            facts.armed,
            __version__,
        ),
    )
    over = connection.execute(
        f"""SELECT id FROM {SCHEMA}.plans WHERE host = session_user AND home = %s AND state = 'pending'
            AND NOT plan = ANY (%s)""",
        (facts.home, [stored.id for stored in facts.pending]),
    ).fetchall()
    for (question,) in over:
        close(connection, question, "no longer asked")
    strong = connection.execute(
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = session_user"
    ).fetchone()
    if strong and strong[0]:
        return "the role of this host may do too much in PostgreSQL; see: hermes-watchdog fleet status"
    return ""


# For an approver.


def letters(connection: Connection[Any], everything: bool = False) -> list[Letter]:
    """The questions of all hosts: open ones, or also those of the last week."""
    which = (
        "asked_at > now() - interval '7 days'"
        if everything
        else ("state = 'pending' AND expires_at > clock_timestamp()")
    )
    rows = connection.execute(f"SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE {which} ORDER BY id LIMIT 1000")
    return [_letter(row) for row in rows]


def find(connection: Connection[Any], code: str) -> Letter | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE code = %s", (code.strip().upper(),)
    ).fetchone()
    return _letter(row) if row else None


def answer(connection: Connection[Any], question: int, yes: bool, seen: str) -> str:
    """`done` for the one whose answer counts; else why not: approved, refused, withdrawn, expired, unknown, no-host,
    not-listed.
    """
    row = connection.execute(f"SELECT {SCHEMA}.answer(%s, %s, %s)", (question, yes, seen)).fetchone()
    return str(row[0]) if row else "unknown"


@dataclass(frozen=True)
class HomeStatus:
    """One home as the mailbox knows it."""

    host: str
    home: str
    instance: str
    profile: str
    ago: timedelta  # since its last check, by the server's clock
    clock_off: timedelta  # its clock minus the server's
    every: timedelta
    incidents: tuple[dict[str, Any], ...]
    waiting: int  # questions that are open in the mailbox
    unseen: int
    armed: bool
    version: str
    known_host: bool

    @property
    def stale(self) -> bool:
        return self.ago > 3 * self.every + timedelta(minutes=5)


def homes(connection: Connection[Any]) -> list[HomeStatus]:
    rows = connection.execute(
        f"""SELECT host, home, instance, profile, clock_timestamp() - checked_at, clock - checked_at, every, incidents,
               (SELECT count(*) FROM {SCHEMA}.plans WHERE plans.host = homes.host AND plans.home = homes.home
                   AND state = 'pending' AND expires_at > clock_timestamp()),
               unseen, armed, version, EXISTS (SELECT FROM pg_roles WHERE rolname = homes.host)
            FROM {SCHEMA}.homes ORDER BY host, home"""
    )
    found = []
    for row in rows:
        listed = row[7] if isinstance(row[7], list) else []
        row = (*row[:7], tuple(each for each in listed if isinstance(each, dict)), *row[8:])
        found.append(HomeStatus(*row))
    return found


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


# For who sets it up.


def initialise(connection: Connection[Any]) -> tuple[int, int]:
    """Make or bring up to date the tables; (version before, version now). Safe to run again and by two at once."""
    from psycopg import sql

    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('hermes_watchdog'))")
        for role in (OWNER, HOSTS, APPROVERS):
            _make_role(connection, role, "NOLOGIN")
        there = connection.execute(f"SELECT to_regclass('{SCHEMA}.schema_version')").fetchone()
        before = _version(connection) if there and there[0] else 0
        if before > VERSION:
            raise FleetError(
                f"the mailbox was made by a newer hermes-watchdog (tables {before}, this one knows {VERSION}); upgrade this program"
            )
        if before == VERSION:
            return before, before
        # The tables belong to a role without login, so that functions with its rights can do no more than that.
        member = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = session_user").fetchone()
        borrowed = not (member and member[0])
        if borrowed:
            connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(OWNER)))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA} AUTHORIZATION {OWNER}")
        connection.execute(f"SET LOCAL ROLE {OWNER}")
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, pg_temp")
        for number, statements in enumerate(MIGRATIONS[before:], before + 1):
            connection.execute(statements)
            connection.execute(f"INSERT INTO {SCHEMA}.schema_version (version) VALUES ({number})")
        connection.execute("RESET ROLE")
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        if borrowed:
            connection.execute(sql.SQL("REVOKE {} FROM CURRENT_USER").format(sql.Identifier(OWNER)))
    return before, VERSION


def add_role(connection: Connection[Any], name: str, approver: bool) -> str:
    """A login role for a host or an approver; its new password, or '' when the role was there and keeps its own."""
    from psycopg import sql

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
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
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


def _make_role(connection: Connection[Any], name: str, how: str) -> None:
    from psycopg import sql

    if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {} ").format(sql.Identifier(name)) + sql.SQL(how))


def _version(connection: Connection[Any]) -> int:
    row = connection.execute(f"SELECT coalesce(max(version), 0) FROM {SCHEMA}.schema_version").fetchone()
    return int(row[0]) if row else 0


def _letter(row: Sequence[Any]) -> Letter:
    return Letter(
        id=row[0],
        host=row[1],
        home=row[2],
        machine=row[3],
        plan=row[4],
        digest=row[5],
        title=row[6],
        words=tuple(str(words) for words in row[7]) if isinstance(row[7], list) else (),
        code=row[8],
        state=row[9],
        asked_at=row[10],
        left=row[11],
        answered_by=row[12] or "",
        answered_at=row[13],
        answered_seen=row[14] or "",
        says=row[15],
        about=row[16] if isinstance(row[16], dict) else {},
        approvers=tuple(row[17] or ()),
        known_host=row[18],
    )


def _plain(error: Exception, dsn: str) -> str:
    """What the server said, on one line, without what the address holds."""
    from psycopg.conninfo import conninfo_to_dict

    text = str(error)
    try:
        secret = conninfo_to_dict(dsn).get("password")
    except Exception:  # an address that cannot be read: psycopg quotes it in its message
        return "the address of PostgreSQL cannot be read; write 'host=… dbname=… user=…' or postgresql://…"
    if secret:
        text = text.replace(str(secret), "[secret]")
    return redact(harmless(" ".join(text.split()), 300))

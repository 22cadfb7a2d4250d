"""The mailbox of plans in PostgreSQL: what hosts put there and collect, and what approvers read and answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from watchdog import __version__
from watchdog.fleet.mailbox_plan import MailboxPlan, words_of
from watchdog.fleet.postgres import driver
from watchdog.fleet.schema import SCHEMA
from watchdog.model import Plan, Reason
from watchdog.notify.translate import in_english
from watchdog.text import harmless, redact

if TYPE_CHECKING:
    from psycopg import Connection

    from watchdog.fleet.facts import Facts

MOST_SHOWN = 50  # incidents of one home
# What a host wrote is read as text and parsed here: a row that is made to fail must not hide those of others.
_PLANS = f"""SELECT id, host, home, machine, plan, digest, title, words::text, code, state, asked_at,
    expires_at - clock_timestamp() AS "left", coalesce(answered_by, '') AS answered_by, answered_at,
    coalesce(answered_seen, '') AS answered_seen, says AS outcome, about::text, approvers,
    EXISTS (SELECT FROM pg_roles WHERE rolname = host) AS known_host FROM {SCHEMA}.plans"""
_HOMES = f"""SELECT host, home, instance, profile, clock_timestamp() - checked_at AS ago,
    greatest(least(clock, timestamptz '2300-01-01'), timestamptz '1900-01-01') - checked_at AS clock_off,
    greatest(least(every, interval '400 days'), interval '0') AS every, incidents::text,
    (SELECT count(*) FROM {SCHEMA}.plans WHERE plans.host = homes.host AND plans.home = homes.home
        AND state = 'pending' AND expires_at > clock_timestamp()) AS waiting,
    unseen, armed, version, EXISTS (SELECT FROM pg_roles WHERE rolname = homes.host) AS known_host
    FROM {SCHEMA}.homes ORDER BY host, home"""


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


def answered(connection: Connection[Any]) -> list[MailboxPlan]:
    """Answered questions of this host that are not closed yet, the oldest first."""
    return _plans(
        connection,
        """host = session_user AND answered_by IS NOT NULL AND closed_at IS NULL
           AND answered_at > now() - interval '2 days' ORDER BY answered_at LIMIT 500""",
    )


def close(connection: Connection[Any], question: int, text: str) -> None:
    """Record what became of a question of this host; it can no longer be answered."""
    connection.execute(f"SELECT {SCHEMA}.close(%s, %s)", (question, text))


def report(connection: Connection[Any], facts: Facts) -> str:
    """This home's line of `fleet status`, and close what this host no longer asks; a note about its role."""
    incidents = [
        {"rule": each.rule, "severity": each.severity, "title": harmless(each.title, 100)}
        for each in facts.incidents[:MOST_SHOWN]
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
    ended = connection.execute(
        f"""SELECT id FROM {SCHEMA}.plans WHERE host = session_user AND home = %s AND state = 'pending'
            AND NOT plan = ANY (%s)""",
        (facts.home, [stored.id for stored in facts.pending]),
    ).fetchall()
    for (question,) in ended:
        close(connection, question, "no longer asked")
    strong = connection.execute(
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = session_user"
    ).fetchone()
    if strong and strong[0]:
        return f"the role of this host may do too much in PostgreSQL; see: {facts.command} fleet status"
    return ""


# For an approver.


def plans(connection: Connection[Any], everything: bool = False) -> list[MailboxPlan]:
    """The questions of all hosts: open ones, or also those of the last week."""
    lately = "asked_at > now() - interval '7 days'"
    pending = "state = 'pending' AND expires_at > clock_timestamp()"
    return _plans(connection, f"{lately if everything else pending} ORDER BY id LIMIT 1000")


def find(connection: Connection[Any], code: str) -> MailboxPlan | None:
    return next(iter(_plans(connection, "code = %s", code.strip().upper())), None)


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
    found = []
    for row in _rows(connection, _HOMES):
        incidents = [each for each in _json(row["incidents"], list) if isinstance(each, dict)]
        found.append(HomeStatus(**{**row, "incidents": tuple(incidents[:MOST_SHOWN])}))
    return found


def _plans(connection: Connection[Any], where: str, *values: object) -> list[MailboxPlan]:
    found = []
    for row in _rows(connection, f"{_PLANS} WHERE {where}", *values):
        words, about = map(str, _json(row["words"], list)), _json(row["about"], dict)
        row |= {"words": tuple(words), "about": about, "approvers": tuple(row["approvers"])}
        found.append(MailboxPlan(**row))
    return found


def _rows(connection: Connection[Any], query: str, *values: object) -> list[dict[str, Any]]:
    cursor = connection.cursor(row_factory=driver().rows.dict_row)
    return list(cursor.execute(query, values))


def _json(text: str, kind: type[Any]) -> Any:
    """What a host wrote; nothing for another kind, or what is nested too deep or has a number too long to be read."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()

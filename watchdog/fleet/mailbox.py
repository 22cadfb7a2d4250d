"""The mailbox of plans in PostgreSQL: what hosts put there and collect, and what approvers read and answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from watchdog import __version__
from watchdog.fleet.mailbox_plan import MailboxPlan, words_of
from watchdog.fleet.schema import SCHEMA
from watchdog.model import Plan, Reason
from watchdog.notify.translate import in_english
from watchdog.text import harmless, redact

if TYPE_CHECKING:
    from psycopg import Connection

    from watchdog.fleet.facts import Facts

MOST_SHOWN = 50  # incidents of one home
# What a host wrote is read as text and parsed here: a row that is made to fail must not hide those of others.
_COLUMNS = """id, host, home, machine, plan, digest, title, words::text, code, state, asked_at,
    expires_at - clock_timestamp(), answered_by, answered_at, answered_seen, says, about::text, approvers,
    EXISTS (SELECT FROM pg_roles WHERE rolname = host)"""


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
    rows = connection.execute(
        f"""SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE host = session_user AND answered_by IS NOT NULL
            AND closed_at IS NULL AND answered_at > now() - interval '2 days' ORDER BY answered_at LIMIT 500"""
    )
    return [_plan(row) for row in rows]


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
        return "the role of this host may do too much in PostgreSQL; see: hermes-watchdog fleet status"
    return ""


# For an approver.


def plans(connection: Connection[Any], everything: bool = False) -> list[MailboxPlan]:
    """The questions of all hosts: open ones, or also those of the last week."""
    which = (
        "asked_at > now() - interval '7 days'"
        if everything
        else ("state = 'pending' AND expires_at > clock_timestamp()")
    )
    rows = connection.execute(f"SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE {which} ORDER BY id LIMIT 1000")
    return [_plan(row) for row in rows]


def find(connection: Connection[Any], code: str) -> MailboxPlan | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM {SCHEMA}.plans WHERE code = %s", (code.strip().upper(),)
    ).fetchone()
    return _plan(row) if row else None


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
        f"""SELECT host, home, instance, profile, clock_timestamp() - checked_at,
               greatest(least(clock, timestamptz '2300-01-01'), timestamptz '1900-01-01') - checked_at,
               greatest(least(every, interval '400 days'), interval '0'), incidents::text,
               (SELECT count(*) FROM {SCHEMA}.plans WHERE plans.host = homes.host AND plans.home = homes.home
                   AND state = 'pending' AND expires_at > clock_timestamp()),
               unseen, armed, version, EXISTS (SELECT FROM pg_roles WHERE rolname = homes.host)
            FROM {SCHEMA}.homes ORDER BY host, home"""
    )
    found = []
    for row in rows:
        listed = _json(row[7])
        incidents = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        row = (*row[:7], tuple(incidents[:MOST_SHOWN]), *row[8:])
        found.append(HomeStatus(*row))
    return found


def _json(text: str) -> Any:
    """What a host wrote; None for what is nested too deep or has a number too long for this program."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _plan(row: Sequence[Any]) -> MailboxPlan:
    words, about = _json(row[7]), _json(row[16])
    return MailboxPlan(
        id=row[0],
        host=row[1],
        home=row[2],
        machine=row[3],
        plan=row[4],
        digest=row[5],
        title=row[6],
        words=tuple(str(word) for word in words) if isinstance(words, list) else (),
        code=row[8],
        state=row[9],
        asked_at=row[10],
        left=row[11],
        answered_by=row[12] or "",
        answered_at=row[13],
        answered_seen=row[14] or "",
        outcome=row[15],
        about=about if isinstance(about, dict) else {},
        approvers=tuple(row[17] or ()),
        known_host=row[18],
    )

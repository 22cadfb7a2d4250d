"""PostgreSQL as a mailbox: the plan lies there with its code, an approver's role answers, the host collects it.

Who answered is the role that the server authenticated; what they saw comes back with the answer and is compared with
the own store (replies.py), so that an edited or forged row approves nothing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from watchdog.approval.channels.base import ChannelError, Collected, QuestionText, Reply, ShownPlan
from watchdog.approval.record import LENGTH
from watchdog.config.settings import Channel
from watchdog.fleet import mailbox, postgres
from watchdog.fleet.schema import CHANNEL

PLACE = "postgres"


def places(channel: Channel) -> tuple[str, ...]:
    return (PLACE,)


def start(channel: Channel, now: datetime) -> str:
    """No answer counts twice by the state of each row; the cursor only lists those that were read already."""
    with _connected(channel):
        return "[]"


def ask(channel: Channel, place: str, asked: QuestionText) -> str:
    if asked.plan is None:
        raise ChannelError("postgres: a question without its plan cannot be put into the mailbox")
    code = asked.approve[-LENGTH:]  # in Chinese no space need stand before it
    approvers = [approver.id for approver in channel.approvers]
    with _connected(channel) as connection:
        return str(mailbox.ask(connection, asked.plan, code, asked.lasts, approvers))


def address(channel: Channel, place: str) -> tuple[str, ...]:
    return ()


def collect(channel: Channel, cursor: str, wait: float) -> Collected:
    """The answers that were not read before; waits for one by LISTEN when there is none."""
    known = _ids(cursor)
    with _connected(channel, wait) as connection:
        rows = mailbox.answered(connection)
        if wait > 0 and all(row.id in known for row in rows):
            connection.execute(f"LISTEN {CHANNEL}")
            rows = mailbox.answered(connection)  # what came before we listened
            if all(row.id in known for row in rows):
                user = connection.info.user
                for note in connection.notifies(timeout=wait):
                    if note.payload == user:
                        break
                rows = mailbox.answered(connection)
    replies = tuple(
        Reply(
            who=row.answered_by,
            place=PLACE,
            text=f"{'approve' if row.state == 'approved' else 'refuse'} {row.code}",
            at=row.answered_at or datetime.now(UTC),
            handle=str(row.id),
            seen=ShownPlan(row.home, row.plan, row.answered_seen),
        )
        for row in rows
        if row.id not in known
    )
    return Collected(replies, json.dumps([row.id for row in rows]))


def tell(channel: Channel, place: str, receipt: str, text: str) -> None:
    if receipt.isdigit():
        with _connected(channel) as connection:
            mailbox.close(connection, int(receipt), text)


def _connected(channel: Channel, wait: float = 0) -> Any:
    if not channel.secret:
        raise ChannelError("postgres: there is no address")
    return postgres.connected(channel.secret, channel.time_limit.total_seconds(), wait=wait)


def _ids(cursor: str) -> set[int]:
    try:
        return {number for number in json.loads(cursor or "[]") if isinstance(number, int)}
    except (ValueError, TypeError, RecursionError):
        return set()

"""A plan as it lies in the mailbox, and what proves that a person answered exactly that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from watchdog.model import Plan
from watchdog.notify.translate import in_english


@dataclass(frozen=True)
class MailboxPlan:
    """One row of the mailbox; times are the server's."""

    id: int
    host: str  # the role that put it there, as the server knows it
    home: str
    machine: str
    plan: int  # its number in that home's own store
    digest: str
    title: str
    words: tuple[str, ...]
    code: str
    state: str = "pending"
    asked_at: datetime | None = None
    left: timedelta = timedelta(0)  # until it expires, by the server's clock
    answered_by: str = ""
    answered_at: datetime | None = None
    answered_seen: str = ""
    outcome: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    approvers: tuple[str, ...] = ()
    known_host: bool = True  # whether there is a role of that name


def shown_digest(machine: str, home: str, plan: int, digest: str, words: Sequence[str]) -> str:
    """A hash of what a person must have been shown to approve this plan: where, which, and every command of it.

    The approver's program makes it from what it shows; the host makes it from its own store and compares. A row
    that was edited, or made by someone else, is therefore not an approval of anything.
    """
    content = json.dumps([machine, home, plan, digest, list(words)], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()


def digest_of_row(row: MailboxPlan) -> str:
    """The hash for a row of the mailbox, made by the approver's program."""
    return shown_digest(row.machine, row.home, row.plan, row.digest, row.words)


def words_of(plan: Plan) -> list[str]:
    """Every step of a plan as the approver reads it, with its exact command."""
    return [in_english(word) for word in plan.words]


def digest_of_own(plan: Plan) -> str:
    """The hash that an answer to a plan of the own store must carry."""
    return shown_digest(plan.host, plan.home, plan.id, plan.digest, words_of(plan))

"""The audit: who did what, when and why. Lines are only ever added, and each carries the hash of the one before.

The chain does not stop a user who may write the store from rewriting all of it; it makes that visible. A
message repeats the first characters of the newest hash, so a person who kept a message can ask whether the line it
speaks of is still there: `audit --verify HEAD`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from watchdog.model import Plan, Reason, packed
from watchdog.store import Store
from watchdog.store.recovery import newest
from watchdog.store.rows import pack_reason, reason_of, stamp, when
from watchdog.store.store import reads_rows
from watchdog.system.files import open_regular
from watchdog.text import redact
from watchdog.values import Any, dataclass

# The fields that a hash covers, in this order. `says` holds the sentences that versions before 0.2 wrote.
COLUMNS = ("id", "at", "what", "plan", "by", "via", "digest", "says", "reason", "more")
SHOWN = 8  # characters of a hash in messages
FIRST = ""  # the hash before the first line


@dataclass(frozen=True)
class Who:
    """Who did something, and by which way."""

    name: str = ""
    via: str = ""


WATCHDOG = Who()


class AuditFault(StrEnum):
    """How a chain is broken at one line."""

    CHANGED = "changed"  # it does not follow from its own words and the line before
    MISSING = "missing"  # lines before it are gone
    UNREADABLE = "unreadable"  # of an archive
    CUT_OFF = "cut off"  # it was the newest once, and is gone or another


@dataclass(frozen=True)
class Break:
    line: int
    fault: AuditFault
    where: str  # the store, the file of an archive, or the marker


@dataclass(frozen=True)
class AuditChain:
    """What looking at every line of the audit showed."""

    lines: int
    head: str
    breaks: tuple[Break, ...] = ()
    absent: tuple[str, ...] = ()  # archives that are not there: their lines could not be looked at
    found: bool | None = None  # whether the wanted hash is one of the chain; None when none was asked for
    unlinked: bool = False  # written by a version without hashes; the next check links the lines as they are


def link(before: str, row: Mapping[str, Any]) -> str:
    """The hash of a line that follows the one with the hash `before`."""
    words = json.dumps([before, *(row[name] for name in COLUMNS)], ensure_ascii=False, separators=(",", ":"))
    return sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def audit(
    store: Store, what: str, now: datetime, plan: Plan | None = None, who: Who = WATCHDOG, **more: Any
) -> None:
    """Add one line: who, what, when, `reason`, and what else is given. Never a code."""
    reason: Reason | None = more.pop("reason", None)
    with store.atomic():
        last, before = newest(store)
        row = {
            "id": last + 1,
            "at": stamp(now),
            "what": what,
            "plan": plan.id if plan else None,
            "by": who.name,
            "via": who.via,
            "digest": plan.digest if plan else "",
            "says": None,
            "reason": pack_reason(reason) if reason else "",
            "more": redact(json.dumps(_packed(more), ensure_ascii=False)) if more else "",
        }
        store.insert("audit", **row, chain=link(before, row))


@reads_rows
def audit_lines(store: Store, plan_id: int | None = None) -> list[dict[str, Any]]:
    """The lines in the store, the oldest first, each with its `reason`."""
    where, values = ("WHERE plan = ?", (plan_id,)) if plan_id is not None else ("", ())
    lines = []
    for row in store.db.execute(f"SELECT * FROM audit {where} ORDER BY id", values):
        line = {**dict(row), "reason": reason_of(row)}
        when(line["at"])  # a time that is none would fail where it is shown
        line.pop("says", None)
        with suppress(ValueError):
            line["more"] = json.loads(line["more"]) if line["more"] else None
        lines.append(line)
    return lines


def head(store: Store) -> str:
    """The hash of the newest line, as messages show it; '' while there is none."""
    return newest(store)[1][:SHOWN]


def verify(store: Store, wanted: str = "") -> AuditChain:
    """Follow the chain from its beginning, through archives that are there, to the newest line.

    `wanted` are the first characters of a hash, from a message.
    """
    if not store.db.execute("SELECT 1 FROM pragma_table_info('audit') WHERE name = 'chain'").fetchone():
        count = store.db.execute("SELECT count(*) FROM audit").fetchone()[0]
        return AuditChain(count, FIRST, found=False if wanted else None, unlinked=True)
    breaks: list[Break] = []
    absent: list[str] = []
    last, before, found, count = 0, FIRST, False, 0
    for where, row in _all_lines(store, absent):
        if row is None:  # an archive that is gone or unreadable: go on with what the store says it ends in
            query = "SELECT last, chain FROM audit_archives WHERE file = ?"
            ended = store.db.execute(query, (where,)).fetchone()
            last, before = ended["last"], ended["chain"]
            continue
        count += 1
        try:
            number, chain = int(row["id"]), str(row["chain"] or "")
            follows = chain == link(before, row)
        except (KeyError, TypeError, ValueError):
            breaks.append(Break(last + 1, AuditFault.UNREADABLE, where))
            continue
        if number != last + 1:
            breaks.append(Break(number, AuditFault.MISSING, where))
        elif not follows:
            breaks.append(Break(number, AuditFault.CHANGED, where))
        found = found or bool(wanted and chain.startswith(wanted))
        last, before = number, chain
    newest_archive = "SELECT last FROM audit_archives WHERE last > ? ORDER BY last DESC LIMIT 1"
    if ended := store.db.execute(newest_archive, (last,)).fetchone():  # cut off, and no line follows it
        breaks.append(Break(ended["last"], AuditFault.CUT_OFF, os.path.basename(store.path)))
    return AuditChain(count, before, tuple(breaks), tuple(absent), found if wanted else None)


def _all_lines(store: Store, absent: list[str]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """(where it stands, line) of every line; None for an archive that cannot be read, which is named in `absent`."""
    folder = os.path.dirname(store.path)
    for archive in store.db.execute("SELECT file, last FROM audit_archives ORDER BY last"):
        try:
            with open_regular(os.path.join(folder, os.path.basename(archive["file"])), 1 << 16) as file:
                for text in file:
                    yield archive["file"], _object(text)
        except OSError:
            absent.append(archive["file"])
            yield archive["file"], None
    for row in store.db.execute("SELECT * FROM audit ORDER BY id"):
        yield os.path.basename(store.path), row


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def archive(store: Store, before: datetime, now: datetime) -> str:
    """Move the lines from before that moment into a file beside the store; its name, '' when there are none.

    The file is complete on the disk before a line leaves the store, and the chain goes on from it.
    """
    old = store.db.execute("SELECT * FROM audit WHERE at < ? ORDER BY id", (stamp(before),)).fetchall()
    first = store.db.execute("SELECT min(id) FROM audit WHERE at >= ?", (stamp(before),)).fetchone()[0]
    old = [row for row in old if first is None or row["id"] < first]  # a clock that went back leaves no hole
    if not old:
        return ""
    name = f"audit-{old[0]['id']}-{old[-1]['id']}.jsonl"
    path = os.path.join(os.path.dirname(store.path), name)
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a try that was cut off: its lines are still in the store
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        for row in old:
            file.write(json.dumps(dict(row), ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(fd)
    with store.atomic() as db:
        store.insert("audit_archives", last=old[-1]["id"], chain=old[-1]["chain"], file=name, at=now)
        db.execute("DELETE FROM audit WHERE id <= ?", (old[-1]["id"],))
    return name


def _packed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: packed(value) for name, value in fields.items()}

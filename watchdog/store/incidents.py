"""Incidents and finished checks, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from watchdog import plainjson
from watchdog.model import Change, Event, Incident
from watchdog.store import Store
from watchdog.text import harmless, redact
from watchdog.values import Any, replace

_COLUMNS = (
    "rule", "key", "severity", "status", "title", "says", "first_at", "opened_at", "last_seen_at", "resolved_at",
    "recipe", "advice", "times_seen", "facts", "evidence",
)  # fmt: skip
KEEP_CHECKS = timedelta(days=35)


def stamp(at: datetime | None) -> str | None:
    """UTC with all its digits, so that text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="microseconds") if at is not None else None


def when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def known_incidents(store: Store | None, since: datetime) -> list[Incident]:
    """All that are not resolved, and those resolved since."""
    if store is None:
        return []
    rows = store.db.execute(
        "SELECT * FROM incidents WHERE status != 'resolved' OR resolved_at >= ? ORDER BY id", [stamp(since)]
    )
    return [_incident(row) for row in rows]


def all_incidents(store: Store | None, since: datetime | None = None, only_open: bool = False) -> list[Incident]:
    if store is None:
        return []
    rows = store.db.execute(
        "SELECT * FROM incidents WHERE (status != 'resolved' OR (resolved_at >= ? AND ? = 0)) ORDER BY opened_at, id",
        [stamp(since) if since else "", int(only_open)],
    )
    return [_incident(row) for row in rows]


def one_incident(store: Store | None, number: int) -> Incident | None:
    row = store.db.execute("SELECT * FROM incidents WHERE id = ?", [number]).fetchone() if store else None
    return _incident(row) if row else None


def save_changes(store: Store, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Write them; the new ones come back with their ids."""
    saved = []
    for change in changes:
        incident = change.incident
        values = [
            incident.rule, incident.key, incident.severity, incident.status, incident.title, redact(incident.says),
            stamp(incident.first_at), stamp(incident.opened_at), stamp(incident.last_seen_at), stamp(incident.resolved_at),
            incident.recipe, incident.advice, incident.times_seen, plainjson.dumps(dict(incident.facts)),
            plainjson.dumps([_evidence(event) for event in incident.evidence]),
        ]  # fmt: skip
        if incident.id:
            sets = ", ".join(f"{name} = ?" for name in _COLUMNS)
            store.db.execute(f"UPDATE incidents SET {sets} WHERE id = ?", [*values, incident.id])
            saved.append(change)
        else:
            marks = ", ".join("?" for _ in _COLUMNS)
            cursor = store.db.execute(f"INSERT INTO incidents ({', '.join(_COLUMNS)}) VALUES ({marks})", values)
            saved.append(Change(change.what, replace(incident, id=int(cursor.lastrowid or 0))))
    return tuple(saved)


def last_check(store: Store | None) -> datetime | None:
    row = store.db.execute("SELECT at FROM checks ORDER BY id DESC LIMIT 1").fetchone() if store else None
    return when(row["at"]) if row else None


def waiting_since(store: Store | None) -> datetime | None:
    """When the oldest thing began that still waited at the last check."""
    row = store.db.execute("SELECT pending_since FROM checks ORDER BY id DESC LIMIT 1").fetchone() if store else None
    return when(row["pending_since"]) if row else None


def last_blind(store: Store) -> dict[str, str]:
    """What the last check could not see."""
    row = store.db.execute("SELECT blind FROM checks ORDER BY id DESC LIMIT 1").fetchone()
    return plainjson.loads(row["blind"]) if row else {}


def finish_check(
    store: Store, now: datetime, start: datetime, blind: Mapping[str, str], rules: Iterable[str], pending: datetime | None = None
) -> None:
    """This check is done: the next one need not look further back than here, the rules' windows and what still waits."""
    store.db.execute(
        "INSERT INTO checks (at, looked_back_to, pending_since, blind) VALUES (?, ?, ?, ?)",
        [stamp(now), stamp(start), stamp(pending), plainjson.dumps(dict(blind))],
    )
    store.db.execute("DELETE FROM checks WHERE at < ?", [stamp(now - KEEP_CHECKS)])
    store.db.executemany("INSERT OR REPLACE INTO runs (rule, at) VALUES (?, ?)", [(rule, stamp(now)) for rule in rules])


def last_runs(store: Store | None) -> dict[str, datetime]:
    """When each rule was last evaluated."""
    rows = store.db.execute("SELECT rule, at FROM runs") if store else ()
    return {row["rule"]: at for row in rows if (at := when(row["at"])) is not None}


def _evidence(event: Event) -> dict[str, Any]:
    return {"where": event.where, "at": stamp(event.at), "text": redact(harmless(event.text, 300)), "source": event.source}


def _incident(row: Any) -> Incident:
    evidence = tuple(
        Event(datetime.fromisoformat(item["at"]), item.get("source", ""), item["text"], item["where"])
        for item in plainjson.loads(row["evidence"] or "[]")
    )
    opened = when(row["opened_at"])
    assert opened is not None
    return Incident(
        id=row["id"],
        rule=row["rule"],
        key=row["key"],
        severity=row["severity"],
        status=row["status"],
        title=row["title"],
        says=row["says"],
        first_at=when(row["first_at"]) or opened,
        opened_at=opened,
        last_seen_at=when(row["last_seen_at"]) or opened,
        resolved_at=when(row["resolved_at"]),
        recipe=row["recipe"],
        advice=row["advice"] or "",
        times_seen=row["times_seen"],
        facts=plainjson.loads(row["facts"] or "{}"),
        evidence=evidence,
    )

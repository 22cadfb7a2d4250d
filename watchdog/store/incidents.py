"""What checks found, as rows: incidents, the checks themselves with what they measured, and whether anything is left to do
or to tell. All that a quiet check asks of the store.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from watchdog.config.rulebook import LONGEST_LOOK_BACK
from watchdog.model import Change, Event, Incident, Measurement, Phrase, Report, as_phrase, packed, unpacked
from watchdog.store import Store
from watchdog.store.rows import from_row, pack_fields, stamp, unpack_fields, when
from watchdog.store.store import reads_rows
from watchdog.text import harmless, redact
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from watchdog.config.settings import NotifySettings


_PLAIN = (
    "rule", "key", "severity", "status", "title", "first_at", "opened_at", "last_seen_at", "resolved_at", "recipe",
    "advice", "times_seen",
)  # fmt: skip
KEEP_CHECKS = timedelta(days=35)


@reads_rows
def known_incidents(store: Store | None, since: datetime) -> list[Incident]:
    """All that are not resolved, and those resolved since."""
    if store is None:
        return []
    rows = store.db.execute(
        "SELECT * FROM incidents WHERE status != 'resolved' OR resolved_at >= ? ORDER BY id", [stamp(since)]
    )
    return [_incident(row) for row in rows]


@reads_rows
def all_incidents(
    store: Store | None, since: datetime | None = None, only_open: bool = False
) -> list[Incident]:
    if store is None:
        return []
    rows = store.db.execute(
        "SELECT * FROM incidents WHERE (status != 'resolved' OR (resolved_at >= ? AND ? = 0)) ORDER BY opened_at, id",
        [stamp(since) if since else "", int(only_open)],
    )
    return [_incident(row) for row in rows]


@reads_rows
def one_incident(store: Store | None, number: int) -> Incident | None:
    row = store.db.execute("SELECT * FROM incidents WHERE id = ?", [number]).fetchone() if store else None
    return _incident(row) if row else None


def save_changes(store: Store, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Write them; the new ones come back with their ids."""
    saved = []
    for change in changes:
        incident = change.incident
        clean = _cleaner(store, incident.id)
        evidence = json.dumps([_evidence(event, clean) for event in incident.evidence])
        number = store.insert(
            "incidents", "INSERT OR REPLACE", id=incident.id or None, says=clean(incident.says), evidence=evidence,
            facts=json.dumps(dict(incident.facts)), fields=pack_fields(incident.fields, clean),
            **{name: getattr(incident, name) for name in _PLAIN},
        )  # fmt: skip
        saved.append(Change(change.what, replace(incident, id=number)))
    return tuple(saved)


@reads_rows
def last_check(store: Store | None) -> datetime | None:
    row = store.db.execute("SELECT at FROM checks ORDER BY id DESC LIMIT 1").fetchone() if store else None
    return when(row["at"]) if row else None


@reads_rows
def waiting_since(store: Store | None) -> datetime | None:
    """When the oldest thing began that still waited at the last check."""
    query = "SELECT pending_since FROM checks ORDER BY id DESC LIMIT 1"
    row = store.db.execute(query).fetchone() if store else None
    return when(row["pending_since"]) if row else None


def look_back(
    store: Store | None,
    window: timedelta,
    now: datetime,
    is_measured: Callable[[str], bool] = lambda rule: False,
) -> datetime:
    """From when on a check must read: the longest window of any rule, the last finished check, what still waits
    and what is open. What is only measured may stay open for weeks, and no line of then is needed to see it.
    """
    wrong = [known for known in known_incidents(store, now) if known.status != "resolved"]
    began = [known.first_at for known in wrong if not is_measured(known.rule)]
    if (waiting := waiting_since(store)) is not None:
        began.append(waiting)
    windows = min(now, last_check(store) or now) - window
    return max(min([windows, *(at - timedelta(seconds=1) for at in began)]), now - LONGEST_LOOK_BACK)


@reads_rows
def last_blind(store: Store) -> dict[str, str]:
    """What the last check could not see."""
    row = store.db.execute("SELECT blind FROM checks ORDER BY id DESC LIMIT 1").fetchone()
    return read_blind(row["blind"]) if row else {}


def read_blind(text: str | None) -> dict[str, str]:
    """source -> why it could not be seen, of a check's row."""
    return {source: as_phrase(unpacked(why)) for source, why in json.loads(text or "{}").items()}


def record_check(store: Store, report: Report, rules: Iterable[str]) -> tuple[tuple[Change, ...], bool]:
    """This check is done, with these rules: (its changes with their ids, whether it is blind to other things than
    the last one). The next need not look further back than here, the rules' windows and what still waits.
    """
    with store.atomic():
        newly_blind = last_blind(store).keys() != report.blind.keys()
        changes = save_changes(store, report.changes)
        if report.measured:
            save_measurement(store, report.now, report.measured)
        waits, blind = report.pending_since, pack_fields(report.blind)
        store.insert("checks", at=report.now, looked_back_to=report.start, pending_since=waits, blind=blind)
        store.db.execute("DELETE FROM checks WHERE at < ?", [stamp(report.now - KEEP_CHECKS)])
        runs = [(rule, stamp(report.now)) for rule in rules]
        store.db.executemany("INSERT OR REPLACE INTO runs (rule, at) VALUES (?, ?)", runs)
    return changes, newly_blind


def record_ends(store: Store, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Those of the changes that end an incident are written, and no others."""
    with store.atomic():
        return save_changes(store, [change for change in changes if change.incident.status == "resolved"])


@reads_rows
def last_runs(store: Store | None) -> dict[str, datetime]:
    """When each rule was last evaluated."""
    rows = store.db.execute("SELECT rule, at FROM runs") if store else ()
    return {row["rule"]: at for row in rows if (at := when(row["at"])) is not None}


def _cleaner(store: Store, number: int) -> Callable[[str], str]:
    """How secrets are taken out of an incident's texts. Those that its row holds already were cleaned before, and an
    incident that goes on has few others: trying every pattern of a secret costs two interpreter starts.
    """
    row = store.db.execute("SELECT says, evidence, fields FROM incidents WHERE id = ?", [number]).fetchone()
    if row is None:
        return redact
    fields = json.loads(row["fields"] or "{}").values()
    known = {row["says"], *(item["text"] for item in json.loads(row["evidence"] or "[]"))}
    known.update(value for value in fields if isinstance(value, str))
    return lambda text: text if text in known else redact(text)


def _evidence(event: Event, clean: Callable[[str], str]) -> dict[str, Any]:
    text = clean(harmless(event.text, 300))
    kept = {"where": event.where, "at": stamp(event.at), "text": text, "source": event.source}
    return kept | ({"reason": packed(event.text.reason, clean)} if isinstance(event.text, Phrase) else {})


def _incident(row: Any) -> Incident:
    evidence = tuple(
        Event(
            datetime.fromisoformat(item["at"]),
            item.get("source", ""),
            as_phrase(unpacked(item.get("reason", item["text"]))),
            item["where"],
        )
        for item in json.loads(row["evidence"] or "[]")
    )
    fields = unpack_fields(row["fields"] if "fields" in row.keys() else None)  # noqa: SIM118
    facts = json.loads(row["facts"] or "{}")
    opened = datetime.fromisoformat(row["opened_at"])
    first, last = when(row["first_at"]) or opened, when(row["last_seen_at"]) or opened
    known = {"first_at": first, "last_seen_at": last, "facts": facts, "evidence": evidence, "fields": fields}
    return from_row(Incident, row, **known)


KEEP_MEASUREMENTS = timedelta(hours=12)
APART = timedelta(minutes=10)  # closer ones replace one another: a daemon checks every few seconds


def past_measurements(store: Store | None, now: datetime) -> tuple[Measurement, ...]:
    """Those of the last hours, oldest first; none in a store that an older version made."""
    if store is None:
        return ()
    try:
        rows = store.db.execute(
            "SELECT at, facts FROM measurements WHERE at >= ? AND at <= ? ORDER BY at",
            [stamp(now - KEEP_MEASUREMENTS), stamp(now)],
        ).fetchall()
    except sqlite3.OperationalError:
        return ()
    return tuple(
        Measurement(at, json.loads(row["facts"])) for row in rows if (at := when(row["at"])) is not None
    )


def failed_restarts(store: Store | None, now: datetime) -> tuple[datetime, ...]:
    """When repairs of the last hours began that should have left the gateway running, and failed."""
    if store is None:
        return ()
    rows = store.db.execute(
        "SELECT DISTINCT at FROM actions WHERE at >= ? AND restarted = 1 AND state IN ('failed', 'undone')",
        [stamp(now - KEEP_MEASUREMENTS)],
    ).fetchall()
    return tuple(at for row in rows if (at := when(row["at"])) is not None)


def save_measurement(store: Store, now: datetime, facts: Mapping[str, Any]) -> None:
    """Keep it beside those of the last hours; it takes the place of one that followed its own forerunner closely."""
    newest = store.db.execute("SELECT id, at FROM measurements ORDER BY at DESC LIMIT 2").fetchall()
    if (
        len(newest) == 2
        and (last := when(newest[0]["at"]))
        and (before := when(newest[1]["at"]))
        and last - before < APART
    ):
        store.db.execute("DELETE FROM measurements WHERE id = ?", [newest[0]["id"]])
    store.insert("measurements", at=now, facts=json.dumps(dict(facts)))
    store.db.execute("DELETE FROM measurements WHERE at < ?", [stamp(now - KEEP_MEASUREMENTS)])


DAILY, WEEKLY, TARGET = "daily", "weekly", "target"  # of messages.News, which a quiet check does not load


def work_left(store: Store | None) -> tuple[bool, tuple[int, ...]]:
    """(whether any plan may be asked about, done or found cut off now, those that were begun and not finished)."""
    if store is None:
        return False, ()
    found = store.db.execute(
        "SELECT id, state FROM plans WHERE state IN ('pending', 'approved', 'claimed', 'interrupted') ORDER BY id"
    ).fetchall()
    cut_off = tuple(row["id"] for row in found if row["state"] in ("claimed", "interrupted"))
    return any(row["state"] != "interrupted" for row in found), cut_off


def worth_telling(store: Store, report: Report, settings: NotifySettings, now: datetime) -> bool:
    """Whether anybody wants messages, and something is new, unsaid or due."""
    if not settings.targets and not settings.replies.channels:
        return False
    daily = last_sent(store, DAILY) if settings.daily_summary else None
    weekly = last_sent(store, WEEKLY) if settings.weekly_summary else None
    due = settings.summary_due(daily, now) or settings.week_due(weekly, now)
    return due or anything_to_tell(store, report, now)


def anything_to_tell(store: Store, report: Report, now: datetime) -> bool:
    """Whether a check has news, or something is still unsaid, unanswered, or to be sent again now.

    A fault that goes on as it was told is none of it: most checks of a home with an open incident end here, and load
    nothing that writes messages (9 interpreter starts).
    """
    if report.plans or report.outcomes or report.blind:
        return True
    if any(change.what != "seen" for change in report.changes) or _is_disarmed(store):
        return True
    unsettled = store.db.execute(
        "SELECT rule, key, incident, told_at IS NOT NULL AND over_at IS NULL AND told_severity = severity AS said "
        "FROM told WHERE settled_at IS NULL"
    ).fetchall()
    going_on = {incident.id for incident in report.incidents if incident.status == "open"}
    failing = {row["name"] for row in store.db.execute("SELECT name FROM targets")}
    mentioned = {(row["rule"], row["key"]) if row["rule"] == TARGET else row["incident"] for row in unsettled}
    if mentioned != going_on | {(TARGET, name) for name in failing} or not all(
        row["said"] for row in unsettled
    ):
        return True
    row = store.db.execute(
        "SELECT EXISTS(SELECT 1 FROM unsent WHERE target NOT IN (SELECT name FROM targets)) "
        "OR EXISTS(SELECT 1 FROM targets WHERE next_try_at IS NULL OR next_try_at <= ?) "
        "OR EXISTS(SELECT 1 FROM questions WHERE closed_at IS NULL)",
        [stamp(now)],
    ).fetchone()
    return bool(row[0])


def _is_disarmed(store: Store) -> bool:
    row = store.db.execute("SELECT armed FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    return row is not None and not row["armed"]


@reads_rows
def last_sent(store: Store, news: str) -> datetime | None:
    """When a notification with this news was last sent."""
    row = store.db.execute("SELECT max(at) AS at FROM notices WHERE reason = ?", (news,)).fetchone()
    return datetime.fromisoformat(row["at"]) if row["at"] else None

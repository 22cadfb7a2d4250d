"""Put what a backup holds back into a database that began anew, beside what was written since."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from watchdog.sqlite import checks
from watchdog.sqlite.candidate import DatabaseRepair, Tick, why_not
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.inspect import observe
from watchdog.sqlite.readonly import connect, uri
from watchdog.sqlite.rebuilt import Tally
from watchdog.sqlite.schema import is_virtual, quoted
from watchdog.sqlite.strategies import Built, furnish, let_sqlite

PUT_BACK = "history put back from the backup"
# They say how this very file is made.
OWN = frozenset({"schema_version", "state_meta"})
# Columns that hold the number of another table's row, though the schema does not say so.
REFERS = {
    ("task_events", "run_id"): "task_runs",
    ("tasks", "current_run_id"): "task_runs",
    ("kanban_notify_subs", "last_event_id"): "task_events",
}


def repair(job: DatabaseRepair, tick: Tick) -> dict[str, Any]:
    """The database with the rows of its backup, as values that JSON can carry: see heal.RepairResult."""
    file = os.path.join(job.work, "restored.db")
    if let_sqlite(job, file, None) is not Built.PROVED:
        return _result("", {}, ["what is there now is not sound; heal it first"])
    entries = observe(file).schema
    tick(PUT_BACK)
    aside = [entry for entry in entries if _is_aside(entry)]
    tallies = _merge(file, job.known.backup, aside)
    furnish(file, aside)
    least = {table: tally.saved + tally.reconstructed for table, tally in tallies.items()}
    refused = why_not(file, entries, least)
    return _result(file, tallies, refused)


def _result(file: str, tallies: Mapping[str, Tally], refused: Sequence[str]) -> dict[str, Any]:
    taken = bool(file) and not refused
    tables = {
        name: {
            key: value for key, value in asdict(tally).items() if key in ("saved", "lost", "reconstructed")
        }
        | {"there": tally.there, "lost_most": tally.lost, "doubtful": 0}
        for name, tally in tallies.items()
    }
    back = sum(tally.reconstructed for tally in tallies.values())
    since = sum(tally.saved for tally in tallies.values())
    return {
        "strategy": PUT_BACK if taken else "",
        "file": file,
        "tables": tables if taken else {},
        "doubtful": {},
        "contradicted": 0,
        "says": [f"{back} rows of the backup are back, beside {since} that were written since"]
        if taken
        else [],
        "tried": [f"tried and not good enough: {PUT_BACK} ({reason})" for reason in refused],
        "side": "",
        "corrected": 0,
    }


def _is_aside(entry: SchemaObject) -> bool:
    """What is made anew after the rows: triggers must not fire, and indexes cost less when made once."""
    if entry.type == "index":
        return bool(entry.sql) and "UNIQUE" not in entry.sql[:30].upper()
    return entry.type in ("trigger", "view") or is_virtual(entry.sql)


def _merge(file: str, backup: str, aside: Sequence[SchemaObject]) -> dict[str, Tally]:
    db = connect(file, "mode=rw")
    try:
        db.execute("ATTACH ? AS kept", (uri(backup, "mode=ro&immutable=1"),))
        db.execute("BEGIN")
        for kind in ("trigger", "index", "table", "view"):
            for entry in aside:
                if entry.type == kind:
                    db.execute(f"DROP {kind} {quoted(entry.name)}")
        tables = [table for table in checks.tables(db) if table not in OWN and _columns(db, "kept", table)]
        counts = checks.counts(db)
        _make_room(db, tables)
        tallies = {table: _put_back(db, table, counts[table]) for table in tables}
        db.execute("COMMIT")
        return tallies
    finally:
        db.close()


def _columns(db: sqlite3.Connection, schema: str, table: str) -> dict[str, int]:
    """name → its place in the primary key, 0 when it is not part of it."""
    rows = db.execute("SELECT name, pk FROM pragma_table_info(?, ?)", (table, schema))
    return {checks.text(name): pk for name, pk in rows}


def _make_room(db: sqlite3.Connection, tables: Sequence[str]) -> None:
    """Rows that were written since get numbers behind those of the backup; what refers to them follows."""
    behind = {
        checks.text(name): number
        for name, number in db.execute("SELECT name, seq FROM kept.sqlite_sequence")
        if checks.text(name) in tables
    }
    for table, number in behind.items():
        key = next(name for name, place in _columns(db, "main", table).items() if place)
        # By way of negative numbers: no two rows may have the same one in between.
        db.execute(f"UPDATE main.{quoted(table)} SET {quoted(key)} = -({quoted(key)} + ?)", (number,))
        db.execute(f"UPDATE main.{quoted(table)} SET {quoted(key)} = -{quoted(key)}")
        last = db.execute("SELECT max(seq) FROM main.sqlite_sequence WHERE name = ?", (table,)).fetchone()[0]
        db.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (table,))
        db.execute("INSERT INTO main.sqlite_sequence VALUES(?, ?)", (table, number + (last or 0)))
    for table in tables:
        for column in _columns(db, "main", table):
            if number := behind.get(REFERS.get((table, column), "")):
                name = quoted(column)
                db.execute(f"UPDATE main.{quoted(table)} SET {name} = {name} + ? WHERE {name} > 0", (number,))


def _put_back(db: sqlite3.Connection, table: str, since: int) -> Tally:
    """The rows of the backup into a table; one that both have stays as it is now."""
    ours, theirs = _columns(db, "main", table), _columns(db, "kept", table)
    shared = [name for name in ours if name in theirs]
    key = [name for name in shared if ours[name]]
    if not key:
        return Tally(saved=since)  # nothing tells its rows apart
    into = f"INSERT OR IGNORE INTO main.{quoted(table)}({', '.join(map(quoted, shared))}) "
    db.execute(f"{into} SELECT {', '.join(map(quoted, shared))} FROM kept.{quoted(table)}")
    same = " AND ".join(f"mine.{quoted(name)} IS theirs.{quoted(name)}" for name in key)
    left = (
        f"FROM kept.{quoted(table)} AS theirs WHERE NOT EXISTS "
        f"(SELECT 1 FROM main.{quoted(table)} AS mine WHERE {same})"
    )
    # A title that a newer row has taken: the row returns without it.
    unique = _unique(db, table)
    values = ", ".join("NULL" if name in unique else f"theirs.{quoted(name)}" for name in shared)
    db.execute(f"{into} SELECT {values} {left}")
    lost = db.execute(f"SELECT count(*) {left}").fetchone()[0]
    there = db.execute(f"SELECT count(*) FROM main.{quoted(table)}").fetchone()[0]
    return Tally(saved=since, reconstructed=there - since, lost=lost, lost_most=lost)


def _unique(db: sqlite3.Connection, table: str) -> frozenset[str]:
    """Columns, beside the key, in which no two rows may have the same."""
    rows = db.execute(
        "SELECT info.name FROM pragma_index_list(?, 'main') AS list, pragma_index_info(list.name, 'main') AS info "
        "WHERE list.\"unique\" AND list.origin <> 'pk' AND info.name IS NOT NULL",
        (table,),
    )
    return frozenset(checks.text(name) for (name,) in rows)

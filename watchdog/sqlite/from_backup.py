"""Rows and texts put back from a second copy: a verified backup, or the full-text indexes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from watchdog.model import packed
from watchdog.sqlite import checks, content, full_text
from watchdog.sqlite.format import SchemaObject, Text, Value
from watchdog.sqlite.gate import DatabaseRepair, RepairResult, Tick, counts, why_not
from watchdog.sqlite.inspect import observe
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.notes import RepairNote, RowDoubt, note
from watchdog.sqlite.page_scan import Pages, Range, Tree
from watchdog.sqlite.readonly import connect, uri
from watchdog.sqlite.rebuilt import Fresh, Tally
from watchdog.sqlite.schema import is_virtual, quoted
from watchdog.sqlite.strategies import Built, furnish, let_sqlite

SHOWN = 10


def merge(fresh: Fresh, backup: str, layout: Layout, gaps: Sequence[Range] | None) -> list[str]:
    """Put back lost rows of one table. With `gaps` None the lost rows are known one by one, and only these
    return;
    else every row of the backup in a gap may have been lost or deleted on purpose: they return and are listed."""
    if not layout.rowid:
        return []
    keys = tuple(column.name for column in sorted(layout.stored, key=lambda one: one.pk) if column.pk)
    source = connect(backup, "mode=ro&immutable=1")
    source.text_factory = fresh.db.text_factory
    try:
        sql = checks.schema(source).get(("table", layout.table))
        theirs = layout_of(layout.table, sql) if sql else None
        if theirs is None:
            return []
        lost = set(fresh.losses(layout.table))
        if layout.alias < 0 and keys and gaps is None:
            # VACUUM may renumber such a table, so a row of the backup is known by its key alone
            found = _by_key(source, layout.table, keys, fresh.lost_keys.get(layout.table, set()))
        else:
            found = _by_rowid(source, layout.table, gaps, lost)
        put = [rowid for rowid in found if _put(fresh, source, theirs, rowid)]
    except sqlite3.Error as error:
        return [note(RepairNote.BACKUP_UNREADABLE, table=layout.table, why=str(error))]
    finally:
        source.close()
    if not put:
        return []
    names = ", ".join(str(rowid) for rowid in put[:SHOWN]) + (" …" if len(put) > SHOWN else "")
    kind = RepairNote.PUT_BACK if gaps is None else RepairNote.PUT_BACK_ALL
    return [note(kind, table=layout.table, rows=len(put), names=names)]


def correct(fresh: Fresh, backup: str, layout: Layout) -> None:
    """Take content from the backup where it is doubtful and the backup has the same row whole."""
    source = connect(backup, "mode=ro&immutable=1")
    source.text_factory = fresh.db.text_factory
    try:
        sql = checks.schema(source).get(("table", layout.table))
        theirs = layout_of(layout.table, sql) if sql else None
        if theirs is not None and layout.rowid:
            _put_right(fresh, source, layout, theirs)
    finally:
        source.close()


def _by_key(source: sqlite3.Connection, table: str, keys: Sequence[str], lost: set[tuple]) -> list[int]:
    where = " AND ".join(f"{quoted(key)} IS ?" for key in keys)
    found = []
    for key in lost:
        found += [
            rowid for (rowid,) in source.execute(f"SELECT _rowid_ FROM {quoted(table)} WHERE {where}", key)
        ]
    return sorted(found)


def _by_rowid(
    source: sqlite3.Connection, table: str, gaps: Sequence[Range] | None, lost: set[int]
) -> list[int]:
    if gaps is None:
        return sorted(lost)
    found = set(lost)
    for low, high in gaps:
        found.update(
            rowid
            for (rowid,) in source.execute(
                f"SELECT _rowid_ FROM {quoted(table)} WHERE (?1 IS NULL OR _rowid_ > ?1) AND (?2 IS NULL OR _rowid_ <= ?2)",
                (low, high),
            )
        )
    return sorted(found)


def _put(fresh: Fresh, source: sqlite3.Connection, theirs: Layout, rowid: int) -> bool:
    if fresh.has(theirs.table, rowid):
        return False
    names = [quoted(name) for name in theirs.names]
    row = source.execute(
        f"SELECT {', '.join(names)} FROM {quoted(theirs.table)} WHERE _rowid_ = ?", (rowid,)
    ).fetchone()
    return row is not None and fresh.put(theirs, rowid, row, note(RowDoubt.OF_BACKUP))


MANY = 50  # rows that differ from their copies: more is an older way of indexing, no damage


def compare(fresh: Fresh, pages: Pages, fills: list[tuple[full_text.Fill, Tree]]) -> None:
    """Hold the saved rows of a table against the copies of their text, and repair or mark those that differ."""
    fill = fills[0][0]
    doubtful = fresh.doubtful.setdefault(fill.table, {})
    if not doubtful and _agree(fresh, pages, fills):
        return
    different: list[tuple[int, str]] = []
    for rowid, text, agreed in _copies(pages, [tree for _, tree in fills]):
        if not agreed and rowid not in doubtful:
            continue
        row = fresh.db.execute(
            f"SELECT {fill.text} FROM {quoted(fill.table)} AS new WHERE new._rowid_ = ?", (rowid,)
        ).fetchone()
        if row is not None and row[0] != text:
            different.append((rowid, text))
            if len(different) > MANY:
                return
    for rowid, text in different:
        why = doubtful.get(rowid) or note(RowDoubt.OTHER_TEXT)
        if _put_back(fresh, fill, rowid, text):
            fresh.correct(fill.table, rowid, RepairNote.CORRECTED_TEXT)
        elif rowid not in doubtful:
            fresh.doubt(fill.table, rowid, why)


def _agree(fresh: Fresh, pages: Pages, fills: list[tuple[full_text.Fill, Tree]]) -> bool:
    """Whether SQLite itself, which is faster, reads both copies, and no row differs from two that agree."""
    if len(fills) != 2 or pages.image.frames or any(tree.missing for _, tree in fills):
        return False
    (fill, _), (other, _) = fills
    first, second = (quoted(f"{each.fts}_content") for each in (fill, other))
    try:
        with closing(connect(f"/proc/self/fd/{pages.image.fd}", "mode=ro&immutable=1")) as old:
            old.text_factory = bytes
            fresh.db.text_factory = bytes
            copies = old.execute(
                f"SELECT a.id, a.c0 FROM {first} AS a JOIN {second} AS b ON b.id = a.id WHERE a.c0 IS b.c0 ORDER BY a.id"
            )
            rows = fresh.db.execute(
                f"SELECT new._rowid_, {fill.text} FROM {quoted(fill.table)} AS new ORDER BY 1"
            )
            row = next(rows, None)
            for copy in copies:
                while row is not None and row[0] < copy[0]:
                    row = next(rows, None)
                if row is not None and row[0] == copy[0] and row != copy:
                    return False
            return True
    except (sqlite3.Error, UnicodeDecodeError):  # SQLite quotes a damaged schema in its own message
        return False
    finally:
        fresh.db.text_factory = fresh.text_factory


def _copies(pages: Pages, trees: list[Tree]) -> Iterator[tuple[int, str, bool]]:
    """(rowid, text, whether two copies agree), in the order of the rowids."""
    streams = [
        (
            (row.rowid, row.values[1])
            for row in pages.rows(tree)
            if row.values and len(row.values) == 2 and not row.doubt and isinstance(row.values[1], str)
        )
        for tree in trees
    ]
    heads: list[tuple[int, Value] | None] = [next(stream, None) for stream in streams]
    while any(heads):
        rowid = min(head[0] for head in heads if head)
        texts = [str(head[1]) for head in heads if head and head[0] == rowid]
        if len(set(texts)) == 1:
            yield rowid, texts[0], len(texts) == 2
        for number, head in enumerate(heads):
            if head and head[0] == rowid:
                heads[number] = next(streams[number], None)


def _put_back(fresh: Fresh, fill: full_text.Fill, rowid: int, text: str) -> bool:
    """Set the one column that makes the row give this text again, if there is exactly one such way: its
    content.
    """
    columns = [row[1] for row in fresh.db.execute(f"PRAGMA table_info({quoted(fill.table)})")]
    if "content" not in columns or "new.content" not in fill.text:
        return False
    table = quoted(fill.table)
    before = fresh.db.execute(f"SELECT content FROM {table} WHERE _rowid_ = ?", (rowid,)).fetchone()
    fresh.db.execute("SAVEPOINT correct")
    # With an empty content the expression gives what the other columns add: the rest of the copy is the
    # content.
    fresh.db.execute(f"UPDATE {table} SET content = '' WHERE _rowid_ = ?", (rowid,))
    tail = fresh.db.execute(
        f"SELECT {fill.text} FROM {table} AS new WHERE new._rowid_ = ?", (rowid,)
    ).fetchone()[0]
    if isinstance(tail, str) and isinstance(before[0], str | Text) and text.endswith(tail):
        fresh.db.execute(
            f"UPDATE {table} SET content = ? WHERE _rowid_ = ?", (text[: len(text) - len(tail)], rowid)
        )
        again = fresh.db.execute(f"SELECT * FROM {table} WHERE _rowid_ = ?", (rowid,)).fetchone()
        if not any(isinstance(value, Text) for value in again):
            fresh.db.execute("RELEASE correct")
            return True
    fresh.db.execute("ROLLBACK TO correct")
    fresh.db.execute("RELEASE correct")
    return False


def _put_right(fresh: Fresh, source: sqlite3.Connection, layout: Layout, theirs: Layout) -> int:
    """Doubtful rows that the backup has in a whole state, equal in everything that is not in doubt."""
    corrected = 0
    names = [name for name in layout.names if name in theirs.names]
    columns = ", ".join(quoted(name) for name in names)
    for rowid in list(fresh.doubtful.get(layout.table, {})):
        where = f"FROM {quoted(layout.table)} WHERE _rowid_ = ?"
        mine = fresh.db.execute(f"SELECT {columns} {where}", (rowid,)).fetchone()
        other = source.execute(f"SELECT {columns} {where}", (rowid,)).fetchone()
        if mine is None or other is None or any(isinstance(value, Text) for value in other):
            continue
        bad = [
            number
            for number, value in enumerate(mine)
            if isinstance(value, Text) or (isinstance(value, str) and content.HOLE in value)
        ]
        if bad and all(number in bad or value == other[number] for number, value in enumerate(mine)):
            changes = ", ".join(f"{quoted(names[number])} = ?" for number in bad)
            fresh.db.execute(
                f"UPDATE {quoted(layout.table)} SET {changes} WHERE _rowid_ = ?",
                (*(other[number] for number in bad), rowid),
            )
            fresh.correct(layout.table, rowid, RepairNote.CORRECTED_BACKUP)
            corrected += 1
    return corrected


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
    """The database with the rows of its backup, as values that JSON can carry: see gate.RepairResult."""
    file = os.path.join(job.work, "restored.db")
    if let_sqlite(job, file, None) is not Built.PROVED:
        return _result("", {}, ["what is there now is not sound; heal it first"])
    entries = observe(file).schema
    tick(PUT_BACK)
    aside = [entry for entry in entries if _is_aside(entry)]
    tallies = _put_history(file, job.known.backup, aside)
    furnish(file, aside)
    least = {table: tally.saved + tally.reconstructed for table, tally in tallies.items()}
    refused = why_not(file, entries, least)
    return _result(file, tallies, refused)


def _result(file: str, tallies: Mapping[str, Tally], refused: Sequence[str]) -> dict[str, Any]:
    tried = [f"tried and not good enough: {PUT_BACK} ({reason})" for reason in refused]
    if not file or refused:
        return asdict(RepairResult(file=file, tried=tried))
    back = sum(tally.reconstructed for tally in tallies.values())
    since = sum(tally.saved for tally in tallies.values())
    says = packed([note(RepairNote.HISTORY_BACK, back=back, since=since)])
    return asdict(RepairResult(PUT_BACK, file, counts(tallies, {}), says=says))


def _is_aside(entry: SchemaObject) -> bool:
    """What is made anew after the rows: triggers must not fire, and indexes cost less when made once."""
    if entry.type == "index":
        return bool(entry.sql) and "UNIQUE" not in entry.sql[:30].upper()
    return entry.type in ("trigger", "view") or is_virtual(entry.sql)


def _put_history(file: str, backup: str, aside: Sequence[SchemaObject]) -> dict[str, Tally]:
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
        tallies = {table: _return_rows(db, table, counts[table]) for table in tables}
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


def _return_rows(db: sqlite3.Connection, table: str, since: int) -> Tally:
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

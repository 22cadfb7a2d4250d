"""Rows that the damaged file lost and a verified backup still has."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from watchdog.sqlite import checks
from watchdog.sqlite.fresh import Fresh
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.pages import Range
from watchdog.sqlite.reading import connect
from watchdog.sqlite.reference import quoted
from watchdog.sqlite.texts import from_backup

SHOWN = 10


def merge(fresh: Fresh, backup: str, layout: Layout, gaps: Sequence[Range] | None) -> list[str]:
    """Put back lost rows of one table. With `gaps` None the lost rows are known one by one, and only these return;
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
        return [f"the backup could not be read for {layout.table}: {error}"]
    finally:
        source.close()
    if not put:
        return []
    names = ", ".join(str(rowid) for rowid in put[:SHOWN]) + (" …" if len(put) > SHOWN else "")
    doubt = "; any that were deleted on purpose since then are back" if gaps is not None else ""
    return [f"{layout.table}: {len(put)} rows put back from the backup as they were then{doubt} (rowid {names})"]


def mend(fresh: Fresh, backup: str, layout: Layout) -> None:
    """Put doubtful content right where the backup has the same row whole."""
    source = connect(backup, "mode=ro&immutable=1")
    source.text_factory = fresh.db.text_factory
    try:
        sql = checks.schema(source).get(("table", layout.table))
        theirs = layout_of(layout.table, sql) if sql else None
        if theirs is not None and layout.rowid:
            from_backup(fresh, source, layout, theirs)
    finally:
        source.close()


def _by_key(source: sqlite3.Connection, table: str, keys: Sequence[str], lost: set[tuple]) -> list[int]:
    where = " AND ".join(f"{quoted(key)} IS ?" for key in keys)
    found = []
    for key in lost:
        found += [rowid for (rowid,) in source.execute(f"SELECT _rowid_ FROM {quoted(table)} WHERE {where}", key)]
    return sorted(found)


def _by_rowid(source: sqlite3.Connection, table: str, gaps: Sequence[Range] | None, lost: set[int]) -> list[int]:
    if gaps is None:
        return sorted(lost)
    found = set(lost)
    for low, high in gaps:
        found.update(rowid for (rowid,) in source.execute(
            f"SELECT _rowid_ FROM {quoted(table)} WHERE (?1 IS NULL OR _rowid_ > ?1) AND (?2 IS NULL OR _rowid_ <= ?2)",
            (low, high)))
    return sorted(found)


def _put(fresh: Fresh, source: sqlite3.Connection, theirs: Layout, rowid: int) -> bool:
    if fresh.has(theirs.table, rowid):
        return False
    names = [quoted(name) for name in theirs.names]
    row = source.execute(f"SELECT {', '.join(names)} FROM {quoted(theirs.table)} WHERE _rowid_ = ?",
                         (rowid,)).fetchone()
    return row is not None and fresh.put(theirs, rowid, row, backup=True)

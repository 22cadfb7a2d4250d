"""Rows and texts put back from a second copy: a verified backup, or the full-text indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from watchdog.sqlite import checks
from watchdog.sqlite.format import Text, Value
from watchdog.sqlite.layout import Layout, layout_of
from watchdog.sqlite.page_scan import Pages, Range, Tree
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.rebuilt import Fresh
from watchdog.sqlite.schema import quoted

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
        return [f"the backup could not be read for {layout.table}: {error}"]
    finally:
        source.close()
    if not put:
        return []
    names = ", ".join(str(rowid) for rowid in put[:SHOWN]) + (" …" if len(put) > SHOWN else "")
    doubt = "; any that were deleted on purpose since then are back" if gaps is not None else ""
    return [
        f"{layout.table}: {len(put)} rows put back from the backup as they were then{doubt} (rowid {names})"
    ]


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
    return row is not None and fresh.put(theirs, rowid, row, "it is as it was at the backup")


MANY = 50  # rows that differ from their copies: more is an older way of indexing, no damage


def compare(fresh: Fresh, pages: Pages, fills: list[tuple[checks.Fill, Tree]]) -> None:
    """Hold the saved rows of a table against the copies of their text, and repair or mark those that differ."""
    fill = fills[0][0]
    doubtful = fresh.doubtful.setdefault(fill.table, {})
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
        why = doubtful.get(rowid) or "its text differs from both copies in the full-text indexes"
        if _put_back(fresh, fill, rowid, text):
            fresh.correct(fill.table, rowid, "its text was put back from the full-text index")
        elif rowid not in doubtful:
            fresh.doubt(fill.table, rowid, why)


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


def _put_back(fresh: Fresh, fill: checks.Fill, rowid: int, text: str) -> bool:
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
            if isinstance(value, Text) or (isinstance(value, str) and checks.HOLE in value)
        ]
        if bad and all(number in bad or value == other[number] for number, value in enumerate(mine)):
            changes = ", ".join(f"{quoted(names[number])} = ?" for number in bad)
            fresh.db.execute(
                f"UPDATE {quoted(layout.table)} SET {changes} WHERE _rowid_ = ?",
                (*(other[number] for number in bad), rowid),
            )
            fresh.correct(layout.table, rowid, "its text was put back from the backup")
            corrected += 1
    return corrected

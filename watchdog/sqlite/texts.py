"""Rows whose content is in doubt, put right from a second copy: the full-text indexes, or the backup."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from watchdog.sqlite import checks
from watchdog.sqlite.fresh import Fresh
from watchdog.sqlite.layout import Layout
from watchdog.sqlite.pages import Pages, Tree
from watchdog.sqlite.raw import Text, Value
from watchdog.sqlite.reference import quoted

MANY = 50       # rows that differ from their copies: more is an older way of indexing, no damage


def compare(fresh: Fresh, pages: Pages, fills: list[tuple[checks.Fill, Tree]]) -> None:
    """Hold the saved rows of a table against the copies of their text, and repair or mark those that differ."""
    fill = fills[0][0]
    doubtful = fresh.doubtful.setdefault(fill.table, {})
    different: list[tuple[int, str]] = []
    for rowid, text, agreed in _copies(pages, [tree for _, tree in fills]):
        if not agreed and rowid not in doubtful:
            continue
        row = fresh.db.execute(f"SELECT {fill.text} FROM {quoted(fill.table)} AS new WHERE new._rowid_ = ?",
                               (rowid,)).fetchone()
        if row is not None and row[0] != text:
            different.append((rowid, text))
            if len(different) > MANY:
                return
    for rowid, text in different:
        why = doubtful.get(rowid) or "its text differs from both copies in the full-text indexes"
        if _put_back(fresh, fill, rowid, text):
            fresh.mend(fill.table, rowid, "its text was put back from the full-text index")
        elif rowid not in doubtful:
            fresh.doubt(fill.table, rowid, why)


def _copies(pages: Pages, trees: list[Tree]) -> Iterator[tuple[int, str, bool]]:
    """(rowid, text, whether two copies agree), in the order of the rowids."""
    streams = [((row.rowid, row.values[1]) for row in pages.rows(tree)
                if row.values and len(row.values) == 2 and not row.doubt and isinstance(row.values[1], str))
               for tree in trees]
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
    """Set the one column that makes the row give this text again, if there is exactly one such way: its content."""
    columns = [row[1] for row in fresh.db.execute(f"PRAGMA table_info({quoted(fill.table)})")]
    if "content" not in columns or "new.content" not in fill.text:
        return False
    table = quoted(fill.table)
    before = fresh.db.execute(f"SELECT content FROM {table} WHERE _rowid_ = ?", (rowid,)).fetchone()
    fresh.db.execute("SAVEPOINT mend")
    # With an empty content the expression gives what the other columns add: the rest of the copy is the content.
    fresh.db.execute(f"UPDATE {table} SET content = '' WHERE _rowid_ = ?", (rowid,))
    tail = fresh.db.execute(f"SELECT {fill.text} FROM {table} AS new WHERE new._rowid_ = ?", (rowid,)).fetchone()[0]
    if isinstance(tail, str) and isinstance(before[0], str | Text) and text.endswith(tail):
        fresh.db.execute(f"UPDATE {table} SET content = ? WHERE _rowid_ = ?", (text[:len(text) - len(tail)], rowid))
        again = fresh.db.execute(f"SELECT * FROM {table} WHERE _rowid_ = ?", (rowid,)).fetchone()
        if not any(isinstance(value, Text) for value in again):
            fresh.db.execute("RELEASE mend")
            return True
    fresh.db.execute("ROLLBACK TO mend")
    fresh.db.execute("RELEASE mend")
    return False


def from_backup(fresh: Fresh, source: sqlite3.Connection, layout: Layout, theirs: Layout) -> int:
    """Doubtful rows that the backup has in a whole state, equal in everything that is not in doubt."""
    mended = 0
    names = [name for name in layout.names if name in theirs.names]
    columns = ", ".join(quoted(name) for name in names)
    for rowid in list(fresh.doubtful.get(layout.table, {})):
        where = f"FROM {quoted(layout.table)} WHERE _rowid_ = ?"
        mine = fresh.db.execute(f"SELECT {columns} {where}", (rowid,)).fetchone()
        other = source.execute(f"SELECT {columns} {where}", (rowid,)).fetchone()
        if mine is None or other is None or any(isinstance(value, Text) for value in other):
            continue
        bad = [number for number, value in enumerate(mine) if isinstance(value, Text)
               or (isinstance(value, str) and checks.HOLE in value)]
        if bad and all(number in bad or value == other[number] for number, value in enumerate(mine)):
            changes = ", ".join(f"{quoted(names[number])} = ?" for number in bad)
            fresh.db.execute(f"UPDATE {quoted(layout.table)} SET {changes} WHERE _rowid_ = ?",
                             (*(other[number] for number in bad), rowid))
            fresh.mend(layout.table, rowid, "its text was put back from the backup")
            mended += 1
    return mended

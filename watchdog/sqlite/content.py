"""Rows whose content cannot be what was written, though every structure of the database is sound."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator

from watchdog.sqlite.checks import schema, tables, text
from watchdog.sqlite.full_text import Fill, fills
from watchdog.sqlite.notes import RowDoubt
from watchdog.sqlite.schema import quoted

HOLE = "\0" * 8


def doubts(db: sqlite3.Connection, most: int = 20) -> list[tuple[str, int, str]]:
    """Rows whose content cannot be what was written, though every structure is sound: (table, rowid, why).

    Hermes writes valid text, and each message is kept three times: in its row and in two full-text indexes.
    """
    found: list[tuple[str, int, str]] = []
    before = db.text_factory
    try:
        # its copies tell better whether zeros belong there
        copied = {fill.table for fill in fills(schema(db))}
        for table in tables(db):
            if not _is_text(db, table) or (table not in copied and _has_hole(db, table)):
                found += list(_doubtful(db, table, table not in copied, most - len(found)))
            if len(found) >= most:
                return found
        db.text_factory = before
        for table, rowid in altered(db, most):
            found.append((table, rowid, RowDoubt.OTHER_TEXT()))
    finally:
        db.text_factory = before
    return found[:most]


def _is_text(db: sqlite3.Connection, table: str) -> bool:
    """Whether every text of a table is valid."""
    db.text_factory = str
    cursor = db.execute(f"SELECT * FROM {quoted(table)}")
    try:
        deque(cursor, maxlen=0)
        return True
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if "decode" not in str(error):
            raise
        return False
    finally:
        cursor.close()


def _has_hole(db: sqlite3.Connection, table: str) -> bool:
    """Whether a text of a table has a run of zeros, or a blob a page of them."""
    columns = [
        quoted(text(row[1])) for row in db.execute(f"PRAGMA table_xinfo({quoted(table)})") if row[6] < 2
    ]
    holes = " OR ".join(
        f"typeof({name}) = 'text' AND instr(CAST({name} AS BLOB), zeroblob({len(HOLE)})) > 0 OR "
        f"typeof({name}) = 'blob' AND length({name}) >= {_page(db)} AND instr({name}, zeroblob({_page(db)})) > 0"
        for name in columns
    )
    return db.execute(f"SELECT 1 FROM {quoted(table)} WHERE {holes} LIMIT 1").fetchone() is not None


def _page(db: sqlite3.Connection) -> int:
    """The least content of an overflow page."""
    return int(db.execute("PRAGMA page_size").fetchone()[0]) - 4 - 255


def _doubtful(db: sqlite3.Connection, table: str, holes: bool, most: int) -> Iterator[tuple[str, int, str]]:
    zeros = bytes(_page(db))
    db.text_factory = lambda raw: why_doubtful(raw, holes) or raw  # a reason is a str, text stays bytes
    try:
        cursor = db.execute(f"SELECT _rowid_, * FROM {quoted(table)}")
    except sqlite3.OperationalError:  # no rowid
        cursor = db.execute(f"SELECT 0, * FROM {quoted(table)}")
    for row in cursor:
        reason = next((value for value in row if isinstance(value, str)), "")
        if not reason and holes and any(type(value) is bytes and zeros in value for value in row):
            reason = RowDoubt.ZEROED()
        if reason and most > 0:
            most -= 1
            yield table, row[0], reason
        elif reason:
            return


def why_doubtful(raw: bytes, holes: bool = True) -> str:
    try:
        return RowDoubt.HOLE() if HOLE in raw.decode("utf-8") and holes else ""
    except UnicodeDecodeError:
        return RowDoubt.NOT_TEXT()


def altered(db: sqlite3.Connection, most: int) -> list[tuple[str, int]]:
    """Rows that differ from two full-text copies which agree.

    Many at once are an older way of indexing, no damage.
    """
    by_table: dict[str, list[Fill]] = {}
    for fill in fills(schema(db)):
        if fill.text:
            by_table.setdefault(fill.table, []).append(fill)
    found: list[tuple[str, int]] = []
    for table, copies in by_table.items():
        if len(copies) == 2:
            first, second = (quoted(fill.fts + "_content") for fill in copies)
            rows = db.execute(
                f"SELECT new._rowid_ FROM {quoted(table)} AS new JOIN {first} a ON a.id = new._rowid_ JOIN "
                f"{second} b ON b.id = new._rowid_ WHERE a.c0 IS b.c0 AND a.c0 IS NOT ({copies[0].text}) "
                f"LIMIT {most + 1}"
            ).fetchall()
            if len(rows) <= most:
                found += [(table, rowid) for (rowid,) in rows]
    return found

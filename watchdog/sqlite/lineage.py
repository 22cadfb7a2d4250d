"""Whether a database goes on from its last verified backup, or began anew.

A table that numbers its rows (AUTOINCREMENT) never gives a number twice. So in a file that goes on, the last number
only grows, and a row whose number the backup knew was written before the backup. Rows that were deleted on purpose
leave both as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from watchdog.sqlite.format import (
    TABLE_INTERIOR,
    TABLE_LEAF,
    Bad,
    Image,
    SchemaObject,
    Value,
    children,
    payload,
    read_cell,
    read_record,
)
from watchdog.sqlite.schema import CORE, quoted
from watchdog.values import Any, dataclass

# kind → the table that tells, and the column in which a row keeps when it was written
NUMBERED = {"state": ("messages", "timestamp"), "kanban": ("task_events", "created_at")}
DEEPEST = 20


@dataclass(frozen=True)
class Numbering:
    """How far a table has come."""

    last: int  # the last number that it gave; 0: none
    first: int = 0  # of the rows that are there; 0: there is none
    numbers: tuple[float | None, ...] = ()  # the columns of that row, None where one holds no number


def numbering(
    image: Image, entries: Sequence[SchemaObject], kind: str, encoding: str = "utf-8"
) -> Numbering | None:
    """Read from the pages; None when the table is not there, or does not number its rows."""
    table, _ = NUMBERED.get(kind, ("", ""))
    roots = {entry.name: entry.root for entry in entries if entry.type == "table"}
    if table not in roots or "sqlite_sequence" not in roots:
        return None
    try:
        given = {
            values[0]: values[1]
            for values in _first_rows(image, roots["sqlite_sequence"], 100, encoding).values()
        }
        rows = _first_rows(image, roots[table], 1, encoding)
    except (Bad, IndexError):
        return None
    last = given.get(table, 0)
    if not isinstance(last, int):
        return None
    for rowid, values in rows.items():
        found = tuple(float(value) if isinstance(value, int | float) else None for value in values)
        return Numbering(last, rowid, found)
    return Numbering(last)


def _first_rows(image: Image, number: int, most: int, encoding: str) -> dict[int, list[Value]]:
    """rowid → values of the first rows of a table, as many as its first leaf holds."""
    for _ in range(DEEPEST):
        page = image.btree(number)
        if page.kind != TABLE_INTERIOR:
            break
        number = next(children(page))[0]
    if page.kind != TABLE_LEAF:
        raise Bad("the tree of a table is damaged")
    cells = [read_cell(page, at, image.usable) for at in page.pointers[:most]]
    return {cell.rowid: read_record(payload(image, cell), encoding) for cell in cells}


def mark_of(db: sqlite3.Connection, kind: str) -> dict[str, Any]:
    """What a backup remembers, so that a later look can tell; {} when nothing in it can."""
    table, column = NUMBERED.get(kind, ("", ""))
    try:
        names = [
            row[0].decode() if isinstance(row[0], bytes) else row[0]
            for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        if row is None or column not in names:
            return {}
        newest = db.execute(f"SELECT max({quoted(column)}) FROM {quoted(table)}").fetchone()[0]
    except sqlite3.Error:
        return {}
    return {"last": int(row[0]), "newest": float(newest or 0), "column": names.index(column)}


def began_anew(kind: str, now: Numbering | None, empty: Sequence[str], known: Mapping[str, Any]) -> bool:
    """Whether a database lacks what its last verified backup held, and it was not deleted row by row."""
    mark, rows = known.get("mark"), known.get("rows") or {}
    if not mark or not any(rows.get(table) for table in CORE.get(kind, ())):
        return False
    if now is None:
        return False  # it cannot be told
    if now.last < mark["last"]:
        return True
    # Hermes prunes what is old and ended; everything at once is a mistake.
    if kind == "state" and all(table in empty for table in CORE[kind] if rows.get(table)):
        return True
    written = now.numbers[mark["column"]] if mark["column"] < len(now.numbers) else None
    return 0 < now.first <= mark["last"] and written is not None and written > mark["newest"] > 0

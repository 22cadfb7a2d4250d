"""Which table a leaf page belongs to, and which column a value: decided by rules that real rows cannot break."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from watchdog.sqlite.format import Text, Value
from watchdog.sqlite.schema import Column, columns_of

_WITHOUT_ROWID = re.compile(r"\bWITHOUT\s+ROWID\b[^)]*$", re.I)


@dataclass(frozen=True)
class Layout:
    """How the rows of one table lie in its records."""

    table: str
    sql: str
    stored: tuple[Column, ...]  # in the order of the record; virtual columns are not in it
    alias: int = -1  # position of the INTEGER PRIMARY KEY, stored as NULL; -1 when there is none
    rowid: bool = True

    @cached_property
    def least(self) -> int:
        """How many values a row has at least: columns that ALTER TABLE could add may be absent from old rows."""
        needed = [
            position + 1
            for position, column in enumerate(self.stored)
            if column.pk or (column.notnull and column.default is None)
        ]
        return max(needed, default=1)

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Positions of the values that are never NULL."""
        return tuple(
            position
            for position, column in enumerate(self.stored)
            if column.notnull and position != self.alias
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.stored)


def layout_of(table: str, sql: str, columns: Sequence[Column] | None = None) -> Layout | None:
    """The layout that a CREATE TABLE gives; None when SQLite cannot read the SQL."""
    if table.startswith("sqlite_"):
        sql = sql.replace("sqlite_", "internal_", 1)  # SQLite's own tables cannot be made by name
    columns = tuple(columns or columns_of(sql))
    if not columns:
        return None
    stored = tuple(column for column in columns if column.hidden != 2)
    keys = [column for column in stored if column.pk]
    if _WITHOUT_ROWID.search(sql):
        ordered = sorted(keys, key=lambda column: column.pk) + [column for column in stored if not column.pk]
        return Layout(table, sql, tuple(ordered), rowid=False)
    alias = stored.index(keys[0]) if len(keys) == 1 and keys[0].type.upper() == "INTEGER" else -1
    return Layout(table, sql, stored, alias)


@lru_cache(maxsize=1000)
def affinity(declared: str) -> str:
    """SQLite's own rule from the declared type."""
    name = declared.upper()
    if "INT" in name:
        return "integer"
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if not name or "BLOB" in name:
        return "blob"
    return "real" if any(part in name for part in ("REAL", "FLOA", "DOUB")) else "numeric"


def fit(layout: Layout, values: Sequence[Value]) -> int:
    """How well a record fits a layout: -1 when it cannot be one of its rows, else the number of values that
    tell.
    """
    if len(values) > len(layout.stored):
        return -1
    score = 0
    for position, column in enumerate(layout.stored):
        if position >= len(values):
            # only a column that ALTER TABLE could add may be absent from an old row
            if column.pk or (column.notnull and column.default is None):
                return -1
            continue
        value, kind = values[position], affinity(column.type)
        if position == layout.alias:
            if value is not None:
                return -1
            score += 2
        elif value is None:
            if column.notnull or column.pk:
                return -1  # SQLite allows NULL in a text key, Hermes does not
        elif kind == "text":
            if not isinstance(value, str | Text):
                return -1  # text columns turn numbers into text as they are stored, and get no blobs
            score += isinstance(value, str)
        elif kind in ("integer", "real", "numeric"):
            if isinstance(value, str | bytes | Text):
                if isinstance(value, str) and _numeric(value):
                    return -1  # would have been stored as a number
                score -= 1  # legal, and nothing Hermes does
            else:
                score += 1
        elif isinstance(value, bytes):
            score += 1
    return score


def impossible(layout: Layout, values: Sequence[Value]) -> bool:
    """Whether SQLite itself would not have stored these values as a row of this table."""
    if not layout.least <= len(values) <= len(layout.stored):
        return True
    if 0 <= layout.alias < len(values) and values[layout.alias] is not None:
        return True
    # a list, for a generator costs as much as the rest of reading a row
    return None in [values[position] for position in layout.needed if position < len(values)]


def _numeric(value: str) -> bool:
    return bool(re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", value))


def best(layouts: Iterable[Layout], rows: Sequence[Sequence[Value]]) -> list[Layout]:
    """The layouts that every one of these rows fits, the best first; equals are adjacent and share the top
    score.
    """
    scored = []
    for layout in layouts:
        scores = [fit(layout, row) for row in rows]
        if scores and min(scores) >= 0:
            exact = sum(len(row) == len(layout.stored) for row in rows)
            scored.append((sum(scores) + exact, layout))
    if not scored:
        return []
    top = max(score for score, _ in scored)
    return [layout for score, layout in scored if score == top]

"""What SQLite can say about a database over an open connection, sorted into damage and mere circumstances."""

from __future__ import annotations

import sqlite3

from watchdog.sqlite.schema import is_virtual, quoted, shadows
from watchdog.system.files import free_bytes

_CORRUPT, _NOTADB, _FULL, _ERROR = 11, 26, 13, 1


def is_damage(error: sqlite3.Error, folder: str = "") -> bool:
    """Whether an error speaks of the file, not of locks, permissions or space."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "malformed" in str(error) or "not a database" in str(error)
    code &= 0xFF
    if code == _FULL:  # a wild page number in an overflow chain says "full" on an empty disk
        return not folder or (free_bytes(folder) or 0) > 1 << 20
    if code == _ERROR:
        return "vtable constructor failed" in str(error) or "malformed" in str(error)
    return code in (_CORRUPT, _NOTADB)


def integrity(db: sqlite3.Connection, most: int = 100) -> tuple[str, ...]:
    """The rows of integrity_check, all of them read; () when it says ok."""
    rows: list[str] = []
    try:
        for (row,) in db.execute(f"PRAGMA integrity_check({most})"):
            rows.append(text(row))
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        rows.append(str(error))
    except UnicodeDecodeError:
        rows.append("the schema is not text")  # SQLite quotes the damage in its own message
    if rows == ["ok"]:
        return ()
    lines = [line for row in rows for line in row.splitlines()]
    return tuple(line for line in lines if line and not line.startswith("*** in database")) or ("no answer",)


def text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def orphans(db: sqlite3.Connection, most: int = 1_000_000) -> int:
    """How many rows refer to a parent that does not exist."""
    count = 0
    for table in tables(db):
        references = db.execute(f"PRAGMA foreign_key_list({quoted(table)})").fetchall()
        if not references:
            continue
        cheap = [_orphans_by_index(db, table, row) for row in references]
        if all(found is not None for found in cheap) and len({row[0] for row in references}) == len(
            references
        ):
            count += sum(found or 0 for found in cheap)
            continue
        for _ in db.execute(f"PRAGMA foreign_key_check({quoted(table)})"):
            count += 1
            if count >= most:
                return count
    return count


def _orphans_by_index(db: sqlite3.Connection, table: str, reference: tuple) -> int | None:
    """The same from an index on the column, each key once:

    SQLite's own check reads every page of the table.
    """
    parent, column, key = (text(value) if value is not None else "" for value in reference[2:5])
    types = [
        {
            text(row[1]).lower(): text(row[2]).upper()
            for row in db.execute(f"PRAGMA table_info({quoted(name)})")
        }
        for name in (table, parent)
    ]
    if not key or types[0].get(column.lower()) != types[1].get(key.lower(), "?"):
        return None  # compared as what? SQLite knows
    for index in db.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
        first = db.execute(f"PRAGMA index_info({quoted(text(index[1]))})").fetchone()
        if not index[4] and first and first[2] is not None and text(first[2]).lower() == column.lower():
            found = db.execute(
                f"SELECT sum(rows) FROM (SELECT {quoted(column)} AS key, count(*) AS rows FROM {quoted(table)} "
                f"WHERE {quoted(column)} IS NOT NULL GROUP BY 1) AS mine WHERE NOT EXISTS (SELECT 1 FROM "
                f"{quoted(parent)} AS theirs WHERE theirs.{quoted(key)} = mine.key)"
            ).fetchone()
            return int(found[0] or 0)
    return None


def schema(db: sqlite3.Connection) -> dict[tuple[str, str], str]:
    return {
        (text(kind), text(name)): text(sql)
        for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    }


def tables(db: sqlite3.Connection) -> list[str]:
    """The tables that hold the user's rows: no full-text shadows, nothing of SQLite's own."""
    all_tables = {name: sql for (kind, name), sql in schema(db).items() if kind == "table"}
    inner = shadows(all_tables.items())
    return [
        name
        for name, sql in all_tables.items()
        if name not in inner and not is_virtual(sql) and not name.startswith("sqlite_")
    ]


def counts(db: sqlite3.Connection) -> dict[str, int]:
    return {name: db.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0] for name in tables(db)}

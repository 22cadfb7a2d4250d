"""Run what a schema says: it is text out of somebody's file, so it may make a thing and do nothing else."""

from __future__ import annotations

import sqlite3

from watchdog.pattern import own

_MAKES = own(r"(?i)\s*CREATE\s+(TABLE|VIRTUAL\s+TABLE|UNIQUE\s+INDEX|INDEX|TRIGGER|VIEW)\b")
# Another file, and a query: 'CREATE TABLE x AS SELECT …' stands in no schema that SQLite wrote, and may never end.
_ELSEWHERE = {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
_QUERY = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}


def make(db: sqlite3.Connection, sql: str) -> None:
    """Make the table, index, trigger or view; sqlite3.DatabaseError for any other statement."""
    found = _MAKES.match(sql)
    if found is None:
        raise sqlite3.DatabaseError("the schema holds a statement that makes nothing; it was not run")
    # A full-text table asks queries of its own while it is made.
    forbidden = _ELSEWHERE if found[1].upper().startswith("VIRTUAL") else _ELSEWHERE | _QUERY

    def may(action: int, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action in forbidden else sqlite3.SQLITE_OK

    db.set_authorizer(may)
    try:
        db.execute(sql)
    finally:
        db.set_authorizer(None)


def is_making(sql: str) -> bool:
    """Whether SQLite itself would take this for a line of its schema; anything else makes it refuse the whole file."""
    return sql[:2].lower() == "cr"

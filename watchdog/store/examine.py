"""Whether a store is whole: SQLite's own checks, its tables, and the rows that a check reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import quote

from watchdog.store import audit, incidents, messages, plans, questions
from watchdog.store.store import Store, StoreError, Trouble
from watchdog.values import StrPath


def problems(path: StrPath) -> list[str]:
    """What is wrong with a store: SQLite's own checks, and tables or columns that are not there."""
    try:
        with Store.in_memory() as fresh, closing(read_only(path)) as db:
            found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
            if _version(db) == _version(fresh.db):
                found += [f"{name} is not there" for name in sorted(_columns(fresh.db) - _columns(db))]
            return found or _unreadable(path)
    except sqlite3.Error as error:
        return [str(error)]


def _unreadable(path: StrPath) -> list[str]:
    """Rows that a check needs and that cannot be read."""
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    readers: tuple[Callable[[Store], object], ...] = (
        incidents.all_incidents, incidents.last_check, incidents.last_blind, incidents.waiting_since,
        incidents.last_runs, lambda store: messages.memory(store, long_ago), messages.targets, messages.disarmed,
        lambda store: messages.owed(store, long_ago), lambda store: plans.history(store, long_ago),
        questions.open_questions, audit.audit_lines,
    )  # fmt: skip
    found = []
    store = Store.look(path)
    if store is None:
        return []
    with store:
        for reader in readers:
            try:
                reader(store)
            except StoreError as error:
                found.append(str(error))
    return found


def newer(path: StrPath) -> bool:
    """Whether a newer version wrote it."""
    try:
        store = Store.look(path)
        if store is not None:
            store.close()
    except StoreError as error:
        return error.trouble is Trouble.NEWER
    return False


def read_only(path: StrPath) -> sqlite3.Connection:
    db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)
    db.row_factory = sqlite3.Row
    return db


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _columns(db: sqlite3.Connection) -> set[str]:
    rows = db.execute(
        "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    )
    return {str(row[0]) for row in rows}

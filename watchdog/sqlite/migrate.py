"""Add the columns that the reference has and a table lacks: type, default and index from the reference alone."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.hands import as_owner
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.look import look
from watchdog.sqlite.making import make
from watchdog.sqlite.raw import MAGIC
from watchdog.sqlite.reading import uri
from watchdog.sqlite.reference import Column, Reference, Thing, columns_of, quoted

_CONSTANT = re.compile(r"([-+]?\d+(\.\d*)?([eE][-+]?\d+)?|'([^']|'')*'|x'[0-9a-fA-F]*'|NULL|TRUE|FALSE)", re.I)


@dataclass(frozen=True)
class MigrateReport:
    """What was added, what was there by the time we came, and what ALTER TABLE cannot add."""

    path: str
    reference: str
    added: tuple[str, ...] = ()         # 'tasks.session_id TEXT'
    there: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()        # with the reason
    indexes: tuple[str, ...] = ()
    backup: str = ""
    says: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.cannot


def migrate(path: str | os.PathLike, *, reference: Reference, dry_run: bool = False, backups: Path | None = None,
            timeout: float = 15) -> MigrateReport:
    """Bring the tables of a database, live or not, up to the reference. Other people's tables are left alone."""
    path = os.path.realpath(path)
    verdict = look(path, reference=reference)
    if verdict.grade in ("broken", "unknown") or (verdict.grade == "damaged" and not verdict.missing):
        raise WatchdogError(f"{path}: {verdict.fault}; heal it first, nothing was changed")
    with open(path, "rb") as file:
        if file.read(16) != MAGIC:
            raise WatchdogError(f"{path}: not a database; nothing was changed")
    if not verdict.missing:
        return MigrateReport(path, reference.name, says=("no column is missing",))
    things = reference.things[verdict.kind]
    if dry_run:
        plan = list(_plan(things, {(table, column) for table, column, _ in verdict.missing}))
        return MigrateReport(
            path, reference.name,
            tuple(f"{table}.{column.name} {column.type}" for table, column, why in plan if not why),
            cannot=tuple(f"{table}.{column.name}: {why}" for table, column, why in plan if why),
            says=("dry run: nothing was changed",))
    taken = snapshot(path, backups)
    if not taken.ok:
        raise WatchdogError(f"{taken.says}; nothing was changed")
    with as_owner(path):
        db = sqlite3.connect(uri(path, "mode=rw"), uri=True, timeout=timeout, isolation_level=None)
        try:
            return _migrate(db, path, reference, things, taken.file)
        except sqlite3.Error as error:
            raise WatchdogError(f"{path}: {error}; nothing was changed, try again when the gateway is quiet") from error
        finally:
            db.close()


def _migrate(db: sqlite3.Connection, path: str, reference: Reference, things: tuple[Thing, ...],
             taken: str) -> MigrateReport:
    added, there, cannot, indexes = [], [], [], []
    db.execute("BEGIN IMMEDIATE")
    try:
        lacking = set(_lacking(db, things))     # read again inside the lock: Hermes may have been quicker
        for table, column, why in _plan(things, lacking):
            name = f"{table}.{column.name}"
            if why:
                cannot.append(f"{name}: {why}")
                continue
            try:
                db.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {ddl(column)}")
                added.append(f"{name} {column.type}".strip())
            except sqlite3.OperationalError as error:
                if "duplicate column name" not in str(error):
                    raise
                there.append(name)
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
        touched = {entry.split(".")[0] for entry in added}
        for thing in things:
            wanted = thing.type == "index" and thing.name not in names and thing.table in touched
            if wanted and _fits(db, thing, things):
                with suppress(sqlite3.IntegrityError):      # a unique index over rows that are not
                    make(db, thing.sql)
                    indexes.append(thing.name)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return MigrateReport(path, reference.name, tuple(added), tuple(there), tuple(cannot), tuple(indexes), taken)


def _lacking(db: sqlite3.Connection, things: tuple[Thing, ...]) -> Iterator[tuple[str, str]]:
    for thing in things:
        if thing.type == "table" and not is_virtual(thing.sql):
            have = {row[1].lower() for row in db.execute(f"PRAGMA table_xinfo({quoted(thing.name)})")}
            if have:
                yield from ((thing.name, column.name) for column in columns_of(thing.sql)
                            if column.name.lower() not in have)


def _plan(things: tuple[Thing, ...], lacking: set[tuple[str, str]]) -> Iterator[tuple[str, Column, str]]:
    """(table, column, why it cannot be added) in the order of the reference."""
    for thing in things:
        if thing.type == "table" and not is_virtual(thing.sql):
            for column in columns_of(thing.sql):
                if (thing.name, column.name) in lacking:
                    yield thing.name, column, why_not_addable(thing, column)


def why_not_addable(thing: Thing, column: Column) -> str:
    """Why ALTER TABLE cannot add this column; '' when it can."""
    if column.pk:
        return "part of the primary key; needs a rebuild of the table with the gateway stopped"
    if column.hidden == 3:
        return "a stored generated column; needs a rebuild of the table"
    if column.hidden == 2:
        return "a generated column; not tried"
    if column.default is not None and not _CONSTANT.fullmatch(column.default.strip()):
        return f"its default ({column.default}) is not a constant"
    if column.notnull and (column.default is None or column.default.upper() == "NULL"):
        return "NOT NULL without a default"
    if column.name.lower() in _unique_columns(thing.sql):
        return "UNIQUE; needs a rebuild of the table"
    return ""


def _unique_columns(sql: str) -> set[str]:
    db = sqlite3.connect(":memory:")
    try:
        make(db, sql)
        (name,) = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchone()
        found = set()
        for row in db.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
            if row[3] == "u":
                found |= {str(one[2]).lower() for one in db.execute(f"PRAGMA index_info({quoted(row[1])})")}
        return found
    finally:
        db.close()


def ddl(column: Column) -> str:
    """The column as ALTER TABLE wants it, from the reference's own words."""
    parts = [quoted(column.name), column.type, "NOT NULL" if column.notnull else "",
             f"DEFAULT {column.default}" if column.default is not None else ""]
    return " ".join(part for part in parts if part)


def _fits(db: sqlite3.Connection, index: Thing, things: tuple[Thing, ...]) -> bool:
    """Whether the table has the columns of an index: SQLite itself takes an unknown quoted name for text."""
    have = {row[1].lower() for row in db.execute(f"PRAGMA table_xinfo({quoted(index.table)})")}
    memory = sqlite3.connect(":memory:")
    try:
        make(memory, next(thing.sql for thing in things if thing.type == "table" and thing.name == index.table))
        make(memory, index.sql)
        used = {str(row[2]).lower() for row in memory.execute(f"PRAGMA index_info({quoted(index.name)})") if row[2]}
    except (sqlite3.Error, StopIteration):
        return False
    finally:
        memory.close()
    return used <= have



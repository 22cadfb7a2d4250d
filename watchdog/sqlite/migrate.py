"""Add the columns that the reference has and a table lacks: type, default and index from the reference alone."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.model import as_phrase, packed, unpacked
from watchdog.sqlite import sandbox
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.faults import Fault
from watchdog.sqlite.format import MAGIC
from watchdog.sqlite.inspect import look, observe
from watchdog.sqlite.notes import RepairNote
from watchdog.sqlite.readonly import uri
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle, refused
from watchdog.sqlite.schema import (
    Column,
    Reference,
    SchemaObject,
    columns_of,
    is_virtual,
    make,
    quoted,
    release_version,
)
from watchdog.system.privileges import as_owner

WAIT = 15.0  # seconds for the lock of a writer
_CONSTANT = re.compile(
    r"([-+]?\d+(\.\d*)?([eE][-+]?\d+)?|'([^']|'')*'|x'[0-9a-fA-F]*'|NULL|TRUE|FALSE)", re.I
)


@dataclass(frozen=True)
class MigrateReport:
    """What was added, what was there by the time we came, and what ALTER TABLE cannot add."""

    path: str
    reference: str
    added: tuple[str, ...] = ()  # 'tasks.session_id TEXT'
    there: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()  # with the reason
    indexes: tuple[str, ...] = ()
    backup: str = ""
    says: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.cannot


def migrate(
    path: str | os.PathLike,
    *,
    reference: Reference,
    dry_run: bool = False,
    backups: Path | None = None,
    only: Collection[str] = (),
) -> MigrateReport:
    """Bring the tables of a database, live or not, up to the reference.

    Other people's tables are left alone. With `only` ("table.column TYPE"), exactly those columns are added, and
    one that the reference does not have in this form is told among what cannot be.
    """
    path = os.path.realpath(path)
    verdict = look(path, reference=reference)
    if verdict.grade in ("broken", "unknown") or (verdict.grade == "damaged" and not verdict.missing):
        sick = verdict.grade != "unknown" and not verdict.only(Fault.EMPTY)
        raise refused(
            DatabaseRefusal.HEAL_FIRST if sick else DatabaseRefusal.NOT_CHANGED, path, verdict.fault
        )
    with open(path, "rb") as file:
        if file.read(16) != MAGIC:
            raise refused(DatabaseRefusal.NOT_CHANGED, path, Obstacle.NO_DATABASE())
    newest = release_version(reference)
    if newest and observe(path).version > newest:
        raise refused(DatabaseRefusal.NOT_CHANGED, path, Obstacle.NEWER(reference=reference.name))
    if not verdict.missing:
        return MigrateReport(path, reference.name, says=(RepairNote.NO_COLUMN_MISSING(),))
    objects = reference.objects[verdict.kind]
    if dry_run:
        plan = list(_plan(objects, {(table, column) for table, column, _ in verdict.missing}, only))
        added = tuple(listed(table, column) for table, column, why in plan if not why)
        cannot = tuple(_cannot(table, column, why) for table, column, why in plan if why)
        says = (RepairNote.DRY_RUN(),)
        return MigrateReport(path, reference.name, added, cannot=cannot, says=says)
    taken = snapshot(path, backups)
    if not taken.ok:
        raise refused(DatabaseRefusal.NOT_CHANGED, path, taken.says)
    with as_owner(path):
        asked = (path, objects, tuple(only), WAIT)
        limits = sandbox.limits_for(os.path.getsize(path))
        try:
            answer = sandbox.run("watchdog.sqlite.migrate:work", asked, limits)
        except WatchdogError as error:
            if isinstance(error, sandbox.ChildFailed):
                sandbox.run("watchdog.sqlite.migrate:take_back", path, limits)
            raise refused(DatabaseRefusal.NOT_CHANGED, path, str(error)) from None
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in answer.items()
    }
    values["cannot"] = tuple(map(as_phrase, unpacked(answer["cannot"])))
    return replace(MigrateReport(**values), reference=reference.name, backup=taken.file)


def work(asked: tuple[str, tuple[SchemaObject, ...], tuple[str, ...], float], tick: object) -> dict[str, Any]:
    """Add the columns, in the child: ALTER TABLE runs the checks that stand in the file's own schema."""
    path, objects, only, timeout = asked
    db = sqlite3.connect(uri(path, "mode=rw"), uri=True, timeout=timeout, isolation_level=None)
    try:
        report = asdict(replace(_migrate(db, objects, only), path=path))
        return {**report, "cannot": packed(report["cannot"])}
    except sqlite3.Error as error:
        read_only = not os.access(path, os.W_OK) or os.statvfs(path).f_flag & os.ST_RDONLY
        raise WatchdogError(Obstacle.READ_ONLY() if read_only else Obstacle.WRITER(why=str(error))) from error
    finally:
        db.close()


def take_back(path: str, tick: object) -> dict[str, Any]:
    """Let SQLite take back the transaction of a child that was ended."""
    db = sqlite3.connect(uri(path, "mode=rw"), uri=True, timeout=5)
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        db.close()
    return {}


def _migrate(
    db: sqlite3.Connection, objects: tuple[SchemaObject, ...], only: Collection[str]
) -> MigrateReport:
    added, there, cannot, indexes = [], [], [], []
    db.execute("BEGIN IMMEDIATE")
    try:
        lacking = set(_lacking(db, objects))  # read again inside the lock: Hermes may have been quicker
        for table, column, why in _plan(objects, lacking, only):
            name = f"{table}.{column.name}"
            if why:
                cannot.append(_cannot(table, column, why))
                continue
            try:
                db.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {ddl(column)}")
                added.append(listed(table, column))
            except sqlite3.OperationalError as error:
                if "duplicate column name" not in str(error):
                    raise
                there.append(name)
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
        touched = {entry.split(".")[0] for entry in added}
        for item in objects:
            wanted = item.type == "index" and item.name not in names and item.table in touched
            if wanted and _fits(db, item, objects):
                with suppress(sqlite3.IntegrityError):  # a unique index over rows that are not
                    make(db, item.sql)
                    indexes.append(item.name)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    known = {listed(item.name, column) for item in _tables(objects) for column in columns_of(item.sql)}
    cannot += [
        Obstacle.COLUMN(name=name, why=Obstacle.NO_SUCH_COLUMN()) for name in only if name not in known
    ]
    return MigrateReport("", "", tuple(added), tuple(there), tuple(cannot), tuple(indexes))


def _cannot(table: str, column: Column, why: str) -> str:
    return Obstacle.COLUMN(name=f"{table}.{column.name}", why=why)


def listed(table: str, column: Column) -> str:
    """'tasks.session_id TEXT', as a missing column is named everywhere."""
    return f"{table}.{column.name} {column.type}".strip()


def _tables(objects: tuple[SchemaObject, ...]) -> Iterator[SchemaObject]:
    return (item for item in objects if item.type == "table" and not is_virtual(item.sql))


def _lacking(db: sqlite3.Connection, objects: tuple[SchemaObject, ...]) -> Iterator[tuple[str, str]]:
    for item in _tables(objects):
        have = {row[1].lower() for row in db.execute(f"PRAGMA table_xinfo({quoted(item.name)})")}
        if have:
            yield from (
                (item.name, column.name) for column in columns_of(item.sql) if column.name.lower() not in have
            )


def _plan(
    objects: tuple[SchemaObject, ...], lacking: set[tuple[str, str]], only: Collection[str] = ()
) -> Iterator[tuple[str, Column, str]]:
    """(table, column, why it cannot be added) in the order of the reference."""
    for item in _tables(objects):
        for column in columns_of(item.sql):
            if (item.name, column.name) in lacking and (not only or listed(item.name, column) in only):
                yield item.name, column, why_not_addable(item, column)


def why_not_addable(item: SchemaObject, column: Column) -> str:
    """Why ALTER TABLE cannot add this column; '' when it can."""
    if column.pk:
        return Obstacle.PRIMARY_KEY()
    if column.hidden == 3:
        return Obstacle.STORED()
    if column.hidden == 2:
        return Obstacle.GENERATED()
    if column.default is not None and not _CONSTANT.fullmatch(column.default.strip()):
        return Obstacle.NO_CONSTANT(default=column.default)
    if column.notnull and (column.default is None or column.default.upper() == "NULL"):
        return Obstacle.NOT_NULL()
    if column.name.lower() in _unique_columns(item.sql):
        return Obstacle.UNIQUE()
    return ""


def _unique_columns(sql: str) -> set[str]:
    db = sqlite3.connect(":memory:")
    try:
        make(db, sql)
        (name,) = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchone()
        found = set()
        for row in db.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
            if row[3] == "u":
                found |= {
                    str(column[2]).lower() for column in db.execute(f"PRAGMA index_info({quoted(row[1])})")
                }
        return found
    finally:
        db.close()


def ddl(column: Column) -> str:
    """The column as ALTER TABLE wants it, from the reference's own words."""
    parts = [
        quoted(column.name),
        column.type,
        "NOT NULL" if column.notnull else "",
        f"DEFAULT {column.default}" if column.default is not None else "",
    ]
    return " ".join(part for part in parts if part)


def _fits(db: sqlite3.Connection, index: SchemaObject, objects: tuple[SchemaObject, ...]) -> bool:
    """Whether the table has the columns of an index: SQLite itself takes an unknown quoted name for text."""
    have = {row[1].lower() for row in db.execute(f"PRAGMA table_xinfo({quoted(index.table)})")}
    memory = sqlite3.connect(":memory:")
    try:
        make(memory, next(item.sql for item in objects if item.type == "table" and item.name == index.table))
        make(memory, index.sql)
        used = {
            str(row[2]).lower()
            for row in memory.execute(f"PRAGMA index_info({quoted(index.name)})")
            if row[2]
        }
    except (sqlite3.Error, StopIteration):
        return False
    finally:
        memory.close()
    return used <= have

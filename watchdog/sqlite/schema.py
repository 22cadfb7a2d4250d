"""What the tables of a database should be: which databases Hermes has, and what each known release makes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from watchdog.later import regex
from watchdog.sqlite.files import NAMES
from watchdog.sqlite.format import SchemaObject
from watchdog.values import dataclass, field, replace

NEWEST_STATE_VERSION = 26  # the schema_version of the newest release that is known here
CORE = {
    "state": ("sessions", "messages"),
    "kanban": ("tasks", "task_events"),
    "response_store": ("responses", "conversations"),
}


def kind_of(tables: Iterable[str], path: str = "") -> str:
    """Which of the databases this is: by its tables, else by its name."""
    have = {table.lower() for table in tables}
    for kind, core in CORE.items():
        if have.issuperset(core):
            return kind
    for kind, core in CORE.items():
        if have.intersection(core):
            return kind
    base = os.path.basename(path)
    return next((kind for kind, name in NAMES.items() if base.startswith(name)), "") if not have else ""


def is_virtual(sql: str) -> bool:
    return sql[:30].upper().split()[:2] == ["CREATE", "VIRTUAL"]


_MAKES = regex(r"(?i)\s*CREATE\s+(TABLE|VIRTUAL\s+TABLE|UNIQUE\s+INDEX|INDEX|TRIGGER|VIEW)\b")
# Another file, and a query: 'CREATE TABLE x AS SELECT …' stands in no schema that SQLite wrote, and may never
# end.
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
    """Whether SQLite itself would take this for a line of its schema; anything else makes it refuse the whole
    file.
    """
    return sql[:2].lower() == "cr"


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    notnull: bool
    default: str | None
    pk: int
    hidden: int = 0  # 2 and 3 are generated columns


@dataclass(frozen=True)
class Reference:
    """The schema one Hermes release expects, per kind of database."""

    name: str  # 'Hermes 0.19.0, installed' or 'Hermes 0.13.0, known release'
    objects: Mapping[str, tuple[SchemaObject, ...]]
    optional: Mapping[str, tuple[SchemaObject, ...]]  # tables that appear on first use


_columns: dict[str, tuple[Column, ...]] = {}  # by SQL; the known releases fill it from their table


def columns_of(sql: str) -> tuple[Column, ...]:
    """The columns a CREATE TABLE makes, as SQLite itself reads it; () when it cannot."""
    if sql not in _columns:
        _columns[sql] = _parse(sql)
    return _columns[sql]


def _parse(sql: str) -> tuple[Column, ...]:
    db = sqlite3.connect(":memory:")
    try:
        make(db, sql)
        (name,) = db.execute("SELECT name FROM sqlite_schema").fetchone()
        rows = db.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    except (sqlite3.Error, TypeError):
        return ()
    finally:
        db.close()
    return tuple(Column(row[1], row[2], bool(row[3]), row[4], row[5], row[6]) for row in rows)


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def shadows(objects: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Names of the tables that full-text indexes keep for themselves, from (name, sql) of all tables."""
    virtual = [name for name, sql in objects if is_virtual(sql)]
    return frozenset(
        f"{name}_{part}" for name in virtual for part in ("data", "idx", "content", "docsize", "config")
    )


# --- the releases we know


@lru_cache(maxsize=1)
def releases() -> tuple[Reference, ...]:
    """Every release in the table that ships with us, oldest first."""
    with open(os.path.join(os.path.dirname(__file__), "schemas.json"), encoding="utf-8") as file:
        known = json.load(file)
    objects = []
    for item in known["things"]:
        if columns := item.pop("columns", None):
            _columns.setdefault(item["sql"], tuple(Column(*column) for column in columns))
        objects.append(SchemaObject(**item))
    optional = {
        kind: tuple(objects[number] for number in numbers) for kind, numbers in known["optional"].items()
    }
    return tuple(
        Reference(
            f"Hermes {version}, known release",
            {kind: tuple(objects[number] for number in numbers) for kind, numbers in kinds.items()},
            optional,
        )
        for version, kinds in known["releases"].items()
    )


def release_version(reference: Reference) -> int:
    """The version that state.db has with this known release; 0 for any other reference."""
    with open(os.path.join(os.path.dirname(__file__), "schemas.json"), encoding="utf-8") as file:
        versions = json.load(file)["state_version"]
    name = reference.name.split()[1].rstrip(",")
    return int(versions.get(name, 0)) if reference.name.endswith("known release") else 0


def release(version: str) -> Reference | None:
    """The known release of this version."""
    return next((known for known in releases() if known.name.split()[1].rstrip(",") == version), None)


def nearest(
    kind: str,
    objects: Sequence[tuple[str, str, str]],
    whole: bool = True,
    widths: frozenset[int] = frozenset(),
) -> Reference | None:
    """The known release whose schema differs least from what is there: (type, name, sql); the newest of
    equals.

    Unless the schema is whole, what a release has more than the file proves nothing, but for columns of a
    table; of equals the one is taken whose lost tables are as wide as the rows that were found.
    """
    if kind not in CORE:
        return None
    marks = _release_marks(kind)
    every = frozenset().union(*marks.values())
    # What no release knows is not read: 3,000 tables of 200 columns cost every check 16 seconds.
    have = _marks(item for item in objects if (item[0], item[1].lower()) in every) & every
    tables = {name.lower() for type_, name, _ in objects if type_ == "table"}

    def distance(one: Reference) -> int:
        return sum(whole or mark in have or mark[0] in tables for mark in have ^ marks[one.name])

    def strange(one: Reference) -> int:
        return sum(
            len(columns_of(item.sql)) not in widths
            for item in one.objects[kind]
            if item.name in CORE[kind] and item.name.lower() not in tables
        )

    return min(reversed(releases()), key=lambda one: (distance(one), strange(one) if widths else 0))


@lru_cache(maxsize=8)
def _release_marks(kind: str) -> Mapping[str, frozenset[tuple[str, str]]]:
    return {
        known.name: frozenset(_marks((t.type, t.name, t.sql) for t in known.objects[kind]))
        for known in releases()
    }


def _marks(objects: Iterable[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """What a schema has, one mark per object and per column."""
    marks = set()
    for kind, name, sql in objects:
        marks.add((kind, name.lower()))
        if kind == "table" and sql and not is_virtual(sql):
            marks.update((name.lower(), column.name.lower()) for column in columns_of(sql))
    return marks


# --- the schema to build


@dataclass
class WantedSchema:
    """The schema to build: the file's own, what it lost of it from the backup, else from the reference."""

    entries: list[SchemaObject]
    borrowed: set[str] = field(default_factory=set)  # names whose SQL is not the file's own
    gone: list[SchemaObject] = field(default_factory=list)  # whose definition is lost


def entries_for(
    found: tuple[Sequence[SchemaObject], bool],
    bad: Sequence[SchemaObject],
    backup: Sequence[SchemaObject],
    reference: Sequence[SchemaObject],
) -> WantedSchema:
    """Every object of the file with SQL that SQLite can read; of the bad ones what others know of them.

    `found` is what the file still has of its schema, and whether that is all of it.
    """
    entries, whole = found
    wanted = WantedSchema([entry for entry in entries if entry not in bad])
    if whole and not bad:
        return wanted
    have = {(entry.type, entry.name.lower()) for entry in wanted.entries}
    lost = {(entry.type, entry.name.lower()) for entry in bad}
    for entry in [*backup, *reference]:
        key = (entry.type, entry.name.lower())
        if key in have or not entry.sql or entry.name.startswith("sqlite_") or (whole and key not in lost):
            continue
        have.add(key)
        # Without its root: the order of the columns may be another, so its rows are found by what fits them.
        wanted.entries.append(SchemaObject(entry.type, entry.name, entry.table, entry.sql))
        wanted.borrowed.add(entry.name)
    for entry in bad:
        if (entry.type, entry.name.lower()) not in have:
            wanted.gone.append(entry)
    return wanted


_NAME = r"(\"(?:[^\"]|\"\")*\"|\[[^]]*\]|`[^`]*`|\w+)"
_SAYS = regex(rf"CREATE (VIRTUAL TABLE|TABLE|UNIQUE INDEX|INDEX|TRIGGER|VIEW) {_NAME}(?:\s*ON\s*{_NAME})?")


def put_right(entries: Sequence[SchemaObject]) -> list[SchemaObject]:
    """The entries, with the name of a table as two of its three places have it, and that of an index as in its SQL."""
    known = {entry.name for entry in entries if entry.type == "table"} | {
        entry.table for entry in entries if entry.type == "table"
    }
    found = []
    for entry in entries:
        says = _SAYS.match(entry.sql)
        if says is None or entry.type not in ("table", "index"):
            found.append(entry)
            continue
        name, table = _bare(says[2]), _bare(says[3] or "")
        if entry.type == "index":
            table = entry.table if table not in known else table
        elif name not in (entry.name, entry.table) and entry.name == entry.table:
            entry = replace(
                entry, sql=entry.sql[: says.start(2)] + quoted(entry.name) + entry.sql[says.end(2) :]
            )
            name = table = entry.name
        elif name in (entry.name, entry.table):
            table = name
        else:
            name, table = entry.name, entry.table
        found.append(
            entry if (name, table) == (entry.name, entry.table) else replace(entry, name=name, table=table)
        )
    return found


def _bare(name: str) -> str:
    """A name as SQL has it, without its quotes."""
    if name[:1] in ('"', "`"):
        return name[1:-1].replace(name[0] * 2, name[0])
    return name[1:-1] if name[:1] == "[" else name


def unreadable(entries: Sequence[SchemaObject]) -> list[SchemaObject]:
    """The entries whose SQL is damaged: SQLite cannot make what they say, or makes something else."""
    inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
    order = sorted(
        (entry for entry in entries if entry.sql and not entry.name.startswith("sqlite_")),
        key=lambda one: (one.type != "table", is_virtual(one.sql)),
    )
    bad: list[SchemaObject] = []
    db = sqlite3.connect(":memory:")
    try:
        for entry in order:
            if entry.name in inner:
                continue  # comes with its full-text table
            try:
                make(db, entry.sql)
            except (sqlite3.Error, ValueError) as error:
                elsewhere = any(other.name == entry.table for other in bad) or "no such" in str(error)
                if not elsewhere:
                    bad.append(entry)
                continue
            if not db.execute(
                "SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ? COLLATE NOCASE",
                (entry.type, entry.name),
            ).fetchone():
                bad.append(entry)
    finally:
        db.close()
    return bad

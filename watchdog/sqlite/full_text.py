"""The full-text indexes of a database: what fills them, and whether they hold what they should."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from watchdog.sqlite.checks import is_damage, schema
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.notes import RepairNote
from watchdog.sqlite.schema import is_virtual, make, quoted
from watchdog.values import dataclass

_INSERTS = re.compile(
    r"AFTER\s+INSERT\s+ON\s+[\"'`\[]?(?P<table>\w+)[\"'`\]]?\s+(?:FOR\s+EACH\s+ROW\s+)?(?:WHEN\s+(?P<when>.*?)\s+)?BEGIN\s+INSERT\s+INTO\s+[\"'`\[]?(?P<fts>\w+)[\"'`\]]?\s*"
    r"\((?P<columns>[^)]*)\)\s*VALUES\s*\((?P<values>.*)\)\s*;\s*END",
    re.I | re.S,
)

_CONTENT = re.compile(r"\bcontent\s*=\s*[\"'`\[]?(?P<name>\w+)", re.I)


@dataclass(frozen=True)
class Fill:
    """How a full-text index gets its rows: read from the trigger that keeps it up."""

    fts: str
    table: str
    columns: str
    values: str
    when: str = ""  # which rows the trigger takes; '' for all
    external: str = ""  # the table or view that holds the texts; '' when the index keeps its own copy

    @property
    def rows(self) -> str:
        """Which rows belong into the index, as the trigger decides it."""
        return f"FROM {quoted(self.table)} AS new" + (f" WHERE {self.when}" if self.when else "")

    @property
    def text(self) -> str:
        """The expression of the one column that is indexed; '' when there are more."""
        return self.values.split(",", 1)[1] if len(self.columns.split(",")) == 2 else ""

    @property
    def sql(self) -> str:
        return f"INSERT INTO {quoted(self.fts)}({self.columns}) SELECT {self.values} {self.rows} ORDER BY new.rowid"


def fills(schema: Mapping[tuple[str, str], str]) -> tuple[Fill, ...]:
    """The fills of a schema given as {(type, name): sql}."""
    virtual = {name: sql for (kind, name), sql in schema.items() if kind == "table" and is_virtual(sql)}
    found: dict[str, Fill] = {}
    for (kind, _), sql in schema.items():
        match = _INSERTS.search(sql) if kind == "trigger" else None
        if match and match["fts"] in virtual:
            external = _CONTENT.search(virtual[match["fts"]])
            found.setdefault(
                match["fts"],
                Fill(
                    match["fts"],
                    match["table"],
                    match["columns"],
                    match["values"],
                    match["when"] or "",
                    external["name"] if external else "",
                ),
            )
    return tuple(found.values())


def fills_of(entries: Iterable[SchemaObject]) -> tuple[Fill, ...]:
    """The fills of a schema that was read from its pages."""
    return fills({(entry.type, entry.name): entry.sql for entry in entries})


def furnish(db: sqlite3.Connection, entries: Sequence[SchemaObject]) -> None:
    """Indexes, full text filled from its rows, views and triggers into a database that has its tables."""
    have = {name for kind, name in schema(db) if kind == "table"}
    for wanted in ("index", "table", "view"):  # a full-text index may take its texts from a view
        for entry in entries:
            if entry.type == wanted and entry.sql and (wanted != "table" or is_virtual(entry.sql)):
                make(db, entry.sql)
    for fill in fills_of(entries):
        if fill.table in have:
            fill_full_text(db, fill)
    for entry in entries:
        if entry.type == "trigger":
            make(db, entry.sql)


def fts_counts(db: sqlite3.Connection) -> Iterator[str]:
    """Full-text indexes that have lost rows: nothing else sees it."""
    for fill in fills(schema(db)):
        try:
            rows = db.execute(f"SELECT count(*) {fill.rows}").fetchone()[0]
            indexed = db.execute(f"SELECT count(*) FROM {quoted(fill.fts + '_docsize')}").fetchone()[0]
        except sqlite3.Error as error:
            if is_damage(error) or "no such table" in str(error):
                yield RepairNote.FTS_UNREADABLE(name=fill.fts, why=str(error))
            continue
        if rows != indexed:
            yield RepairNote.FTS_LACKS(name=fill.fts, indexed=indexed, rows=rows, table=fill.table)


def fill_full_text(db: sqlite3.Connection, fill: Fill) -> None:
    """Fill an empty full-text index from its rows: by SQLite's own command where that takes the same rows."""
    if fill.external:
        theirs = db.execute(f"SELECT count(*) FROM {quoted(fill.external)}").fetchone()[0]
        if theirs == db.execute(f"SELECT count(*) {fill.rows}").fetchone()[0]:
            db.execute(f"INSERT INTO {quoted(fill.fts)}({quoted(fill.fts)}) VALUES('rebuild')")
            return  # else Hermes is filling it step by step, and will go on where it was
    db.execute(fill.sql)


def _is_filled(db: sqlite3.Connection, fill: Fill) -> bool:
    """Whether an index without texts of its own names as many rows as the table or view that has them."""
    sizes = (fill.fts + "_docsize", fill.external)
    try:
        return len({db.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0] for name in sizes}) == 1
    except sqlite3.Error:
        return False


def fts_content(db: sqlite3.Connection) -> Iterator[str]:
    """Full-text indexes whose content is damaged. Takes the write lock: for private copies only.

    One that keeps no texts is held against those of its rows, unless Hermes is still filling it.
    """
    objects = schema(db)
    complete = {fill.fts for fill in fills(objects) if fill.external and _is_filled(db, fill)}
    for (kind, name), sql in objects.items():
        if kind == "table" and is_virtual(sql) and "fts5" in sql.lower():
            fts, rank = quoted(name), int(name in complete)
            try:
                db.execute(f"INSERT INTO {fts}({fts}, rank) VALUES('integrity-check', {rank})")
            except sqlite3.Error as error:
                if "no such module" not in str(error) and "no such tokenizer" not in str(error):
                    kind = RepairNote.FTS_OTHER if rank else RepairNote.FTS_DAMAGED
                    yield kind(name=name, why=str(error))

"""What SQLite can say about a database over an open connection, sorted into damage and mere circumstances."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.notes import RepairNote, RowDoubt
from watchdog.sqlite.schema import is_virtual, make, quoted, shadows
from watchdog.values import dataclass

_CORRUPT, _NOTADB, _FULL, _ERROR = 11, 26, 13, 1
_INSERTS = re.compile(
    r"AFTER\s+INSERT\s+ON\s+[\"'`\[]?(?P<table>\w+)[\"'`\]]?\s+(?:FOR\s+EACH\s+ROW\s+)?(?:WHEN\s+(?P<when>.*?)\s+)?BEGIN\s+INSERT\s+INTO\s+[\"'`\[]?(?P<fts>\w+)[\"'`\]]?\s*"
    r"\((?P<columns>[^)]*)\)\s*VALUES\s*\((?P<values>.*)\)\s*;\s*END",
    re.I | re.S,
)

_CONTENT = re.compile(r"\bcontent\s*=\s*[\"'`\[]?(?P<name>\w+)", re.I)


def is_damage(error: sqlite3.Error, folder: str = "") -> bool:
    """Whether an error speaks of the file, not of locks, permissions or space."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "malformed" in str(error) or "not a database" in str(error)
    code &= 0xFF
    if code == _FULL:  # a wild page number in an overflow chain says "full" on an empty disk
        return not folder or free_space(folder) > 1 << 20
    if code == _ERROR:
        return "vtable constructor failed" in str(error) or "malformed" in str(error)
    return code in (_CORRUPT, _NOTADB)


def free_space(folder: str) -> int:
    try:
        status = os.statvfs(folder or ".")
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


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
    return (
        ()
        if rows == ["ok"]
        else tuple(
            line
            for row in rows
            for line in row.splitlines()
            if line and not line.startswith("*** in database")
        )
        or ("no answer",)
    )


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


HOLE = "\0" * 8


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

"""A fresh database file to put saved rows in: each row read back as it is written, none replaced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from watchdog.sqlite import checks, full_text
from watchdog.sqlite.damaged_file import Opened
from watchdog.sqlite.format import SchemaObject, Text, Value
from watchdog.sqlite.layout import Layout
from watchdog.sqlite.notes import RepairNote, note
from watchdog.sqlite.page_scan import ScannedRow
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.schema import is_virtual, make, quoted, shadows

SHOWN = 20  # doubtful rows that are named; the rest is in the count


@dataclass
class Tally:
    """What became of the rows of one table."""

    saved: int = 0  # in the new file, as they were
    reconstructed: int = 0  # in the new file, but from another copy or with bytes that may be damaged
    lost: int = 0  # known to have been there, not in the new file; at least so many
    lost_most: int = 0  # and at most so many
    destroyed: int = 0  # cells of its tree that cannot be read
    unplaced: int = 0  # of these, with a rowid that is not known
    freed: int = 0  # cells that look like deleted ones: their page is half an old one
    refused: int = 0  # rows whose key another row has
    says: list[str] = field(default_factory=list)

    @property
    def there(self) -> int:
        return self.saved + self.reconstructed + self.lost


class Fresh:
    """The new file while it is being filled, and beside it what does not belong there: salvage."""

    def __init__(self, path: str, opened: Opened, salvage: str):
        header = opened.header
        for leftover in (path, path + "-journal", path + "-wal", path + "-shm", salvage):
            if os.path.exists(leftover):
                os.unlink(leftover)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.path = path
        self.db = connect(path, "mode=rw")
        self.text_factory = self.db.text_factory = lambda raw: _text(raw)
        for pragma in (
            f"page_size={opened.page_size}",
            f"encoding='{opened.encoding_name}'",
            f"auto_vacuum={int(opened.pages.auto_vacuum)}",
            "journal_mode=MEMORY",  # of a new file it holds next to nothing, and a savepoint can be taken back
            "synchronous=OFF",
            "foreign_keys=OFF",
            "cache_size=-16000",
            "temp_store=FILE",
            f"user_version={_signed(header.user_version) if header else 0}",
            f"application_id={_signed(header.application) if header else 0}",
        ):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute(
            "CREATE TEMP TABLE evidence(tbl TEXT, id INTEGER, PRIMARY KEY(tbl, id)) WITHOUT ROWID"
        )
        self.side = sqlite3.connect(salvage, isolation_level=None)
        self.side.execute("PRAGMA synchronous=OFF")
        self.side.execute("CREATE TABLE salvaged(tbl TEXT, id INTEGER, why TEXT, what TEXT, value TEXT)")
        self.tallies: dict[str, Tally] = {}
        self.corrected = 0
        self.doubtful: dict[str, dict[int, str]] = {}
        self.lost_keys: dict[str, set[tuple]] = {}  # primary keys of lost rows, where an index names them
        self.db.execute("BEGIN")

    def make_tables(self, entries: Sequence[SchemaObject]) -> None:
        """The tables of the user; indexes, triggers and full-text tables come after the rows."""
        inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
        for entry in entries:
            if (
                entry.type == "table"
                and entry.name not in inner
                and not entry.name.startswith("sqlite_")
                and not is_virtual(entry.sql)
            ):
                make(self.db, entry.sql)
                self.tallies[entry.name] = Tally()
        # unique ones must be there before the rows, to refuse a second row of the same key
        for entry in entries:
            if entry.table in self.tallies and _unique(entry):
                make(self.db, entry.sql)

    def put(
        self, layout: Layout, rowid: int, values: Sequence[Value], doubt: str = "", exact: bool = False
    ) -> bool:
        """Insert one row and read it back; False when the table will not have it as it is.

        `exact`: it is put together from other places, and every value is known.
        """
        names, wanted = _columns(layout, rowid, values)
        marks = ", ".join(_mark(value) for value in wanted)
        bound = [value.raw if isinstance(value, Text) else value for value in wanted]
        table = quoted(layout.table)
        try:
            done = self.db.execute(
                f"INSERT OR IGNORE INTO {table}({', '.join(names)}) VALUES({marks})", bound
            )
        except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError) as error:
            self.aside(layout, rowid, values, str(error))
            return False
        if done.rowcount == 0:
            return False
        if layout.rowid:
            where, keys = "_rowid_ = ?", [bound[0]]
        else:
            key = [position for position, column in enumerate(layout.stored) if column.pk]
            where = " AND ".join(
                f"{quoted(layout.stored[position].name)} IS {_mark(wanted[position])}" for position in key
            )
            keys = [bound[position] for position in key]
        back = self.db.execute(f"SELECT {', '.join(names)} FROM {table} WHERE {where}", keys).fetchone()
        if back is None or not _same(list(back), wanted):
            self.db.execute(f"DELETE FROM {table} WHERE {where}", keys)
            self.aside(layout, rowid, values, "would not read back as it was")
            return False
        tally = self.tallies[layout.table]
        if doubt or exact:
            tally.reconstructed += 1
        else:
            tally.saved += 1
        if doubt:
            self.doubtful.setdefault(layout.table, {})[self._key(layout, rowid)] = doubt
        return True

    def put_many(self, layout: Layout, rows: Sequence[ScannedRow]) -> bool:
        """Insert rows of a table at once and read them back; False, with none of them in it, when any differs."""
        if len(rows) < 2 or len({len(row.values or ()) for row in rows}) > 1:
            return False
        names = _columns(layout, 0, rows[0].values or ())[0]
        kept = [
            position
            for position in range(len(rows[0].values or ()))
            if position != layout.alias and layout.stored[position].hidden == 0
        ]
        wanted: list[list[Value]] = [
            [row.rowid, *(row.values[position] for position in kept)] for row in rows if row.values
        ]
        if any(isinstance(value, Text) for values in wanted for value in values):
            return False
        table, columns = quoted(layout.table), ", ".join(names)
        ids = sorted(row.rowid for row in rows)
        self.db.execute("SAVEPOINT many")
        try:
            done = self.db.executemany(
                f"INSERT OR IGNORE INTO {table}({columns}) VALUES({', '.join('?' * len(names))})", wanted
            )
            good = done.rowcount == len(rows)
        except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError):
            good = False
        if good:
            back = self.db.execute(
                f"SELECT {columns} FROM {table} WHERE _rowid_ BETWEEN ? AND ? ORDER BY _rowid_",
                (ids[0], ids[-1]),
            ).fetchall()
            wanted.sort(key=lambda values: values[0])  # type: ignore[arg-type, return-value]
            good = len(back) == len(rows) and all(map(_same, map(list, back), wanted))
        if not good:
            self.db.execute("ROLLBACK TO many")
        self.db.execute("RELEASE many")
        self.tallies[layout.table].saved += len(rows) if good else 0
        return good

    def _key(self, layout: Layout, rowid: int) -> int:
        """A number to know a doubtful row by: its rowid, or a count where there is none."""
        return rowid if layout.rowid else -1 - len(self.doubtful.get(layout.table, {}))

    def absent(self, table: str, ids: Iterable[int]) -> set[int]:
        """Those of these rowids that the table does not have."""
        self.db.execute("CREATE TEMP TABLE IF NOT EXISTS asked(id INTEGER PRIMARY KEY)")
        self.db.execute("DELETE FROM asked")
        self.db.executemany("INSERT OR IGNORE INTO asked VALUES(?)", ((number,) for number in ids))
        rows = self.db.execute(
            f"SELECT id FROM asked WHERE NOT EXISTS (SELECT 1 FROM {quoted(table)} AS t WHERE t._rowid_ = asked.id)"
        )
        return {number for (number,) in rows}

    def doubt(self, table: str, rowid: int, why: str) -> None:
        """A saved row turns out to be not what was written."""
        if rowid in self.doubtful.setdefault(table, {}):
            return
        self.doubtful[table][rowid] = why
        self.tallies[table].saved -= 1
        self.tallies[table].reconstructed += 1

    def correct(self, table: str, rowid: int, how: RepairNote) -> None:
        """Count a row, in doubt or found to be altered, whose content was taken from another copy."""
        if self.doubtful.get(table, {}).pop(rowid, None) is None:
            self.tallies[table].saved -= 1
            self.tallies[table].reconstructed += 1
        self.corrected += 1
        self._say(table, note(how, table=table, rowid=rowid))

    def _say(self, table: str, text: str) -> None:
        if len(self.tallies[table].says) < SHOWN:
            self.tallies[table].says.append(text)

    def same(self, layout: Layout, rowid: int, values: Sequence[Value]) -> bool:
        """Whether the row that is already there is this very row."""
        names = [quoted(name) for name in layout.names[: len(values)]]
        back = self.db.execute(
            f"SELECT {', '.join(names)} FROM {quoted(layout.table)} WHERE _rowid_ = ?", (rowid,)
        ).fetchone()
        if back is None:
            return False
        return all(
            position == layout.alias or mine == theirs
            for position, (mine, theirs) in enumerate(zip(values, back, strict=True))
        )

    def agrees(self, layout: Layout, columns: Sequence[str], entry: Sequence[Value]) -> bool:
        """Whether an entry of an index, the number of its row last, has the values of that row."""
        sql = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(layout.table)} WHERE _rowid_ = ?"
        return self.db.execute(sql, (entry[-1],)).fetchone() == tuple(entry[:-1])

    def has(self, table: str, rowid: int) -> bool:
        return (
            self.db.execute(f"SELECT 1 FROM {quoted(table)} WHERE _rowid_ = ?", (rowid,)).fetchone()
            is not None
        )

    def aside(self, layout: Layout | None, rowid: int, values: Sequence[Value], why: str) -> None:
        """Keep what cannot go into its table, for a person to look at."""
        names = layout.names if layout else tuple(f"column {number}" for number in range(len(values)))
        for name, value in zip(names, values, strict=False):
            if value is not None:
                self.note(layout.table if layout else "", rowid, why, name, value)

    def note(self, table: str, rowid: int, why: str, what: str, value: Value) -> None:
        if isinstance(value, Text):
            value = value.raw
        self.side.execute(
            "INSERT INTO salvaged VALUES(?, ?, ?, ?, ?)",
            (table, rowid, why, what, value if not isinstance(value, float) else repr(value)),
        )

    def lose(self, table: str, rowid: int) -> bool:
        """Note that a row was there and is not saved; True the first time."""
        if self.has(table, rowid):
            return False
        done = self.db.execute("INSERT OR IGNORE INTO evidence VALUES(?, ?)", (table, rowid))
        return done.rowcount > 0

    def forget(self, table: str, rowid: int) -> bool:
        """Take back that a row was there and is not saved."""
        return self.db.execute("DELETE FROM evidence WHERE tbl = ? AND id = ?", (table, rowid)).rowcount > 0

    def losses(self, table: str) -> list[int]:
        """The rowids that are known to be lost, now."""
        found = self.db.execute("SELECT id FROM evidence WHERE tbl = ? ORDER BY id", (table,)).fetchall()
        return [rowid for (rowid,) in found if not self.has(table, rowid)]

    def finish(self, entries: Iterable[SchemaObject], sequence: dict[str, int]) -> None:
        """Counters, indexes, full-text indexes filled from their rows, views and triggers last."""
        entries = list(entries)
        made = {name for (kind, name) in checks.schema(self.db) if kind == "table"}
        if "sqlite_sequence" in made:
            for table, number in sequence.items():
                if table in self.tallies:
                    self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                    self.db.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table, number))
        self.db.execute("COMMIT")
        full_text.furnish(
            self.db,
            [e for e in entries if e.type != "index" or (e.table in self.tallies and not _unique(e))],
        )

    def close(self) -> None:
        self.db.close()
        self.side.close()


def kept_in_doubt(doubtful: Mapping[str, Mapping[int, str]]) -> list[str]:
    """The doubtful rows for people, one line per table and reason; rows without a rowid are only counted."""
    lines: list[str] = []
    for table, rows in doubtful.items():
        for why in dict.fromkeys(rows.values()):
            ids = sorted(rowid for rowid in rows if rows[rowid] == why)
            named = [str(rowid) for rowid in ids if rowid >= 0][:SHOWN]
            more = len(ids) - len(named)
            kind = RepairNote.KEPT_COUNTED if not named else RepairNote.KEPT_MORE if more else RepairNote.KEPT
            which = {"rows": more} if not named else {"rowids": ", ".join(named), "more": more}
            lines.append(note(kind, table=table, why=why, **which))
    return lines


def _mark(value: Value) -> str:
    """Where a value goes in SQL: text that is not valid is bound as its bytes."""
    return "CAST(? AS TEXT)" if isinstance(value, Text) else "?"


def _columns(layout: Layout, rowid: int, values: Sequence[Value]) -> tuple[list[str], list[Value]]:
    """The names and values to insert for a row."""
    names: list[str] = []
    wanted: list[Value] = []
    if layout.rowid:
        names.append("_rowid_")
        wanted.append(rowid)
    for position, column in enumerate(layout.stored[: len(values)]):
        if position != layout.alias and column.hidden == 0:
            names.append(quoted(column.name))
            wanted.append(values[position])
    return names, wanted


def _same(one: list, other: list) -> bool:
    """Whether two rows are equal in value and type; not a number equals itself here."""
    return one == other or all(
        mine == theirs or (mine != mine and theirs != theirs) for mine, theirs in zip(one, other, strict=True)
    )


def _unique(entry: SchemaObject) -> bool:
    return entry.type == "index" and entry.sql[:30].upper().split()[:2] == ["CREATE", "UNIQUE"]


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def _text(raw: bytes) -> str | Text:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return Text(raw)

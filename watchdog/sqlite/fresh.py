"""A fresh database file to put saved rows in: each row read back as it is written, none replaced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from watchdog.sqlite import checks
from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.layout import Layout
from watchdog.sqlite.making import make
from watchdog.sqlite.raw import Entry, Header, Text, Value
from watchdog.sqlite.reading import connect
from watchdog.sqlite.reference import quoted, shadows

SHOWN = 20          # doubtful rows that are named; the rest is in the count


@dataclass
class Tally:
    """What became of the rows of one table."""

    saved: int = 0              # in the new file, as they were
    reconstructed: int = 0      # in the new file, but from a backup or with bytes that may be damaged
    lost: int = 0               # known to have been there, not in the new file
    unplaced: int = 0           # destroyed cells whose rowid is not known
    says: list[str] = field(default_factory=list)

    @property
    def there(self) -> int:
        return self.saved + self.reconstructed + self.lost


class Fresh:
    """The new file while it is being filled, and beside it what does not belong there: salvage."""

    def __init__(self, path: str, header: Header | None, page_size: int, salvage: str):
        for leftover in (path, path + "-journal", path + "-wal", path + "-shm", salvage):
            if os.path.exists(leftover):
                os.unlink(leftover)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.path, self.salvage_path = path, salvage
        self.db = connect(path, "mode=rw")
        self.db.text_factory = lambda raw: _text(raw)
        for pragma in (f"page_size={page_size}", f"encoding='{_ENCODING[header.encoding if header else 0]}'",
                       f"auto_vacuum={1 if header and header.largest_root else 0}", "journal_mode=OFF",
                       "synchronous=OFF", "foreign_keys=OFF", "cache_size=-16000", "temp_store=FILE",
                       f"user_version={_signed(header.user_version) if header else 0}",
                       f"application_id={_signed(header.application) if header else 0}"):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute("CREATE TEMP TABLE evidence(tbl TEXT, id INTEGER, PRIMARY KEY(tbl, id)) WITHOUT ROWID")
        self.side = sqlite3.connect(salvage, isolation_level=None)
        self.side.execute("PRAGMA synchronous=OFF")
        self.side.execute("CREATE TABLE salvaged(tbl TEXT, id INTEGER, why TEXT, what TEXT, value TEXT)")
        self.tallies: dict[str, Tally] = {}
        self.kept_aside = self.mended = 0
        self.doubtful: dict[str, dict[int, str]] = {}
        self.lost_keys: dict[str, set[tuple]] = {}      # primary keys of lost rows, where an index names them
        self.db.execute("BEGIN")

    def make_tables(self, entries: Sequence[Entry]) -> None:
        """The tables of the user; indexes, triggers and full-text tables come after the rows."""
        inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
        for entry in entries:
            if (entry.type == "table" and entry.name not in inner and not entry.name.startswith("sqlite_")
                    and not is_virtual(entry.sql)):
                make(self.db, entry.sql)
                self.tallies[entry.name] = Tally()
        for entry in entries:       # unique ones must be there before the rows, to refuse a second row of the same key
            if entry.table in self.tallies and _unique(entry):
                make(self.db, entry.sql)

    def put(self, layout: Layout, rowid: int, values: Sequence[Value], doubt: str = "", backup: bool = False) -> bool:
        """Insert one row and read it back; False when the table will not have it as it is."""
        tally = self.tallies[layout.table]
        names: list[str] = []
        wanted: list[Value] = []
        if layout.rowid:
            names.append("_rowid_")
            wanted.append(rowid)
        for position, column in enumerate(layout.stored[:len(values)]):
            if position != layout.alias and column.hidden == 0:
                names.append(quoted(column.name))
                wanted.append(values[position])
        marks = ", ".join("CAST(? AS TEXT)" if isinstance(value, Text) else "?" for value in wanted)
        bound = [value.raw if isinstance(value, Text) else value for value in wanted]
        table = quoted(layout.table)
        try:
            done = self.db.execute(f"INSERT OR IGNORE INTO {table}({', '.join(names)}) VALUES({marks})", bound)
        except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError) as error:
            self.aside(layout, rowid, values, str(error))
            return False
        if done.rowcount == 0:
            return False
        if layout.rowid:
            back = self.db.execute(f"SELECT {', '.join(names)} FROM {table} WHERE _rowid_ = ?", (rowid,)).fetchone()
            if list(back) != wanted:
                self.db.execute(f"DELETE FROM {table} WHERE _rowid_ = ?", (rowid,))
                self.aside(layout, rowid, values, "would not read back as it was")
                return False
        if doubt or backup:
            tally.reconstructed += 1
        else:
            tally.saved += 1
        if doubt:
            self.doubtful.setdefault(layout.table, {})[rowid] = doubt
        return True

    def doubt(self, table: str, rowid: int, why: str) -> None:
        """A saved row turns out to be not what was written."""
        self.doubtful.setdefault(table, {})[rowid] = why
        self.tallies[table].saved -= 1
        self.tallies[table].reconstructed += 1

    def mend(self, table: str, rowid: int, how: str) -> None:
        """A row in doubt, or found to be altered, has been put right from another copy."""
        if self.doubtful.get(table, {}).pop(rowid, None) is None:
            self.tallies[table].saved -= 1
            self.tallies[table].reconstructed += 1
        self.mended += 1
        self._say(table, f"{table} {rowid}: {how}")

    def _say(self, table: str, text: str) -> None:
        if len(self.tallies[table].says) < SHOWN:
            self.tallies[table].says.append(text)

    def same(self, layout: Layout, rowid: int, values: Sequence[Value]) -> bool:
        """Whether the row that is already there is this very row."""
        names = [quoted(name) for name in layout.names[:len(values)]]
        back = self.db.execute(f"SELECT {', '.join(names)} FROM {quoted(layout.table)} WHERE _rowid_ = ?",
                               (rowid,)).fetchone()
        if back is None:
            return False
        return all(position == layout.alias or mine == theirs
                   for position, (mine, theirs) in enumerate(zip(values, back, strict=True)))

    def has(self, table: str, rowid: int) -> bool:
        return self.db.execute(f"SELECT 1 FROM {quoted(table)} WHERE _rowid_ = ?", (rowid,)).fetchone() is not None

    def aside(self, layout: Layout | None, rowid: int, values: Sequence[Value], why: str) -> None:
        """Keep what cannot go into its table, for a person to look at."""
        names = layout.names if layout else tuple(f"column {number}" for number in range(len(values)))
        self.kept_aside += 1
        for name, value in zip(names, values, strict=False):
            if value is not None:
                self.note(layout.table if layout else "", rowid, why, name, value)

    def note(self, table: str, rowid: int, why: str, what: str, value: Value) -> None:
        if isinstance(value, Text):
            value = value.raw
        self.side.execute("INSERT INTO salvaged VALUES(?, ?, ?, ?, ?)",
                          (table, rowid, why, what, value if not isinstance(value, float) else repr(value)))

    def lose(self, table: str, rowid: int) -> bool:
        """Note that a row was there and is not saved; True the first time."""
        if self.has(table, rowid):
            return False
        done = self.db.execute("INSERT OR IGNORE INTO evidence VALUES(?, ?)", (table, rowid))
        return done.rowcount > 0

    def losses(self, table: str) -> list[int]:
        """The rowids that are known to be lost, now."""
        found = self.db.execute("SELECT id FROM evidence WHERE tbl = ? ORDER BY id", (table,)).fetchall()
        return [rowid for (rowid,) in found if not self.has(table, rowid)]

    def finish(self, entries: Iterable[Entry], sequence: dict[str, int]) -> None:
        """Counters, indexes, full-text indexes filled from their rows, views and triggers last."""
        entries = list(entries)
        for table, rows in self.doubtful.items():
            for rowid, why in rows.items():
                self._say(table, f"{table} {rowid}: kept, but {why}")
        made = {name for (kind, name) in checks.schema(self.db) if kind == "table"}
        if "sqlite_sequence" in made:
            for table, number in sequence.items():
                if table in self.tallies:
                    self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                    self.db.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table, number))
        wanted = {(entry.type, entry.name): entry.sql for entry in entries}
        for entry in entries:
            if entry.type == "index" and entry.sql and entry.table in self.tallies and not _unique(entry):
                make(self.db, entry.sql)
        self.db.execute("COMMIT")
        for entry in entries:
            if entry.type == "table" and is_virtual(entry.sql):
                make(self.db, entry.sql)
        for fill in checks.fills(wanted):
            if fill.table in self.tallies:
                self.db.execute("BEGIN")
                self.db.execute(fill.sql)
                self.db.execute("COMMIT")
        for kind in ("view", "trigger"):
            for entry in entries:
                if entry.type == kind:
                    make(self.db, entry.sql)

    def close(self) -> None:
        self.db.close()
        self.side.close()


def _unique(entry: Entry) -> bool:
    return entry.type == "index" and entry.sql[:30].upper().split()[:2] == ["CREATE", "UNIQUE"]


_ENCODING = {0: "UTF-8", 1: "UTF-8", 2: "UTF-16le", 3: "UTF-16be"}


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def _text(raw: bytes) -> str | Text:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return Text(raw)



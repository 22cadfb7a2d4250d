"""Databases and faults from a seed, and a judge: what a heal said held against what was really there.

play(seed, folder) -> Outcome      used by the suite (a hundred rounds) and by bench/databases.py (thousands)
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import harder as harder_faults
import inject
import rarer
import wilder

from watchdog.errors import WatchdogError
from watchdog.sqlite.heal import SET_ASIDE, HealReport, heal
from watchdog.sqlite.schema import is_virtual, shadows

Table = dict[object, tuple]  # rowid, or the key of a table without rowid -> row
HERMES = [
    ("state", "0.13.0"),
    ("state", "0.19.0"),
    ("state", "0.20.5"),
    ("kanban", "0.16.0"),
    ("kanban", "0.20.5"),
    ("response_store", "0.19.0"),
]


@dataclass
class Made:
    """A database with its history: how it is now, and how its pages were a transaction ago."""

    path: Path
    label: str
    page_size: int
    older: bytes = b""  # the file before the last transaction
    generations: list[bytes] = field(default_factory=list)  # and before those before it
    truth: dict[str, Table] = field(default_factory=dict)
    keys: dict[str, set[int]] = field(default_factory=dict)  # columns that are in an index over every row
    untold: bool = False  # an index and its table can be old together
    unseen: bool = False  # a page is sound, but not what was written last
    last_frame: bool = False  # it is the last frame of the -wal that is damaged
    neighbour: bytes = b""  # another database of the same kind
    blind: set[str] = field(default_factory=set)  # tables all of whose indexes are damaged, too


def read(path: Path) -> dict[str, Table]:
    """Every row of the user's tables, as SQLite reads it."""
    db = sqlite3.connect(path)
    db.text_factory = bytes
    try:
        tables = {
            name.decode("utf-8", "replace"): sql.decode("utf-8", "replace")
            for name, sql in db.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL"
            )
        }
        inner = shadows(tables.items())
        found: dict[str, Table] = {}
        for name, sql in tables.items():
            if name in inner or is_virtual(sql) or name.startswith("sqlite_"):
                continue
            if "WITHOUT ROWID" in sql.upper():
                key = [row[0] for row in db.execute(f'PRAGMA table_info("{name}")') if row[5]]
                rows = db.execute(f'SELECT * FROM "{name}"')
                found[name] = {tuple(row[at] for at in key): row for row in rows}
            else:
                found[name] = {row[0]: row[1:] for row in db.execute(f'SELECT _rowid_, * FROM "{name}"')}
        return found
    finally:
        db.close()


@dataclass(frozen=True)
class Shape:
    """What kind of database is made: its rows are another matter."""

    page_size: int
    pragmas: tuple[str, ...]
    hermes: tuple[str, str] | None  # kind and release; None: tables of our own
    reserved: int = 0
    more: bool = False  # with tables of less usual kinds


def _shape(rng: random.Random) -> Shape:
    page_size = rng.choice([512, 1024, 2048, 4096, 4096, 4096, 8192, 16384, 65536])
    wal = rng.random() < 0.5
    pragmas = (
        f"page_size={page_size}",
        f"auto_vacuum={rng.choice([0, 0, 1, 2])}",
        f"encoding='{rng.choice(['UTF-8', 'UTF-8', 'UTF-16le', 'UTF-16be'])}'",
        f"journal_mode={'WAL' if wal else 'DELETE'}",
        "synchronous=OFF",
    )
    return Shape(page_size, pragmas, rng.choice(HERMES) if rng.random() < 0.35 else None)


def make(folder: Path, rng: random.Random, harder: bool = False) -> Made:
    shape = _shape(rng)
    if harder:
        reserved = rng.choice([0, 0, 0, 8, 16, 32]) if shape.page_size > 512 else 0
        shape = replace(shape, reserved=reserved, more=not shape.hermes and rng.random() < 0.6)
    made = _build(folder / "x.db", shape, rng)
    if harder:
        made.neighbour = _build(folder / "neighbour.db", shape, rng).path.read_bytes()
    return made


def make_wild(folder: Path, rng: random.Random) -> Made:
    """A database of wilder.py, and another one like it."""
    shape = _shape(rng)
    shape = replace(shape, reserved=rng.choice([0, 0, 0, 8, 32]) if shape.page_size > 512 else 0, hermes=None)
    neighbour = folder / "neighbour.db"
    path, generations = folder / "x.db", wilder.make(folder / "x.db", shape, rng, _settle)
    wilder.make(neighbour, shape, rng, _settle)
    db = sqlite3.connect(path)
    keys = _index_columns(db)
    db.close()
    label = f"wild, {', '.join(shape.pragmas[:4])}" + (
        f", {shape.reserved} reserved" if shape.reserved else ""
    )
    made = Made(path, label, shape.page_size, generations[-1], generations, read(path), keys)
    made.neighbour = neighbour.read_bytes()
    return made


def _build(path: Path, shape: Shape, rng: random.Random) -> Made:
    if shape.reserved:
        harder_faults.reserve(path, shape.page_size, shape.reserved)
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in shape.pragmas[int(bool(shape.reserved)) :]:
        db.execute(f"PRAGMA {pragma}")
    kind = "x"
    if shape.hermes:
        kind, version = shape.hermes
        label = f"{kind} {version}"
        inject.fill(db, kind, version, rng.randint(10, 60), rng)
        table = inject.MAIN[kind]
    else:
        label = "free"
        _free_schema(db, rng)
        table = "plain"
        if shape.more:
            label = "free and more"
            harder_faults.more_tables(db, rng)
    _settle(db)
    older = path.read_bytes()
    db.execute("BEGIN")
    low = db.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0] or 0
    db.execute(f'DELETE FROM "{table}" WHERE rowid % 9 = 4 AND rowid > {low // 2}')
    if label != f"{kind} {shape.hermes[1] if shape.hermes else ''}":
        _rows(db, rng, "plain", rng.randint(5, 60))
    db.execute("COMMIT")
    _settle(db)
    keys = _index_columns(db)
    db.close()
    if kind != "x" and path.stem == "x":
        path = path.rename(path.with_name(f"{kind}.db"))
    label += f", {', '.join(shape.pragmas[:4])}" + (f", {shape.reserved} reserved" if shape.reserved else "")
    made = Made(path, label, shape.page_size, older, keys=keys)
    made.truth = read(path)
    return made


def _index_columns(db: sqlite3.Connection) -> dict[str, set[int]]:
    """The columns of each table that an index over every row holds; the key of a table without rowid is no index."""
    found: dict[str, set[int]] = {}
    for name, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall():
        for row in db.execute(f'PRAGMA index_list("{name}")').fetchall():
            if not row[4] and not (row[3] == "pk" and "WITHOUT ROWID" in (sql or "")):
                columns = {one[1] for one in db.execute(f'PRAGMA index_info("{row[1]}")') if one[1] >= 0}
                found.setdefault(name, set()).update(columns)
    return found


def _settle(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _free_schema(db: sqlite3.Connection, rng: random.Random) -> None:
    auto = rng.choice(["", " AUTOINCREMENT"])
    db.execute(f"CREATE TABLE plain(id INTEGER PRIMARY KEY{auto}, a TEXT NOT NULL, b REAL, c BLOB, d TEXT)")
    if rng.random() < 0.7:
        db.execute("CREATE INDEX plain_a ON plain(a)")
    if rng.random() < 0.3:
        db.execute("CREATE INDEX plain_part ON plain(b) WHERE b > 0.5")
    db.execute("CREATE TABLE keyed(k TEXT, n INTEGER NOT NULL, v TEXT, PRIMARY KEY(n, k)) WITHOUT ROWID")
    if rng.random() < 0.5:
        db.execute("CREATE INDEX keyed_v ON keyed(v)")
    db.execute("CREATE TABLE named(name TEXT PRIMARY KEY, plain_id INTEGER REFERENCES plain(id), note)")
    _rows(db, rng, "plain", rng.randint(20, 150))
    db.execute("BEGIN")
    for number in range(rng.randint(5, 200)):
        db.execute(
            "INSERT INTO keyed VALUES(?, ?, ?)",
            (inject.text(rng, 30) + str(number), number, inject.text(rng, 90)),
        )
    ids = [row[0] for row in db.execute("SELECT id FROM plain")]
    for number in range(rng.randint(1, 80)):
        db.execute(
            "INSERT INTO named VALUES(?, ?, ?)",
            (f"name {number}", rng.choice(ids), rng.choice([1, 2.5, "x", None])),
        )
    db.execute("COMMIT")


def _rows(db: sqlite3.Connection, rng: random.Random, table: str, count: int) -> None:
    outer = db.in_transaction
    if not outer:
        db.execute("BEGIN")
    for _ in range(count):
        big = rng.random() < 0.05
        db.execute(
            f"INSERT INTO {table}(a, b, c, d) VALUES(?, ?, ?, ?)",
            (
                inject.text(rng, 60),
                rng.random(),
                rng.randbytes(rng.randint(0, 20_000 if big else 100)) if rng.random() < 0.6 else None,
                inject.text(rng, 400) if rng.random() < 0.5 else None,
            ),
        )
    if not outer:
        db.execute("COMMIT")


# --- faults: each takes the file as bytes and gives it back damaged, with what it did


def _pages(made: Made, data: bytes) -> int:
    return max(1, len(data) // made.page_size)


def _put(data: bytearray, at: int, what: bytes) -> None:
    what = what[: len(data) - at]
    data[at : at + len(what)] = what


def page_noise(made: Made, data: bytearray, rng: random.Random) -> str:
    number = rng.randrange(_pages(made, data))
    _put(data, number * made.page_size, rng.randbytes(made.page_size))
    return f"noise on page {number + 1}"


def page_zero(made: Made, data: bytearray, rng: random.Random) -> str:
    number = rng.randrange(_pages(made, data))
    _put(data, number * made.page_size, bytes(made.page_size))
    return f"zeros on page {number + 1}"


def page_head(made: Made, data: bytearray, rng: random.Random) -> str:
    number = rng.randrange(1, max(2, _pages(made, data)))
    _put(data, number * made.page_size, rng.randbytes(rng.choice([1, 8, 40])))
    return f"noise on the head of page {number + 1}"


def page_empty(made: Made, data: bytearray, rng: random.Random) -> str:
    number = rng.randrange(1, max(2, _pages(made, data)))
    start = 0 if made.page_size == 65536 else made.page_size
    kind = rng.choice([13, 10])
    _put(
        data, number * made.page_size, struct.pack(">BHHHB", kind, 0, 0, start, 0) + bytes(made.page_size - 8)
    )
    made.unseen = True
    return f"page {number + 1} is an empty leaf"


def page_older(made: Made, data: bytearray, rng: random.Random) -> str:
    size = made.page_size
    changed = [
        number
        for number in range(min(len(made.older), len(data)) // size)
        if made.older[number * size : (number + 1) * size] != data[number * size : (number + 1) * size]
    ]
    if not changed:
        return ""
    number = rng.choice(changed)
    _put(data, number * size, made.older[number * size : (number + 1) * size])
    made.unseen = True
    return f"a lost write of page {number + 1}"


def page_moved(made: Made, data: bytearray, rng: random.Random) -> str:
    one, two = (rng.randrange(_pages(made, data)) for _ in range(2))
    size = made.page_size
    first, second = bytes(data[one * size :][:size]), bytes(data[two * size :][:size])
    if first == second:
        return ""
    _put(data, one * size, second)
    if rng.random() < 0.5:
        _put(data, two * size, first)
        return f"pages {one + 1} and {two + 1} are swapped"
    return f"page {two + 1} was written over page {one + 1}"


def page_count(made: Made, data: bytearray, rng: random.Random) -> str:
    pages = _pages(made, data)
    count = rng.choice([1, max(1, pages // 20), max(1, pages // 2), max(1, pages - 1), pages + 3])
    _put(data, 28, struct.pack(">I", count))
    return f"the header counts {count} of {pages} pages"


def header_bytes(made: Made, data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(100)
    _put(data, at, rng.randbytes(rng.choice([1, 4, 16, 31])))
    return f"noise in the header at {at}"


def free_list(made: Made, data: bytearray, rng: random.Random) -> str:
    _put(data, 32, struct.pack(">2I", rng.randrange(_pages(made, data) + 5), rng.randrange(40)))
    return "a wrong list of free pages"


def cut(made: Made, data: bytearray, rng: random.Random) -> str:
    size = rng.randrange(made.page_size, len(data) + 1)
    if rng.random() < 0.7:
        size -= size % made.page_size
    del data[size:]
    return f"cut to {size} bytes"


def longer(made: Made, data: bytearray, rng: random.Random) -> str:
    data += rng.randbytes(made.page_size) if rng.random() < 0.5 else bytes(made.page_size * 3)
    return "bytes behind the end"


def pointer(made: Made, data: bytearray, rng: random.Random) -> str:
    """A child or overflow pointer that leads elsewhere."""
    interior = [number for number in range(1, _pages(made, data)) if data[number * made.page_size] in (2, 5)]
    if not interior:
        return ""
    number = rng.choice(interior)
    _put(data, number * made.page_size + 8, struct.pack(">I", rng.randrange(1, _pages(made, data) + 3)))
    return f"a wild pointer on page {number + 1}"


def cell_count(made: Made, data: bytearray, rng: random.Random) -> str:
    number = rng.randrange(1, max(2, _pages(made, data)))
    at = number * made.page_size
    if at + 8 > len(data) or data[at] not in (10, 13):
        return ""
    (count,) = struct.unpack_from(">H", data, at + 3)
    _put(data, at + 3, struct.pack(">H", max(0, count - rng.randint(1, 3))))
    return f"page {number + 1} counts fewer cells"


def torn_page(made: Made, data: bytearray, rng: random.Random) -> str:
    """One part of a page is as it was a transaction ago."""
    size = made.page_size
    pages = range(min(len(made.older), len(data)) // size)
    changed = [n for n in pages if made.older[n * size : (n + 1) * size] != data[n * size : (n + 1) * size]]
    if not changed:
        return ""
    at, half = rng.choice(changed) * size, size // 2
    begin = at + rng.choice([0, half])
    _put(data, begin, made.older[begin : begin + half])
    made.unseen = True
    return f"half of page {at // size + 1} is old"


def cell_pointers(made: Made, data: bytearray, rng: random.Random) -> str:
    """Two cell pointers of a leaf are exchanged, or one is a byte off."""
    at = rng.randrange(1, max(2, _pages(made, data))) * made.page_size
    if at + made.page_size > len(data) or data[at] not in (10, 13):
        return ""
    count = struct.unpack_from(">H", data, at + 3)[0]
    if not 1 < count < made.page_size // 4:
        return ""
    one, two = (at + 8 + 2 * number for number in rng.sample(range(count), 2))
    if rng.random() < 0.5:
        data[one : one + 2], data[two : two + 2] = data[two : two + 2], data[one : one + 2]
    else:
        data[one + 1] ^= 1
    return f"cell pointers on page {at // made.page_size + 1}"


def header_field(made: Made, data: bytearray, rng: random.Random) -> str:
    """A field of the header that is possible, and wrong."""
    at, values = rng.choice([(20, b"\x08\x28"), (47, b"\1\2"), (55, b"\0\3"), (59, b"\1\2\3"), (18, b"\1\2")])
    value = rng.choice(values)
    _put(data, at, bytes([value]))
    return f"byte {at} of the header is {value}"


def page_listed_free(made: Made, data: bytearray, rng: random.Random) -> str:
    """A page in use is in the list of free pages."""
    head, count = struct.unpack_from(">2I", data, 32)
    at = (head - 1) * made.page_size
    if not head or at + 8 > len(data):
        return ""
    listed = struct.unpack_from(">I", data, at + 4)[0]
    if listed > made.page_size // 4 - 10:
        return ""
    page = rng.randrange(2, _pages(made, data) + 1)
    _put(data, at + 8 + 4 * listed, struct.pack(">I", page))
    _put(data, at + 4, struct.pack(">I", listed + 1))
    _put(data, 36, struct.pack(">I", count + 1))
    return f"page {page} is listed as free"


def pointer_map(made: Made, data: bytearray, rng: random.Random) -> str:
    if not struct.unpack_from(">I", data, 52)[0]:
        return ""
    _put(data, made.page_size, rng.choice([bytes(40), rng.randbytes(made.page_size)]))
    return "noise on the pointer map"


FAULTS: list[Callable[[Made, bytearray, random.Random], str]] = [
    page_noise,
    page_zero,
    page_head,
    page_empty,
    page_older,
    page_moved,
    page_count,
    header_bytes,
    free_list,
    cut,
    longer,
    pointer,
    cell_count,
    torn_page,
    cell_pointers,
    header_field,
    page_listed_free,
    pointer_map,
]


def bad_frame(made: Made, rng: random.Random) -> str:
    """Committed rows in a -wal with a damaged frame in the middle."""
    return _sidecar(made, rng, "WAL")


def hot_journal(made: Made, rng: random.Random) -> str:
    """A crash in the middle of a transaction in DELETE mode."""
    return _sidecar(made, rng, "DELETE")


def _sidecar(made: Made, rng: random.Random, mode: str) -> str:
    db = sqlite3.connect(made.path, isolation_level=None)
    db.execute(f"PRAGMA journal_mode={mode}")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA cache_size=2")
    db.execute("CREATE TABLE IF NOT EXISTS late(id INTEGER PRIMARY KEY, t TEXT)")
    db.execute("CREATE INDEX IF NOT EXISTS late_t ON late(t)")
    for _ in range(rng.randint(3, 30)):
        db.execute("INSERT INTO late(t) VALUES(?)", (inject.text(rng, 300),))
    if mode == "DELETE":
        db.execute("BEGIN")
        for _ in range(40):
            db.execute("INSERT INTO late(t) VALUES(?)", (inject.text(rng, 900),))
        db.execute("UPDATE late SET t = t || ' again'")
    part = "-wal" if mode == "WAL" else "-journal"
    kept = made.path.with_name("kept")
    shutil.copyfile(made.path, kept)
    if os.path.exists(f"{made.path}{part}"):
        shutil.copyfile(f"{made.path}{part}", f"{kept}{part}")
    if mode == "DELETE":
        db.execute("ROLLBACK")
    made.truth = read(made.path)
    made.keys["late"] = {1}
    db.close()
    for name in ("", "-wal", "-shm", "-journal"):
        Path(f"{made.path}{name}").unlink(missing_ok=True)
    os.replace(kept, made.path)
    if os.path.exists(f"{kept}{part}"):
        os.replace(f"{kept}{part}", f"{made.path}{part}")
    made.older = b""
    if mode == "WAL":
        data = bytearray(Path(f"{made.path}-wal").read_bytes())
        step = made.page_size + 24
        frame = rng.randrange(max(1, (len(data) - 32) // step))
        at = 32 + frame * step + rng.choice([0, 4, 8, 16, 24 + rng.randrange(made.page_size)])
        data[at] ^= 0xFF
        made.last_frame = frame + 1 == (len(data) - 32) // step
        Path(f"{made.path}-wal").write_bytes(data)
        return f"frame {frame + 1} of {(len(data) - 32) // step} of the -wal is damaged"
    return "a hot journal"


# --- the judge


@dataclass
class Outcome:
    seed: int
    label: str
    faults: list[str]
    ok: bool = False
    strategy: str = ""
    lies: list[str] = field(default_factory=list)
    rows: int = 0
    saved: int = 0
    lost: int = 0  # really
    told: tuple[int, int] = (0, 0)
    altered: int = 0


PLAIN, HARDER, RARE, WILD = LEVELS = ("plain", "harder", "rare", "wild")
KNOWN = {
    PLAIN: FAULTS,
    HARDER: [*FAULTS, *harder_faults.FAULTS * 2],
    RARE: [*FAULTS, *harder_faults.FAULTS * 2, *rarer.FAULTS * 3],
    WILD: [*FAULTS, *harder_faults.FAULTS, *rarer.FAULTS, *wilder.FAULTS * 3],
}


def play(seed: int, folder: Path, level: str = PLAIN) -> Outcome:
    """Make, damage, heal, judge; the levels add the databases and faults of harder.py, rarer.py and wilder.py."""
    rng = random.Random(seed)
    made = make_wild(folder, rng) if level == WILD else make(folder, rng, level != PLAIN)
    faults = []
    if rng.random() < 0.25:
        if level != PLAIN and rng.random() < 0.8:
            faults.append(rng.choice(harder_faults.LOGS)(made, rng, read))
        else:
            faults.append((bad_frame if rng.random() < 0.5 else hot_journal)(made, rng))
    if not faults or rng.random() < 0.4:
        data = bytearray(made.path.read_bytes())
        known, before = KNOWN[level], bytes(data)
        for fault in rng.sample(known, rng.choice([1, 1, 1, 2, 3])):
            if len(data) > 2 * made.page_size:
                faults.append(fault(made, data, rng))
        made.blind = {table for table in made.keys if _no_index_is_whole(made, table, before, data)}
        made.path.write_bytes(data)
    found = Outcome(seed, made.label, [fault for fault in faults if fault])
    try:
        report = heal(made.path)
    except WatchdogError as error:
        found.strategy = f"refused: {error}"
        return found
    judge(made, report, found)
    return found


def _no_index_is_whole(made: Made, table: str, before: bytes, data: bytes) -> bool:
    size = made.page_size
    changed = {n for n in range(len(before) // size) if before[n * size :][:size] != data[n * size :][:size]}
    trees = wilder.trees_of(made, before, indexes_of=table)
    return all(changed.intersection(pages) for pages in trees.values())


def judge(made: Made, report: HealReport, found: Outcome) -> None:
    """Hold the report against the rows that were there: every table, every row, both bounds of every count."""
    found.ok, found.strategy, found.told = report.ok, report.strategy, (report.lost, report.lost_most)
    try:
        after = read(made.path) if made.path.exists() else {}
    except sqlite3.Error as error:
        if report.ok:
            found.lies.append(f"ok, and it cannot be read: {error}")
        return
    for table, before in made.truth.items():
        now = after.get(table, {})
        gone = [key for key in before if key not in now]
        altered = [key for key, row in now.items() if key in before and before[key] != row]
        new = [key for key in now if key not in before]
        found.rows += len(before)
        found.saved += sum(now.get(key) == row for key, row in before.items())
        found.lost += len(gone)
        found.altered += len(altered)
        altered = [key for key in altered if witness_of(made, table, before[key], now[key])]
        really = len(gone)
        gone, new = _without_hushed(made, table, before, now, gone, new)
        # nothing knows of such rows
        silent = made.untold or made.last_frame or (made.unseen and table not in made.keys)
        if report.ok and (gone or altered or new) and not silent:
            found.lies.append(f"ok, but {table}: {len(gone)} gone, {len(altered)} altered, {len(new)} new")
        if report.ok or not report.strategy or report.strategy == SET_ASIDE:
            continue
        result = report.tables.get(table)
        if result is None:
            if (
                gone and not report.contradicted and not report.uncounted
            ):  # a part of the schema is gone, and that is said
                found.lies.append(f"{table}: {len(gone)} gone, and it is not in the report")
            continue
        changed = len(new)
        if table not in made.keys and before and isinstance(next(iter(before)), tuple):
            new = []  # without rowid and without index: a row whose own key was altered
        named = set(report.doubtful.get(table, ()))
        unnamed = [key for key in (*altered, *new) if key not in named]
        doubted = result.doubtful + report.contradicted
        # else the index that knows may be destroyed, too
        alone = (not made.unseen or len(found.faults) == 1) and table not in made.blind
        if unnamed and alone and not silent and not report.uncounted and doubted < len(altered) + len(new):
            found.lies.append(f"{table}: {len(unnamed)} altered or new and not named, such as {unnamed[:3]}")
        told = result.lost_most + report.contradicted + changed
        if len(gone) > told and not silent and not report.uncounted:
            found.lies.append(f"{table}: {len(gone)} gone, {result.lost}-{result.lost_most} told")
        if result.lost > really and not made.unseen:  # an old page may name a row that was deleted
            found.lies.append(f"{table}: {really} gone, but at least {result.lost} told")


WITH_TEXT = {"messages", "texts", "notes", "logs"}  # a full-text index knows their numbers


def _without_hushed(
    made: Made, table: str, before: Table, now: Table, gone: list, new: list
) -> tuple[list, list]:
    """The keys that are gone and new, without rows of which one value of their key was altered, in a table without an
    index: no byte knows of it."""
    if table in made.keys or table in WITH_TEXT:
        return gone, new
    for key in list(new):
        for other in gone:
            one, two = now[key], before[other]
            if sum(a != b for a, b in zip(one, two, strict=True)) <= 1:
                gone, new = [k for k in gone if k != other], [k for k in new if k != key]
                break
    return gone, new


def witness_of(made: Made, table: str, before: tuple, now: tuple) -> bool:
    """Whether an index holds a column that was altered: else the bytes leave no witness."""
    return any(before[column] != now[column] for column in made.keys.get(table, ()) if column < len(before))


def in_this_process(name: str, argument: object, limits: object, tick: object = None) -> dict:
    """What the sandbox's child would answer, without starting one: thousands of rounds need it."""
    module, _, function = name.partition(":")
    work = getattr(importlib.import_module(module), function)
    try:
        return dict(
            json.loads(json.dumps(work(pickle.loads(pickle.dumps(argument)), tick or (lambda text: None))))
        )
    finally:
        with suppress(OSError):  # a backup works at idle priority: the rest of the tests must not
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

"""Databases with several generations of pages and less usual tables, and faults of writes that went elsewhere, came
too late or never came: FAULTS change the file, make() builds it."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import inject
from harder import SECTOR, _cell, _leaves, _usable, bit_in_a_row, reserve

from watchdog.sqlite.format import Bad, read_page

TABLES = """
CREATE TABLE plain(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL, b REAL, c BLOB, d TEXT);
CREATE TABLE twin_one(id INTEGER PRIMARY KEY, t TEXT, n INT);
CREATE TABLE twin_two(id INTEGER PRIMARY KEY, t TEXT, n INT);
CREATE TABLE grown(id INTEGER PRIMARY KEY, t TEXT NOT NULL);
CREATE TABLE strict_one(k TEXT PRIMARY KEY, n INTEGER NOT NULL, x ANY) STRICT;
CREATE TABLE paired(a INTEGER, b TEXT, v TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID;
CREATE TABLE child(id INTEGER PRIMARY KEY, plain_id INTEGER NOT NULL REFERENCES plain(id), word TEXT,
  long INT GENERATED ALWAYS AS (length(word)) VIRTUAL);
CREATE TABLE state_meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT NOT NULL, done INT DEFAULT 0);
CREATE TABLE logs(id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL);
CREATE VIRTUAL TABLE notes_fts USING fts5(body);
CREATE VIRTUAL TABLE logs_fts USING fts5(line, content='logs', content_rowid='id');
CREATE VIEW both AS SELECT t FROM twin_one UNION ALL SELECT t FROM twin_two;
"""
TRIGGERS = """
CREATE TRIGGER notes_in AFTER INSERT ON notes WHEN new.id > coalesce((SELECT CAST(value AS INT) FROM state_meta
  WHERE key = 'mark'), 0) BEGIN INSERT INTO notes_fts(rowid, body) VALUES (new.id, new.body); END;
CREATE TRIGGER notes_out AFTER DELETE ON notes BEGIN DELETE FROM notes_fts WHERE rowid = old.id; END;
CREATE TRIGGER logs_in AFTER INSERT ON logs BEGIN INSERT INTO logs_fts(rowid, line) VALUES (new.id, new.line); END;
CREATE TRIGGER logs_out AFTER DELETE ON logs
  BEGIN INSERT INTO logs_fts(logs_fts, rowid, line) VALUES ('delete', old.id, old.line); END;
"""
INDEXES = (
    "CREATE INDEX plain_a ON plain(a)",
    "CREATE INDEX plain_part ON plain(b) WHERE b > 0.5",
    "CREATE INDEX plain_lower ON plain(lower(a), b DESC)",
    "CREATE INDEX twin_one_t ON twin_one(t)",
    "CREATE INDEX twin_two_t ON twin_two(t)",
    "CREATE INDEX grown_t ON grown(t)",
    "CREATE UNIQUE INDEX child_both ON child(plain_id, id)",
    "CREATE INDEX child_long ON child(long)",
    "CREATE INDEX paired_v ON paired(v)",
    "CREATE INDEX notes_open ON notes(id) WHERE done = 0",
)


def make(path: Path, shape, rng: random.Random, settle: Callable) -> list[bytes]:
    """A database in `path`; the file after each of its transactions but the last."""
    if shape.reserved:
        reserve(path, shape.page_size, shape.reserved)
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in shape.pragmas[int(bool(shape.reserved)) :]:
        db.execute(f"PRAGMA {pragma}")
    db.executescript(TABLES)
    for index in INDEXES:
        if rng.random() < 0.6:
            db.execute(index)
    db.executescript(TRIGGERS)
    db.execute("INSERT INTO state_meta VALUES('mark', '0')")
    generations = []
    for turn in range(rng.randint(2, 5)):
        if turn:
            settle(db)
            generations.append(path.read_bytes())
        _write(db, rng, turn)
    if rng.random() < 0.15:
        settle(db)
        db.execute("VACUUM")
    settle(db)
    db.close()
    return generations


def _write(db: sqlite3.Connection, rng: random.Random, turn: int) -> None:
    """One transaction: rows that come, change and go."""
    db.execute("BEGIN")
    if turn == 1:
        db.execute("ALTER TABLE grown ADD COLUMN more TEXT DEFAULT 'none'")
        db.execute("ALTER TABLE grown ADD COLUMN n INT NOT NULL DEFAULT 7")
    for number in range(rng.choice([3, 30, 60, 200])):
        big = rng.random() < 0.04
        db.execute(
            "INSERT INTO plain(a, b, c, d) VALUES(?, ?, ?, ?)",
            (
                inject.text(rng, 60),
                rng.random(),
                rng.randbytes(rng.randint(0, 60_000 if big else 90)) if rng.random() < 0.5 else None,
                inject.text(rng, 300) if rng.random() < 0.5 else None,
            ),
        )
        row = rng.randrange(1 << 20) + (turn << 20)
        db.execute("INSERT OR IGNORE INTO twin_one VALUES(?, ?, ?)", (row, inject.text(rng, 60), number))
        db.execute("INSERT INTO twin_two(t, n) VALUES(?, ?)", (inject.text(rng, 60), number))
        db.execute("INSERT INTO grown(t) VALUES(?)", (inject.text(rng, 80),))
        if turn:
            db.execute("UPDATE grown SET more = ? WHERE id = last_insert_rowid()", (inject.text(rng, 20),))
        values = (f"{turn} {number} {inject.text(rng, 20)}", number, rng.choice([1, 2.5, "x", b"y", None]))
        db.execute("INSERT INTO strict_one VALUES(?, ?, ?)", values)
        values = (turn * 1000 + number // 3, inject.text(rng, 30) + str(number), inject.text(rng, 60))
        db.execute("INSERT OR IGNORE INTO paired VALUES(?, ?, ?)", values)
        db.execute("INSERT INTO notes(body, done) VALUES(?, ?)", (inject.text(rng, 200), rng.randrange(2)))
        db.execute("INSERT INTO logs(line) VALUES(?)", (inject.text(rng, 200),))
    ids = [row for (row,) in db.execute("SELECT id FROM plain")]
    for _ in range(rng.randint(0, 60)):
        db.execute("INSERT INTO child(plain_id, word) VALUES(?, ?)", (rng.choice(ids), inject.text(rng, 40)))
    if turn:
        for table in ("twin_one", "twin_two", "notes", "logs", "paired"):
            if rng.random() < 0.5:
                key = "a" if table == "paired" else "id"
                db.execute(f"DELETE FROM {table} WHERE {key} % 7 = ?", (rng.randrange(7),))
        db.execute("UPDATE plain SET d = d || ' and on', b = b / 2 WHERE id % 5 = ?", (rng.randrange(5),))
        db.execute("UPDATE paired SET v = ? WHERE a % 11 = 3", (inject.text(rng, 90),))
    db.execute("COMMIT")


# --- faults


def _page_of(made, data: bytes, number: int) -> bytes:
    return bytes(data[number * made.page_size : (number + 1) * made.page_size])


def trees_of(made, data: bytes, indexes_of: str = "") -> dict[str, list[int]]:
    """The pages of each tree, or of each index of a table, numbered from 0; {} when SQLite cannot list them."""
    kept = made.path.with_name("trees.db")
    kept.write_bytes(data)
    db = sqlite3.connect(kept)
    db.text_factory = bytes
    found: dict[str, list[int]] = {}
    try:
        which = "type = 'index' AND tbl_name = ?1" if indexes_of else "rootpage > 0 OR ?1"
        rows = db.execute(f"SELECT name, rootpage FROM sqlite_schema WHERE {which}", (indexes_of,)).fetchall()
        for name, root in rows:
            found[name.decode("utf-8", "replace")] = _below(made, data, root - 1)
    except sqlite3.Error:
        return {}
    finally:
        db.close()
        for part in ("", "-wal", "-shm", "-journal"):
            Path(f"{kept}{part}").unlink(missing_ok=True)
    return found


def _below(made, data: bytes, root: int) -> list[int]:
    pages, stack = [], [root]
    while stack:
        number = stack.pop()
        if not 0 <= number < len(data) // made.page_size or number in pages:
            continue
        pages.append(number)
        try:
            page = read_page(_page_of(made, data, number), number + 1, _usable(data))
        except (Bad, struct.error):
            continue
        if not page.leaf:
            stack += [struct.unpack_from(">I", page.data, at)[0] - 1 for at in page.pointers] + [
                page.right - 1
            ]
    return pages


def subtree(made, data: bytearray, rng: random.Random) -> str:
    """An interior page and some of the leaves below it are gone."""
    inner = [n for n in range(1, len(data) // made.page_size) if data[n * made.page_size] in (2, 5)]
    if not inner:
        return ""
    top = rng.choice(inner)
    pages = _below(made, data, top)
    gone = [top, *rng.sample(pages, rng.randint(0, len(pages)))]
    for number in gone:
        what = bytes(made.page_size) if rng.random() < 0.5 else rng.randbytes(made.page_size)
        data[number * made.page_size : (number + 1) * made.page_size] = what
    return f"page {top + 1} and {len(set(gone)) - 1} pages below it"


def generation(made, data: bytearray, rng: random.Random) -> str:
    """Pages are as they were several transactions ago."""
    if not made.generations:
        return ""
    older, size = rng.choice(made.generations), made.page_size
    changed = [
        n
        for n in range(1, min(len(older), len(data)) // size)
        if _page_of(made, older, n) != _page_of(made, data, n)
    ]
    picked = rng.sample(changed, min(len(changed), rng.choice([1, 1, 1, 2, 5])))
    for number in picked:
        data[number * size : (number + 1) * size] = _page_of(made, older, number)
    made.unseen, made.untold = True, made.untold or len(picked) > 1
    return f"pages of another generation: {[n + 1 for n in picked]}" if picked else ""


def generation_elsewhere(made, data: bytearray, rng: random.Random) -> str:
    """An old state of a page lies on another page, or behind the end: where a free page may have kept it."""
    if not made.generations:
        return ""
    older, size = rng.choice(made.generations), made.page_size
    page = _page_of(made, older, rng.randrange(1, len(older) // size))
    if rng.random() < 0.5 and len(data) % size == 0:
        data += page
        return "an old page behind the end"
    number = rng.randrange(1, len(data) // size)
    data[number * size : (number + 1) * size] = page
    return f"an old page over page {number + 1}"


def torn_write(made, data: bytearray, rng: random.Random) -> str:
    """Of some pages only the first sectors are new, or only the last."""
    if not made.older or made.page_size == SECTOR:
        return ""
    size = made.page_size
    changed = [
        n
        for n in range(min(len(made.older), len(data)) // size)
        if _page_of(made, made.older, n) != _page_of(made, data, n)
    ]
    picked = rng.sample(changed, min(len(changed), rng.choice([1, 1, 3])))
    for number in picked:
        cut = rng.choice([step for step in (512, 1024, 4096, 8192) if step < size])
        first = rng.random() < 0.7
        begin, end = (
            (number * size + cut, (number + 1) * size) if first else (number * size, number * size + cut)
        )
        data[begin:end] = made.older[begin:end]
    made.unseen, made.untold = True, made.untold or len(picked) > 1
    return f"pages written in part: {[n + 1 for n in picked]}" if picked else ""


def stranger(made, data: bytearray, rng: random.Random) -> str:
    """A block of an unrelated database, of another page size, or of a text, was written over this one."""
    kept = made.path.with_name("stranger.db")
    db = sqlite3.connect(kept, isolation_level=None)
    db.execute(f"PRAGMA page_size={rng.choice([512, 1024, 4096, 8192])}")
    db.execute("CREATE TABLE contacts(id INTEGER PRIMARY KEY, name TEXT, mail TEXT UNIQUE, note TEXT)")
    db.execute("BEGIN")
    for number in range(300):
        values = (inject.text(rng, 30), f"{number}@example.org", inject.text(rng, 200))
        db.execute("INSERT INTO contacts(name, mail, note) VALUES(?, ?, ?)", values)
    db.execute("COMMIT")
    db.close()
    other = kept.read_bytes() if rng.random() < 0.8 else inject.text(rng, 90_000).encode()
    kept.unlink()
    size = rng.choice([512, 4096, 4096, 16384])
    at = rng.randrange(0, len(data), rng.choice([512, 4096]))
    begin = rng.randrange(0, max(1, len(other) - size), 512)
    block = other[begin : begin + size][: len(data) - at]
    data[at : at + len(block)] = block
    return f"{len(block)} bytes of another file at {at}"


def misdirected(made, data: bytearray, rng: random.Random) -> str:
    """A run of pages was written some pages, or some sectors, beside its place."""
    size = made.page_size
    pages = len(data) // size
    run = rng.choice([1, 1, 2, 8])
    first = rng.randrange(1, pages)
    block = bytes(data[first * size : (first + run) * size])
    step = rng.choice([SECTOR, size, size, 3 * size]) * rng.choice([-1, 1])
    at = first * size + step
    if at < size or at + len(block) > len(data):
        return ""
    data[at : at + len(block)] = block
    return f"{run} pages from page {first + 1} also at {at}"


def live_pages_free(made, data: bytearray, rng: random.Random) -> str:
    """A list of free pages names many pages in use; its trunk is one of them, or its own."""
    size, usable = made.page_size, _usable(data)
    pages = len(data) // size
    named = rng.sample(range(2, pages + 1), min(pages - 1, rng.choice([1, 3, 20]), usable // 4 - 10))
    if rng.random() < 0.5:
        data += bytes(size)
        trunk = pages + 1
        struct.pack_into(">I", data, 28, trunk)
    else:
        trunk = rng.randrange(2, pages + 1)
        named = [number for number in named if number != trunk]
    page = struct.pack(f">{2 + len(named)}I", 0, len(named), *named)
    data[(trunk - 1) * size : (trunk - 1) * size + len(page)] = page
    struct.pack_into(">2I", data, 32, trunk, 1 + len(named))
    return f"a list on page {trunk} calls {len(named)} pages free"


def sequence(made, data: bytearray, rng: random.Random) -> str:
    """The counters of AUTOINCREMENT are gone, or their page is another."""
    pages = trees_of(made, data).get("sqlite_sequence")
    if not pages:
        return ""
    at = pages[0] * made.page_size
    size = made.page_size
    empty = struct.pack(">BHHHB", 13, 0, 0, 0 if size == 65536 else size, 0) + bytes(size - 8)
    data[at : at + size] = rng.choice([empty, bytes(size), rng.randbytes(size)])
    return "the counters of AUTOINCREMENT"


def full_text(made, data: bytearray, rng: random.Random) -> str:
    """A page of a full-text index is damaged."""
    pages = [n for name, numbers in trees_of(made, data).items() if "_fts_" in name for n in numbers]
    if not pages:
        return ""
    number, size = rng.choice(pages), made.page_size
    way = rng.choice(["noise", "zeros", "byte", "old"])
    at = number * size
    if way == "byte":
        data[at + rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif way == "old" and len(made.older) >= at + size:
        data[at : at + size] = made.older[at : at + size]
        made.unseen = True
    else:
        data[at : at + size] = bytes(size) if way == "zeros" else rng.randbytes(size)
    return f"full text: {way} on page {number + 1}"


def only_tables_new(made, data: bytearray, rng: random.Random) -> str:
    """The pages of one index are as they were before the last transaction, or those of its table."""
    if not made.older:
        return ""
    trees = trees_of(made, data)
    if not trees:
        return ""
    name = rng.choice(sorted(trees))
    size = made.page_size
    for number in trees[name]:
        if len(made.older) >= (number + 1) * size and number:
            data[number * size : (number + 1) * size] = _page_of(made, made.older, number)
    made.unseen = made.untold = True
    return f"the tree of {name} is old"


def page_two_places(made, data: bytearray, rng: random.Random) -> str:
    """The page that was written last went to the place of another, and its own is as it was."""
    size = made.page_size
    changed = [
        n
        for n in range(1, min(len(made.older), len(data)) // size)
        if _page_of(made, made.older, n) != _page_of(made, data, n)
    ]
    if not changed:
        return ""
    number, other = rng.choice(changed), rng.randrange(1, len(data) // size)
    page = _page_of(made, data, number)
    data[number * size : (number + 1) * size] = _page_of(made, made.older, number)
    data[other * size : (other + 1) * size] = page
    made.unseen = made.untold = True
    return f"page {number + 1} was written to page {other + 1}"


def wrong_child(made, data: bytearray, rng: random.Random) -> str:
    """A child of an interior page is a leaf of another tree, or a sibling, which is there twice then."""
    inner = [n for n in range(1, len(data) // made.page_size) if data[n * made.page_size] in (2, 5)]
    leaves = _leaves(made, data, (13, 10))
    if not inner or not leaves:
        return ""
    at = rng.choice(inner) * made.page_size
    count = struct.unpack_from(">H", data, at + 3)[0]
    place = at + 8
    if count and rng.random() < 0.7:
        place = at + struct.unpack_from(">H", data, at + 12 + 2 * rng.randrange(min(count, 40)))[0]
    if place + 4 > len(data):
        return ""
    leaf = rng.choice(leaves) + 1
    struct.pack_into(">I", data, place, leaf)
    return f"page {at // made.page_size + 1} leads to leaf {leaf}"


def values_type(made, data: bytearray, rng: random.Random) -> str:
    """A type in the header of a row is another of the same size: text is a blob, a number another kind of number."""
    found = _cell(made, data, rng, rng.choice([(13,), (13, 10)]))
    if found is None:
        return ""
    page, cell = found
    at = page + cell.end - len(cell.local) - (4 if cell.overflow else 0)
    types = range(at + 1, min(at + data[at], at + 40))
    if not types:
        return ""
    place = rng.choice(types)
    data[place] ^= 1
    return f"a type of row {cell.rowid} on page {page // made.page_size + 1}"


def pointer_map_gone(made, data: bytearray, rng: random.Random) -> str:
    """auto_vacuum is off by the header, or on though no page is a map."""
    old = struct.unpack_from(">I", data, 52)[0]
    struct.pack_into(">I", data, 52, 0 if old else rng.randrange(1, len(data) // made.page_size + 1))
    struct.pack_into(">I", data, 64, rng.randrange(2))
    return f"largest root page: {old} -> {struct.unpack_from('>I', data, 52)[0]}"


def several_rows(made, data: bytearray, rng: random.Random) -> str:
    """Small damage in several places of the file."""
    return "; ".join(filter(None, (bit_in_a_row(made, data, rng) for _ in range(rng.randint(2, 6)))))


FAULTS: list[Callable] = [
    subtree,
    subtree,
    generation,
    generation,
    generation_elsewhere,
    torn_write,
    torn_write,
    stranger,
    misdirected,
    live_pages_free,
    sequence,
    full_text,
    only_tables_new,
    page_two_places,
    wrong_child,
    wrong_child,
    values_type,
    pointer_map_gone,
    several_rows,
]

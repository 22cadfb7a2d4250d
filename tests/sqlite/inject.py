"""Hermes-shaped databases and the ways to break them; the tests and the benchmark share it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from watchdog.sqlite import format as raw
from watchdog.sqlite.damaged_file import open_damaged
from watchdog.sqlite.page_scan import Tree
from watchdog.sqlite.schema import is_virtual, release, shadows

WORDS = [
    "the",
    "gateway",
    "restarted",
    "after",
    "a",
    "timeout",
    "and",
    "the",
    "agent",
    "read",
    "the",
    "file",
    "again",
    "日本語",
    "テスト",
    "über",
    "straße",
    "kanban",
    "task",
    "done",
    "approve",
    "tool",
    "result",
    "error",
    "none",
    "json",
    "list",
    "of",
    "messages",
]


def text(rng: random.Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, max(1, most // 6))))[:most]


def make(
    path: Path, kind: str, version: str = "0.19.0", size: int = 300, seed: int = 1, free: bool = True
) -> Path:
    """A database as this release makes it, with rows, overflow chains, both full-text indexes and free pages."""
    rng = random.Random(seed)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=OFF")
    fill(db, kind, version, size, rng)
    if free:
        table = {"state": "messages", "kanban": "task_events", "response_store": "responses"}[kind]
        db.execute(
            f"DELETE FROM {table} WHERE rowid % 10 = 3 AND rowid > {size // 2} AND rowid < {size // 2 + size // 5}"
        )
        db.execute(f"DELETE FROM {table} WHERE rowid BETWEEN {size // 3} AND {size // 3 + size // 20}")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path


def fill(db: sqlite3.Connection, kind: str, version: str, size: int, rng: random.Random) -> None:
    """Make what this release makes, and put rows into it."""
    known = release(version)
    assert known is not None
    for made in known.objects[kind]:
        db.execute(made.sql)
    _COLUMNS.clear()
    db.execute("BEGIN")
    {"state": _state, "kanban": _kanban, "response_store": _responses}[kind](db, rng, size)
    db.execute("COMMIT")


_COLUMNS: dict[str, set[str]] = {}  # of the tables of the database that is being filled


def _insert(db: sqlite3.Connection, table: str, **values: object) -> None:
    if table not in _COLUMNS:
        _COLUMNS[table] = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    values = {name: value for name, value in values.items() if name in _COLUMNS[table]}
    db.execute(
        f"INSERT INTO {table}({', '.join(values)}) VALUES({', '.join('?' * len(values))})",
        list(values.values()),
    )


def _state(db: sqlite3.Connection, rng: random.Random, size: int) -> None:
    _insert(db, "schema_version", version=22)
    sessions = max(2, size // 40)
    for number in range(sessions):
        _insert(
            db,
            "sessions",
            id=f"2026{rng.getrandbits(48):012x}",
            source=rng.choice(["telegram", "cli", "qqbot"]),
            user_id=str(rng.randint(1, 999)),
            model="m",
            system_prompt=text(rng, 3000) if number % 7 == 0 else None,
            started_at=1.78e9 + number,
            title=f"chat {number}" if number % 3 else None,
            message_count=number,
            estimated_cost_usd=rng.random() if number % 2 else float(number),
            session_key=f"agent:main:{number}",
        )
    ids = [row[0] for row in db.execute("SELECT id FROM sessions")]
    for number in range(size):
        long = number % 17 == 0
        _insert(
            db,
            "messages",
            session_id=ids[number * sessions // size],
            role=rng.choice(["user", "assistant", "tool"]),
            content=text(rng, 14000 if long else 900),
            tool_name="terminal" if number % 5 == 0 else None,
            tool_calls='[{"id": 1}]' if number % 5 == 1 else None,
            timestamp=1.78e9 + number * 1.25,
            token_count=rng.randint(1, 5000),
            reasoning=text(rng, 300) if number % 4 == 0 else None,
            platform_message_id=str(rng.getrandbits(40)),
        )
    _insert(db, "state_meta", key="last_vacuum", value="1780000000")
    for number in range(sessions if "session_model_usage" in _tables(db) else 0):
        _insert(
            db, "session_model_usage", session_id=ids[number], model="m", input_tokens=number, first_seen=1.5
        )


def cut_short(path: Path, *statements: str, sync: bool = True) -> None:
    """A transaction that was cut short after its pages were written: a hot journal beside the file."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA cache_size=2")
    if not sync:
        db.execute("PRAGMA synchronous=OFF")
    for statement in ("BEGIN", *statements):
        db.execute(statement)
    for part in ("", "-journal"):
        shutil.copyfile(f"{path}{part}", f"{path}.kept{part}")
    db.execute("ROLLBACK")
    db.close()
    for part in ("", "-journal"):
        os.replace(f"{path}.kept{part}", f"{path}{part}")


WRITER = """import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('CREATE TABLE mine(x)')
print('up', flush=True)
sys.stdin.read()
"""


@contextmanager
def held_open(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has written to the -wal of a database and keeps it open."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout and child.stdout.readline() == "up\n"
        yield child
    finally:
        child.communicate("")


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _kanban(db: sqlite3.Connection, rng: random.Random, size: int) -> None:
    for number in range(size):
        _insert(
            db,
            "tasks",
            id=f"t_{rng.getrandbits(32):08x}",
            title=text(rng, 80),
            body=text(rng, 1200),
            assignee="me",
            status=rng.choice(["todo", "done", "blocked"]),
            priority=rng.randint(0, 3),
            created_by="x",
            created_at=1780000000 + number,
            workspace_kind="scratch",
            tenant=None,
        )
    ids = [row[0] for row in db.execute("SELECT id FROM tasks")]
    for number in range(size):
        _insert(
            db, "task_events", task_id=rng.choice(ids), kind="note", payload=text(rng, 200), created_at=number
        )
        _insert(
            db,
            "task_comments",
            task_id=rng.choice(ids),
            author="me",
            body=text(rng, 6000 if number % 31 == 0 else 90),
            created_at=number,
        )
        if number % 3 == 0:
            _insert(db, "task_links", parent_id=ids[number], child_id=ids[number - 1])
            _insert(db, "task_runs", task_id=ids[number], status="done", started_at=number, profile="p")


def _responses(db: sqlite3.Connection, rng: random.Random, size: int) -> None:
    for number in range(size):
        _insert(
            db,
            "responses",
            response_id=f"resp_{rng.getrandbits(64):016x}",
            accessed_at=1.78e9 + number,
            data=text(rng, 9000 if number % 3 == 0 else 700),
        )
    for number, (key,) in enumerate(db.execute("SELECT response_id FROM responses").fetchall()):
        if number % 4 == 0:
            _insert(db, "conversations", name=f"c{number}", response_id=key)


def rows(path: str | os.PathLike) -> dict[str, dict[int, tuple]]:
    """Every row of the user's tables, by rowid, as SQLite reads it."""
    db = _reader(path)
    try:
        tables = {
            name.decode(): sql.decode()
            for name, sql in db.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL"
            )
        }
        inner = shadows(tables.items())
        return {
            name: {row[0]: row[1:] for row in db.execute(f'SELECT _rowid_, * FROM "{name}"')}
            for name, sql in tables.items()
            if name not in inner
            and not is_virtual(sql)
            and not name.startswith("sqlite_")
            and "WITHOUT ROWID" not in sql
        }
    finally:
        db.close()


def rows_of(path: str | os.PathLike, table: str) -> list[tuple]:
    db = _reader(path)
    try:
        return db.execute(f'SELECT *, typeof(b), typeof(c) FROM "{table}"').fetchall()
    finally:
        db.close()


def _reader(path: str | os.PathLike) -> sqlite3.Connection:
    assert not os.path.exists(f"{path}-wal"), "checkpoint it first"
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    db.text_factory = bytes
    return db


@dataclass
class Anatomy:
    """Which pages are what, read from the file while it is well."""

    page_size: int
    pages: int
    roots: dict[str, int]
    leaves: dict[str, list[int]]
    interior: dict[str, list[int]]
    overflow: dict[str, list[int]]
    free: list[int]
    schema: list[int]


def anatomy(path: str | os.PathLike) -> Anatomy:
    with ExitStack() as files:
        opened = open_damaged(str(path), files)
        pages, image = opened.pages, opened.image
        leaves, interior, overflow, roots = {}, {}, {}, {}
        schema = [number for number in range(1, image.pages + 1) if pages.claims[number]]
        for entry in opened.entries:
            if not entry.root:
                continue
            before = bytes(pages.claims)
            tree = Tree(
                entry.name,
                entry.root,
                raw.read_page(image.page(entry.root), entry.root, image.usable).kind in (5, 13),
            )
            pages.walk(tree)
            walked = bytes(pages.claims)
            pages.claim_overflow(tree)
            roots[entry.name] = entry.root
            leaves[entry.name] = [number for number in tree.leaves if number != entry.root] or list(
                tree.leaves
            )
            interior[entry.name] = [
                number
                for number in range(2, image.pages + 1)
                if walked[number] and not before[number] and number not in set(tree.leaves)
            ]
            overflow[entry.name] = [
                number for number in range(2, image.pages + 1) if pages.claims[number] and not walked[number]
            ]
        assert opened.header is not None
        pages.claim_free(opened.header.free_head, opened.header.free_count)
        free = [number for number in range(2, image.pages + 1) if pages.claims[number] == 3]
        return Anatomy(image.page_size, image.pages, roots, leaves, interior, overflow, free, schema)


MAIN = {"state": "messages", "kanban": "tasks", "response_store": "responses"}
PARENT = {"state": "sessions", "kanban": "tasks", "response_store": "responses"}
INDEX = {
    "state": "idx_messages_session",
    "kanban": "idx_tasks_status",
    "response_store": "sqlite_autoindex_responses_1",
}


class Patient:
    """A file about to be damaged."""

    def __init__(self, path: Path, kind: str, seed: int):
        self.path, self.kind, self.rng = path, kind, random.Random(seed)
        self.body = anatomy(path)

    def write(self, offset: int, data: bytes) -> None:
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def noise(self, count: int) -> bytes:
        return self.rng.randbytes(count)

    def page(self, number: int, data: bytes) -> None:
        self.write((number - 1) * self.body.page_size, data)

    def wreck(self, number: int) -> None:
        size = self.body.page_size
        self.page(number, self.noise(size) if self.rng.random() < 0.6 else bytes(size))

    def some(self, numbers: list[int], count: int = 1) -> list[int]:
        return self.rng.sample(numbers, min(count, len(numbers)))

    def sql(self, *statements: str) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            db.execute(statement)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()


def _header(patient: Patient, offset: int, data: bytes) -> None:
    patient.write(offset, data)


def _cut(patient: Patient, share: float, odd: bool = False) -> None:
    size = int(patient.body.pages * share) * patient.body.page_size
    os.truncate(patient.path, size + (1234 if odd else 0))


def _overflow_chain(patient: Patient) -> None:
    pages = patient.body.overflow[MAIN[patient.kind]]
    if pages:
        (number,) = patient.some(pages)
        with open(patient.path, "rb") as file:
            file.seek((number - 1) * patient.body.page_size)
            (right,) = struct.unpack(">I", file.read(4))
        wild = patient.rng.choice(
            [one for one in (0, number, patient.body.pages + 7, patient.rng.choice(pages), 1) if one != right]
        )
        patient.page(number, struct.pack(">I", wild))


def _duplicate(patient: Patient) -> None:
    patient.sql(
        "PRAGMA writable_schema=ON",
        "INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE type = 'table' LIMIT 1 OFFSET 1",
    )


def _stale_index(patient: Patient) -> None:
    """An index that misses entries: dropped from the schema while rows were written, and put back."""
    name = INDEX[patient.kind]
    if name.startswith("sqlite_"):
        return
    table = MAIN[patient.kind]
    db = sqlite3.connect(patient.path, isolation_level=None)
    row = db.execute(
        "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = ?", (name,)
    ).fetchone()
    db.execute("PRAGMA writable_schema=ON")
    db.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    db.execute("PRAGMA writable_schema=RESET")
    db.close()
    db = sqlite3.connect(patient.path, isolation_level=None)
    db.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
    db.execute("PRAGMA writable_schema=ON")
    db.execute("INSERT INTO sqlite_schema VALUES(?, ?, ?, ?, ?)", row)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _fts(part: str) -> Callable[[Patient], None]:
    def fault(patient: Patient) -> None:
        for number in patient.some(patient.body.leaves.get(f"messages_fts{part}", []), 1):
            patient.wreck(number)

    return fault


FAULTS: dict[str, Callable[[Patient], None]] = {
    "magic byte": lambda p: _header(p, 5, b"\x17"),
    "magic 16 bytes": lambda p: _header(p, 0, p.noise(16)),
    "TLS record, 31 bytes": lambda p: _header(p, 5, b"\x17\x03\x03\x00\x1a" + p.noise(26)),
    "TLS record, 1500 bytes": lambda p: _header(p, 5, b"\x17\x03\x03\x05\xd7" + p.noise(1495)),
    "first 100 bytes zero": lambda p: _header(p, 0, bytes(100)),
    "page 1 zero": lambda p: p.page(1, bytes(p.body.page_size)),
    "wrong page size": lambda p: _header(
        p, 16, struct.pack(">H", p.rng.choice([512, 1024, 2048, 8192, 16384]))
    ),
    "illegal page size": lambda p: _header(p, 16, b"\x12\x34"),
    "last page missing": lambda p: os.truncate(p.path, (p.body.pages - 1) * p.body.page_size),
    "cut to 60 %": lambda p: _cut(p, 0.6),
    "cut to 60 %, odd": lambda p: _cut(p, 0.6, True),
    "leaf page": lambda p: [p.wreck(n) for n in p.some(p.body.leaves[MAIN[p.kind]])] and None,
    "5 leaf pages": lambda p: [p.wreck(n) for n in p.some(p.body.leaves[MAIN[p.kind]], 5)] and None,
    "interior page": lambda p: [p.wreck(n) for n in p.some(p.body.interior[MAIN[p.kind]])] and None,
    "table root page": lambda p: p.wreck(p.body.roots[MAIN[p.kind]]),
    "parent-table leaf": lambda p: [p.wreck(n) for n in p.some(p.body.leaves[PARENT[p.kind]])] and None,
    "schema page": lambda p: (
        [p.wreck(n) for n in p.some([n for n in p.body.schema if n > 1] or [1])] and None
    ),
    "overflow chain": _overflow_chain,
    "part of a leaf": lambda p: (
        [
            p.write((n - 1) * p.body.page_size + p.rng.randint(200, 3000), p.noise(512))
            for n in p.some(p.body.leaves[MAIN[p.kind]])
        ]
        and None
    ),
    "duplicate schema row": _duplicate,
    "index page": lambda p: [p.wreck(n) for n in p.some(p.body.leaves[INDEX[p.kind]])] and None,
    "stale index": _stale_index,
    "freelist page": lambda p: [p.wreck(n) for n in p.some(p.body.free)] and None,
    "freelist count": lambda p: _header(p, 36, struct.pack(">I", 99999)),
    "FTS page": _fts("_content"),
    "FTS structure": _fts("_data"),
    "FTS segment": lambda p: (
        p.sql(
            "UPDATE messages_fts_data SET block = zeroblob(length(block)) WHERE id = (SELECT "
            "max(id) FROM messages_fts_data)"
        )
        if p.kind == "state"
        else None
    ),
    "FTS rows missing": lambda p: (
        p.sql("DELETE FROM messages_fts WHERE rowid % 7 = 0") if p.kind == "state" else None
    ),
    "FTS trigger lost": lambda p: p.sql("DROP TRIGGER messages_fts_insert") if p.kind == "state" else None,
}

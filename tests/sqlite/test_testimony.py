"""What else in a file tells of its rows: words of the full text, shapes of rows, a journal without its header."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from pathlib import Path

import inject
import pytest

from watchdog.sqlite.heal import heal
from watchdog.sqlite.inspect import look

pytestmark = pytest.mark.usefixtures("in_process")


def made(
    path: Path, *statements: str, rows: int = 120, page_size: int = 1024, encoding: str = "UTF-8"
) -> Path:
    """A database with these tables; a statement with a ? is run once per row number."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size={page_size}")
    db.execute(f"PRAGMA encoding='{encoding}'")
    db.execute("BEGIN")
    for sql in statements:
        for number in range(1, rows + 1) if "?1" in sql else ():
            db.execute(sql, (number,))
        if "?1" not in sql:
            db.execute(sql)
    db.execute("COMMIT")
    db.close()
    return path


PLAIN = (
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, n INTEGER)",
    "INSERT INTO t VALUES(?1, 'text ' || ?1, ?1 * 7)",
)


def write(path: Path, at: int, what: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(what)


def set_roots(path: Path, **roots: str) -> None:
    """Give tables the first page of another one."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA writable_schema=ON")
    known = dict(db.execute("SELECT name, rootpage FROM sqlite_schema"))
    for name, other in roots.items():
        db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (known[other], name))
    db.close()


def test_words_of_a_full_text_without_texts_disprove_an_altered_row(tmp_path):
    path = inject.make(tmp_path / "state.db", "state", "0.20.5", size=60)
    db = sqlite3.connect(path)
    rowid, content = db.execute(
        "SELECT id, content FROM messages WHERE length(content) BETWEEN 40 AND 300 AND content LIKE '% gateway %'"
    ).fetchone()
    db.close()
    data = path.read_bytes()
    assert data.count(content.encode()) == 1
    write(path, data.index(content.encode()) + content.encode().index(b" gateway ") + 1, b"lateway")
    report = heal(path)
    assert not report.ok
    assert report.doubtful == {"messages": (rowid,)}
    assert any("messages_fts" in text for text in report.says)


def test_a_deleted_row_that_is_back_is_in_doubt_where_only_the_full_text_tells(tmp_path):
    path = made(
        tmp_path / "x.db",
        "CREATE TABLE docs(id INTEGER PRIMARY KEY, body TEXT)",
        "CREATE VIRTUAL TABLE docs_fts USING fts5(body, content='docs', content_rowid='id')",
        "CREATE TRIGGER docs_ai AFTER INSERT ON docs BEGIN "
        "INSERT INTO docs_fts(rowid, body) VALUES (new.id, new.body); END",
        "INSERT INTO docs VALUES(?1, 'some words and ' || ?1)",
        "DROP TRIGGER docs_ai",
        "INSERT INTO docs VALUES(500, 'it was deleted')",
        "CREATE TRIGGER docs_ai AFTER INSERT ON docs BEGIN "
        "INSERT INTO docs_fts(rowid, body) VALUES (new.id, new.body); END",
    )
    report = heal(path)
    assert not report.ok
    assert report.doubtful == {"docs": (500,)}


@pytest.mark.parametrize(
    "field, value", [(20, b"\x28"), (56, struct.pack(">I", 2)), (56, struct.pack(">I", 3))]
)
def test_a_header_with_a_wrong_reserve_or_encoding_loses_nothing(tmp_path, field, value):
    path = made(tmp_path / "x.db", *PLAIN)
    before = inject.rows(path)
    write(path, field, value)
    assert heal(path).ok
    assert inject.rows(path) == before


@pytest.mark.parametrize("first", [0, 4])
def test_rows_whose_pointers_are_exchanged_are_kept_and_doubtful(tmp_path, first):
    path = made(tmp_path / "x.db", *PLAIN)
    before = inject.rows(path)
    leaf = inject.anatomy(path).leaves["t"][1]
    at = (leaf - 1) * 1024 + 8 + 2 * first
    one, two, three, four = struct.unpack(">4H", path.read_bytes()[at : at + 8])
    write(path, at, struct.pack(">4H", four, two, three, one))
    report = heal(path)
    assert inject.rows(path) == before
    assert not report.ok
    assert report.lost == 0


def test_destroyed_rows_are_counted_once(tmp_path):
    path = made(tmp_path / "x.db", *PLAIN)
    before = inject.rows(path)["t"]
    leaf = inject.anatomy(path).leaves["t"][1]
    write(path, leaf * 1024 - 200, bytes(200))
    report = heal(path)
    assert report.lost <= len(before.keys() - inject.rows(path)["t"].keys()) <= report.lost_most


MIXED = (
    "CREATE TABLE loose(a, b, c TEXT)",
    "CREATE TABLE docs(id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT)",
    "INSERT INTO loose VALUES(?1, 'b', 'c')",
    "INSERT INTO docs VALUES(?1, 'title ' || ?1, 'body')",
)


def test_exchanged_first_pages_are_known_by_the_rows_under_them(tmp_path):
    path = made(tmp_path / "x.db", *MIXED)
    before = inject.rows(path)
    set_roots(path, loose="docs", docs="loose")
    report = heal(path)
    assert inject.rows(path) == before, report.says


def test_of_two_tables_with_one_first_page_each_gets_its_own_rows(tmp_path):
    path = made(tmp_path / "x.db", *MIXED)
    before = inject.rows(path)
    set_roots(path, docs="loose")
    report = heal(path)
    assert inject.rows(path) == before, report.says


def hot_journal(path: Path) -> None:
    inject.cut_short(path, "UPDATE t SET a = a || ' again', n = -1")


@pytest.mark.parametrize(
    "at, what", [(12, b"\x07\x07\x07\x07"), (20, b"\0\0\3\7")], ids=["nonce", "sector size"]
)
def test_a_hot_journal_whose_header_is_damaged_is_rolled_back(tmp_path, at, what):
    path = made(tmp_path / "x.db", *PLAIN, rows=2000)
    before = inject.rows(path)
    hot_journal(path)
    write(Path(f"{path}-journal"), at, what)
    heal(path)
    assert inject.rows(path) == before


def test_a_hot_journal_that_is_cut_off_is_never_called_whole(tmp_path):
    path = made(tmp_path / "x.db", *PLAIN, rows=2000)
    before = inject.rows(path)
    hot_journal(path)
    os.truncate(f"{path}-journal", 600)
    report = heal(path)
    assert inject.rows(path) != before
    assert not report.ok


def test_an_index_whose_table_nobody_knows_does_not_cost_the_other_tables(tmp_path):
    path = made(
        tmp_path / "x.db",
        "CREATE TABLE gone(id INTEGER PRIMARY KEY, a TEXT)",
        *PLAIN,
        "CREATE INDEX gone_a ON gone(a)",
        page_size=4096,
    )
    before = inject.rows(path)["t"]
    data = path.read_bytes()
    write(path, data.index(b"tablegonegone"), b"\xff" * 40)
    report = heal(path)
    assert inject.rows(path)["t"] == before, report.says
    assert not report.ok


def crashed_wal(path: Path, rows: int = 30) -> None:
    """Committed rows that are in the -wal alone."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    for number in range(rows):
        db.execute("INSERT INTO t(a, n) VALUES('late', ?)", (number,))
    for part in ("", "-wal"):
        shutil.copyfile(f"{path}{part}", f"{path}.kept{part}")
    db.close()
    for part in ("", "-wal"):
        os.replace(f"{path}.kept{part}", f"{path}{part}")


@pytest.mark.parametrize("at", [0, 5, 10, 14, 17, 22, 25, 31])
def test_a_wal_whose_header_is_damaged_gives_its_rows_when_the_first_frame_proves_it(tmp_path, at):
    path = made(tmp_path / "x.db", *PLAIN)
    crashed_wal(path)
    wal = Path(f"{path}-wal").read_bytes()
    write(Path(f"{path}-wal"), at, bytes([wal[at] ^ 0x55]))
    report = heal(path)
    assert report.strategy
    assert report.ok
    assert len(inject.rows(path)["t"]) == 150


def test_a_wal_is_read_whatever_the_header_says_of_the_journal_mode(tmp_path):
    path = made(tmp_path / "x.db", *PLAIN)
    crashed_wal(path)
    write(path, 18, b"\1\1")
    assert look(path, deep=True).grade == "well"
    write(path, 2 * 1024, bytes(1024))  # a leaf
    report = heal(path)
    assert report.lost > 0
    assert inject.rows(path)["t"].keys() >= set(range(121, 151))


def test_a_wal_without_a_header_and_a_first_frame_is_never_called_whole(tmp_path):
    path = made(tmp_path / "x.db", *PLAIN)
    crashed_wal(path)
    write(Path(f"{path}-wal"), 0, bytes(32 + 24))
    report = heal(path)
    assert not report.ok
    assert any("-wal" in text for text in report.says)
    assert len(inject.rows(path)["t"]) == 120


@pytest.mark.parametrize("crashed", [False, True])
def test_a_last_frame_that_was_written_over_is_no_end_of_a_crash(tmp_path, crashed):
    path, kept = made(tmp_path / "x.db", *PLAIN, rows=20), tmp_path / "kept.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    for number in (1, 2):  # the second round is shorter than the first: frames of that lie behind
        for row in range(6 // number):
            db.execute("INSERT INTO t VALUES(?, 'late', 1)", (1000 * number + row,))
        if number == 1:
            db.execute("PRAGMA wal_checkpoint(RESTART)")
    shutil.copyfile(path, kept)
    shutil.copyfile(f"{path}-wal", f"{kept}-wal")
    db.close()
    frames, step = read_frames(Path(f"{kept}-wal")), 1024 + 24
    last = max(number for number, salts in enumerate(frames) if salts == frames[0])
    earlier = struct.pack(">3I", 2, 0, frames[0][0] - 1)  # what the round before left, if nothing was written
    write(Path(f"{kept}-wal"), 32 + last * step, (earlier if crashed else b"").ljust(step, b"\0"))
    assert look(kept, deep=True).grade == ("well" if crashed else "damaged")
    if not crashed:
        assert not heal(kept).ok


def read_frames(log: Path) -> list[tuple[int, int]]:
    """The salts of each frame of a -wal with pages of 1024 bytes."""
    data = log.read_bytes()
    return [struct.unpack_from(">2I", data, at + 8) for at in range(32, len(data) - 1047, 1048)]


def test_an_index_that_no_schema_names_any_more_tells_which_rows_are_lost(tmp_path):
    path = inject.make(tmp_path / "response_store.db", "response_store", size=30)
    before = inject.rows(path)["conversations"]
    (leaf,) = inject.anatomy(path).leaves["conversations"]
    size = inject.anatomy(path).page_size
    write(path, 0, bytes(size))
    write(path, (leaf - 1) * size, bytes([13, 0, 0, 0, 0]) + struct.pack(">H", size) + bytes(size - 7))
    report = heal(path)
    assert not report.ok
    assert report.tables["conversations"].lost_most >= len(before)


def test_a_content_that_ends_in_a_page_of_zeros_is_in_doubt(tmp_path):
    path = made(
        tmp_path / "x.db",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, content BLOB)",
        "INSERT INTO t VALUES(?1, CAST(printf('%.1500c', 'x') AS BLOB))",
        rows=20,
    )
    data = path.read_bytes()
    ends = [at for at in range(1024, len(data), 1024) if data[at : at + 8] == bytes(4) + b"xxxx"]
    write(path, ends[3], bytes(1024))
    verdict = look(path, deep=True)
    assert verdict.grade == "damaged"
    assert not heal(path).ok

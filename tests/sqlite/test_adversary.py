"""Faults that an adversary would think of: what a heal says of them is true, row by row."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
from contextlib import ExitStack
from pathlib import Path

import generated
import inject
import pytest

from watchdog.sqlite.damaged_file import open_damaged
from watchdog.sqlite.heal import HealReport, heal
from watchdog.sqlite.inspect import look
from watchdog.sqlite.page_scan import Tree

SIZE = 4096
SCHEMA = """
CREATE TABLE plain(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, d TEXT); CREATE INDEX plain_a ON plain(a);
CREATE TABLE bare(x, z TEXT);
CREATE TABLE keyed(k TEXT PRIMARY KEY, v TEXT, n INT) WITHOUT ROWID; CREATE INDEX keyed_v ON keyed(v);
CREATE TABLE paired(a INT, b TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID;
CREATE TABLE one(id INTEGER PRIMARY KEY, t TEXT, n INT);
CREATE TABLE two(id INTEGER PRIMARY KEY, t TEXT, n INT);
CREATE TABLE red(id INTEGER PRIMARY KEY, t TEXT); CREATE INDEX red_t ON red(t);
CREATE TABLE blue(id INTEGER PRIMARY KEY, t TEXT); CREATE INDEX blue_t ON blue(t);
"""


class Victim:
    """A database with a table of each kind, and its pages to damage."""

    def __init__(self, path: Path):
        self.path, self.rng = path, random.Random(7)
        db = sqlite3.connect(path, isolation_level=None)
        db.executescript(SCHEMA)
        db.execute("BEGIN")
        for number in range(300):
            text = inject.text(self.rng, 90)
            db.execute("INSERT INTO plain(a, d) VALUES(?, ?)", (f"{number} {text}", text * 3))
            db.execute("INSERT INTO bare VALUES(?, ?)", (number, text))
            db.execute("INSERT INTO keyed VALUES(?, ?, ?)", (f"k{self.rng.getrandbits(40):x}", text, number))
            db.execute("INSERT INTO paired VALUES(?, ?)", (number % 17, f"{number} {text}"))
            for name in ("one", "two"):
                db.execute(f"INSERT INTO {name} VALUES(?, ?, ?)", (number + 1, f"{name} {text}", number))
            for name in ("red", "blue"):
                db.execute(f"INSERT INTO {name} VALUES(?, ?)", (number + 1, f"{name} {text}"))
        db.execute("COMMIT")
        db.close()
        self.truth = generated.read(path)
        self.data = bytearray(path.read_bytes())

    def root(self, name: str) -> int:
        db = sqlite3.connect(self.path)
        try:
            return int(db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0])
        finally:
            db.close()

    def tree(self, name: str, table: bool = True) -> Tree:
        with ExitStack() as files:
            tree = Tree(name, self.root(name), table)
            open_damaged(str(self.path), files).pages.walk(tree)
        return tree

    def page(self, number: int) -> bytearray:
        return self.data[(number - 1) * SIZE : number * SIZE]

    def put(self, number: int, what: bytes, at: int = 0) -> None:
        begin = (number - 1) * SIZE + at
        self.data[begin : begin + len(what)] = what

    def heal(self) -> HealReport:
        self.path.write_bytes(self.data)
        return heal(self.path)

    def differences(self, table: str) -> tuple[int, int]:
        """(rows that are gone, rows that are altered or new)."""
        before, now = self.truth[table], generated.read(self.path)[table]
        gone = sum(key not in now for key in before)
        return gone, sum(before.get(key) != row for key, row in now.items())


@pytest.fixture
def victim(tmp_path, in_process) -> Victim:
    return Victim(tmp_path / "x.db")


def assert_true(victim: Victim, report: HealReport, *tables: str) -> None:
    assert not report.ok
    for table in tables:
        gone, other = victim.differences(table)
        told = report.tables[table]
        assert told.lost <= gone <= max(told.lost, told.lost_most), table
        assert other <= told.doubtful, table


def test_rows_of_a_leaf_of_which_a_half_is_noise_are_counted_one_by_one(victim):
    victim.put(victim.tree("bare").leaves[1], victim.rng.randbytes(SIZE // 2), SIZE // 2)
    assert_true(victim, victim.heal(), "bare")


def test_noise_that_passes_for_a_row_without_rowid_is_doubtful(victim):
    victim.put(victim.tree("paired", False).leaves[1], victim.rng.randbytes(SIZE // 2), SIZE // 2)
    assert_true(victim, victim.heal(), "paired")


def test_two_tables_that_share_a_root_and_a_shape_are_not_called_whole(victim):
    db = sqlite3.connect(victim.path, isolation_level=None)
    db.execute("PRAGMA writable_schema=ON")
    db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = 'two'", (victim.root("one"),))
    db.close()
    victim.data = bytearray(victim.path.read_bytes())
    assert_true(victim, victim.heal(), "one", "two")


def test_exchanged_roots_of_tables_of_one_shape_are_known_by_their_indexes(victim):
    roots = victim.root("red"), victim.root("blue")
    db = sqlite3.connect(victim.path, isolation_level=None)
    db.execute("PRAGMA writable_schema=ON")
    for name, root in (("red", roots[1]), ("blue", roots[0])):
        db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, name))
    db.close()
    victim.data = bytearray(victim.path.read_bytes())
    report = victim.heal()
    assert report.ok, report.says
    assert victim.differences("red") == victim.differences("blue") == (0, 0)


def test_a_root_that_leads_to_a_part_of_the_table_loses_no_row(victim):
    db = sqlite3.connect(victim.path, isolation_level=None)
    leaf = victim.tree("bare").leaves[1]
    db.execute("PRAGMA writable_schema=ON")
    db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = 'bare'", (leaf,))
    db.close()
    victim.data = bytearray(victim.path.read_bytes())
    assert_true(victim, victim.heal(), "bare")
    assert victim.differences("bare") == (0, 0)


def test_leaves_that_an_interior_page_no_longer_names_go_to_the_table_that_lacks_their_numbers(victim):
    root = victim.root("one")
    cells = struct.unpack_from(">H", victim.page(root), 3)[0]
    victim.put(root, struct.pack(">H", cells - 1), 3)
    assert_true(victim, victim.heal(), "one", "two")
    assert victim.differences("one") == (0, 0)


def test_last_leaves_that_two_tables_of_one_shape_have_exchanged_are_known_by_their_numbers(victim):
    db = sqlite3.connect(victim.path, isolation_level=None)
    db.execute("DELETE FROM two WHERE id > 150")
    db.close()
    victim.truth, victim.data = generated.read(victim.path), bytearray(victim.path.read_bytes())
    one, two = ((victim.root(name) - 1) * SIZE + 8 for name in ("one", "two"))
    first, second = bytes(victim.data[one : one + 4]), bytes(victim.data[two : two + 4])
    victim.data[one : one + 4], victim.data[two : two + 4] = second, first
    victim.heal()
    assert victim.differences("one") == victim.differences("two") == (0, 0)


def test_an_index_that_is_a_copy_of_another_names_no_row(victim):
    for one, two in zip(
        victim.tree("red_t", False).leaves, victim.tree("blue_t", False).leaves, strict=False
    ):
        victim.put(two, bytes(victim.page(one)))
    victim.put(victim.tree("blue").leaves[0], bytes(8))
    assert_true(victim, victim.heal(), "red", "blue")


def test_old_interior_pages_that_lead_in_a_circle_do_not_keep_a_repair_for_ever(victim):
    def interior(left: int, key: int, right: int) -> bytes:
        page = bytearray(struct.pack(">BHHHBIH", 5, 0, 1, SIZE - 5, 0, right, SIZE - 5).ljust(SIZE, b"\0"))
        page[SIZE - 5 :] = struct.pack(">IB", left, key)
        return bytes(page)

    one, end = victim.tree("one").leaves, len(victim.data) // SIZE
    victim.put(one[0], bytes(8))
    victim.data += (
        interior(end + 2, 50, one[2]) + interior(end + 3, 20, one[3]) + interior(one[4], 10, end + 2)
    )
    victim.put(1, struct.pack(">I", end + 3), 28)
    assert_true(victim, victim.heal(), "one", "two")


def test_a_leaf_that_was_written_over_another_makes_both_doubtful(victim):
    one, two = victim.tree("one").leaves, victim.tree("two").leaves
    victim.put(one[1], bytes(victim.page(two[1])))
    victim.put(one[0], bytes(8))  # so that the file is damaged in any case
    assert_true(victim, victim.heal(), "one", "two")


def test_entries_of_an_index_do_not_pass_for_rows_of_a_table_without_rowid(victim):
    table, index = victim.tree("keyed", False).leaves[0], victim.tree("keyed_v", False).leaves[0]
    first, second = bytes(victim.page(table)), bytes(victim.page(index))
    victim.put(table, second)
    victim.put(index, first)
    assert_true(victim, victim.heal(), "keyed")


# --- a crash in the middle of a transaction, and a journal that SQLite would not use


@pytest.fixture
def crashed(victim) -> Victim:
    inject.cut_short(
        victim.path, "UPDATE plain SET d = d || ' crash'", "DELETE FROM bare WHERE x % 3 = 0", sync=False
    )
    victim.data = bytearray(victim.path.read_bytes())
    return victim


@pytest.mark.parametrize(
    ("at", "what"),
    [(0, bytes(28)), (3, b"\xff"), (8, bytes(4)), (12, bytes(4)), (16, struct.pack(">I", 9)), (24, bytes(4))],
    ids=["zeroed", "magic", "count", "nonce", "size of the database", "page size"],
)
def test_a_journal_with_a_damaged_header_is_rolled_back_all_the_same(crashed, at, what):
    journal = Path(f"{crashed.path}-journal")
    data = bytearray(journal.read_bytes())
    data[at : at + len(what)] = what
    journal.write_bytes(data)
    assert look(crashed.path, deep=True).grade in ("damaged", "broken")
    crashed.heal()
    assert generated.read(crashed.path) == crashed.truth


def test_a_journal_that_was_cut_short_is_told_and_never_ok(crashed):
    journal = Path(f"{crashed.path}-journal")
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size * 2 // 3])
    report = crashed.heal()
    assert not report.ok
    assert report.uncounted


def test_the_journal_of_an_ended_transaction_is_left_alone(victim):
    db = sqlite3.connect(victim.path, isolation_level=None)
    db.execute("PRAGMA journal_mode=PERSIST")
    db.execute("UPDATE plain SET d = 'ended' WHERE id < 40")
    db.close()
    before = generated.read(victim.path)
    assert look(victim.path, deep=True).grade == "well"
    assert generated.read(victim.path) == before


@pytest.mark.parametrize("damage", [bytes(32), b"\0\0\0\0"], ids=["zeroed", "magic"])
def test_a_wal_whose_header_is_gone_is_proved_by_its_frames(victim, damage):
    path = victim.path
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    for number in range(20):
        db.execute("INSERT INTO plain(a, d) VALUES(?, 'late')", (f"late {number}",))
    victim.truth = generated.read(path)
    for part in ("", "-wal"):
        shutil.copyfile(f"{path}{part}", f"{path}.kept{part}")
    db.close()
    for part in ("", "-wal"):
        os.replace(f"{path}.kept{part}", f"{path}{part}")
    wal = Path(f"{path}-wal")
    wal.write_bytes(damage + wal.read_bytes()[len(damage) :])
    victim.data = bytearray(path.read_bytes())
    victim.heal()
    assert generated.read(path) == victim.truth

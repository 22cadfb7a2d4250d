"""Missing columns: all of them, from the reference alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import inject
import pytest

from watchdog.errors import WatchdogError
from watchdog.sqlite import migrate as module
from watchdog.sqlite.heal import migrate
from watchdog.sqlite.inspect import look
from watchdog.sqlite.migrate import why_not_addable
from watchdog.sqlite.schema import SchemaObject, columns_of, release

NEW = release("0.19.0")


@pytest.fixture
def old_board(tmp_path: Path) -> Path:
    return inject.make(tmp_path / "kanban.db", "kanban", "0.13.0", size=10)


def columns(path: Path, table: str) -> dict[str, tuple]:
    db = sqlite3.connect(path)
    try:
        return {row[1]: row[2:5] for row in db.execute(f"PRAGMA table_info({table})")}
    finally:
        db.close()


def test_an_old_board_gets_every_column_with_its_type_and_default(old_board):
    before = inject.rows(old_board)["tasks"]
    report = migrate(old_board, reference=NEW)
    assert report.ok
    assert "tasks.goal_mode INTEGER" in report.added
    assert report.reference == "Hermes 0.19.0, known release"
    assert columns(old_board, "tasks")["goal_mode"] == ("INTEGER", 1, "0")
    fresh = {
        column.name
        for thing in NEW.objects["kanban"]
        if thing.name == "tasks"
        for column in columns_of(thing.sql)
    }
    assert columns(old_board, "tasks").keys() == fresh
    assert "idx_tasks_session_id" in report.indexes
    after = inject.rows(old_board)["tasks"]
    assert {rowid: row[: len(before[rowid])] for rowid, row in after.items()} == before
    assert Path(report.backup).exists()
    assert look(old_board, reference=NEW).missing == ()
    assert migrate(old_board, reference=NEW).says == ("no column is missing",)


def test_a_dry_run_adds_nothing(old_board):
    before = old_board.read_bytes()
    report = migrate(old_board, reference=NEW, dry_run=True)
    assert len(report.added) == 8
    assert old_board.read_bytes() == before


def test_other_peoples_columns_and_tables_stay(old_board):
    inject.Patient(old_board, "kanban", 1).sql(
        "ALTER TABLE tasks ADD COLUMN mine TEXT", "CREATE TABLE theirs(x)"
    )
    migrate(old_board, reference=NEW)
    assert "mine" in columns(old_board, "tasks")
    assert columns(old_board, "theirs")


def test_eight_migrators_at_once_all_succeed(old_board):
    code = (
        "import sys; from watchdog.sqlite.heal import migrate; from watchdog.sqlite.schema import release\n"
        "r = migrate(sys.argv[1], reference=release('0.19.0')); print(len(r.added))"
    )
    racing = [
        subprocess.Popen([sys.executable, "-c", code, str(old_board)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    added = [int(child.communicate()[0]) for child in racing]
    assert [child.returncode for child in racing] == [0] * 4
    assert sorted(added) == [0, 0, 0, 8]


def test_a_live_writer_does_not_mind(old_board):
    live = sqlite3.connect(old_board, isolation_level=None)
    live.execute("INSERT INTO task_links VALUES('a', 'b')")
    reader = sqlite3.connect(old_board, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM tasks").fetchone()
    assert migrate(old_board, reference=NEW).ok
    live.execute("INSERT INTO task_links VALUES('c', 'd')")
    live.close()
    reader.close()


def test_a_held_write_lock_is_waited_for_then_reported(old_board, monkeypatch):
    monkeypatch.setattr(module, "WAIT", 0.05)
    live = sqlite3.connect(old_board, isolation_level=None)
    live.execute("BEGIN IMMEDIATE")
    with pytest.raises(WatchdogError, match=r"locked; .*nothing was changed"):
        migrate(old_board, reference=NEW)
    live.close()


def test_a_broken_file_is_not_migrated(patient):
    with pytest.raises(WatchdogError, match="heal it first"):
        migrate(patient("kanban", "magic byte"), reference=NEW)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("a TEXT PRIMARY KEY", "primary key"),
        ("a TEXT NOT NULL", "NOT NULL without a default"),
        ("a TEXT DEFAULT CURRENT_TIMESTAMP", "not a constant"),
        ("a INTEGER DEFAULT (1 + 1)", "not a constant"),
        ("a TEXT UNIQUE", "UNIQUE"),
        ("a INTEGER GENERATED ALWAYS AS (1) STORED", "generated"),
        ("a INTEGER NOT NULL DEFAULT 0", ""),
        ("a TEXT DEFAULT 'it''s'", ""),
        ("a REAL DEFAULT -1.5e3", ""),
        ("a", ""),
    ],
)
def test_what_alter_table_cannot_add_is_said_and_not_tried(definition, reason):
    thing = SchemaObject("table", "t", "t", f"CREATE TABLE t(z, {definition})")
    column = next(one for one in columns_of(thing.sql) if one.name == "a")
    found = why_not_addable(thing, column)
    assert reason in found and bool(reason) == bool(found)

"""Steps that touch databases: only those of this home, reached through no link, with the real doctor."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from machines import START, Machine, said

from watchdog.errors import WatchdogError
from watchdog.notify.translate import read_words, sentence
from watchdog.steps import add_column, heal_database, set_aside
from watchdog.steps.databases import database


@pytest.fixture
def world(tmp_path):
    (tmp_path / "home").mkdir()
    return Machine(tmp_path / "home").world()


def sessions(path: Path, rows: int = 50) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as db:
        db.executescript(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY); CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT);"
        )
        db.executemany("INSERT INTO messages (content) VALUES (?)", [("hello " * 20,)] * rows)
    db.close()
    return path


def test_a_database_of_the_home_is_found_by_its_name_or_its_path(world):
    path = sessions(world.home / "kanban" / "boards" / "side" / "kanban.db")
    assert database("kanban/boards/side/kanban.db", world.home) == path == database(str(path), world.home)


@pytest.mark.parametrize(
    "name", ["../other.db", "/etc/passwd", "/etc/x.db", "a/../../x.db", ".", "", "state.sqlite", "missing.db"]
)
def test_nothing_outside_the_home_and_nothing_else_is_touched(world, name):
    with pytest.raises(WatchdogError):
        database(name, world.home)


@pytest.mark.parametrize("kind", [heal_database, set_aside, add_column])
def test_symbolic_links_lead_nowhere(world, tmp_path, kind):
    outside = sessions(tmp_path / "outside.db")
    before = outside.read_bytes()
    os.symlink(outside, world.home / "state.db")
    os.symlink(tmp_path, world.home / "boards")
    for name in ("state.db", "boards/outside.db"):
        outcome = kind.run(kind.Args(name), world)
        assert not outcome.ok and "symbolic link" in said(outcome)
    assert outside.read_bytes() == before and os.path.islink(world.home / "state.db")


def test_why_a_file_is_not_touched_is_said_in_the_language_of_its_reader(world):
    for name, english, chinese in (
        ("/etc/other.db", "only databases of this home are touched", "只处理这个目录里的数据库"),
        ("gone.db", "is not there any more", "已经不在了"),
    ):
        outcome = set_aside.run(set_aside.Args(name), world)
        assert english in said(outcome)
        assert chinese in sentence(outcome.reason, read_words("zh"), START)


def test_a_folder_or_a_pipe_with_the_name_of_a_database_is_not_one(world):
    (world.home / "state.db").mkdir()
    os.mkfifo(world.home / "kanban.db")
    for name in ("state.db", "kanban.db"):
        assert "not a plain file" in said(heal_database.run(heal_database.Args(name), world))


def test_a_broken_header_is_healed_by_the_real_doctor_and_can_be_undone(world):
    path = sessions(world.home / "state.db")
    with path.open("r+b") as file:
        file.write(b"SQLit\x17\0\0")
    broken = path.read_bytes()
    outcome = heal_database.run(heal_database.Args("state.db"), world)
    assert outcome.ok, outcome
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (50,)
    db.close()
    assert heal_database.run(heal_database.Args("state.db", undo=True), world).ok
    assert path.read_bytes() == broken
    again = heal_database.run(heal_database.Args("state.db", undo=True), world)
    assert not again.ok and "to undo" in said(again)


def test_a_missing_column_is_added_on_a_backup_by_the_real_doctor(world):
    from watchdog.sqlite.schema import release

    path = world.home / "kanban.db"
    with sqlite3.connect(path) as db:
        for thing in release("0.13.0").objects["kanban"]:
            if thing.sql:
                db.execute(thing.sql)
    db.close()
    outcome = add_column.run(add_column.Args("kanban.db", "tasks.session_id TEXT"), world)
    assert outcome.ok and "tasks.session_id TEXT" in said(outcome) and "backup" in said(outcome), outcome
    db = sqlite3.connect(path)
    assert "session_id" in {row[1] for row in db.execute("PRAGMA table_info(tasks)")}
    db.close()
    assert outcome.reason.fields["result"].fields["columns"] == (
        "tasks.session_id TEXT",
    )  # what was shown, no more
    again = add_column.run(add_column.Args("kanban.db", "tasks.session_id TEXT"), world)
    assert again.ok and "nothing had to be added" in said(again)


@pytest.mark.parametrize("shown", ["tasks.session_id INTEGER", "tasks.nonsense TEXT"])
def test_a_column_that_this_hermes_has_not_in_that_form_is_not_added(world, shown):
    from watchdog.sqlite.schema import release

    path = world.home / "kanban.db"
    with sqlite3.connect(path) as db:
        for item in release("0.13.0").objects["kanban"]:
            if item.sql:
                db.execute(item.sql)
    before = columns(path)
    outcome = add_column.run(add_column.Args("kanban.db", shown), world)
    assert not outcome.ok and "no such column" in said(outcome) and columns(path) == before


def columns(path: Path) -> set[str]:
    db = sqlite3.connect(path)
    try:
        return {row[1] for row in db.execute("PRAGMA table_info(tasks)")}
    finally:
        db.close()


def test_a_database_that_nothing_else_can_save_is_restored_from_the_watchdogs_own_backup(world):
    from watchdog.sqlite.files import backup_folder
    from watchdog.sqlite.heal import snapshot

    path = sessions(world.home / "state.db")
    assert snapshot(path, backup_folder(world.state, path)).ok
    path.write_bytes(os.urandom(path.stat().st_size))
    outcome = heal_database.run(heal_database.Args("state.db"), world)
    assert outcome.ok and "restored" in said(outcome), outcome
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (50,)
    db.close()

"""What the databases of a home tell a check."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchdog.sources.databases import observe
from watchdog.sqlite.files import backup_folder, is_due, take_due_backups

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    (made / "kanban" / "boards" / "side").mkdir(parents=True)
    for path, rows in ((made / "kanban.db", 500), (made / "kanban" / "boards" / "side" / "kanban.db", 3)):
        db = sqlite3.connect(path)
        db.executescript(
            "CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT); CREATE TABLE task_events (id INTEGER PRIMARY KEY);"
        )
        db.executemany("INSERT INTO tasks VALUES (?, ?)", [(str(n), "x" * 200) for n in range(rows)])
        db.commit()
        db.close()
    return made


def grades(home: Path, state: Path) -> dict[str, str]:
    return {event.facts["database"]: event.facts["grade"] for event in observe(home, NOW, state=state)}


def test_backups_of_boards_are_kept_apart(home, tmp_path):
    state = tmp_path / "state"
    assert take_due_backups(home, state, 3, NOW) == []
    main, side = (
        backup_folder(state, home / "kanban.db"),
        backup_folder(state, home / "kanban" / "boards" / "side" / "kanban.db"),
    )
    assert main != side and list(Path(main).glob("*.db")) and list(Path(side).glob("*.db"))


def test_backups_are_taken_at_most_once_a_day(home, tmp_path):
    state = tmp_path / "state"
    take_due_backups(home, state, 3, NOW)
    assert not is_due(state, NOW.replace(hour=23))
    assert is_due(state, NOW.replace(day=20, hour=11))


def test_a_database_that_was_full_and_is_empty_or_gone_is_broken(home, tmp_path):
    state = tmp_path / "state"
    assert grades(home, state)["kanban.db"] in ("well", "drifted")
    take_due_backups(home, state, 3, NOW)
    (home / "kanban.db").write_bytes(b"")
    assert grades(home, state)["kanban.db"] == "broken"
    (home / "kanban.db").unlink()
    assert grades(home, state)["kanban.db"] == "broken"


def test_an_empty_file_without_a_history_is_a_fresh_install(home, tmp_path):
    (home / "state.db").write_bytes(b"")
    assert grades(home, tmp_path / "state")["state.db"] == "well"


def test_a_directory_or_a_dangling_link_in_place_of_a_database_is_unknown(home, tmp_path):
    (home / "state.db").mkdir()
    (home / "response_store.db").symlink_to(tmp_path / "nowhere")
    found = grades(home, tmp_path / "state")
    assert found["state.db"] == "unknown" and found["response_store.db"] == "unknown"

"""A database that began anew: it is noticed for good, its rows come back beside newer ones, or a person accepts it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import inject
import pytest

from watchdog.sqlite import backup, backups, heal
from watchdog.sqlite.inspect import look
from watchdog.sqlite.schema import release

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)
LATER = 1.9e9  # seconds; after every row that the patient has


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path)
    try:
        with db:
            yield db
    finally:
        db.close()


def begin_anew(path: Path, kind: str, rows: int, version: str = "0.19.0") -> None:
    """What Hermes does when it finds an empty file: makes its tables, and goes on with its next message."""
    path.unlink()
    made = release(version)
    assert made is not None
    with opened(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        for item in made.objects[kind]:
            db.execute(item.sql)
        for number in range(rows):
            at = LATER + number
            if kind == "state":
                db.execute(
                    "INSERT OR IGNORE INTO sessions(id, source, started_at, title) VALUES('new', 'cli', ?, 'chat 1')",
                    (at,),
                )
                db.execute(
                    "INSERT INTO messages(session_id, role, content, timestamp) VALUES('new', 'user', ?, ?)",
                    (f"afterwards {number}", at),
                )
            else:
                db.execute(
                    "INSERT INTO tasks(id, title, status, created_at, workspace_kind, current_run_id) "
                    "VALUES(?, 'new', 'todo', ?, 'scratch', ?)",
                    (f"new_{number}", at, number + 1),
                )
                db.execute(
                    "INSERT INTO task_runs(task_id, status, started_at) VALUES(?, 'done', ?)",
                    (f"new_{number}", at),
                )
                db.execute(
                    "INSERT INTO task_events(task_id, run_id, kind, created_at) VALUES(?, ?, 'note', ?)",
                    (f"new_{number}", number + 1, at),
                )


def lost(path: Path) -> bool:
    return look(path, known=backups.known(path)).anew


@pytest.mark.parametrize("kind", ["state", "kanban"])
@pytest.mark.parametrize("rows", [0, 3, 400])
def test_a_database_that_began_anew_is_noticed_however_much_was_written_since(patient, kind, rows):
    path = patient(kind)
    assert backup.snapshot(path, now=NOW).ok and not lost(path)
    begin_anew(path, kind, rows)
    verdict = look(path, known=backups.known(path))
    assert verdict.anew and verdict.grade in ("well", "drifted")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM messages WHERE id < 60",
        "DELETE FROM messages WHERE id > 60",
        "DELETE FROM messages",
        "INSERT INTO messages(session_id, role, timestamp) SELECT id, 'user', 1.9e9 FROM sessions",
    ],
)
def test_what_was_pruned_on_purpose_is_not_missed(patient, sql):
    path = patient("state")
    backup.snapshot(path, now=NOW)
    with opened(path) as db:
        db.execute(sql)
    assert not lost(path) and look(path, known=backups.known(path)).grade == "well"
    assert backup.snapshot(path, now=NOW + timedelta(days=1)).ok


def test_everything_at_once_is_no_pruning(patient):
    path = patient("state")
    backup.snapshot(path, now=NOW)
    with opened(path) as db:
        db.executescript("DELETE FROM messages; DELETE FROM session_model_usage; DELETE FROM sessions")
    assert lost(path)


def test_an_older_copy_of_the_file_lacks_history_too(patient, tmp_path):
    path = patient("state")
    old = path.read_bytes()
    with opened(path) as db:
        db.execute(
            "INSERT INTO messages(session_id, role, timestamp) SELECT id, 'user', 1.8e9 FROM sessions LIMIT 1"
        )
    backup.snapshot(path, now=NOW)
    for part in ("-wal", "-shm"):
        Path(f"{path}{part}").unlink(missing_ok=True)
    path.write_bytes(old)
    assert lost(path)


def test_no_backup_of_it_pushes_out_what_is_gone(patient):
    path = patient("state")
    good = backup.snapshot(path, keep=1, now=NOW)
    begin_anew(path, "state", 3)
    report = backup.snapshot(path, keep=1, now=NOW + timedelta(days=1))
    assert not report.ok and "db accept" in report.says
    newest = backup.newest(path)
    assert newest is not None and newest.file == good.file


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", ["state", "kanban"])
def test_heal_puts_the_rows_back_beside_newer_ones(patient, well, kind):
    path = patient(kind)
    backup.snapshot(path, now=NOW)
    begin_anew(path, kind, 150)
    new = inject.rows(path)
    report = heal.heal(path)
    assert report.ok and report.lost == 0, report.says
    now, before = inject.rows(path), inject.rows(well[kind])
    table = {"state": "messages", "kanban": "task_events"}[kind]
    assert len(now[table]) == len(before[table]) + len(new[table])
    assert not lost(path) and look(path, deep=True).grade in ("well", "drifted")
    with opened(path) as db:
        if kind == "state":
            assert db.execute("SELECT content FROM messages WHERE id = 1").fetchone() == tuple(
                row[0]
                for row in sqlite3.connect(well[kind]).execute("SELECT content FROM messages WHERE id = 1")
            )
            found = db.execute(
                "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'afterwards'"
            ).fetchone()
            assert found == (150,)
            assert db.execute("SELECT count(*) FROM sessions WHERE title = 'chat 1'").fetchone() == (1,)
        else:
            wrong = "SELECT count(*) FROM task_events e JOIN task_runs r ON r.id = e.run_id WHERE r.task_id <> e.task_id"
            assert db.execute(wrong).fetchone() == (0,)
        db.execute(f"DELETE FROM {table} WHERE rowid > 1000000")
    assert backup.snapshot(path, now=NOW + timedelta(days=1)).ok
    heal.undo(path)


@pytest.mark.usefixtures("in_process")
def test_what_heal_did_can_be_undone(patient):
    path = patient("state")
    backup.snapshot(path, now=NOW)
    begin_anew(path, "state", 3)
    heal.heal(path)
    assert heal.undo(path).ok
    assert len(inject.rows(path)["messages"]) == 3 and lost(path)


def test_a_person_may_accept_the_loss(patient):
    path = patient("state")
    backup.snapshot(path, now=NOW)
    begin_anew(path, "state", 3)
    accepted = backup.accept(path, NOW + timedelta(hours=1))
    assert accepted is not None and accepted["at"] == NOW.isoformat()
    assert not lost(path) and backup.accept(path, NOW + timedelta(hours=2)) is None
    assert backup.snapshot(path, now=NOW + timedelta(days=1)).ok


def test_notes_of_an_older_version_tell_nothing(patient):
    path = patient("state")
    backup.snapshot(path, now=NOW)
    note = next(Path(backups.folder_for(path)).glob("*.json"))
    note.write_text(note.read_text().replace('"mark"', '"was"'))
    begin_anew(path, "state", 3)
    assert not lost(path)

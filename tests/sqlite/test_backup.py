"""Backups: checked before they count, a good one never given for a bad one."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import inject
import pytest

from watchdog.sqlite import backup, backups

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


def test_a_backup_is_whole_private_and_leaves_the_database_alone(patient, well):
    path = patient("state")
    os.chmod(path, 0o644)
    report = backup.snapshot(path, now=NOW)
    assert report.ok, report.says
    assert inject.rows(report.file) == inject.rows(well["state"])
    assert Path(report.file).stat().st_mode & 0o777 == 0o600
    assert Path(report.file).parent.stat().st_mode & 0o777 == 0o700
    assert sorted(one.name for one in path.parent.iterdir()) == ["state.db", "state.db.backups"]
    assert report.rows["messages"] == len(inject.rows(path)["messages"])


def test_only_the_newest_are_kept(patient):
    path = patient("kanban")
    for day in range(5):
        assert backup.snapshot(path, keep=2, now=NOW + timedelta(days=day)).ok
    kept = list(backups.kept(backups.folder_for(path), "kanban.db"))
    assert [one.at[:10] for one in kept] == ["2026-05-23", "2026-05-22"]
    assert len(list(Path(backups.folder_for(path)).iterdir())) == 4


def test_a_backup_is_due_once_a_day(patient):
    path = patient("kanban")
    assert backup.due(path, NOW)
    backup.snapshot(path, now=NOW)
    assert not backup.due(path, NOW + timedelta(hours=23))
    assert backup.due(path, NOW + timedelta(hours=24))


def test_a_damaged_database_gives_no_backup_and_costs_no_good_one(patient):
    path = patient("state")
    good = backup.snapshot(path, keep=1, now=NOW)
    inject.FAULTS["leaf page"](inject.Patient(path, "state", 1))
    report = backup.snapshot(path, keep=1, now=NOW + timedelta(days=1))
    assert not report.ok
    assert "fails its check" in report.says
    newest = backup.newest(path)
    assert newest is not None and newest.file == good.file
    assert len(list(Path(backups.folder_for(path)).iterdir())) == 2


def test_an_emptied_database_does_not_push_out_a_full_backup(patient):
    path = patient("state")
    backup.snapshot(path, keep=1, now=NOW)
    db = sqlite3.connect(path)
    db.executescript("DELETE FROM messages; DELETE FROM session_model_usage; DELETE FROM sessions")
    db.close()
    report = backup.snapshot(path, keep=1, now=NOW + timedelta(days=1))
    assert not report.ok
    assert "db accept" in report.says


def test_a_backup_that_was_changed_since_is_not_trusted(patient):
    path = patient("kanban")
    report = backup.snapshot(path, now=NOW)
    with open(report.file, "r+b") as file:
        file.seek(5000)
        file.write(b"x")
    assert backup.newest(path) is None


def test_no_room_is_said_before_anything_is_written(patient, monkeypatch):
    path = patient("kanban")
    monkeypatch.setattr(backup, "free_bytes", lambda folder: 1000)
    report = backup.snapshot(path, now=NOW)
    assert not report.ok
    assert "no room" in report.says
    assert list(Path(backups.folder_for(path)).iterdir()) == []


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_backup_beside_a_writer_is_consistent(patient, mode):
    path = patient("kanban")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sqlite3, sys\n"
                "db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)\n"
                "print('up', flush=True)\n"
                "for n in range(4000):\n"
                "    db.execute('BEGIN'); db.execute(\"INSERT INTO task_links VALUES(?, 'a')\", (f'p{n}',))\n"
                "    db.execute(\"INSERT INTO task_comments(task_id, author, body, created_at) VALUES(?, 'w', 'x', 1)\", (f'p{n}',))\n"
                "    db.execute('COMMIT')\n"
            ),
            str(path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout and child.stdout.readline() == "up\n"
    reports = [backup.snapshot(path, now=NOW + timedelta(days=day)) for day in range(4)]
    child.communicate()
    assert child.returncode == 0
    for report in reports[-3:]:
        assert report.ok, report.says
        rows = inject.rows(report.file)
        links = sum(row[1] == b"a" for row in rows["task_links"].values())
        comments = sum(row[2] == b"w" for row in rows["task_comments"].values())
        assert links == comments
        assert report.sha256 == backup.sha256(report.file)


@pytest.mark.parametrize("state", ["at rest", "open with a -wal", "DELETE mode"])
def test_a_backup_needs_no_sidecars_and_is_known_by_its_hash(patient, well, state):
    path = patient("kanban")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if state == "open with a -wal":
            db.execute("INSERT INTO task_links VALUES('late', 'row')")
        elif state == "DELETE mode":
            db.execute("PRAGMA journal_mode=DELETE")
        report = backup.snapshot(path, now=NOW)
    assert report.ok, report.says
    assert Path(report.file).read_bytes()[18:20] == b"\1\1"
    assert report.sha256 == backup.sha256(report.file)
    late = state == "open with a -wal"
    assert (
        len(inject.rows(report.file)["task_links"]) == len(inject.rows(well["kanban"])["task_links"]) + late
    )


def test_a_backup_tells_how_far_it_is(patient):
    heard: list[str] = []
    assert backup.snapshot(patient("kanban"), now=NOW, pace=backup.Pace(True, heard.append)).ok
    assert [text.split(": ")[1] for text in heard] == ["copying", "checking the copy"]


def test_a_row_that_breaks_a_check_of_its_table_makes_no_good_backup(tmp_path):
    path = tmp_path / "kanban.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE tasks(id INTEGER PRIMARY KEY, status TEXT CHECK(status <> 'nonsense'))")
        db.execute("PRAGMA ignore_check_constraints=ON")
        db.execute("INSERT INTO tasks(status) VALUES('nonsense')")
        db.commit()
    report = backup.snapshot(path, now=NOW)
    assert not report.ok and "CHECK constraint failed" in report.says

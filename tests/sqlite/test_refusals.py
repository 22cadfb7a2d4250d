"""What is refused names its own reason and the one thing to do, in both languages, and leaves everything as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import inject
import pytest

from watchdog.cli.db_report import closing
from watchdog.errors import WatchdogError
from watchdog.model import Phrase
from watchdog.reports.language import reader_of
from watchdog.sqlite import quarantine
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.backups import known
from watchdog.sqlite.heal import heal, migrate, undo
from watchdog.sqlite.inspect import look
from watchdog.sqlite.schema import release

CHINESE = reader_of("zh", None, datetime.now(UTC))


def refused(act: Callable[[], object]) -> str:
    """The English of a refusal, which has Chinese, too."""
    with pytest.raises(WatchdogError) as raised:
        act()
    text = str(raised.value)
    assert isinstance(text, Phrase)
    assert not set("；，。").isdisjoint(CHINESE.phrase(text))
    return text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "mode=0700,size=8m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_up(disk: Path) -> None:
    with (
        open(disk / "ballast", "wb", buffering=0) as ballast,
        pytest.raises(OSError, match="No space"),
    ):
        while True:
            ballast.write(bytes(4096))


@pytest.mark.parametrize("act", [heal, undo, lambda path: heal(path, dry_run=True)])
def test_a_link_into_a_folder_that_is_gone_is_refused(tmp_path, act):
    path = tmp_path / "state.db"
    path.symlink_to("/nowhere/state.db")
    assert "there is no folder /nowhere" in refused(lambda: act(path))


@pytest.mark.parametrize("mark", [True, False])
def test_an_emptied_file_never_takes_the_place_of_a_backup(patient, mark):
    path = patient("state" if mark else "response_store")
    held = dict(snapshot(path).rows)
    path.write_bytes(b"")
    report = snapshot(path)
    assert not report.ok and "it is empty (0 bytes)" in report.says
    assert known(path)["rows"] == held


def test_a_database_without_its_tables_never_takes_the_place_of_a_backup(patient):
    path = patient("state")
    held = dict(snapshot(path).rows)
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE other(x)")
    report = snapshot(path)
    assert not report.ok and "db accept" in report.says
    assert known(path)["rows"] == held


def test_an_undo_on_a_read_only_disk_changes_nothing_and_says_why(patient, small_disk):
    path = small_disk / "kanban.db"
    shutil.copyfile(patient("kanban", "leaf page"), path)
    heal(path)
    healed = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "mounted read-only" in refused(lambda: undo(path))
    assert path.read_bytes() == healed


def test_an_undo_on_a_full_disk_changes_nothing_and_leaves_nothing(patient, small_disk):
    path = small_disk / "kanban.db"
    shutil.copyfile(patient("kanban", "leaf page"), path)
    heal(path)
    healed, before = path.read_bytes(), sorted(os.listdir(small_disk))
    fill_up(small_disk)
    assert "the disk is full" in refused(lambda: undo(path))
    assert path.read_bytes() == healed
    assert sorted(os.listdir(small_disk)) == sorted([*before, "ballast"])


@pytest.mark.parametrize("last", ["copied main", "quarantined", "dressed", "journal built"])
def test_a_disk_that_fills_at_any_step_of_a_heal_leaves_the_file_as_it_is(
    patient, small_disk, monkeypatch, last
):
    path = small_disk / "kanban.db"
    shutil.copyfile(patient("kanban", "leaf page"), path)
    damaged = path.read_bytes()

    def fill(name: str) -> None:
        if name == last:
            fill_up(small_disk)

    monkeypatch.setattr(quarantine, "step", fill)
    try:
        report = heal(path)
    except WatchdogError as error:
        assert "the disk is full" in str(error)
        assert path.read_bytes() == damaged
    else:  # what was left to do needs no room
        assert report.after.grade == "well"
    monkeypatch.undo()
    (small_disk / "ballast").unlink(missing_ok=True)
    assert heal(path).after.grade == "well"


def test_a_writer_that_arrives_during_an_undo_keeps_its_rows(patient, monkeypatch):
    path = patient("kanban", "leaf page")
    heal(path)

    def write(name: str) -> None:
        if name == "undo copied":
            with sqlite3.connect(path) as db:
                db.execute("UPDATE tasks SET title = 'late'")
            db.close()

    monkeypatch.setattr(quarantine, "step", write)
    assert "something still writes to it" in refused(lambda: undo(path))
    assert {row[0] for row in sqlite3.connect(path).execute("SELECT title FROM tasks")} == {"late"}
    assert [name for name in os.listdir(path.parent) if name.endswith(".undo")] == []


def test_a_process_is_named_once_with_all_that_it_has_open(patient):
    path = patient("kanban", "magic byte")
    wal = Path(f"{path}-wal")
    wal.touch()
    with path.open("rb") as main, wal.open("rb") as log:
        child = subprocess.Popen(["sleep", "60"], stdin=main, stdout=log)
        try:
            says = refused(lambda: heal(path))
        finally:
            child.kill()
            child.wait()
    assert f"process {child.pid} (sleep) has kanban.db, kanban.db-wal open; stop it first" in says


def test_an_empty_file_is_not_called_healed_by_a_dry_run(tmp_path):
    path = tmp_path / "state.db"
    path.touch()
    report = heal(path, dry_run=True)
    assert (report.ok, report.strategy) == (False, "")
    assert "nothing was changed" in closing(report, reader_of("en", None, datetime.now(UTC)))


def test_columns_are_not_added_where_there_is_no_database(tmp_path):
    reference = release("0.19.0")
    says = refused(lambda: migrate(tmp_path / "kanban.db", reference=reference))
    assert "no such file" in says and "heal" not in says


def test_a_first_page_that_the_disk_does_not_give_is_damage_that_is_healed(patient, well, monkeypatch):
    path = patient("kanban")
    real, inode = os.pread, path.stat().st_ino

    def failing(fd: int, size: int, offset: int) -> bytes:
        if offset < 4096 and os.fstat(fd).st_ino == inode:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    verdict = look(path)
    assert verdict.grade == "broken" and "the disk" in verdict.fault
    report = heal(path)
    monkeypatch.undo()
    assert report.strategy and inject.rows(path) == inject.rows(well["kanban"])

"""The healer's word: what it calls whole is whole, and what it cannot prove it says."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import struct
import subprocess
from pathlib import Path

import inject
import pytest

from watchdog.cli import db as cli
from watchdog.cli.db_report import heal_as_json
from watchdog.errors import WatchdogError
from watchdog.sqlite import copies, quarantine, schema
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.faults import Fault
from watchdog.sqlite.heal import heal, migrate, undo
from watchdog.sqlite.inspect import look
from watchdog.sqlite.witnesses import Disagreement, WitnessKind, sentences

pytestmark = pytest.mark.usefixtures("in_process")


def kinds(verdict) -> set[str]:
    return {str(reason.key) for reason in verdict.faults}


def write(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


# --- 1: witnesses


def test_a_table_whose_first_page_became_an_empty_leaf_gets_its_rows_back(patient, well):
    path = patient("kanban")
    root = inject.anatomy(path).roots["tasks"]
    empty = struct.pack(">BHHHB", 13, 0, 0, 4096, 0) + bytes(4088)
    write(path, (root - 1) * 4096, empty)
    report = heal(path)
    assert report.ok, report.says
    assert inject.rows(path) == inject.rows(well["kanban"])


def test_a_row_that_a_good_index_disproves_is_doubtful_and_not_made_true(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
    db.execute("CREATE INDEX by_name ON t(name)")
    db.executemany("INSERT INTO t(name) VALUES(?)", [(f"name {number:04}",) for number in range(300)])
    db.commit()
    db.close()
    data = path.read_bytes()
    leaf = inject.anatomy(path).leaves["t"][1]
    at = data.index(b"name 02", (leaf - 1) * 4096)
    write(path, at, b"lame")
    report = heal(path)
    assert not report.ok
    ((table, rowids),) = report.doubtful.items()
    assert (table, len(rowids)) == ("t", 1)
    assert any("by_name" in text for text in report.says)
    assert "doubtful" in heal_as_json(report)["closing"]


def test_foreign_keys_tell_of_a_parent_that_nothing_else_names(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE parent(id INTEGER PRIMARY KEY, t TEXT);"
        "CREATE TABLE child(id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent(id));"
        "CREATE INDEX by_p ON child(p);"
    )
    db.executemany("INSERT INTO parent VALUES(?, ?)", [(n, "x" * 300) for n in range(1, 101)])
    db.executemany("INSERT INTO child(p) VALUES(?)", [(n,) for n in range(1, 101)])
    db.commit()
    db.close()
    last = inject.anatomy(path).leaves["parent"][-1]
    write(path, (last - 1) * 4096 + 3, struct.pack(">H", 1))  # all but the first row of the last leaf
    report = heal(path)
    assert not report.ok
    assert report.lost_most + report.in_doubt > 0


def test_fewer_rows_than_the_last_backup_are_said_where_nothing_proves_them(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t(a TEXT)")
    db.executemany("INSERT INTO t VALUES(?)", [("x" * 90,) for _ in range(200)])
    db.commit()
    assert snapshot(path).ok
    db.execute("DELETE FROM t WHERE rowid > 150")
    db.commit()
    db.close()
    write(path, 0, b"SQLit\x17")
    report = heal(path)
    assert not report.ok
    assert any("backup has 50 rows more" in text for text in report.says)


# --- 2: the end of the image


@pytest.mark.parametrize("share", [20, 2])
def test_a_header_that_counts_too_few_pages_costs_no_row(patient, well, share):
    path = patient("state")
    pages = path.stat().st_size // 4096
    write(path, 28, struct.pack(">I", pages // share))
    verdict = look(path)
    assert verdict.grade == "damaged" and Fault.LONGER in kinds(verdict)
    taken = snapshot(path)
    assert not taken.ok, taken.says
    assert heal(path).ok
    assert inject.rows(path) == inject.rows(well["state"])


def test_an_old_page_one_whose_count_is_too_small_is_not_called_whole(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE first(a TEXT)")
    db.execute("INSERT INTO first VALUES('x')")
    db.commit()
    page_one = path.read_bytes()[:4096]
    db.execute("CREATE TABLE second(a TEXT)")
    db.executemany("INSERT INTO second VALUES(?)", [("y" * 500,) for _ in range(50)])
    db.commit()
    db.close()
    write(path, 0, page_one)
    assert look(path).grade == "damaged"
    report = heal(path)
    assert not report.ok
    assert not snapshot(path, tmp_path / "elsewhere").ok or report.strategy


# --- 3: journal and WAL


def crashed(path: Path, folder: Path, part: str) -> Path:
    folder.mkdir()
    for name in ("", part):
        shutil.copyfile(f"{path}{name}", folder / f"{path.name}{name}")
    return folder / path.name


def with_hot_journal(path: Path, folder: Path) -> Path:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=DELETE")
    db.execute("PRAGMA cache_size=3")
    db.execute("BEGIN")
    db.execute("UPDATE tasks SET title = 'half done', body = body || 'x'")
    copy = crashed(path, folder, "-journal")
    db.execute("ROLLBACK")
    db.close()
    return copy


def test_a_journal_left_by_a_crash_is_no_damage(patient, tmp_path):
    path = with_hot_journal(patient("kanban"), tmp_path / "crash")
    before = path.read_bytes()
    for deep in (False, True):
        verdict = look(path, deep=deep)
        assert verdict.grade == "well", verdict.fault
        assert "takes the unfinished transaction back" in " ".join(verdict.detail)
    assert path.read_bytes() == before
    assert snapshot(path, tmp_path / "backups").ok


@pytest.mark.parametrize("damage", ["header", "leaf"])
def test_a_hot_journal_is_rolled_back_whatever_else_is_broken(patient, well, tmp_path, damage):
    path = patient("kanban")
    leaf = inject.anatomy(path).leaves["idx_tasks_status"][0]
    path = with_hot_journal(path, tmp_path / "crash")
    write(path, 0, bytes(100)) if damage == "header" else write(path, (leaf - 1) * 4096, bytes(4096))
    report = heal(path)
    assert inject.rows(path) == inject.rows(well["kanban"])
    assert report.after.grade == "well"
    assert not os.path.exists(f"{path}-journal")


def test_a_journal_whose_super_journal_is_gone_was_committed(tmp_path):
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    for path in (one, two):
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE t(a)")
        db.execute("INSERT INTO t VALUES(1)")
        db.commit()
        db.close()
    data = one.read_bytes()
    name = os.fsencode(tmp_path / "gone-mj123")
    page = struct.pack(">I", 2) + bytes(4096)
    head = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + struct.pack(">5I", 1, 0, 2, 512, 4096)
    journal = head.ljust(512, b"\0") + page + struct.pack(">I", 0)
    journal += struct.pack(">I", 1 << 18) + name + struct.pack(">2I", len(name), sum(name)) + head[:8]
    Path(f"{one}-journal").write_bytes(journal)
    assert look(one).grade == "well"
    assert one.read_bytes() == data


def with_bad_frame(path: Path, folder: Path, frame: int) -> tuple[Path, set[bytes]]:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA wal_autocheckpoint=0")
    for number in range(30):
        db.execute("INSERT INTO task_links VALUES(?, 'only in the wal')", (f"p{number}",))
    copy = crashed(path, folder, "-wal")
    db.close()
    data = bytearray(Path(f"{copy}-wal").read_bytes())
    data[32 + frame * (4096 + 24) + 24 + 2000] ^= 0xFF
    Path(f"{copy}-wal").write_bytes(data)
    return copy, {b"p%d" % number for number in range(30)}


@pytest.mark.parametrize("frame", [0, 7, 20])
def test_committed_rows_behind_a_bad_frame_of_the_wal_are_found_and_used(patient, tmp_path, frame):
    path, rows = with_bad_frame(patient("kanban"), tmp_path / "crash", frame)
    verdict = look(path, deep=True)
    assert verdict.grade == "damaged" and Fault.TORN_WAL in kinds(verdict)
    report = heal(path)
    kept = {row[0] for row in inject.rows(path)["task_links"].values() if row[1] == b"only in the wal"}
    assert kept == rows or not report.ok
    assert len(kept) > 20


# --- 4: what was not swapped in


def test_a_writer_that_arrives_during_the_heal_keeps_its_file(patient, monkeypatch):
    path = patient("kanban", "index page")

    def write_meanwhile(name: str) -> None:
        if name == "journal built":
            db = sqlite3.connect(path, isolation_level=None)
            db.execute("CREATE TABLE late(x)")
            db.execute("INSERT INTO late VALUES('new')")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.close()

    monkeypatch.setattr(quarantine, "step", write_meanwhile)
    with pytest.raises(WatchdogError, match="nothing was swapped in"):
        heal(path)
    monkeypatch.undo()
    db = sqlite3.connect(path)
    assert db.execute("SELECT x FROM late").fetchone() == ("new",)
    db.close()
    assert undo(path).says == (f"{path}: no repair of it is left to undo; nothing was done",)
    assert look(path).grade != "unknown"


@pytest.mark.parametrize("step", ["quarantined", "journal built", "swapped"])
def test_a_repair_that_was_cut_short_is_told_and_its_resume_tells_the_losses(patient, steps_of_a_heal, step):
    path = patient("state", "leaf page")
    lost = heal(path, dry_run=True).lost
    steps_of_a_heal(path, step)
    verdict = look(path)
    assert verdict.grade == "damaged" and Fault.UNFINISHED in kinds(verdict)
    report = heal(path)
    assert report.lost == lost > 0
    assert not report.ok
    assert look(path).grade == "well"
    assert not any("healed before" in text for text in report.says)
    assert undo(path).ok


# --- 5: counts


def test_a_lost_part_of_a_table_without_rowid_is_counted(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t(k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    db.executemany("INSERT INTO t VALUES(?, ?)", [(f"{n:06}", "v" * 20) for n in range(9000)])
    db.commit()
    db.close()
    write(path, (inject.anatomy(path).roots["t"] - 1) * 4096, bytes(4096))
    report = heal(path)
    db = sqlite3.connect(path)
    gone = 9000 - db.execute("SELECT count(*) FROM t").fetchone()[0]
    db.close()
    result = report.tables["t"]
    assert result.lost <= gone <= result.lost_most
    assert gone < 100, "the leaves are all there; only what lay on the root itself is gone"


def test_the_closing_sentence_has_every_number(patient):
    report = heal(patient("state", "leaf page"))
    assert heal_as_json(report)["closing"].startswith(
        f"{report.lost} of 118 rows are lost (messages {report.lost}); "
    )
    assert "the broken file is kept in" in heal_as_json(report)["closing"]
    assert (
        "; undo: " in heal_as_json(report)["closing"]
        and "hermes-watchdog db undo " in heal_as_json(report)["closing"]
    )


# --- 6: more is saved


def test_rows_of_a_leaf_without_header_are_carved_and_marked(patient, well):
    path = patient("kanban")
    leaf = inject.anatomy(path).leaves["tasks"][0]
    write(path, (leaf - 1) * 4096, bytes(40))
    report = heal(path)
    before, after = inject.rows(well["kanban"])["tasks"], inject.rows(path)["tasks"]
    assert not report.ok
    assert all(before[rowid] == row for rowid, row in after.items())
    assert report.tables["tasks"].doubtful > 0


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_the_encoding_is_found_when_page_one_is_gone(tmp_path, encoding):
    path = tmp_path / "kanban.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA encoding='{encoding}'")
    inject.fill(db, "kanban", "0.19.0", 80, inject.random.Random(3))
    db.close()
    before = inject.rows(path)
    write(path, 0, bytes(4096))
    report = heal(path)
    assert inject.rows(path) == before, report.says
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA encoding").fetchone()[0] == encoding
    db.close()


def test_a_failing_disk_is_copied_around(patient, monkeypatch, tmp_path):
    path = patient("kanban", "magic byte")
    leaf = inject.anatomy(patient("kanban")).leaves["task_events"][0]
    path = patient("kanban", "magic byte")
    real, inode = os.pread, path.stat().st_ino

    def failing(fd: int, size: int, offset: int) -> bytes:
        bad = (leaf - 1) * 4096
        if os.fstat(fd).st_ino == inode and offset < bad + 4096 and offset + size > bad and size > 100:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    copy = tmp_path / "copy"
    assert copies.copy_around(str(path), copy).unreadable == 4096
    monkeypatch.undo()
    expected = bytearray(path.read_bytes())
    expected[(leaf - 1) * 4096 : leaf * 4096] = bytes(4096)
    assert copy.read_bytes() == expected


def test_swapped_roots_are_known_by_their_rows(patient, well):
    path = patient("kanban")
    roots = inject.anatomy(path).roots
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA writable_schema=ON")
    for one, two in (("tasks", "task_events"), ("task_events", "tasks")):
        db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (roots[two], one))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    report = heal(path)
    assert inject.rows(path) == inject.rows(well["kanban"])
    assert report.after.grade == "well"


@pytest.mark.parametrize("fault", ["interior page", "table root page"])
def test_a_destroyed_interior_page_is_made_anew_in_its_place(patient, well, fault):
    path = patient("state", fault)
    report = heal(path)
    assert (report.ok, report.strategy) == (True, "interior pages rebuilt")
    assert path.stat().st_size == well["state"].stat().st_size
    assert inject.rows(path) == inject.rows(well["state"])


def test_an_overwritten_leaf_of_a_table_without_rowid_is_not_called_whole(tmp_path):
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t(k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    db.executemany("INSERT INTO t VALUES(?, ?)", [(f"{n:06}", "v" * 20) for n in range(3000)])
    db.commit()
    db.close()
    one, two = inject.anatomy(path).leaves["t"][2:4]
    write(path, (two - 1) * 4096, path.read_bytes()[(one - 1) * 4096 : one * 4096])
    report = heal(path)
    db = sqlite3.connect(path)
    gone = 3000 - db.execute("SELECT count(*) FROM t").fetchone()[0]
    db.close()
    assert not report.ok
    assert report.lost <= gone <= report.lost_most


# --- 7: where it is run


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
def test_a_read_only_mount_is_refused_with_its_reason(well, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no permission to mount")
    try:
        (disk / "state.db").write_bytes(bytes(100) + well["state"].read_bytes()[100:])
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert look(disk / "state.db", deep=True).grade == "broken"
        for dry_run in (True, False):
            with pytest.raises(WatchdogError, match=r"mount it for writing|mounted read-only"):
                heal(disk / "state.db", dry_run=dry_run)
        assert "read-only" in snapshot(disk / "state.db").says.lower()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be led astray")
def test_root_backs_nothing_up_through_a_link_of_a_user(public_folder, well):
    home, victim = public_folder / "home", public_folder / "victim"
    for folder in (home, victim):
        folder.mkdir()
    shutil.copyfile(well["kanban"], home / "kanban.db")
    (home / "kanban.db.backups").symlink_to(victim)
    os.chown(home, 65534, 65534)
    os.chown(home / "kanban.db", 65534, 65534)
    os.lchown(home / "kanban.db.backups", 65534, 65534)
    for owner in (0, 1234):
        os.chown(victim, owner, owner)
        assert not snapshot(home / "kanban.db").ok
        assert list(victim.iterdir()) == []


def test_missing_tables_get_a_next_step(patient, capsys, monkeypatch):
    path = patient("state")
    db = sqlite3.connect(path)
    db.execute("DROP TABLE session_model_usage")
    db.close()
    import argparse

    from watchdog.sqlite import installed

    monkeypatch.setattr(installed, "installed", lambda home=None, python="": None)
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser.add_subparsers())
    cli.run(parser.parse_args(["db", "check", str(path)]))
    assert "Hermes makes missing tables at its next start" in capsys.readouterr().out
    path = patient("state", "FTS trigger lost")
    cli.run(parser.parse_args(["db", "check", str(path)]))
    assert "db heal" in capsys.readouterr().out


# --- 10: newer schemas


def test_a_schema_newer_than_any_known_is_not_damaged_and_not_migrated(tmp_path):
    path = inject.make(tmp_path / "state.db", "state", "0.19.0", size=20)
    inject.Patient(path, "state", 1).sql(
        "UPDATE schema_version SET version = 30", "DROP TRIGGER messages_fts_insert"
    )
    verdict = look(path)
    assert verdict.grade == "well"
    assert Fault.NEWER in kinds(verdict)
    with pytest.raises(WatchdogError, match="newer than"):
        migrate(path, reference=schema.release("0.19.0"))


def test_the_newest_known_version_is_that_of_the_newest_release():
    table = json.loads(Path(schema.__file__).with_name("schemas.json").read_text())
    assert max(table["state_version"].values()) == schema.NEWEST_STATE_VERSION


def search(path: Path, table: str, word: str) -> int:
    db = sqlite3.connect(path)
    try:
        return db.execute(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", (word,)).fetchone()[0]
    finally:
        db.close()


@pytest.mark.parametrize(
    "fault", ["", "FTS segment", "FTS structure", "interior page", "leaf page", "magic byte"]
)
def test_full_text_over_external_content_is_rebuilt(tmp_path, fault):
    path = inject.make(tmp_path / "state.db", "state", "0.20.5", size=150)
    before, hits = inject.rows(path), search(path, "messages_fts_trigram", '"gateway"')
    assert hits and look(path, deep=True).grade == "well"
    if not fault:
        return
    inject.FAULTS[fault](inject.Patient(path, "state", 2))
    report = heal(path)
    assert report.after.grade == "well", (report.after.fault, report.says)
    if fault == "leaf page":
        assert report.lost > 0
    else:
        assert report.ok and inject.rows(path) == before
        assert search(path, "messages_fts_trigram", '"gateway"') == hits


def test_every_witness_has_a_sentence():
    for witness in WitnessKind:
        assert sentences([Disagreement(witness, "tasks", 3, "idx")])
    for fault in Fault:
        assert fault.english

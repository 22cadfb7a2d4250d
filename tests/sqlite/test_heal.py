"""Healing: every row is identical afterwards, or counted; nothing is done to a file that is in use."""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import subprocess
from pathlib import Path

import inject
import pytest
from effort import rounds

from watchdog.errors import WatchdogError
from watchdog.sqlite import in_use, openers
from watchdog.sqlite.heal import HealReport, heal, undo
from watchdog.sqlite.inspect import look

pytestmark = pytest.mark.usefixtures("in_process")

LOSSLESS = (
    "magic byte",
    "magic 16 bytes",
    "TLS record, 31 bytes",
    "TLS record, 1500 bytes",
    "first 100 bytes zero",
    "page 1 zero",
    "wrong page size",
    "illegal page size",
    "interior page",
    "table root page",
    "schema page",
    "duplicate schema row",
    "index page",
    "freelist page",
    "freelist count",
    "FTS page",
    "FTS structure",
    "FTS segment",
    "FTS rows missing",
    "FTS trigger lost",
)


def unaccounted(before: dict, after: dict, report: HealReport) -> list[str]:
    """Tables where more rows are gone or changed than the report admits."""
    found = []
    for table, rows in before.items():
        bad = sum(after.get(table, {}).get(rowid) != row for rowid, row in rows.items())
        told = report.tables[table].lost + report.tables[table].reconstructed if table in report.tables else 0
        extra = len(after.get(table, {}).keys() - rows.keys())
        if bad > told or extra:
            found.append(f"{table}: {bad} rows differ, {told} told, {extra} new")
    return found


def can_have(kind: str, fault: str) -> bool:
    """Whether a database of this kind holds what the fault destroys: a full-text index, a page besides the root."""
    if fault.startswith("FTS") or fault == "table root page":
        return kind == "state"
    return (kind, fault) != ("response_store", "interior page")


KINDS = ("state", "kanban", "response_store")


@pytest.mark.parametrize(
    ("fault", "kind"), [(fault, kind) for fault in LOSSLESS for kind in KINDS if can_have(kind, fault)]
)
def test_these_faults_cost_no_row(patient, well, kind, fault):
    before = inject.rows(well[kind])
    path = patient(kind, fault)
    report = heal(path)
    after = inject.rows(path)
    assert after == before
    assert report.after.grade == "well", report.after.fault
    assert report.ok


@pytest.mark.parametrize("kind", ["state", "kanban", "response_store"])
def test_healing_a_healed_file_does_nothing(patient, kind):
    path = patient(kind, "index page")
    assert heal(path).strategy != "" and heal(path).strategy == ""


@pytest.mark.parametrize("kind", ["state", "kanban", "response_store"])
@pytest.mark.parametrize(
    "fault", ["leaf page", "5 leaf pages", "overflow chain", "parent-table leaf", "part of a leaf"]
)
def test_what_is_lost_is_counted_and_the_rest_is_identical(patient, well, kind, fault):
    before = inject.rows(well[kind])
    path = patient(kind, fault, seed=3)
    report = heal(path)
    after = inject.rows(path)
    if report.strategy:
        assert unaccounted(before, after, report) == []
        assert set(before) == set(after)
    else:
        assert report.after.grade == "damaged" or after == before  # left as it was, and said so


@pytest.mark.parametrize("kind", ["state", "kanban", "response_store"])
@pytest.mark.parametrize("odd", ["", ", odd"])
def test_a_cut_file_keeps_every_row_that_is_still_in_it(patient, well, kind, odd):
    before = inject.rows(well[kind])
    path = patient(kind, f"cut to 60 %{odd}")
    report = heal(path)
    after = inject.rows(path)
    assert not report.ok, "rows are lost, and that is not called good"
    for table, rows in after.items():
        altered = [rowid for rowid, row in rows.items() if before[table].get(rowid) != row]
        assert len(altered) <= report.tables[table].reconstructed
    assert sum(len(rows) for rows in after.values()) > 0


@pytest.mark.parametrize("bytes_gone", [1, 6, 700])
def test_a_row_whose_end_is_cut_off_is_lost_and_not_filled_up_with_zeros(tmp_path, bytes_gone):
    path = inject.make(tmp_path / "kanban.db", "kanban", size=150, free=False)
    before = inject.rows(path)
    os.truncate(path, path.stat().st_size - bytes_gone)
    report = heal(path)
    after = inject.rows(path)
    gone = {table: sorted(rows.keys() - after[table].keys()) for table, rows in before.items()}
    assert all(before[table][rowid] == row for table, rows in after.items() for rowid, row in rows.items())
    assert sum(map(len, gone.values())) == report.lost > 0
    assert (report.ok, report.after.grade) == (False, "well")


def test_a_file_that_lost_its_header_and_its_end_is_not_called_whole(tmp_path):
    path = inject.make(tmp_path / "response_store.db", "response_store", size=150)
    before = inject.rows(path)
    os.truncate(path, path.stat().st_size // 4096 // 3 * 4096)
    inject.Patient(path, "response_store", 1).write(0, bytes(600))
    report = heal(path)
    after = inject.rows(path)
    gone = sum(len(rows.keys() - after[table].keys()) for table, rows in before.items())
    assert not report.ok
    assert 0 < gone <= report.lost_most


@pytest.mark.parametrize("version", ["0.13.0", "0.19.0"])
def test_a_lost_schema_page_comes_back_as_wide_as_its_rows(tmp_path, version):
    path = inject.make(tmp_path / "kanban.db", "kanban", version, size=60)
    before = inject.rows(path)
    inject.Patient(path, "kanban", 1).page(1, bytes(4096))
    assert heal(path).ok
    assert inject.rows(path) == before


@pytest.mark.parametrize(
    ("name", "word", "known"), [("tasks", b"CREATE TABLE tasks", True), ("mine", b"mine(a ", False)]
)
def test_what_a_damaged_schema_says_of_a_table_is_taken_from_elsewhere_or_its_rows_are_lost(
    tmp_path, name, word, known
):
    path = inject.make(tmp_path / "kanban.db", "kanban", size=60)
    inject.Patient(path, "kanban", 1).sql(
        "CREATE TABLE mine(a INTEGER, b TEXT)", "INSERT INTO mine VALUES(1, 'x'), (2, 'y')"
    )
    before = inject.rows(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(word, word[:-2] + b"\0(" if not known else word[:8] + b"\0" + word[9:], 1))
    report = heal(path)
    after = inject.rows(path)
    assert {table: after.get(table) for table in before if table != "mine"} == {
        table: rows for table, rows in before.items() if table != "mine"
    }
    assert report.ok == known
    assert report.tables["mine"].lost == (0 if known else 2)
    assert any(name in text for text in report.says)


def test_a_schema_format_that_does_not_exist_is_a_broken_header(patient, well):
    path = patient("kanban")
    inject.Patient(path, "kanban", 1).write(44, b"\x07")
    assert look(path).grade == "broken"
    assert heal(path).ok
    assert inject.rows(path) == inject.rows(well["kanban"])


def test_an_interior_page_of_which_only_the_header_is_left_costs_no_row(tmp_path):
    path = inject.make(tmp_path / "response_store.db", "response_store", size=150)
    before, root = inject.rows(path), inject.anatomy(path).roots["responses"]
    inject.Patient(path, "response_store", 1).write((root - 1) * 4096 + 600, bytes(4096 - 600))
    assert heal(path).ok
    assert inject.rows(path) == before


def test_one_damaged_rowid_does_not_condemn_the_rows_behind_it(tmp_path):
    path = inject.make(tmp_path / "kanban.db", "kanban", size=150, free=False)
    before, leaf = inject.rows(path), inject.anatomy(path).leaves["task_events"][0]
    with open(path, "rb") as file:
        file.seek((leaf - 1) * 4096 + 8 + 2 * 3)
        cell = int.from_bytes(file.read(2), "big")
    inject.Patient(path, "kanban", 1).write((leaf - 1) * 4096 + cell + 1, b"\xff\xff\x7f")
    report = heal(path)
    after = inject.rows(path)
    differ = [rowid for rowid, row in before["task_events"].items() if after["task_events"].get(rowid) != row]
    assert 1 <= len(differ) <= 2, "the row itself, and at most the one that it now runs into"
    assert unaccounted(before, after, report) == []
    assert not report.ok


def test_random_faults_never_alter_a_row_in_silence(well, tmp_path):
    rng = random.Random(20261116)
    before = {kind: inject.rows(path) for kind, path in well.items()}
    for round_ in range(rounds(5)):
        kind = rng.choice(["state", "kanban", "response_store"])
        folder = tmp_path / str(round_)
        folder.mkdir()
        path = folder / f"{kind}.db"
        data = bytearray(well[kind].read_bytes())
        for _ in range(rng.randint(1, 3)):
            at, size = rng.randrange(len(data)), rng.choice([1, 16, 512, 4096, 9000])
            if rng.random() < 0.5:
                at -= at % 4096
            data[at : at + size] = (
                rng.randbytes(min(size, len(data) - at))
                if rng.random() < 0.6
                else bytes(min(size, len(data) - at))
            )
        path.write_bytes(data)
        report = heal(path)
        if report.strategy in ("", "set aside"):
            assert report.before.grade == "well" or not report.ok
            continue
        after = inject.rows(path)
        if report.ok:
            wrong = unaccounted(before[kind], after, report)
            assert wrong == [], f"round {round_}, {report.strategy}: {wrong}"
        for table, rows in after.items():
            altered = sum(before[kind][table].get(rowid, row) != row for rowid, row in rows.items())
            assert altered <= report.tables[table].reconstructed + _single_bytes(before[kind][table], rows), (
                f"round {round_}: {table}, {report.strategy}, {report.says}"
            )


def _single_bytes(before: dict, after: dict) -> int:
    """Rows that differ in a number or in one letter: nothing in the file can tell, and no one claims to."""
    count = 0
    for rowid, row in after.items():
        old = before.get(rowid, row)
        for mine, theirs in zip(old, row, strict=True):
            if mine != theirs:
                if (
                    not isinstance(mine, bytes)
                    or not isinstance(theirs, bytes)
                    or sum(a != b for a, b in zip(mine, theirs, strict=False)) + abs(len(mine) - len(theirs))
                    <= 16
                ):
                    count += 1
                break
    return count


def test_rows_in_the_wal_are_kept_when_the_header_is_gone(patient, tmp_path):
    path = patient("kanban")
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("PRAGMA wal_autocheckpoint=0")
    for number in range(60):
        live.execute(
            "INSERT INTO task_comments(task_id, author, body, created_at) VALUES('t', 'me', ?, 1)",
            (f"only in the wal {number}",),
        )
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for part in ("", "-wal"):
        (crashed / f"kanban.db{part}").write_bytes(Path(f"{path}{part}").read_bytes())
    live.close()
    healed = crashed / "kanban.db"
    with open(healed, "r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096))
        file.seek(0)
        file.write(bytes(100))
    report = heal(healed)
    assert report.after.grade in ("well", "damaged")
    kept = [row for row in inject.rows(healed)["task_comments"].values() if b"only in the wal" in row[3]]
    assert len(kept) == 60
    assert not os.path.exists(f"{healed}-wal")


def test_an_older_wal_is_left_out(patient):
    path = patient("kanban")
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("CREATE TABLE mine(x)")
    old = Path(f"{path}-wal").read_bytes()
    live.execute("CREATE TABLE more(x)")
    live.execute("INSERT INTO more VALUES('newer')")
    live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    live.close()
    Path(f"{path}-wal").write_bytes(old)
    assert heal(path).ok
    assert inject.rows(path)["more"][1] == (b"newer",)


def test_lost_rows_come_back_from_the_backup(patient, well):
    from watchdog.sqlite.heal import snapshot

    before = inject.rows(well["state"])
    path = patient("state")
    assert snapshot(path, None).ok
    inject.FAULTS["5 leaf pages"](inject.Patient(path, "state", 5))
    report = heal(path)
    assert inject.rows(path) == before
    assert report.tables["messages"].lost == 0
    assert report.tables["messages"].reconstructed > 0
    assert "from the backup" in " ".join(report.says)


def test_rows_deleted_since_the_backup_do_not_return(patient):
    from watchdog.sqlite.heal import snapshot

    path = patient("state")
    assert snapshot(path, None).ok
    inject.Patient(path, "state", 1).sql("DELETE FROM messages WHERE id < 8")
    before = inject.rows(path)
    inject.FAULTS["leaf page"](inject.Patient(path, "state", 5))
    heal(path)
    assert inject.rows(path) == before


def test_an_empty_file_is_restored_from_its_backup(patient, well):
    from watchdog.sqlite.heal import snapshot

    path = patient("state")
    assert snapshot(path, None).ok
    os.truncate(path, 0)
    report = heal(path)
    assert report.strategy == "restored from the backup"
    assert inject.rows(path) == inject.rows(well["state"])


def test_an_empty_file_without_a_backup_is_left_alone(tmp_path):
    path = tmp_path / "state.db"
    path.touch()
    report = heal(path)
    assert not report.ok
    assert path.exists()


def test_noise_without_a_backup_is_set_aside_loudly_and_undo_brings_it_back(tmp_path):
    path = tmp_path / "state.db"
    noise = os.urandom(40_000)
    path.write_bytes(noise)
    report = heal(path)
    assert (report.strategy, report.ok) == ("set aside", False)
    assert "NOTHING COULD BE READ" in " ".join(report.says)
    assert not path.exists()
    assert undo(path).ok
    assert path.read_bytes() == noise


def test_a_gzipped_database_is_unpacked(well, tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(gzip.compress(well["state"].read_bytes()))
    assert heal(path).strategy.startswith("unpacked")
    assert inject.rows(path) == inject.rows(well["state"])


def test_mode_owner_and_times_are_kept(patient):
    path = patient("kanban", "magic byte")
    os.chmod(path, 0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    was = path.stat()
    assert heal(path).ok
    now = path.stat()
    assert (now.st_mode, now.st_uid, now.st_gid, now.st_mtime) == (
        was.st_mode,
        was.st_uid,
        was.st_gid,
        was.st_mtime,
    )
    quarantine = Path(f"{path}.quarantine")
    assert quarantine.stat().st_mode & 0o777 == 0o700
    assert quarantine.stat().st_uid == was.st_uid


def test_undo_puts_the_very_bytes_back_and_keeps_what_was_there(patient):
    path = patient("state", "magic byte")
    damaged = path.read_bytes()
    heal(path)
    healed = path.read_bytes()
    report = undo(path)
    assert report.ok
    assert path.read_bytes() == damaged
    assert (Path(report.quarantine) / "state.db").read_bytes() == healed
    assert not undo(path).ok
    assert heal(path).ok


def test_a_dry_run_changes_nothing_and_says_what_would_come_of_it(patient, tmp_path):
    path = patient("state", "leaf page")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    report = heal(path, dry_run=True)
    assert report.strategy == "page scan" and report.dry_run
    assert report.tables["messages"].lost > 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_a_dry_run_leaves_the_mark_of_a_repair_that_was_cut_short(patient, tmp_path):
    path = patient("state", "leaf page")
    mark = tmp_path / ".state.db.repair"
    mark.mkdir()
    with pytest.raises(WatchdogError, match="a repair was cut short"):
        heal(path, dry_run=True)
    assert mark.is_dir()
    assert "a repair was cut short" in look(path).fault
    heal(path)
    assert not mark.exists()


def test_what_a_killed_dry_run_leaves_is_no_unfinished_repair_and_the_next_heal_removes_it(well):
    path = well["state"]
    left = path.with_name(".state.db.rehearsal")
    left.mkdir()
    assert look(path).grade == "well"
    heal(path)
    assert not left.exists()


def test_a_file_in_use_is_refused_with_pid_and_name(patient):
    path = patient("state", "magic byte")
    damaged = path.read_bytes()
    with open(path, "rb") as held:
        child = subprocess.Popen(["sleep", "60"], stdin=held)
    try:
        with pytest.raises(WatchdogError, match=rf"process {child.pid} \(sleep\) has \w+\.db open"):
            heal(path)
    finally:
        child.kill()
        child.wait()
    assert path.read_bytes() == damaged


def test_a_holder_that_cannot_be_seen_is_felt(patient, monkeypatch):
    path = patient("state", "magic byte")
    with open(path, "rb") as held:
        child = subprocess.Popen(["sleep", "60"], stdin=held)
    monkeypatch.setattr(in_use, "scan", lambda wanted=None: openers.Scan((), (1,)))
    try:
        with pytest.raises(WatchdogError, match="cannot be seen from here"):
            heal(path)
    finally:
        child.kill()
        child.wait()
    monkeypatch.setattr(in_use, "open_elsewhere", lambda path: None)
    with pytest.raises(WatchdogError, match="cannot tell whether it is open"):
        heal(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_leaves_the_file_untouched(well, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    size = well["state"].stat().st_size
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"mode=0700,size={size * 5 // 2}", "tmpfs", str(disk)],
        capture_output=True,
    )
    if done.returncode:
        pytest.skip("no permission to mount")
    try:
        path = disk / "state.db"
        path.write_bytes(bytes(100) + well["state"].read_bytes()[100:])
        damaged = path.read_bytes()
        with pytest.raises(WatchdogError, match="no room to heal"):
            heal(path)
        assert path.read_bytes() == damaged
        from watchdog.sqlite import heal as healing

        real = healing.free_bytes
        healing.free_bytes = lambda folder: 1 << 40
        try:
            with pytest.raises(WatchdogError, match="untouched"):
                heal(path)
        finally:
            healing.free_bytes = real
        assert path.read_bytes() == damaged
        assert [one.name for one in disk.iterdir() if "repair" in one.name] == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("with_wal", [False, True])
def test_kill_nine_after_any_step_and_a_second_run_end_well(well, tmp_path, steps_of_a_heal, with_wal):
    before = inject.rows(well["kanban"])

    def broken(folder: Path) -> Path:
        folder.mkdir()
        path = folder / "kanban.db"
        path.write_bytes(well["kanban"].read_bytes())
        if with_wal:
            db = sqlite3.connect(path, isolation_level=None)
            db.execute("PRAGMA wal_autocheckpoint=0")
            db.execute("INSERT INTO task_links VALUES('wal', 'only')")
            for part in ("", "-wal"):
                (folder / f"copy{part}").write_bytes(Path(f"{path}{part}").read_bytes())
            db.close()
            for part in ("", "-wal"):
                os.replace(folder / f"copy{part}", f"{path}{part}")
        inject.Patient(path, "kanban", 1)
        with open(path, "r+b") as file:
            file.write(bytes(60))
        return path

    steps = steps_of_a_heal(broken(tmp_path / "all"))
    assert {
        "copied main",
        "quarantined",
        "manifest",
        "dressed",
        "journal built",
        "swapped",
        "journal removed",
    } <= set(steps)
    # Every step with a -wal; without one, every third: the order of the steps is the same.
    for number, step in enumerate(steps if with_wal else steps[::3]):
        path = broken(tmp_path / str(number))
        assert steps_of_a_heal(path, step)[-1] == step
        if step in ("swapped", "journal removed"):  # the gateway starts before the second run
            db = sqlite3.connect(path, isolation_level=None)
            db.execute("INSERT INTO task_links VALUES('after', 'the swap')")
            db.close()
        report = heal(path)
        assert report.after.grade == "well", (step, report.after.fault)
        db = sqlite3.connect(path)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        after = inject.rows(path)
        links = set(after.pop("task_links").values())
        assert {table: rows for table, rows in before.items() if table != "task_links"} == after, step
        assert set(before["task_links"].values()) <= links
        assert ((b"wal", b"only") in links) == with_wal, step
        assert ((b"after", b"the swap") in links) == (step in ("swapped", "journal removed")), step
        assert [one.name for one in path.parent.iterdir() if ".repair" in one.name] == [], step


def test_the_manifest_tells_what_was_done(patient):
    path = patient("state", "leaf page")
    report = heal(path)
    manifest = json.loads((Path(report.quarantine) / "manifest.json").read_text())
    assert manifest["rung"] == report.strategy
    assert manifest["tables"]["messages"]["lost"] == report.tables["messages"].lost
    assert set(manifest["hashes"]) == {""}


def test_texts_of_lost_messages_are_salvaged(patient, well):
    before = inject.rows(well["state"])["messages"]
    path = patient("state", "leaf page")
    report = heal(path)
    gone = before.keys() - inject.rows(path)["messages"].keys()
    db = sqlite3.connect(Path(report.quarantine) / "salvaged.db")
    found = {
        rowid
        for (rowid,) in db.execute("SELECT id FROM salvaged WHERE tbl = 'messages' AND why LIKE '%text%'")
    }
    db.close()
    assert gone and found >= gone


def test_rows_that_are_all_key_come_back_from_their_index(tmp_path):
    path = inject.make(tmp_path / "kanban.db", "kanban", size=600)
    before, links = inject.rows(path), inject.anatomy(path).leaves["task_links"]
    inject.Patient(path, "kanban", 1).wreck(links[0])
    report = heal(path)
    assert inject.rows(path) == before
    assert report.ok
    assert (
        report.tables["task_links"].reconstructed
        == len(before["task_links"]) - report.tables["task_links"].saved
        > 0
    )


def test_foreign_key_orphans_are_reported_and_none_is_deleted(patient):
    path = patient("state")
    inject.Patient(path, "state", 1).sql("DELETE FROM sessions WHERE rowid = 1")
    before = inject.rows(path)
    verdict = look(path, deep=True)
    assert verdict.grade == "damaged"
    assert "foreign keys" in verdict.fault
    report = heal(path)
    assert not report.ok
    assert inject.rows(path) == before


def test_other_peoples_tables_survive_a_page_scan(patient):
    path = patient("state")
    inject.Patient(path, "state", 1).sql(
        "CREATE TABLE mine(a INTEGER PRIMARY KEY, b TEXT, c REAL, d BLOB)",
        "INSERT INTO mine VALUES(1, 'x', 2.5, x'00ff'), (7, NULL, 3.0, NULL), (-5, '', -0.0, x'')",
        "CREATE TABLE flat(k TEXT, v, PRIMARY KEY(v, k)) WITHOUT ROWID",
        "INSERT INTO flat VALUES('a', 1), ('b', 'two'), ('c', 2.5)",
        "CREATE VIEW seen AS SELECT b FROM mine",
    )
    db = sqlite3.connect(path)
    flat = db.execute("SELECT * FROM flat").fetchall()
    db.close()
    mine = inject.rows_of(path, "mine")
    number = inject.anatomy(path).leaves["messages"][0]
    inject.Patient(path, "state", 1).page(number, bytes(4096))
    report = heal(path)
    assert report.strategy == "page scan"
    assert inject.rows_of(path, "mine") == mine
    db = sqlite3.connect(path)
    assert db.execute("SELECT * FROM flat").fetchall() == flat
    assert len(db.execute("SELECT * FROM seen").fetchall()) == 3
    db.close()


def test_a_file_that_is_gone_comes_back_from_its_backup(patient, well):
    from watchdog.sqlite.heal import snapshot

    path = patient("state")
    assert snapshot(path, None).ok
    path.unlink()
    report = heal(path)
    assert report.strategy == "restored from the backup"
    assert inject.rows(path) == inject.rows(well["state"])


def test_of_a_file_that_is_gone_the_pages_in_its_wal_are_kept(tmp_path):
    path = tmp_path / "response_store.db"
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("PRAGMA journal_mode=WAL")
    for sql in (
        "CREATE TABLE responses(response_id TEXT PRIMARY KEY, data TEXT NOT NULL, accessed_at REAL NOT NULL)",
        "CREATE TABLE conversations(name TEXT PRIMARY KEY, response_id TEXT NOT NULL)",
    ):
        live.execute(sql)
    live.execute("INSERT INTO responses VALUES('r', 'kept', 1.0)")
    wal = Path(f"{path}-wal").read_bytes()
    live.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(wal)
    assert look(path).grade == "broken"
    report = heal(path)
    assert inject.rows(path)["responses"] == {1: (b"r", b"kept", 1.0)}, report


def test_a_deleted_wal_is_copied_out_before_the_refusal(patient):
    path = patient("kanban")
    with inject.held_open(path) as child:
        wal = Path(f"{path}-wal").read_bytes()
        os.unlink(f"{path}-wal")
        with pytest.raises(WatchdogError, match=f"process {child.pid}.*copied to"):
            heal(path)
        (copy,) = Path(f"{path}.quarantine").glob("deleted-wal-of-*")
        assert copy.read_bytes() == wal

"""The look: every fault gets its grade and its words, and nothing is touched."""

from __future__ import annotations

import gzip
import os
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path

import inject
import pytest

from watchdog.sqlite import inspect as look_module
from watchdog.sqlite.files import databases
from watchdog.sqlite.inspect import look
from watchdog.sqlite.schema import is_virtual, release, releases
from watchdog.values import replace

QUICK = {
    "magic byte": ("broken", "first 16 bytes"),
    "TLS record, 31 bytes": ("broken", "TLS record"),
    "first 100 bytes zero": ("broken", "all zeros"),
    "page 1 zero": ("broken", "all zeros"),
    "illegal page size": ("broken", "page size of 4660"),
    "last page missing": ("broken", "cut off"),
    "cut to 60 %": ("broken", "cut off"),
    "schema page": ("broken", "schema cannot be read"),
    "duplicate schema row": ("broken", "twice"),
    "table root page": ("damaged", "first page is destroyed of messages"),
    "FTS trigger lost": ("drifted", "trigger messages_fts_insert"),
}
DEEP = {
    "leaf page": "integrity_check finds",
    "overflow chain": "integrity_check finds",
    "index page": "",
    "stale index": "integrity_check finds",
    "freelist count": "integrity_check finds",
    "FTS page": "integrity_check finds",
    "FTS segment": "messages_fts is damaged",
    "FTS rows missing": "messages_fts has",
}


def tree(folder: Path) -> dict[str, tuple]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ino)
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("fault", QUICK)
def test_a_quick_look_names_the_fault(patient, fault):
    grade, words = QUICK[fault]
    verdict = look(patient("state", fault))
    assert (verdict.grade, words in verdict.fault) == (grade, True), verdict.fault
    assert verdict.kind == "state"


@pytest.mark.parametrize("fault", DEEP)
def test_a_deep_look_finds_what_bytes_do_not_show(patient, fault):
    path = patient("state", fault, seed=2)
    verdict = look(path, deep=True)
    assert verdict.grade == "damaged"
    assert DEEP[fault] in verdict.fault
    assert verdict.sqlite == sqlite3.sqlite_version


@pytest.mark.parametrize("kind", ["state", "kanban", "response_store"])
@pytest.mark.parametrize("version", ["0.13.0", "0.19.0"])
def test_what_hermes_makes_is_well_against_its_own_release(tmp_path, kind, version):
    path = inject.make(tmp_path / "x.db", kind, version, size=20)
    verdict = look(path, deep=True, reference=release(version))
    assert (verdict.grade, verdict.kind, verdict.missing) == ("well", kind, ()), verdict.fault
    assert version in verdict.reference


def test_an_old_board_lacks_the_columns_of_a_newer_hermes_and_the_report_says_which(tmp_path):
    path = inject.make(tmp_path / "kanban.db", "kanban", "0.13.0", size=5)
    assert look(path).grade == "well"  # nobody says that a newer one is installed
    verdict = look(path, reference=release("0.19.0"))
    assert verdict.grade == "drifted"
    assert ("tasks", "goal_mode", "INTEGER") in verdict.missing
    assert verdict.reference == "Hermes 0.19.0, known release"


def test_a_column_dropped_from_a_new_file_is_missed_without_an_installed_hermes(patient):
    path = patient("kanban")
    db = sqlite3.connect(path)
    db.execute("DROP INDEX idx_tasks_session_id") if db.execute(
        "SELECT 1 FROM sqlite_schema WHERE name='idx_tasks_session_id'"
    ).fetchone() else None
    db.execute("ALTER TABLE tasks DROP COLUMN block_kind")
    db.close()
    assert look(path).missing == (("tasks", "block_kind", "TEXT"),)


def test_a_look_leaves_no_trace(patient, tmp_path):
    for kind in ("state", "kanban"):
        path = patient(kind)
        before = tree(tmp_path)
        for deep in (False, True):
            assert look(path, deep=deep).grade == "well"
            assert tree(tmp_path) == before


def test_a_look_at_crash_leftovers_sees_the_wal_and_leaves_it_alone(patient, tmp_path):
    path = patient("kanban")
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("CREATE TABLE mine(x)")
    live.execute("INSERT INTO mine VALUES(1)")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for part in ("", "-wal"):
        (crashed / f"kanban.db{part}").write_bytes(Path(f"{path}{part}").read_bytes())
    live.close()
    before = tree(crashed)
    verdict = look(crashed / "kanban.db", deep=True)
    assert verdict.grade == "well", verdict.fault
    assert tree(crashed) == before


def test_a_bad_header_with_a_good_page_one_in_the_wal_needs_nothing(patient):
    path = patient("kanban")
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("CREATE TABLE mine(x)")
    with open(path, "r+b") as file:
        file.write(b"SQLit\x17")
    verdict = look(path)
    live.close()
    assert verdict.grade == "well"
    assert "never remove the -wal" in " ".join(verdict.detail)


def test_a_wal_of_an_older_generation_is_named(patient):
    path = patient("kanban")
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("CREATE TABLE mine(x)")
    old = Path(f"{path}-wal").read_bytes()
    live.execute("CREATE TABLE more(x)")
    live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    live.close()
    Path(f"{path}-wal").write_bytes(old)
    verdict = look(path)
    assert verdict.grade == "damaged"
    assert "older than the file" in verdict.fault


def test_a_deleted_wal_is_named_with_its_holder(patient):
    path = patient("kanban")
    with inject.held_open(path) as child:
        assert look(path).grade == "well"
        os.unlink(f"{path}-wal")
        verdict = look(path)
        assert verdict.grade == "damaged"
        assert verdict.holders[0][0] == child.pid
        assert f"process {child.pid}" in verdict.fault


WRITER = """
import sqlite3, sys, threading
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=1)
db.execute("PRAGMA synchronous=OFF")  # only a lock may make it wait, not the disk
db.execute("PRAGMA wal_autocheckpoint=20")
db.execute("INSERT INTO state_meta VALUES('up', '')")
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
print("up", flush=True)
count = 0
while not stop.wait(0.001):
    db.execute("INSERT INTO state_meta VALUES(hex(randomblob(8)), hex(randomblob(900)))")
    count += 1
print(count, flush=True)
sys.stdin.close()
"""


def test_a_fault_that_a_writer_leaves_for_a_moment_is_no_fault(patient, monkeypatch):
    module = sys.modules["watchdog.sqlite.inspect"]
    path = patient("state")
    real, looks = module.observe, []

    def half_way(name, taken=None):
        looks.append(name)
        seen = real(name, taken)
        with open(path, "ab"):
            os.utime(path, ns=(len(looks), len(looks)))  # somebody writes
        return replace(seen, bad_roots=("messages",)) if len(looks) < 5 else seen

    monkeypatch.setattr(module, "observe", half_way)
    assert look(path).grade == "well"
    assert len(looks) == 5


def test_a_wal_that_goes_away_while_it_is_looked_at_is_no_mystery(patient, monkeypatch):
    path = patient("state")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE later(x)")
    first = look_module._open

    def opened(name, files):
        if name.endswith("-wal"):
            writer.close()  # the last to leave takes the -wal away
        return first(name, files)

    monkeypatch.setattr(look_module, "_open", opened)
    verdict = look(path)
    assert verdict.grade in ("well", "drifted"), verdict.fault
    assert not os.path.exists(f"{path}-wal")


def test_a_fault_in_a_file_at_rest_is_looked_at_twice(patient, monkeypatch):
    module = sys.modules["watchdog.sqlite.inspect"]
    path = patient("state")
    real, looks = module.observe, []

    def ill(name, taken=None):
        looks.append(name)
        return replace(real(name, taken), bad_roots=("messages",))

    monkeypatch.setattr(module, "observe", ill)
    assert look(path).grade == "damaged"
    assert len(looks) == 2


def test_two_hundred_looks_beside_a_writer_raise_no_alarm_and_do_not_disturb_it(patient, tmp_path):
    path = patient("state")
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout and child.stdout.readline() == "up\n"
        names = {str(one): one.stat().st_ino for one in tmp_path.rglob("*")}
        assert f"{path}-wal" in names
        faults = []
        for number in range(200):
            verdict = look(path, deep=number % 50 == 25)
            if verdict.grade != "well":
                faults.append((number, verdict.grade, verdict.fault))
            assert {str(one): one.stat().st_ino for one in tmp_path.rglob("*")} == names, (
                "a file came, went or changed"
            )
    finally:
        out = child.communicate("")[0]
    assert child.returncode == 0, "a write of the writer failed, or waited longer than its busy timeout"
    assert int(out) > 100
    assert faults == []


def test_a_file_that_was_full_and_is_empty_is_damage(patient):
    path = patient("state")
    known = {"rows": {"messages": 100, "sessions": 3}, "at": "yesterday"}
    db = sqlite3.connect(path)
    db.executescript("DELETE FROM messages; DELETE FROM sessions; VACUUM;")
    db.close()
    assert look(path).grade == "well"
    for deep in (False, True):
        verdict = look(path, deep=deep, known=known)
        assert verdict.grade == "damaged"
        assert "has no rows; it had" in " ".join([verdict.fault, *verdict.detail])
    os.truncate(path, 0)
    assert look(path, known=known).grade == "broken"
    os.unlink(path)
    assert "it held 103 rows" in look(path, known=known).fault


def make_bad_inputs(folder: Path, good: Path) -> dict[str, Path]:
    made = {
        name: folder / name
        for name in (
            "zero.db",
            "directory.db",
            "dangling.db",
            "fifo.db",
            "gzip.db",
            "age.db",
            "short.db",
            "noise.db",
            "size1.db",
            "cyclic.db",
            "quo'te\"s\nand newlines?#%.db",
            "absent.db",
        )
    }
    data = bytearray(good.read_bytes())
    made["zero.db"].touch()
    made["directory.db"].mkdir()
    made["dangling.db"].symlink_to(folder / "nowhere")
    os.mkfifo(made["fifo.db"])
    made["gzip.db"].write_bytes(gzip.compress(data))
    made["age.db"].write_bytes(b"age-encryption.org/v1\n-> X25519 abc" + bytes(5000))
    made["short.db"].write_bytes(data[:60])
    made["noise.db"].write_bytes(os.urandom(50_000))
    made["size1.db"].write_bytes(data[:16] + b"\0\1" + data[18:])
    root = inject.anatomy(good).roots["messages"]
    cyclic = bytearray(data)
    at = (root - 1) * 4096
    struct.pack_into(">I", cyclic, at + 8, root)
    made["cyclic.db"].write_bytes(cyclic)
    made["quo'te\"s\nand newlines?#%.db"].write_bytes(data)
    return made


@pytest.mark.parametrize(
    ("name", "grade", "words"),
    [
        ("zero.db", "damaged", "empty (0 bytes)"),
        ("directory.db", "unknown", "a directory"),
        ("dangling.db", "unknown", "which does not exist"),
        ("fifo.db", "unknown", "a FIFO"),
        ("gzip.db", "broken", "gzip data"),
        ("age.db", "broken", "age-encrypted"),
        ("short.db", "broken", "60 bytes"),
        ("noise.db", "broken", "first 16 bytes"),
        ("cyclic.db", "damaged", "integrity_check finds"),
        ("size1.db", "broken", ""),
        ("quo'te\"s\nand newlines?#%.db", "well", ""),
        ("absent.db", "unknown", "no such file"),
    ],
)
def test_bad_input_gets_a_clear_verdict(tmp_path, well, name, grade, words):
    path = make_bad_inputs(tmp_path, well["state"])[name]
    verdict = look(path, deep=True)
    assert (verdict.grade, words in verdict.fault) == (grade, True), verdict.fault


def test_a_page_size_of_65536_is_read(tmp_path):
    path = tmp_path / "kanban.db"
    db = sqlite3.connect(path)
    db.executescript(
        "PRAGMA page_size=65536; CREATE TABLE tasks(id TEXT PRIMARY KEY); CREATE TABLE task_events(id);"
    )
    db.close()
    assert look(path, deep=True, reference=None).kind == "kanban"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_no_permission_is_unknown_not_broken(patient):
    path = patient("state")
    code = (
        "import os, sys; from watchdog.sqlite.inspect import look; os.setuid(65534);"
        "v = look(sys.argv[1], deep=True); print(v.grade, v.fault)"
    )
    os.chmod(path.parent, 0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.startswith("unknown "), done
    assert "permission" in done.stdout.lower()


def test_a_lock_is_unknown_not_broken(patient):
    path = patient("kanban")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=DELETE")
    db.execute("BEGIN EXCLUSIVE")
    from watchdog.sqlite import deep_check as deep
    from watchdog.sqlite.readonly import connect

    real = connect
    deep.connect = lambda where, mode="mode=ro": real(where, mode, timeout=0.05)
    try:
        found = deep.inspect(str(path))
    finally:
        deep.connect = real
        db.close()
    assert "busy" in found.unknown
    assert not found.broken


def test_nothing_is_looked_at_from_inside_the_gateway(patient, monkeypatch):
    monkeypatch.setenv("_HERMES_GATEWAY", "1")
    verdict = look(patient("state"))
    assert verdict.grade == "unknown"
    assert "system cron" in verdict.fault


def test_databases_of_a_home_include_the_boards(tmp_path, monkeypatch):
    board = tmp_path / "kanban" / "boards" / "work"
    board.mkdir(parents=True)
    for path in (tmp_path / "state.db", board / "kanban.db"):
        path.touch()
    assert databases(tmp_path) == [str(tmp_path / "state.db"), str(board / "kanban.db")]
    other = tmp_path / "elsewhere.db"
    other.touch()
    monkeypatch.setenv("HERMES_KANBAN_DB", str(other))
    assert str(other) in databases(tmp_path)


def fake_hermes(folder: Path, columns: str) -> Path:
    """A Python that finds a small Hermes: enough for the question that is put to the real one."""
    package = folder / "site"
    (package / "hermes_cli").mkdir(parents=True, exist_ok=True)
    (package / "hermes_cli" / "__init__.py").touch()
    (package / "hermes_cli" / "kanban_db.py").write_text(
        "import sqlite3\n"
        "def init_db(path):\n"
        f"    sqlite3.connect(path).executescript('CREATE TABLE tasks({columns}); CREATE TABLE task_events(id)')\n"
    )
    (package / "hermes_state.py").write_text(
        "import sqlite3\n"
        "class SessionDB:\n"
        "    def __init__(self, path):\n"
        "        sqlite3.connect(path).executescript('CREATE TABLE sessions(id); CREATE TABLE messages(id)')\n"
        "    def close(self): pass\n"
    )
    gateway = package / "gateway" / "platforms"
    gateway.mkdir(parents=True, exist_ok=True)
    for init in (package / "gateway" / "__init__.py", gateway / "__init__.py"):
        init.touch()
    (gateway / "api_server.py").write_text(
        "import sqlite3\n"
        "class ResponseStore:\n"
        "    def __init__(self, db_path):\n"
        "        sqlite3.connect(db_path).executescript('CREATE TABLE responses(id); CREATE TABLE conversations(id)')\n"
    )
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_the_installed_hermes_is_asked_and_asked_again_only_when_it_changed(tmp_path, monkeypatch):
    from watchdog.sqlite import installed as reference

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    python = fake_hermes(tmp_path, "id, title")
    answer = reference.ask(str(python))
    assert answer is not None and answer.name.endswith("installed")
    board = tmp_path / "kanban.db"
    db = sqlite3.connect(board)
    db.executescript("CREATE TABLE tasks(id); CREATE TABLE task_events(id)")
    db.close()
    assert look(board, reference=answer).missing == (("tasks", "title", ""),)
    monkeypatch.setattr(reference, "_answer", lambda python, timeout: pytest.fail("asked twice"))
    assert reference.ask(str(python)) == answer
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fake_hermes(tmp_path, "id, title, newer")
    changed = reference.ask(str(python))
    assert changed is not None and "newer" in changed.objects["kanban"][0].sql
    assert reference.ask("/bin/true") is None


def test_a_schema_that_was_read_of_one_board_hides_no_damage_in_another(tmp_path: Path) -> None:
    """Leaves of the schema are read once for all databases that have the same bytes there."""
    first, second = tmp_path / "one" / "kanban.db", tmp_path / "two" / "kanban.db"
    for path in (first, second):
        path.parent.mkdir()
        db = sqlite3.connect(path)
        for number in range(60):
            db.execute(f"CREATE TABLE table{number} (id INTEGER PRIMARY KEY, text TEXT, other TEXT)")
        db.commit()
        db.close()
    fresh = look(first)
    assert look(second).grade == fresh.grade != "broken"
    content = bytearray(second.read_bytes())
    at = content.rindex(b"table" + b"tab")  # in the middle of a schema row
    content[at - 6 : at] = b"\xff" * 6
    second.write_bytes(content)
    assert look(second).grade == "broken"
    assert look(first).grade == fresh.grade


def test_a_file_of_a_few_bytes_beside_a_hot_journal_is_looked_at(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(b"SQLite format 3\0\x10\0\1\1\0")
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 1, 7, 2, 512, 4096)
    (tmp_path / "state.db-journal").write_bytes(header.ljust(512, b"\0") + bytes(4104))
    assert look(path).grade != "well"


def test_thousands_of_tables_that_no_release_knows_are_not_read_one_by_one(tmp_path):
    path = tmp_path / "state.db"
    db = sqlite3.connect(path)
    for item in releases()[-1].objects["state"]:
        if item.type == "table" and not is_virtual(item.sql):
            db.execute(item.sql)
    for number in range(1000):
        db.execute(f"CREATE TABLE t{number}({','.join(f'c{column}' for column in range(200))})")
    db.close()
    before = time.process_time()
    assert look(path).grade in ("well", "drifted")
    assert time.process_time() - before < 3, "seconds; reading them takes five"

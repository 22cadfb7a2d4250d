"""The deep look and every repair work in a process of their own: limited, and without our rights."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from watchdog.errors import WatchdogError
from watchdog.sqlite import sandbox
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.deep_check import examine
from watchdog.sqlite.heal import heal, migrate
from watchdog.sqlite.schema import release

AGENT = 65534
# What a CHECK may hold: no subquery, but a function that works for long, many times over.
COSTLY = "length(replace(hex(zeroblob(40000000 + id)), '0', 'ab')) > 0"  # id: once per row


@pytest.fixture
def path(public_folder):
    """A database in a folder that others may enter."""
    return made(public_folder / "state.db")


def made(path: Path, check: str = "1") -> Path:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, content TEXT CHECK(1))")
    db.execute("CREATE INDEX by_content ON messages(content)")
    db.executemany("INSERT INTO messages(content) VALUES(?)", [(f"{n} " + "word " * 50,) for n in range(500)])
    db.commit()
    if check != "1":
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'CHECK(1)', ?)", (f"CHECK({check})",))
        db.commit()
    db.close()
    return path


def children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(file.read().split())


def test_a_deep_look_counts_and_finds_damage(path):
    found = examine(str(path))
    assert found.rows == {"messages": 500}
    assert not (found.integrity or found.unknown or found.broken or found.doubts)
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096)
    assert examine(str(path)).integrity


def test_what_takes_too_long_is_ended_and_not_left_behind(path):
    before = children()
    found = examine(str(path), timeout=0)
    assert found.unknown.startswith("SQLite did not finish its checks in 0 s; look again")
    assert children() == before


def test_a_disk_that_fills_up_in_the_child_is_told_as_that():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t(x)")
    db.execute("PRAGMA max_page_count=2")
    with pytest.raises(sqlite3.Error) as full:
        db.execute("INSERT INTO t VALUES(zeroblob(100000))")
    db.close()
    assert sandbox.reason_of(full.value)["system"][0] == errno.ENOSPC
    assert "odd" in sandbox.reason_of(sqlite3.OperationalError("odd"))["refused"]["fields"]["text"]


@pytest.fixture
def impatient(monkeypatch):
    """Two seconds are enough for any of these small files."""
    monkeypatch.setattr(sandbox, "GRACE", 2.0)


def test_a_schema_that_works_without_end_is_ended_and_the_file_is_untouched(tmp_path, impatient):
    path = made(tmp_path / "state.db", COSTLY)
    with path.open("r+b") as file:
        file.write(b"SQLit\x17")
    before = path.read_bytes()
    with pytest.raises(WatchdogError, match="without end"):
        heal(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if ".repair" in one.name] == []
    assert children() == set()


def test_a_backup_of_such_a_file_gives_up_for_a_day_and_leaves_nothing(tmp_path, impatient):
    report = snapshot(made(tmp_path / "state.db", COSTLY))
    assert not report.ok and "without end" in report.says
    assert [one.name for one in (tmp_path / "state.db.backups").iterdir()] == ["gave-up"]


def test_a_child_that_dies_says_nothing_of_the_file(path):
    with pytest.raises(sandbox.ChildFailed):
        sandbox.run("os:abort", None, sandbox.ChildLimits(5))


def test_a_child_may_not_write_more_than_it_should(tmp_path):
    path = made(tmp_path / "state.db")
    (tmp_path / "to").touch()
    with pytest.raises((WatchdogError, OSError)):
        answer = sandbox.run(
            "watchdog.sqlite.backup:work",
            (str(path), str(tmp_path / "to"), False),
            sandbox.ChildLimits(20, written=9000),
        )
        raise WatchdogError(answer["fault"])
    assert (tmp_path / "to").stat().st_size <= 9000


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_root_that_works_as_somebody_else_looks_as_them(path):
    os.chown(path, AGENT, AGENT)
    os.setegid(AGENT)
    os.seteuid(AGENT)
    try:
        assert examine(str(path)).rows == {"messages": 500}
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_root_with_a_closed_program_looks_heals_and_backs_up_for_another_user(path):
    """The checkout and its Python may lie where the owner of the database cannot look."""
    for owned in (path.parent, path):
        os.chown(owned, AGENT, AGENT)
    with tempfile.TemporaryDirectory(prefix="closed-", dir="/root") as closed:
        package = Path(closed, "watchdog")
        shutil.copytree(Path(__file__).parents[2] / "watchdog", package, symlinks=False)
        os.chmod(closed, 0o700)
        code = (
            "import sys; from watchdog.sqlite.inspect import look; from watchdog.sqlite.heal import heal, snapshot\n"
            "p = sys.argv[1]; print(look(p, deep=True).grade); print(snapshot(p).ok)\n"
            "f = open(p, 'r+b'); f.write(b'SQLit\\x17'); f.close(); print(heal(p).ok)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": closed, "PYTHONSAFEPATH": "1"},
        )
    assert done.stdout.split() == ["drifted", "True", "True"], done
    assert path.stat().st_uid == AGENT


def test_columns_are_added_in_the_child(tmp_path):
    path = tmp_path / "kanban.db"
    db = sqlite3.connect(path)
    for item in release("0.13.0").objects["kanban"]:
        db.execute(item.sql)
    db.close()
    assert migrate(path, reference=release("0.19.0")).added

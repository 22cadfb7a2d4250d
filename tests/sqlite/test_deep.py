"""The deep look is taken in a process of its own, forked where that is safe, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from watchdog.sqlite import deep
from watchdog.sqlite.deep import examine

AGENT = 65534


@pytest.fixture(params=["_fork", "_spawn"])
def way(request, monkeypatch):
    monkeypatch.setattr(deep, "_alone", lambda: request.param == "_fork")
    return request.param


@pytest.fixture
def path():
    """A database in a folder that others may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="deep-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield made(folder / "state.db")


def made(path: Path) -> Path:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, content TEXT)")
    db.executemany("INSERT INTO messages(content) VALUES(?)", [("word " * 50,)] * 500)
    db.commit()
    db.close()
    return path


def test_both_ways_say_the_same(path, way):
    found = examine(str(path))
    assert found.rows == {"messages": 500} and not (found.integrity or found.unknown or found.broken or found.doubts)
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096)
    assert examine(str(path)).integrity


def test_what_takes_too_long_is_ended_and_not_left_behind(path, way):
    before = children()
    found = examine(str(path), timeout=0)
    assert found.unknown == "SQLite did not finish its checks in 0 s"
    assert children() == before


def children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(file.read().split())


def test_a_checking_process_that_dies_says_nothing_of_the_file(path, monkeypatch):
    monkeypatch.setattr(deep, "_alone", lambda: True)
    monkeypatch.setattr(deep, "inspect", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert examine(str(path)).unknown == "the checking process died"
    assert children() == set()


def test_a_process_with_another_thread_is_not_forked():
    gate = threading.Event()
    other = threading.Thread(target=gate.wait)
    other.start()
    try:
        assert not deep._alone()
    finally:
        gate.set()
        other.join()


def test_a_parent_with_something_unsaid_says_it_once(path, monkeypatch, capfd):
    monkeypatch.setattr(deep, "_alone", lambda: True)
    print("said", end="")
    examine(str(path))
    print(flush=True)
    assert capfd.readouterr().out == "said\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_root_that_works_as_somebody_else_looks_as_them(path, way):
    os.chown(path, AGENT, AGENT)
    os.setegid(AGENT)
    os.seteuid(AGENT)
    try:
        assert examine(str(path)).rows == {"messages": 500}
    finally:
        os.seteuid(0)
        os.setegid(0)

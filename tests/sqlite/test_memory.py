"""What is remembered of a schema or of a file must never hide a fault."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.place import database
from watchdog.sources.databases import observe
from watchdog.sqlite import inspect, memory
from watchdog.sqlite.files import stamps_of
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.schema import release

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


@pytest.fixture(autouse=True)
def forgotten():
    forget()
    yield
    forget()


def forget() -> None:
    for kept in (memory.schemas, memory._well, memory._new):
        kept.clear()


def schema(version: str) -> list[SchemaObject]:
    known = release(version)
    assert known is not None
    return [
        SchemaObject(item.type, item.name, item.table, item.sql, number + 2)
        for number, item in enumerate(known.objects["kanban"])
    ]


def test_a_schema_that_lacks_nothing_is_compared_once(tmp_path, monkeypatch):
    first = inspect.lack("kanban", schema("0.19.0"), None)
    assert first[0].columns == () and "0.19.0" in first[1]
    memory.keep(tmp_path)
    forget()
    memory.recall(tmp_path)
    monkeypatch.setattr(inspect, "nearest", None)  # to compare again would fail
    assert inspect.lack("kanban", schema("0.19.0"), None) == first


def test_a_schema_with_one_column_less_is_another_schema():
    whole = schema("0.19.0")
    inspect.lack("kanban", whole, None)
    tasks = next(entry for entry in whole if entry.name == "tasks")
    less = tasks.sql.replace("session_id", "session_ix")
    assert less != tasks.sql
    changed = SchemaObject(tasks.type, tasks.name, tasks.table, less, tasks.root)
    others = [entry for entry in whole if entry is not tasks]
    lacking, _ = inspect.lack("kanban", [changed, *others], None)
    assert ("tasks", "session_id") in [(table, column) for table, column, _ in lacking.columns]


def test_what_lacks_something_is_compared_every_time(tmp_path):
    part = [entry for entry in schema("0.19.0") if entry.name != "task_events"]
    inspect.lack("kanban", part, None)
    memory.keep(tmp_path)
    assert not (tmp_path / memory.NAME).exists()


def test_a_file_that_somebody_else_may_write_is_not_believed(tmp_path):
    inspect.lack("kanban", schema("0.19.0"), None)
    memory.keep(tmp_path)
    (tmp_path / memory.NAME).chmod(0o666)
    forget()
    memory.recall(tmp_path)
    assert not memory.schemas


def test_a_damaged_file_is_as_none(tmp_path):
    inspect.lack("kanban", schema("0.19.0"), None)
    memory.keep(tmp_path)
    file = tmp_path / memory.NAME
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    forget()
    memory.recall(tmp_path)
    assert not memory.schemas


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    database(made / "kanban.db", "kanban")
    return made


@pytest.fixture
def settled(monkeypatch):
    """Any file counts as long written, so that no test has to wait."""
    monkeypatch.setattr(memory, "SETTLED", -1.0)


def seen(home: Path, state: Path) -> dict[str, dict[str, str]]:
    """What a check in a process of its own finds."""
    forget()
    state.mkdir(mode=0o700, exist_ok=True)
    events = observe(home, NOW, state=state)
    memory.keep(state)
    return {event.facts["database"]: dict(event.facts) for event in events}


def is_remembered(home: Path) -> bool:
    path = str(home / "kanban.db")
    return memory.unchanged(path, stamps_of(path)) is not None


def test_a_database_that_was_well_and_stands_still_is_not_read_again(home, tmp_path, settled, monkeypatch):
    first = seen(home, tmp_path / "state")
    assert first["kanban.db"]["grade"] == "well" and is_remembered(home)
    monkeypatch.setattr("os.pread", None)  # to read a page would fail
    assert seen(home, tmp_path / "state") == first


@pytest.mark.parametrize("end", ["", "-wal", "-journal"])
def test_any_write_makes_it_be_read_again_even_with_the_old_time(home, tmp_path, settled, end):
    seen(home, tmp_path / "state")
    path = home / f"kanban.db{end}"
    before = path.stat() if path.exists() else (home / "kanban.db").stat()
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(b"SQLite format 4")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not is_remembered(home)
    if not end:
        assert seen(home, tmp_path / "state")["kanban.db"]["grade"] == "broken"


def test_a_database_written_to_this_moment_is_read_again(home, tmp_path):
    seen(home, tmp_path / "state")
    assert not is_remembered(home)


def test_a_damaged_database_is_never_remembered(home, tmp_path, settled):
    (home / "kanban.db").write_bytes(b"no database at all" * 100)
    assert seen(home, tmp_path / "state")["kanban.db"]["grade"] != "well"
    assert not is_remembered(home)


def test_after_some_hours_it_is_read_again(home, tmp_path, settled, monkeypatch):
    seen(home, tmp_path / "state")
    monkeypatch.setattr(memory, "LOOK_AGAIN", 0.0)
    assert not is_remembered(home)


def test_a_repair_that_was_cut_short_is_seen(home, tmp_path, settled):
    seen(home, tmp_path / "state")
    (home / ".kanban.db.repair.json").write_text("{}")
    assert not is_remembered(home)


def test_a_gateway_that_complains_has_its_databases_read(home, tmp_path, settled):
    seen(home, tmp_path / "state")
    events = observe(home, NOW + timedelta(minutes=1), complained=True, live=False, state=tmp_path / "state")
    assert events[0].facts["wanted_by"]

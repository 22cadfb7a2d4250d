"""What is remembered of a schema must never hide a fault."""

from __future__ import annotations

import pytest

from watchdog.sqlite import schema as known_schemas
from watchdog.sqlite import schema_cache as judged
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.schema import release


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(judged, "_known", {})
    monkeypatch.setattr(judged, "_kept", set())


def schema(version: str) -> list[SchemaObject]:
    known = release(version)
    assert known is not None
    return [
        SchemaObject(thing.type, thing.name, thing.table, thing.sql, number + 2)
        for number, thing in enumerate(known.objects["kanban"])
    ]


def test_a_schema_that_lacks_nothing_is_compared_once(tmp_path, monkeypatch):
    first = judged.lack("kanban", schema("0.19.0"), None)
    assert first[0].columns == () and "0.19.0" in first[1]
    judged.keep(tmp_path)
    monkeypatch.setattr(judged, "_known", {})
    judged.recall(tmp_path)
    monkeypatch.setattr(known_schemas, "nearest", None)  # to compare again would fail
    assert judged.lack("kanban", schema("0.19.0"), None) == first


def test_a_schema_with_one_column_less_is_another_schema():
    whole = schema("0.19.0")
    judged.lack("kanban", whole, None)
    tasks = next(entry for entry in whole if entry.name == "tasks")
    less = tasks.sql.replace("session_id", "session_ix")
    assert less != tasks.sql
    lacking, _ = judged.lack(
        "kanban",
        [
            SchemaObject(tasks.type, tasks.name, tasks.table, less, tasks.root),
            *(one for one in whole if one is not tasks),
        ],
        None,
    )
    assert ("tasks", "session_id") in [(table, column) for table, column, _ in lacking.columns]


def test_what_lacks_something_is_compared_every_time(tmp_path):
    part = [entry for entry in schema("0.19.0") if entry.name != "task_events"]
    judged.lack("kanban", part, None)
    judged.keep(tmp_path)
    assert not (tmp_path / judged.NAME).exists()


def test_a_file_that_somebody_else_may_write_is_not_believed(tmp_path):
    judged.lack("kanban", schema("0.19.0"), None)
    judged.keep(tmp_path)
    (tmp_path / judged.NAME).chmod(0o666)
    judged._known.clear()
    judged.recall(tmp_path)
    assert not judged._known


def test_a_damaged_file_is_as_none(tmp_path):
    judged.lack("kanban", schema("0.19.0"), None)
    judged.keep(tmp_path)
    file = tmp_path / judged.NAME
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    judged._known.clear()
    judged.recall(tmp_path)
    assert not judged._known

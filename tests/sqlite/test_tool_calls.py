"""What rules ask of a database: last backup, open tool call."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchdog.sqlite import CallState, ToolCalls, tool_calls, unanswered_calls

CLARIFY = json.dumps(
    [{"id": "call_1", "type": "function", "function": {"name": "clarify", "arguments": "{}"}}]
)
BOTH = json.dumps(
    [{"id": "call_1", "function": {"name": "clarify"}}, {"id": "call_2", "function": {"name": "terminal"}}]
)


def unanswered_call(path: Path, session: str, at: datetime | None = None) -> ToolCalls:
    (found,) = unanswered_calls(path, [(session, at)])
    return found


def talk(path: Path, *messages: tuple[str, str | None, str | None]) -> Path:
    """A session with these (role, tool_calls, tool_call_id)."""
    db = sqlite3.connect(path)
    db.execute("INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1)")
    for number, (role, calls, answers) in enumerate(messages):
        db.execute(
            "INSERT INTO messages(session_id, role, content, tool_calls, tool_call_id, timestamp) "
            "VALUES('s', ?, 'x', ?, ?, ?)",
            (role, calls, answers, 100.0 + number),
        )
    db.commit()
    db.close()
    return path


@pytest.mark.parametrize(
    ("messages", "state", "tools"),
    [
        ([("user", None, None), ("assistant", CLARIFY, None)], CallState.WAITING, ("clarify",)),
        ([("assistant", CLARIFY, None), ("tool", None, "call_1")], CallState.ANSWERED, ()),
        ([("assistant", BOTH, None), ("tool", None, "call_2")], CallState.WAITING, ("clarify",)),
        ([("assistant", CLARIFY, None), ("user", None, None)], CallState.ANSWERED, ()),
        ([("assistant", None, None)], CallState.ANSWERED, ()),
        ([("assistant", "not json", None)], CallState.UNKNOWN, ()),
        ([("assistant", json.dumps(["x"]), None)], CallState.UNKNOWN, ()),
        ([], CallState.ANSWERED, ()),  # releases before 0.18 save a turn when it has ended
    ],
)
def test_a_session_that_waits_for_a_tool_is_known(patient, messages, state, tools):
    path = talk(patient("state"), *messages)
    listing = sorted(os.listdir(path.parent))
    found = unanswered_call(path, "s")
    assert (found.state, found.tools) == (state, tools)
    assert bool(found.since) is bool(tools)
    assert sorted(os.listdir(path.parent)) == listing


def test_an_open_call_is_seen_beside_a_running_writer(patient):
    path = talk(patient("state"), ("assistant", CLARIFY, None))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "INSERT INTO messages(session_id, role, content, tool_call_id, timestamp) VALUES('s', 'tool', '', 'call_1', 9)"
    )
    assert unanswered_call(path, "s").state is CallState.WAITING
    db.execute("COMMIT")
    assert unanswered_call(path, "s").state is CallState.ANSWERED
    db.close()


@pytest.mark.parametrize("fault", ["magic byte", "schema page", "table root page"])
def test_a_broken_database_gives_no_answer(patient, fault):
    assert unanswered_call(patient("state", fault), "s").state is CallState.UNKNOWN


def test_a_view_in_the_place_of_the_messages_is_not_asked(tmp_path):
    path = tmp_path / "state.db"
    db = sqlite3.connect(path)
    db.execute(
        "CREATE VIEW messages AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n"
    )
    db.close()
    assert unanswered_call(path, "s").state is CallState.UNKNOWN
    assert unanswered_call(tmp_path / "absent.db", "s").state is CallState.UNKNOWN


def test_a_session_that_the_database_does_not_know_cannot_be_told(patient):
    assert unanswered_call(talk(patient("state")), "another").state is CallState.UNKNOWN


def test_a_call_is_open_at_the_moment_that_is_asked_for(patient):
    path = talk(
        patient("state"), ("user", None, None), ("assistant", CLARIFY, None), ("tool", None, "call_1")
    )
    assert unanswered_call(path, "s", datetime.fromtimestamp(101.5, UTC)).tools == ("clarify",)
    assert unanswered_call(path, "s", datetime.fromtimestamp(103, UTC)).state is CallState.ANSWERED


@pytest.mark.parametrize(
    "value",
    [
        # one step of the virtual machine that takes hours: nothing inside SQLite ends it
        "instr(zeroblob(20000000), cast(zeroblob(10000000) AS blob) || 'b')",
        "hex(zeroblob(900000000))",
    ],
)
def test_a_costly_schema_ends_with_its_process_and_gives_no_answer(tmp_path, monkeypatch, value):
    monkeypatch.setattr(tool_calls, "SECONDS", 1.0)
    path = tmp_path / "state.db"
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role, tool_call_id, tool_calls, timestamp REAL)"
    )
    db.execute("INSERT INTO messages(role, timestamp) VALUES('user', 1.0)")
    db.execute("PRAGMA writable_schema = ON")
    db.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'session_id TEXT', 'session_id TEXT AS (' || ? || ')')",
        (value,),
    )
    db.commit()
    db.close()
    assert unanswered_call(path, "s").state is CallState.UNKNOWN


@pytest.mark.parametrize("at", [-1e300, -1.0, 1e300])
def test_a_time_that_no_clock_shows_gives_no_answer(patient, at):
    path = talk(patient("state"), ("assistant", CLARIFY, None))
    db = sqlite3.connect(path)
    db.execute("UPDATE messages SET timestamp = ?", (at,))
    db.commit()
    db.close()
    assert unanswered_call(path, "s").state is CallState.UNKNOWN

"""Whether sessions of state.db wait for the answer of a tool: read beside a running gateway, without a trace."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum

from watchdog.errors import WatchdogError
from watchdog.sqlite import sandbox
from watchdog.sqlite.readonly import Moved, connect, place
from watchdog.system.privileges import as_owner
from watchdog.values import Any, dataclass

SECONDS = 5.0  # for the first question; what takes longer stays unanswered
PER_SECOND = 200  # further questions
FAR_FUTURE = 1e11  # seconds; no clock shows so much
RECENT = 100  # messages of a session that are looked at: more than one turn calls tools in parallel
LONGEST = 200_000  # characters of one message's tool calls
_TOOL = re.compile(r"[\w.:-]{1,80}")


class CallState(StrEnum):
    WAITING = "waiting"  # the last assistant message calls a tool that has not answered
    ANSWERED = "answered"  # no call is open
    UNKNOWN = "unknown"  # the database or the session cannot be seen: no reason to act


@dataclass(frozen=True)
class ToolCalls:
    """Whether a session waits for a tool, and for which."""

    state: CallState
    tools: tuple[str, ...] = ()  # the names of the tools without an answer, such as 'clarify'
    since: float = 0.0  # when the message was written, in seconds since the epoch


UNKNOWN_CALLS = ToolCalls(CallState.UNKNOWN)


def unanswered_calls(
    database: str | os.PathLike, asked: Sequence[tuple[str, datetime | None]]
) -> list[ToolCalls]:
    """For each session, whether its last assistant message calls a tool that has no answer yet, or had none at a moment.

    Read from state.db beside a running gateway: no file is made or removed, no lock is held that a writer feels.
    The schema is untrusted text: SQLite works in a child process, within limits.
    """
    # Needs a process and what opens a live file without a trace, which a quiet check never loads.
    path = os.path.realpath(database)
    questions = [(session, at.timestamp() if at is not None else float("inf")) for session, at in asked]
    try:
        if not os.path.isfile(path) or os.environ.get("_HERMES_GATEWAY") == "1":
            return [UNKNOWN_CALLS] * len(asked)
        with as_owner(path):
            limits = sandbox.ChildLimits(SECONDS + len(asked) / PER_SECOND)
            answer = sandbox.run("watchdog.sqlite.tool_calls:answer", (path, questions), limits)
        found = [
            ToolCalls(CallState(state), tuple(tools), float(since)) for state, tools, since in answer["calls"]
        ]
    except (OSError, ValueError, TypeError, KeyError, WatchdogError):
        found = []
    return found if len(found) == len(asked) else [UNKNOWN_CALLS] * len(asked)


def answer(argument: tuple[str, list[tuple[str, float]]], tick: Callable[[str], None]) -> dict[str, Any]:
    """In the child: what the database says to each question."""
    path, questions = argument
    calls = []
    try:
        with place(path) as (where, mode):
            db = connect(where, mode, timeout=SECONDS)
            try:
                for session, until in questions:
                    try:
                        calls.append(_calls(db, session, until))
                    except (ValueError, TypeError, AttributeError, RecursionError):
                        calls.append(UNKNOWN_CALLS)
            finally:
                db.close()
    except (sqlite3.Error, Moved):
        calls = [UNKNOWN_CALLS] * len(questions)
    return {"calls": [(call.state, call.tools, call.since) for call in calls]}


def _calls(db: sqlite3.Connection, session: str, until: float) -> ToolCalls:
    kind = db.execute("SELECT type FROM sqlite_schema WHERE name = 'messages'").fetchone()
    if kind != (b"table",):
        return UNKNOWN_CALLS
    ids = [
        number
        for (number,) in db.execute(
            "SELECT id FROM messages WHERE session_id = ? AND timestamp <= ? ORDER BY id DESC LIMIT ?",
            (session, until, RECENT),
        )
    ]
    answered: set[str] = set()
    for number in ids:
        role, answers, calls, at = db.execute(
            f"SELECT role, tool_call_id, substr(tool_calls, 1, {LONGEST}), timestamp FROM messages WHERE id = ?",
            (number,),
        ).fetchone()
        if role == b"tool":
            answered.add(_text(answers))
            continue
        if role != b"assistant" or not calls:
            return ToolCalls(CallState.ANSWERED)
        waiting = tuple(name for key, name in _tools(json.loads(calls)) if key not in answered)
        state = CallState.WAITING if waiting else CallState.ANSWERED
        since = float(at) if waiting else 0.0
        return ToolCalls(state, waiting, since) if 0 <= since < FAR_FUTURE else UNKNOWN_CALLS
    # Releases before 0.18 save a turn when it has ended: the row of a first turn's session is all that is there.
    kind = db.execute("SELECT type FROM sqlite_schema WHERE name = 'sessions'").fetchone()
    known = kind == (b"table",) and db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone()
    return ToolCalls(CallState.ANSWERED) if known else UNKNOWN_CALLS


def _tools(calls: Any) -> list[tuple[str, str]]:
    """(id, name) of each call in a message, as Hermes writes them."""
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") or {}
        name = str(function.get("name") or call.get("name") or "")
        key = str(call.get("id") or call.get("call_id") or "")
        found.append((key, name if _TOOL.fullmatch(name) else "?"))
    return found


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

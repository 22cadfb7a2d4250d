"""Hermes' own files → one event that says whether the gateway lives: pid file, start time, lock, last words."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

from watchdog import plainjson
from watchdog.detect.gateway import STARTED, STOPPED
from watchdog.model import Event
from watchdog.paths import Path, open_regular
from watchdog.pattern import own
from watchdog.process import began_at, is_halted, is_runnable, lock_holder, start_time_of
from watchdog.sources.chattext import digest_of
from watchdog.sources.journal import last_word, units_of
from watchdog.text import spell
from watchdog.values import Any

SILENT = timedelta(minutes=5)  # a shorter silence is no reason to ask whether the loop is frozen
_TAIL = 128 * 1024
_MESSAGE = own(rb"(?m)^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) [A-Z]+(?: \[[^\]\n]*\])? [\w.-]+: (.*)$")


def observe(home: Path, logs: Path, last_line_at: datetime | None, now: datetime, unit: str = "auto") -> tuple[Event | None, str]:
    """(what is known of the gateway, why it is not known)."""
    try:
        record = read_json(home / "gateway.pid")
    except OSError as error:
        return None, f"gateway.pid cannot be read: {error.strerror}"
    pid, start = record.get("pid"), record.get("start_time")
    facts = {"home": str(home)}
    if isinstance(pid, int) and 0 < pid < 2**31:
        began = start_time_of(pid)
        if began is not None and (not isinstance(start, int) or start == began):
            since = began_at(began)
            facts |= {"state": "running", "pid": str(pid), "since": since.isoformat() if since else ""}
            if last_line_at and now - last_line_at > SILENT and _frozen(pid):
                facts |= {"state": "frozen", "silent": spell(now - last_line_at), "since": last_line_at.isoformat()}
            return _event(now, facts), ""
    holder = lock_holder(str(home / "gateway.lock"))
    if holder is None:
        return None, "gateway.lock cannot be looked at in /proc/locks"
    if holder:
        return _event(now, facts | {"state": "running", "pid": str(holder), "since": ""}), ""
    words, said_at = last_words(logs / "gateway.log")
    if words is None:
        return None, "no gateway.pid and no readable gateway.log: was a gateway ever started here?"
    # A start that fails before it logs, or a stop between two of them, leaves no line: there systemd knows better.
    by_systemd, at = last_word(units_of(home, unit), said_at if words == "stopped" else None)
    if by_systemd == "started":  # and not ended since: it has just begun and not come to write its files, or it cannot
        return _event(now, facts | {"state": "running", "since": now.isoformat()}), ""
    stopped = by_systemd == "stopped" or (words == "stopped" and not by_systemd)
    facts |= {"state": "stopped" if stopped else "dead", "pid": str(pid or "")}
    facts["since"] = (last_line_at or now).isoformat()
    if by_systemd == "died" and at is not None:
        facts |= {"since": at.isoformat(), "unsaid": "yes"}  # the farewell in its log is another run's
    return _event(now, facts), ""


def stated(state: str, home: Path, at: datetime, since: datetime | None) -> tuple[Event | None, str]:
    """For a replay: what only a live machine could tell is as somebody says."""
    if state == "unknown":
        return None, "nobody said whether the gateway ran (--gateway)"
    facts = {"home": str(home), "state": state, "stated": "yes", "since": (since or at).isoformat()}
    return _event(at, facts), ""


def sessions(home: Path, now: datetime) -> list[Event]:
    """Which session works for which chat, as sessions.json has it."""
    found = []
    for path in (home / "sessions" / "sessions.json", home / "sessions.json"):
        try:
            entries = read_json(path)
        except OSError:
            continue
        for key, entry in list(entries.items())[-2000:]:
            origin = entry.get("origin") if isinstance(entry, dict) else None
            told = [entry.get("session_id"), origin.get("platform"), origin.get("chat_id")] if isinstance(origin, dict) else []
            if isinstance(origin, dict) and all(isinstance(value, str) for value in told):
                user = str(origin.get("user_name") or origin.get("user_id") or "unknown")
                facts = {"session": told[0], "platform": told[1], "chat": told[2], "user": digest_of(user)}
                found.append(Event(datetime(1970, 1, 1, tzinfo=UTC), "sessions", key, path.name, facts=facts))
        break
    return found


def last_words(log: Path) -> tuple[str | None, datetime | None]:
    """('stopped' or 'started', when it was said): the last of a gateway's comings and goings in its log; None when it cannot be told."""
    seen = False
    for path in (log, log.with_name(log.name + ".1")):
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                file.seek(max(0, status.st_size - _TAIL))
                tail = file.read(_TAIL)
        except OSError:
            continue
        seen = seen or bool(tail)
        lines = _MESSAGE.findall(tail)
        for stamp, line in reversed(lines):
            text = line.decode("utf-8", "replace")
            if STOPPED.match(text) is not None:
                return "stopped", _said_at(stamp, lines[-1][0], status.st_mtime)
            if STARTED.match(text) is not None:
                return "started", _said_at(stamp, lines[-1][0], status.st_mtime)
        if len(tail) == _TAIL:
            break  # so much was written since that it cannot have been a farewell
    return "started" if seen else None, None


def _said_at(stamp: bytes, last: bytes, written: float) -> datetime | None:
    """So long before the file was last written to as its last line is younger: true in whatever zone the stamps are."""
    try:
        since = datetime.fromisoformat(last.decode()) - datetime.fromisoformat(stamp.decode())
    except ValueError:
        return None
    return datetime.fromtimestamp(written, UTC) - since


def _frozen(pid: int) -> bool:
    """A loop that spins wants the CPU whenever one looks, one that was halted never goes on; an idle gateway sleeps."""
    for _ in range(10):
        if not is_runnable(pid) and not is_halted(pid):
            return False
        time.sleep(0.03)
    return True


def _event(at: datetime, facts: dict[str, str]) -> Event:
    return Event(at, "gateway", f"gateway {facts['state']}", "gateway.pid", facts={k: v for k, v in facts.items() if v})


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON object of Hermes; {} when there is none or it is not one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    with os.fdopen(fd, "rb") as file:
        try:
            told = plainjson.loads(file.read(2_000_000))
        except (ValueError, RecursionError, IsADirectoryError):
            return {}
    return told if isinstance(told, dict) else {}

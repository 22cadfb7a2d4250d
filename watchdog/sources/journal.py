"""The journal of the gateway's unit → events: `journalctl -o json`, or a saved journal.jsonl."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from watchdog.gateway.state import LastWord
from watchdog.later import regex
from watchdog.model import Event, phrase
from watchdog.sources.chat_text import ChatText
from watchdog.sources.reasons import Unreadable
from watchdog.system.files import open_regular
from watchdog.values import Any, StrPath

_LINE = regex(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<logger>[\w.-]+): ")
_PRIORITY = {
    "0": "CRITICAL",
    "1": "CRITICAL",
    "2": "CRITICAL",
    "3": "ERROR",
    "4": "WARNING",
    "5": "INFO",
    "6": "INFO",
    "7": "DEBUG",
}
LONGEST = 64 * 1024
EVER = datetime.max.replace(tzinfo=UTC)
MOST = 32 * 1024 * 1024  # bytes of journal that are read
FIELDS = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_COMM,_EXE,_PID,JOB_TYPE"
TIME_LIMIT = 20.0  # seconds; a journal that answers later than this is blind
_ENDED = regex(r"(?:Main|Control) process exited|Failed with result|Deactivated successfully|: Succeeded\.")


class JournalBlind(Exception):
    """The journal is there and cannot be read; the text says why."""


def from_file(path: StrPath, until: datetime, chat: ChatText) -> Iterator[Event]:
    """A journal saved with `journalctl -o json`."""
    with open_regular(path, buffering=1 << 16) as file:
        yield from parse(file, os.path.basename(path), chat, until=until)


def from_journalctl(
    units: list[str], user: bool, since: datetime, until: datetime, chat: ChatText
) -> list[Event]:
    """What the journal holds of these units in the window; JournalBlind with the reason."""
    command = [f"--since=@{since.timestamp():.0f}", *(["--user"] if user else [])]
    command += [f"--unit={unit}" if not user else f"--user-unit={unit}" for unit in units]
    try:
        lines, why = _ask(command)
    except FileNotFoundError:
        return []  # no journalctl: no systemd, nothing to be blind to
    if why and not lines:
        raise JournalBlind(phrase(Unreadable.JOURNAL, "{why}; run as a member of systemd-journal", why=why))
    return list(parse(lines, "journal", chat, since, until))


def _ask(arguments: list[str]) -> tuple[list[bytes], str]:
    """(lines, what journalctl complained of), within a time and a size, whatever a process wrote into the
    journal. FileNotFoundError where there is no journalctl.
    """
    from watchdog.system.commands import (
        NOT_THERE,
        TOO_LONG,
        capture,
    )  # not at the top: most checks ask no journal

    command = ["journalctl", "-o", "json", "--no-pager", "--quiet", f"--output-fields={FIELDS}", *arguments]
    answer = capture(command, TIME_LIMIT, MOST)
    if answer.code == NOT_THERE:
        raise FileNotFoundError(answer.errors)
    complaint = answer.errors.strip()
    if answer.code == TOO_LONG and not answer.output:
        complaint = f"journalctl did not answer within {TIME_LIMIT:g} s"
    return answer.output.splitlines(), complaint.splitlines()[-1] if complaint else ""


def last_word(
    units: list[tuple[str, bool]], farewell: datetime | None = None
) -> tuple[LastWord | str, datetime | None]:
    """What systemd last did with the unit, however long ago, and when: stopped (it was asked to),
    restarting, started, or ''.

    Died: it ended by itself, and the last `farewell` in the gateway's log is older than that run.
    """
    for name, user in units:
        # Only what calls itself systemd: a gateway on a full disk writes hundreds of lines per start.
        by_systemd = "SYSLOG_IDENTIFIER=systemd"
        command = [
            "-r",
            "-n",
            "200",
            *(["--user"] if user else []),
            f"--user-unit={name}" if user else f"--unit={name}",
            by_systemd,
        ]
        try:
            lines, _ = _ask(command)
        except OSError:
            continue
        ended = None
        for line in lines:
            try:
                entry = json.loads(line)
                at = _at(entry)
            except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
                continue
            if _writer(entry) != "systemd":
                continue
            text = _text(entry.get("MESSAGE"))
            if entry.get("JOB_TYPE") == "stop":
                return (
                    LastWord.STOPPED,
                    at,
                )  # a crash that systemd answers by itself has start or restart here
            if "Scheduled restart job" in text:
                return LastWord.RESTARTING, at
            failed = text.startswith("Failed to start ")
            if failed and ended is None:
                ended = at
            if failed or text.startswith("Started "):
                # A boot ends everything without a word: what was started before it does not run because of
                # that.
                if ended is None and entry.get("_BOOT_ID") == _boot():
                    return LastWord.STARTED, at
                if ended is not None and farewell is not None and farewell < at:
                    return LastWord.DIED, ended
                break
            if ended is None and _ENDED.search(text) is not None:
                ended = at
    return "", None


def _at(entry: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(entry["__REALTIME_TIMESTAMP"]) / 1_000_000, UTC)


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip().replace("-", "")
    except OSError:
        return ""


def parse(
    lines: Iterable[bytes], name: str, chat: ChatText, since: datetime | None = None, until: datetime = EVER
) -> Iterator[Event]:
    """JSON lines → events; a line that is not JSON is passed over."""
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line[: 4 * LONGEST])
            at = _at(entry)
        except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
            continue
        if at > until or (since is not None and at < since):
            continue
        text = _text(entry.get("MESSAGE"))
        found = _LINE.match(text)
        level = found["level"] if found else _PRIORITY.get(str(entry.get("PRIORITY")), "")
        text, _, more = (text[found.end() :] if found else text).partition("\n")
        ambiguous = ""
        if chat.may_quote(text):
            text, _, ambiguous = chat.cut(text)
        logger = found["logger"] if found else _writer(entry)
        event = Event(at, "journal", text, f"{name}:{number}", (level, logger, ""))
        event.more = more
        event.distrust(ambiguous, None)
        yield event


def _writer(entry: dict[str, Any]) -> str:
    """'systemd' for the manager itself: the fields with an underscore are journald's own, the others anyone
    may set.
    """
    program, pid = entry.get("_EXE"), entry.get("_PID")
    # A process may call itself systemd (_COMM); which file it runs (_EXE) is the kernel's word.
    if (
        str(pid) == "1"
        or program in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
        or (program is None and pid is None)
    ):
        return "systemd"
    return f"process {str(entry.get('_COMM'))[:60]}"


def _text(message: Any) -> str:
    """journald writes an array of bytes when a message is not UTF-8."""
    if isinstance(message, list):
        try:
            return bytes(message[:LONGEST]).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return ""
    return message[:LONGEST] if isinstance(message, str) else ""

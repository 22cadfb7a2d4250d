"""The gateway's process as one event: what it is, since when, and what it left behind; and what its files tell."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from watchdog import gateway, sources
from watchdog.gateway.evidence import read_evidence, read_saved_evidence
from watchdog.gateway.state import GatewayState, LastWord, LastWords, State, Why, state_of
from watchdog.later import regex
from watchdog.model import Event, Line, Measurement, Phrase, Reason, phrase
from watchdog.sources.chat_text import digest_of
from watchdog.system.files import open_regular, read_object
from watchdog.system.procfs import began_at
from watchdog.text import spell
from watchdog.values import StrPath

BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
_TAIL = 128 * 1024
_OURS = timedelta(minutes=30)  # the longest that a stop of ours may take, with the gateway's own drain
_SESSIONS = 2_000_000  # bytes; the index of a few thousand chats
_MESSAGE = regex(rb"(?m)^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) [A-Z]+(?: \[[^\]\n]*\])? [\w.-]+: (.*)$")
_BLIND = {
    Why.NEVER_STARTED: "no gateway.pid and no readable gateway.log: was a gateway ever started here?",
    Why.PID_FILE_UNREADABLE: "{why}",
    Why.LOCK_HIDDEN: "gateway.lock may be held by a process of another container or of another home, which cannot be told here",
    Why.HOLDER_HIDDEN: "gateway.lock is held, but its holder (pid {pid}) cannot be seen",
    Why.HOLDER_STRANGE: "gateway.lock is held by process {pid} ({program}), which is no gateway",
    Why.LOCK_FILE_GONE: "gateway.lock is gone or was replaced, so nobody can tell whether process {pid} is this home's gateway",
    Why.PROCESS_HIDDEN: "process {pid}, which gateway.pid names, may not be looked at; run as its user",
}


class Farewells:
    """Which lines of gateway.log say that it starts or failed, and which that it was stopped."""

    def __init__(self, started: Iterable[Line], stopped: Iterable[Line]):
        self.started = [line.pattern for line in started if line.source == "gateway.log"]
        self.stopped = [line.pattern for line in stopped if line.source == "gateway.log"]

    def meaning(self, text: str) -> LastWord | None:
        """Whether this line says that it stopped or that it starts; None for any other."""
        if any(pattern.match(text) is not None for pattern in self.stopped):
            return LastWord.STOPPED
        return LastWord.STARTED if any(pattern.match(text) is not None for pattern in self.started) else None


def observe(
    home: StrPath,
    logs: StrPath,
    last_line_at: datetime | None,
    now: datetime,
    farewells: Farewells,
    unit: str = "auto",
) -> tuple[Event | None, str]:
    """(what is known of the gateway, why it is not known)."""
    seen = read_evidence(home, now, last_line_at)
    found = state_of(seen)
    # By its log or by systemd it may have been a stop; or what was a stop by its own files is older than a start
    # that could not write them, on a full disk for example.
    if found.state in (State.DEAD, State.STOPPED):
        words, said_at = last_words(os.path.join(logs, "gateway.log"), farewells)
        # A start that fails before it logs, or a stop between two of them, leaves no line: there systemd
        # knows better.
        by_systemd, at = ("", None)
        if words:
            from watchdog.sources.journal import last_word  # only for a gateway that is dead

            by_systemd, at = last_word(
                gateway.units_of(home, unit), said_at if words == LastWord.STOPPED else None
            )
        found = state_of(seen, LastWords(words or "", said_at, by_systemd, at))
    if found.state is State.UNKNOWN:
        return None, blind(found.reason)
    facts = _facts(found, now)
    if seen.record and seen.record.pid:
        facts.setdefault("pid", str(seen.record.pid))
    event = _event(now, {"home": str(home), **facts})
    event.more = found.exit_reason  # the gateway's own words: no fact
    return event, ""


def _facts(found: GatewayState, now: datetime) -> dict[str, str]:
    """What was measured, as text. A gateway that only starts runs, as far as any rule is concerned."""
    since, process = found.since, found.process
    if process is not None and since is None:
        since = began_at(process.start_time) if process.start_time else None
    facts = {
        "state": State.RUNNING if found.state is State.STARTING else found.state,
        "since": since.isoformat() if since else "" if found.alive else now.isoformat(),
        "pid": str(process.pid) if process else "",
        "silent": spell(found.reason.fields["silent"]) if found.state is State.FROZEN else "",
        "unsaid": "yes" if found.sure else "",  # the farewell in its log is another run's
        "alive_at": found.alive_at.isoformat() if found.alive_at else "",
        "missing_at": found.missing_at.isoformat() if found.missing_at else "",
        "exit_code": "" if found.exit_code is None else str(found.exit_code),
        "startup_failed": "yes" if found.startup_failed else "",
        "refused": "yes" if found.refused else "",
    }
    return {name: str(value) for name, value in facts.items() if value}


def blind(reason: Reason) -> Phrase:
    """Why the gateway cannot be seen."""
    return phrase(reason.key, _BLIND[Why(reason.key)], **reason.fields)


def stated(state: str, home: StrPath, at: datetime, since: datetime | None) -> tuple[Event | None, str]:
    """For a replay: what only a live machine could tell is as stated by the caller."""
    if state == "unknown":
        return None, sources.not_stated()
    facts = {"home": str(home), "state": state, "stated": "yes", "since": (since or at).isoformat()}
    if state != State.DEAD:
        return _event(at, facts), ""
    found = state_of(read_saved_evidence(home, at, since))
    event = _event(at, _facts(found, at) | facts)  # what a replay was told comes first
    event.more = found.exit_reason
    return event, ""


def lived_until(event: Event, measured: Iterable[Measurement]) -> None:
    """Put into a dead gateway's event that an earlier check saw it alive, when that was its last sign of life: it
    died after that.
    """
    facts = dict(event.facts)
    if facts.get("state") != State.DEAD:
        return
    known = {facts.get("pid"), None}
    seen = [past.at for past in measured if past.facts.get("pid") and str(past.facts["pid"]) in known]
    if not facts.get("pid"):  # its pid file is gone: any gateway that was seen here was this home's
        seen = [past.at for past in measured if past.facts.get("pid")]
    missing_at = facts.get("missing_at", event.at.isoformat())
    last = max((at.isoformat() for at in seen), default="")
    if facts.get("alive_at", "") < last <= missing_at:
        if facts.get("since") == facts.get("alive_at"):
            facts["since"] = last
        facts["alive_at"] = last
        event.facts = facts


def failed_to_start_again(event: Event, restarts: Iterable[datetime], starts: Iterable[datetime]) -> None:
    """Call a gateway dead that said farewell because a repair of ours stopped it, and that was not started again.

    `restarts` are the times of repairs that should have left it running and failed, `starts` those in its log.
    """
    if event.facts.get("state") != State.STOPPED:
        return
    stopped_at, last_start = datetime.fromisoformat(event.facts["since"]), max(starts, default=None)
    for at in restarts:
        if at <= stopped_at <= at + _OURS and (last_start is None or last_start < at):
            event.facts = {**event.facts, "state": State.DEAD, "unsaid": "yes"}


def sessions(home: StrPath) -> list[Event]:
    """One event with all that sessions.json tells: which session works for which chat.

    Hundreds of chats are one event: one for each would cost a quiet check as much as a start of Python.
    """
    found: list[dict[str, str]] = []
    name = ""
    for path in (os.path.join(home, "sessions", "sessions.json"), os.path.join(home, "sessions.json")):
        try:
            entries = read_object(path, _SESSIONS)
        except OSError:
            continue
        for key, entry in list(entries.items())[-2000:]:
            try:
                origin = entry["origin"]
                session, platform, chat = entry["session_id"], origin["platform"], origin["chat_id"]
                user = str(origin.get("user_name") or origin.get("user_id") or "unknown")
            except (TypeError, KeyError, AttributeError):
                continue
            if type(session) is type(platform) is type(chat) is str:
                who = digest_of(user)
                found.append(
                    {"session": session, "platform": platform, "chat": chat, "user": who, "key": key}
                )
        name = os.path.basename(path)
        break
    return [Event(BEFORE_ALL, "sessions", "", name, facts={"sessions": found})] if found else []


def last_words(log: str, farewells: Farewells) -> tuple[LastWord | None, datetime | None]:
    """(stopped or started, when it was said): the last of a gateway's comings and goings in its log; None when
    it cannot be told.
    """
    seen = False
    for path in (log, f"{log}.1"):
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
            if meaning := farewells.meaning(line.decode("utf-8", "replace")):
                return meaning, _said_at(stamp, lines[-1][0], status.st_mtime)
        if len(tail) == _TAIL:
            break  # so much was written since that it cannot have been a farewell
    return LastWord.STARTED if seen else None, None


def _said_at(stamp: bytes, last: bytes, written: float) -> datetime | None:
    """So long before the file was last written to as its last line is younger: true in whatever zone the
    stamps are.
    """
    try:
        since = datetime.fromisoformat(last.decode()) - datetime.fromisoformat(stamp.decode())
    except ValueError:
        return None
    return datetime.fromtimestamp(written, UTC) - since


def _event(at: datetime, facts: dict[str, str]) -> Event:
    text = phrase(f"event.gateway.{facts['state']}", f"gateway {facts['state']}")
    return Event(at, "gateway", text, "gateway.pid", facts={k: v for k, v in facts.items() if v})

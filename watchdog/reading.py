"""All sources of one home read as one stream of events, with what could not be seen told beside it."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from operator import attrgetter

from watchdog.model import Event, Line
from watchdog.paths import Path
from watchdog.sources.attention import Attention
from watchdog.sources.gate import Gate, gate_for
from watchdog.sources.localtime import SLACK
from watchdog.sources.logfile import LogFile
from watchdog.sources.margin import Margin
from watchdog.trace import Trace
from watchdog.values import dataclass, field

NO_COLUMN = "no such column"  # what SQLite says; the reason to compare a schema with what Hermes wants
LOGS = ("gateway.log", "agent.log", "errors.log")
_when = attrgetter("at")


@dataclass(frozen=True)
class Sources:
    """Where to look: a living home, or a folder of saved files."""

    home: Path
    zone: tzinfo | None = None  # of the log's local times; None: this machine's
    unit: str = "auto"
    state: Path | None = None  # the watchdog's own folder, with the backups that tell what a database once held
    stated: str = ""  # a replay says what the gateway's process was; '': look at the machine
    plain: bool = False  # no gate: every record is parsed and shown to every pattern (the reference engine)

    @property
    def logs(self) -> Path:
        folder = self.home / "logs"
        return folder if folder.is_dir() or not (self.home / "gateway.log").exists() else self.home


@dataclass
class Reading:
    """The events, and what could not be read; complete once the events have been consumed."""

    events: Iterator[Event]
    blind: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    traces: dict[Line, Trace] = field(default_factory=dict)  # of lines of which only the time is wanted
    attention: dict[str, Attention] = field(default_factory=dict)  # source → which of its lines matter right now
    logs: list[LogFile] = field(default_factory=list)  # held open: what was passed over may be asked for until the end
    last_at: datetime | None = None

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        for log in self.logs:
            log.close()


def read_all(sources: Sources, wanted: Mapping[str, list[Line]], since: datetime | None, now: datetime) -> Reading:
    """Everything the rules want to see of the window. A source that cannot be read is blind, never empty."""
    reading = Reading(iter(()))
    streams: list[Iterator[list[Event]]] = []
    for name in LOGS:
        if name in wanted:
            log = LogFile(sources.logs / name, sources.zone, whole=bool(sources.stated))
            try:
                log.open(since)
            except OSError as error:
                reading.blind[name] = _why(error, log.path)
                continue
            reading.logs.append(log)
            lines, aside = apart([] if sources.plain else wanted[name])
            gate = None if sources.plain else gate_for(lines)
            margins = [Margin(line, sources.zone, since, now, partial(_lose, reading, log)) for line in aside]
            reading.traces.update((line, margin.trace) for line, margin in zip(aside, margins, strict=True))
            if gate is not None:
                reading.attention[name] = Attention(gate)
            streams.append(in_order(_guarded(log, gate, since, now, reading, margins)))
    if "journal" in wanted:
        streams.append(_journal(sources, since, now, reading))
    if "sessions" in wanted:
        from watchdog.sources.gateway import sessions

        streams.append(in_order([sessions(sources.home, now)]))
    reading.events = _read(sources, wanted, streams, now, reading)
    return reading


def _read(
    sources: Sources, wanted: Mapping[str, list[Line]], streams: list[Iterator[list[Event]]], now: datetime, reading: Reading
) -> Iterator[Event]:
    """The logs in the order of time, then what is true now: the process and the databases."""
    complained = False
    for events in merged(streams):
        for event in events:
            if not complained and (NO_COLUMN in event.text or (event.more and NO_COLUMN in event.more)):
                complained = True
            yield event
        for attention in reading.attention.values() if events else ():
            attention.shown = events[-1].at
    for log in reading.logs:
        reading.notes.extend(log.notes)
    reading.last_at = max((log.last_at for log in reading.logs if log.last_at is not None), default=None)
    if "gateway" in wanted:
        from watchdog.sources import gateway

        if sources.stated:
            process, why = gateway.stated(sources.stated, sources.home, now, reading.last_at)
        else:
            process, why = gateway.observe(sources.home, sources.logs, reading.last_at, now, sources.unit)
        if process is not None:
            yield process
        else:
            reading.blind["gateway"] = why
    if "databases" in wanted:
        from watchdog.sources.database import observe

        try:
            for event in observe(sources.home, now, complained, live=not sources.stated, state=sources.state):
                if event.facts.get("grade") == "unknown":  # one of them is dark, the others can be seen
                    reading.blind[event.facts["database"]] = event.facts["fault"]
                yield event
        except OSError as error:
            reading.blind["databases"] = _why(error, sources.home)


def apart(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """(lines whose records are wanted, lines of which only the time is, and whose patterns are sure to end)."""
    aside = [line for line in dict.fromkeys(lines) if line.aside and line.pattern.sure]
    return [line for line in lines if line not in aside], aside


def _guarded(
    log: LogFile, gate: Gate | None, since: datetime | None, now: datetime, reading: Reading, margins: Sequence[Margin]
) -> Iterator[list[Event]]:
    try:
        yield from log.batches(gate, since, now, margins, reading.attention.get(log.path.name))
    except OSError as error:
        reading.blind[log.path.name] = _why(error, log.path)


def _lose(reading: Reading, log: LogFile, error: OSError) -> None:
    reading.blind[log.path.name] = _why(error, log.path)


def in_order(batches: Iterable[Iterable[Event]], slack: timedelta = SLACK) -> Iterator[list[Event]]:
    """Events that are a few seconds out of order, put in order, by the batch."""
    waiting: list[Event] = []
    for events in batches:
        waiting += events
        if waiting:
            waiting.sort(key=_when)
            ready = bisect_left(waiting, waiting[-1].at - slack, key=_when)
            if ready:
                yield waiting[:ready]
                del waiting[:ready]
    yield waiting


def merged(streams: list[Iterator[list[Event]]]) -> Iterator[list[Event]]:
    """Several ordered streams as one; of what happened at the same moment, the first stream's comes first."""
    held: list[list[Event]] = [[] for _ in streams]
    open_ones = set(range(len(streams)))
    while open_ones:
        for number in sorted(open_ones):
            while not held[number] and number in open_ones:
                more = next(streams[number], None)
                if more is None:
                    open_ones.discard(number)
                else:
                    held[number] = more
        # Up to the moment where the first of the streams must be asked again, all is known of all.
        limit = min((held[number][-1].at for number in open_ones), default=None)
        ready: list[Event] = []
        for number, events in enumerate(held):
            count = len(events) if limit is None else bisect_left(events, limit, key=_when)
            ready += events[:count]
            held[number] = events[count:]
        if not ready and limit is not None:
            # Whatever is left has the same time: ask those that end there for more.
            for number in sorted(open_ones):
                if held[number] and held[number][-1].at == limit:
                    more = next(streams[number], None)
                    if more is None:
                        open_ones.discard(number)
                    else:
                        held[number] = held[number] + more
        ready.sort(key=_when)
        yield ready
    yield sorted((event for events in held for event in events), key=_when)


def _journal(sources: Sources, since: datetime | None, now: datetime, reading: Reading) -> Iterator[list[Event]]:
    """A saved journal when there is one; systemd's when the gateway has a unit and was not running all the time."""
    from watchdog.sources import journal

    saved = sources.home / "journal.jsonl"
    if not saved.exists() and (sources.logs / "journal.jsonl").exists():
        saved = sources.logs / "journal.jsonl"
    try:
        if saved.exists():
            return in_order([[event for event in journal.from_file(saved, now) if since is None or event.at >= since]])
        if sources.stated or since is None or _ran_all_the_time(sources.home, since):
            return iter(())
        units = journal.units_of(sources.home, sources.unit)
        events: list[Event] = []
        for user in (False, True):
            names = [name for name, is_user in units if is_user == user]
            if names:
                events += journal.from_journalctl(names, user, since, now)
        return in_order([events])
    except journal.JournalBlind as error:
        reading.blind["journal"] = str(error)
    except OSError as error:
        reading.blind["journal"] = _why(error, saved)
    return iter(())


def _ran_all_the_time(home: Path, since: datetime) -> bool:
    """One process all through the window cannot have crashed in it; asking journalctl would cost more than the check."""
    from watchdog.process import began_at, start_time_of
    from watchdog.sources.gateway import read_json

    try:
        pid = read_json(home / "gateway.pid").get("pid")
    except OSError:
        return False
    ticks = start_time_of(pid) if isinstance(pid, int) and pid > 0 else None
    began = began_at(ticks) if ticks is not None else None
    return began is not None and began < since


def _why(error: OSError, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such file ({path}); is HERMES_HOME right?"
    if isinstance(error, PermissionError):
        return f"permission denied ({path}); run as the gateway's user{'' if os.getuid() else ' (even root is refused)'}"
    if isinstance(error, IsADirectoryError):
        return f"{path} is not a regular file"
    return f"{error.strerror or error} ({path})"

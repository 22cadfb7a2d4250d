"""All sources of one home read as one stream of events, with what could not be seen told beside it."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from math import inf
from operator import attrgetter, itemgetter
from time import monotonic

from watchdog import config, gateway, sqlite
from watchdog import sources as package
from watchdog.config.rulebook import Vocabulary
from watchdog.model import LOGS, Event, Line, Measurement, phrase
from watchdog.model.trace import Trace
from watchdog.sources import cron, databases, process, resources
from watchdog.sources.chat_text import ChatText
from watchdog.sources.classify import Classifier
from watchdog.sources.forgery import Doubts, find_doubts
from watchdog.sources.localtime import SET_BACK, SLACK, LocalClock, SetBack, agreed
from watchdog.sources.logfile import LogFile
from watchdog.sources.records import HEADER, Wanted
from watchdog.system.procfs import began_at, lock_holder, start_time_of
from watchdog.text import spell
from watchdog.values import TYPE_CHECKING, Any, StrPath, dataclass, field

if TYPE_CHECKING:
    from watchdog.sqlite import ToolCalls

RESOURCES = ("disk", "memory", "open_files")
NAMED = ("gateway.log", "agent.log")  # logs that hold user names
NAME_REACHES = timedelta(minutes=10)  # before the window, for an inbound line that reaches into it
MINUTE = timedelta(minutes=1)
SYSTEMD = "/run/systemd/system"  # there as long as systemd manages this machine, sd_booted(3)
RECORDS_WITHIN = 60.0  # seconds for finding a few records in a day of logs
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_when, _places = attrgetter("at"), itemgetter(0)


@dataclass(frozen=True)
class Sources:
    """Where to look: a living home, or a folder of saved files."""

    home: StrPath
    zone: tzinfo | None = None  # of the log's local times; None: this machine's
    unit: str = "auto"
    state: StrPath | None = None  # the watchdog's own folder, with the backups of the databases
    stated: str = ""  # a replay says what the gateway's process was; '': look at the machine
    plain: bool = False  # no gate: every record is parsed and shown to every pattern (the reference engine)
    vocabulary: Vocabulary = field(
        default_factory=lambda: config.shipped_vocabulary()
    )  # how the lines in there are written
    measured: tuple[Measurement, ...] = ()  # at past checks
    failed_restarts: tuple[datetime, ...] = ()  # repairs of ours that should have left the gateway running
    read_within: float = inf  # seconds for all logs; what is not read by then is blind
    # log → where its clock was set back, as a reading before this one found
    set_back: Mapping[str, Sequence[SetBack]] = field(default_factory=dict)

    @property
    def logs(self) -> str:
        folder = os.path.join(self.home, "logs")
        saved = not os.path.isdir(folder) and os.path.exists(os.path.join(self.home, "gateway.log"))
        return os.fspath(self.home) if saved else folder

    def tool_calls(self, asked: Sequence[tuple[str, datetime | None]]) -> list[ToolCalls]:
        """Which tools sessions waited for at a moment, as state.db has it."""
        saved = os.path.join(self.home, "state.before.db")  # a folder of saved files
        named = os.path.join(self.home, "state.db")
        return sqlite.unanswered_calls(
            saved if os.path.exists(saved) and not os.path.exists(named) else named, asked
        )


@dataclass
class Reading:
    """The events, and what could not be read; complete once the events have been consumed."""

    events: Iterator[Event]
    blind: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    traces: dict[Line, Trace] = field(default_factory=dict)  # of lines of which only the time is wanted
    # source → places of wanted lines whose pattern took too long, and what to say of it
    slow: dict[str, dict[int, str]] = field(default_factory=dict)
    logs: list[LogFile] = field(default_factory=list)
    last_at: datetime | None = None
    measured: dict[str, Any] = field(default_factory=dict)  # now, for the checks to come
    complained: bool = False  # the gateway complained about the schema of a database

    def set_back(self) -> dict[str, list[SetBack]]:
        """Where the clock of a log was set back; such a log is to be read again with this in its sources."""
        moments = agreed(log.set_back for log in self.logs)
        return {log.name: found for log, found in zip(self.logs, moments, strict=True) if found}

    def lost(self) -> dict[str, str]:
        """Logs that could not be read again when more of them was asked for, and why."""
        return {log.name: log.lost[0] for log in self.logs if log.lost}

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        for log in self.logs:
            log.close()


def read_all(
    sources: Sources, wanted: Mapping[str, list[Line]], since: datetime | None, now: datetime
) -> Reading:
    """Everything the rules want to see of the window. A source that cannot be read is blind, never empty."""
    reading = Reading(iter(()))
    streams: list[Iterator[list[Event]]] = []
    chat = ChatText(sources.vocabulary.with_chat_text())
    until = monotonic() + sources.read_within
    doubts = _doubts(sources, chat, since, until) if not wanted.keys().isdisjoint(NAMED) else Doubts()
    if doubts.too_many:
        reading.blind.update(dict.fromkeys(NAMED, package.too_many_doubts()))
    for name in LOGS:
        if name in wanted and name not in reading.blind:
            log = LogFile(
                os.path.join(sources.logs, name),
                sources.zone,
                bool(sources.stated),
                sources.set_back.get(name, ()),
            )
            log.read_until = until
            try:
                log.open(since)
            except OSError as error:
                reading.blind[name] = package.why_unreadable(error, log.path)
                continue
            reading.logs.append(log)
            lines = wanted[name]
            traces = {
                line: Trace() for line in lines if line.aside and line.pattern.sure and not sources.plain
            }
            reading.traces.update(traces)
            aside = [line.aside and line in traces for line in lines]
            asked = Wanted(
                [None if is_aside else line for line, is_aside in zip(lines, aside, strict=True)],
                chat,
                plain=sources.plain,
                doubts=doubts,
                copies=any(log.name == NAMED[0] for log in reading.logs[:-1]),
            )
            signs = None
            if traces:
                kept = [line if is_aside else None for line, is_aside in zip(lines, aside, strict=True)]
                signs = Wanted(kept, chat, traces, doubts=doubts)
            reading.slow[name] = asked.classifier.slow
            events = _guarded(log, log.events(asked, since, now, signs), reading, asked)
            streams.append(in_order(forward(events, _signs(lines) if sources.plain else frozenset())))
    classifiers = {name: Classifier(lines) for name, lines in wanted.items() if name not in LOGS}
    reading.slow.update((name, classifier.slow) for name, classifier in classifiers.items())
    if "journal" in wanted:
        entries = _journal(sources, chat, since, now, reading)
        streams.append(list(_classified(batch, classifiers, reading)) for batch in entries)
    if "sessions" in wanted:
        streams.append(in_order([_classified(process.sessions(sources.home), classifiers, reading)]))
    reading.events = chain.from_iterable(_read(sources, wanted, streams, classifiers, now, reading))
    return reading


def _doubts(sources: Sources, chat: ChatText, since: datetime | None, until: float) -> Doubts:
    """The records of gateway.log and agent.log that a user name may have written."""
    since = since - NAME_REACHES if since is not None else None
    logs = [
        LogFile(os.path.join(sources.logs, name), sources.zone, whole=bool(sources.stated)) for name in NAMED
    ]
    for log in logs:
        log.read_until = until
    try:
        gateway, agent = (log.blocks(since) if log.can_open(since) else None for log in logs)
        return find_doubts(gateway, agent, chat)
    except OSError:
        return Doubts()  # reading it for the rules meets the same error
    finally:
        for log in logs:
            log.close()


def _classified(
    events: Iterable[Event], classifiers: Mapping[str, Classifier], reading: Reading
) -> Iterator[Event]:
    """The same events, which are not from a log, with the wanted lines that they are."""
    for event in events:
        classifier = classifiers.get(event.source)
        if classifier is not None and not event.ambiguous:
            text = f"{event.text}\n{event.more}" if event.more else event.text
            found = classifier.matches(classifier.matchers, text, event.level, event.logger)
            event.matches = tuple(told for _, told in found)
            reading.complained = reading.complained or any(use.complaint for use, _ in found)
        yield event


def _read(
    sources: Sources,
    wanted: Mapping[str, list[Line]],
    streams: list[Iterator[list[Event]]],
    classifiers: Mapping[str, Classifier],
    now: datetime,
    reading: Reading,
) -> Iterator[Iterable[Event]]:
    """The logs in the order of time, then what is true now: the process and the databases."""
    yield from merged(streams)
    yield _classified(_now(sources, wanted, now, reading), classifiers, reading)


def _now(
    sources: Sources, wanted: Mapping[str, list[Line]], now: datetime, reading: Reading
) -> Iterator[Event]:
    """What is true now; the logs have been read."""
    for log in reading.logs:
        reading.notes.extend(log.notes)
        reading.notes.extend(
            phrase(
                "note.clock-set-back",
                f"{{log}}: the clock was set back by {spell(by)}; what was written before is dated by the new clock",
                log=log.name,
                by=by,
            )
            for moment in sources.set_back.get(log.name, ())
            if not moment.returned
            for by in (round(moment.by / MINUTE) * MINUTE,)
        )
    reading.last_at = max((log.last_at for log in reading.logs if log.last_at is not None), default=None)
    if "gateway" in wanted:
        if sources.stated:
            found, why = process.stated(sources.stated, sources.home, now, reading.last_at)
        else:
            role = sources.vocabulary.role
            farewells = process.Farewells((*role("started"), *role("failed")), role("stopped"))
            found, why = process.observe(
                sources.home, sources.logs, reading.last_at, now, farewells, sources.unit
            )
        if found is not None:
            process.lived_until(found, sources.measured)
            if sources.failed_restarts:
                starts = starts_in_log(sources, min(sources.failed_restarts), now)
                process.failed_to_start_again(found, sources.failed_restarts, starts)
            if found.facts["state"] in ("running", "frozen") and found.facts.get("pid"):
                reading.measured["pid"] = found.facts["pid"]
            yield found
        else:
            reading.blind["gateway"] = why
    yield from _resources(sources, wanted, now, reading)
    if "cron" in wanted:
        try:
            yield from cron.observe(sources.home, now)
        except cron.JobsUnreadable as error:
            reading.blind["cron"] = str(error)
        except OSError as error:
            reading.blind["cron"] = package.why_unreadable(
                error, os.path.join(sources.home, "cron", "jobs.json")
            )
    if "databases" in wanted:
        try:
            for event in databases.observe(
                sources.home, now, reading.complained, live=not sources.stated, state=sources.state
            ):
                if event.facts.get("grade") == "unknown":  # one of them is dark, the others can be seen
                    reading.blind[event.facts["database"]] = event.facts["fault"]
                yield event
        except OSError as error:
            reading.blind["databases"] = package.why_unreadable(error, sources.home)


def _resources(
    sources: Sources, wanted: Mapping[str, list[Line]], now: datetime, reading: Reading
) -> Iterator[Event]:
    """Past measurements, then those of now: of the home's volume, and of the gateway's process."""
    if wanted.keys().isdisjoint(RESOURCES):
        return
    saved = resources.saved_measurements(sources.home) if sources.stated else sources.measured
    past = [before for before in saved if before.at <= now]
    for before in past:
        yield from _measured_events(before, sources.home if sources.stated else None)
    if sources.stated:
        return
    if "disk" in wanted:
        try:
            reading.measured.update(resources.measure_disk(sources.home))
        except OSError as error:
            reading.blind["disk"] = package.why_unreadable(error, sources.home)
    reading.measured.update(_of_the_process(sources, past, reading))
    yield from _measured_events(Measurement(now, reading.measured), sources.home)


def _of_the_process(sources: Sources, past: list[Measurement], reading: Reading) -> dict[str, Any]:
    """Memory and open files of the process that holds the lock; of one that is gone, what its group still tells."""
    pid = lock_holder(os.path.join(sources.home, "gateway.lock"))
    if not pid:
        return resources.after_death(past) if pid == 0 else {}
    found = resources.measure_memory(pid)
    try:
        found |= resources.measure_files(pid)
    except OSError as error:
        reading.blind["open_files"] = package.why_unreadable(error, f"/proc/{pid}/fd")
    return found


def _measured_events(measured: Measurement, home: StrPath | None) -> Iterator[Event]:
    """One event for each part of a measurement; `home` is looked through where there is little room."""
    facts = measured.facts
    if "free" in facts:
        yield resources.disk_event(facts, measured.at, home)
    if "rss" in facts or "oom_kills" in facts:
        yield resources.memory_event(facts, measured.at)
    if "fds" in facts:
        yield resources.files_event(facts, measured.at)


def read_line(line: str, zone: tzinfo | None, vocabulary: Vocabulary) -> tuple[Event, bool]:
    """(one line of a log as the rules see it, whether chat text was cut out of it).

    Without a time stamp it is taken as the message alone, and its time is the beginning of time.
    """
    raw = line.encode()
    head = HEADER.match(raw)
    at = LocalClock(zone).read(head["stamp"]) if head else None
    message = raw[head.end() :].decode() if head and at else line
    first, _, more = message.partition("\n")
    text, facts, ambiguous = ChatText(vocabulary.with_chat_text()).cut(first)
    seen = head if at else None
    level, logger, session = (
        (seen[part] or b"").decode("utf-8", "replace") if seen else ""
        for part in ("level", "logger", "session")
    )
    event = Event(at or datetime.min.replace(tzinfo=UTC), "", text, "", (level, logger, session), facts)
    event.more = more
    event.distrust(ambiguous, None)
    return event, text != first


def starts_in_log(sources: Sources, since: datetime, now: datetime) -> tuple[datetime, ...]:
    """When the gateway said that it starts; nothing where its log cannot be read."""
    return tuple(at for at, _ in records_of("started", sources, since, now))


def records_of(
    role: str, sources: Sources, since: datetime, now: datetime
) -> list[tuple[datetime, dict[str, str]]]:
    """(when, what its pattern captured) of the records in gateway.log that have this role in the vocabulary.

    Nothing where the log cannot be read. A record that chat text may have forged does not count.
    """
    chat = ChatText(sources.vocabulary.with_chat_text())
    lines = [line for line in sources.vocabulary.role(role) if line.source == "gateway.log"]
    log = LogFile(os.path.join(sources.logs, "gateway.log"), sources.zone)
    log.read_until = monotonic() + RECORDS_WITHIN
    try:
        log.open(since)
        wanted = Wanted(lines, chat, doubts=_doubts(sources, chat, since, log.read_until))
        events = [event for batch in log.events(wanted, since, now) for event in batch]
    except OSError:
        return []
    finally:
        log.close()
    return [
        (event.at, dict(captures))
        for event in events
        if not event.ambiguous and event.doubt is None
        for _, captures in event.matches[:1]
    ]


def log_span(sources: Sources) -> tuple[datetime | None, datetime | None]:
    """When the first and the last record of any log were written."""
    times = []
    for name in LOGS:
        log = LogFile(os.path.join(sources.logs, name), sources.zone, whole=True)
        try:
            log.open(None)
            times += [at for at in log.ends() if at is not None]
        except OSError:
            continue
        finally:
            log.close()
    return min(times, default=None), max(times, default=None)


def unwatched_databases(sources: Sources) -> list[str]:
    """A line about databases that are there and that are not looked at: blind is not quiet."""
    if not os.path.isdir(os.path.join(sources.home, "kanban", "boards")):
        return []
    line = sqlite.passed_over(sources.home)
    return [line] if line else []


def _guarded(
    log: LogFile, batches: Iterable[list[Event]], reading: Reading, asked: Wanted
) -> Iterator[list[Event]]:
    try:
        yield from batches
        reading.complained = reading.complained or asked.complained
    except OSError as error:
        reading.blind[log.name] = package.why_unreadable(error, log.path)


def forward(batches: Iterable[list[Event]], signs: frozenset[int]) -> Iterator[list[Event]]:
    """The records of one log, none dated earlier than one that stands before it and that no user name can have written:
    whatever the clock did, no answer comes before its question. Signs keep their time, as they do in traces.
    """
    newest = _LONG_AGO
    for events in batches:
        for event in events:
            if signs and event.matches and signs.issuperset(chain.from_iterable(map(_places, event.matches))):
                continue
            if event.at >= newest or (newest - event.at > SET_BACK and not event.is_odd):
                newest = newest if event.is_odd else event.at
            else:
                event.at = newest
        yield events


def _signs(lines: Sequence[Line]) -> frozenset[int]:
    return frozenset(place for place, line in enumerate(lines) if line.aside and line.pattern.sure)


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


def _journal(
    sources: Sources, chat: ChatText, since: datetime | None, now: datetime, reading: Reading
) -> Iterator[list[Event]]:
    """A saved journal when there is one; systemd's, where that is at work, when the gateway has a unit and was not running
    all the time.
    """
    places = [os.path.join(folder, "journal.jsonl") for folder in (sources.home, sources.logs)]
    saved = next((path for path in places if os.path.exists(path)), "")
    nothing = sources.stated or not os.path.isdir(SYSTEMD)
    if not saved and (nothing or since is None or _ran_all_the_time(sources.home, since)):
        return iter(())
    units = [] if saved else gateway.units_of(sources.home, sources.unit)
    if not saved and not units:
        return iter(())
    # Not at the top: of a gateway that ran all the time, or has no unit, nothing is asked.
    from watchdog.sources import journal

    try:
        if saved:
            return in_order(
                [
                    [
                        event
                        for event in journal.from_file(saved, now, chat)
                        if since is None or event.at >= since
                    ]
                ]
            )
        assert since is not None
        events: list[Event] = []
        for user in (False, True):
            names = [name for name, is_user in units if is_user == user]
            if names:
                events += journal.from_journalctl(names, user, since, now, chat)
        return in_order([events])
    except journal.JournalBlind as error:
        reading.blind["journal"] = str(error)
    except OSError as error:
        reading.blind["journal"] = package.why_unreadable(error, saved or places[0])
    return iter(())


def _ran_all_the_time(home: StrPath, since: datetime) -> bool:
    """One process all through the window cannot have crashed in it; asking journalctl would cost more than
    the check.
    """
    ticks = start_time_of(lock_holder(os.path.join(home, "gateway.lock")) or 0)
    began = began_at(ticks) if ticks is not None else None
    return began is not None and began < since

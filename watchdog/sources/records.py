"""Bytes of a log → records that some rule wants, with chat text cut out and tracebacks joined.

This is where a long log costs its time, so what most records need comes first and in plain steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType

from watchdog.config.pattern import LONGEST
from watchdog.model import Doubt, Event, Line
from watchdog.model.trace import Trace
from watchdog.sources.chat_text import QUOTED_END, ChatText
from watchdog.sources.classify import Classifier, Match, Matcher
from watchdog.sources.forgery import Doubts
from watchdog.sources.localtime import LocalClock
from watchdog.sources.prefilter import BEFORE, Prefilter
from watchdog.values import Any

# Each digit by itself: re takes longer to count them.
_TIME = rb"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
HEADER: re.Pattern[bytes] = re.compile(
    rb"(?P<stamp>%b) (?P<level>[A-Z]+)(?: \[(?P<session>[^\]\n]{0,200})\])? (?P<logger>[\w.-]{1,200}): "
    % _TIME
)
STAMP: re.Pattern[bytes] = re.compile(rb"%b [A-Z]" % _TIME)
NEXT: re.Pattern[bytes] = re.compile(rb"\n(?=%b [A-Z])" % _TIME)
STAMP_ENDS = 23  # bytes of a line's time
EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SLIP = timedelta(minutes=1)  # after now; more than that is another clock
MEMORY = 5000  # of each kind that are remembered
_NOTHING: Mapping[str, str] = {}
Names = tuple[str, str, str]  # level, logger, session
Use = tuple[
    tuple[int, ...], tuple[Trace, ...], bool
]  # places to tell of, traces, whether the next record's time matters


Way = tuple[list[Matcher], tuple[Trace, ...]]  # matchers, and the traces that the literal alone decides on


class _Ways(dict[int, Way | None]):
    """Number of a literal → what to do with a record that it begins; of those that the log holds."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted

    def __missing__(self, literal: int) -> Way | None:
        way = self[literal] = self.wanted.ways(literal)
        return way


class Wanted:
    """What is wanted from one log. Places without a line are somebody else's."""

    def __init__(
        self,
        lines: Sequence[Line | None],
        chat: ChatText,
        traces: Mapping[Line, Trace] = MappingProxyType({}),
        plain: bool = False,
        doubts: Doubts | None = None,
    ):
        self.chat, self.plain = chat, plain
        self.doubts = doubts or Doubts()  # the records that a name may have written
        self.lines, self.traces = lines, traces  # lines of which only time and session are noted
        self.uses: dict[tuple[int, ...], Use] = {}
        self.quick = _Ways(self)

    # Made when the first block is read: the signs of a log are hardly ever asked for.
    @cached_property
    def classifier(self) -> Classifier:
        return Classifier(self.lines)

    @cached_property
    def prefilter(self) -> Prefilter | None:
        """None for the plain way, by which the other is judged: every record is parsed and shown to everything."""
        prefilter = None if self.plain else Prefilter(self.lines, self.chat.doubtful)
        return None if prefilter is None or prefilter.open else prefilter

    def ways(self, literal: int) -> Way | None:
        """What to do with a record that begins with this literal; None when it must be looked at."""
        places = self.prefilter.alone(literal) if self.prefilter is not None else None
        return None if places is None else (self.classifier.candidates(places), self._signs(places))

    def _signs(self, places: Sequence[int]) -> tuple[Trace, ...]:
        """The traces of these lines, when the beginning of the message is all that they ask for."""
        lines = [line for place in places if (line := self.lines[place]) is not None]
        if any(
            line not in self.traces or line.level or line.logger or not line.pattern.is_head for line in lines
        ):
            return ()
        return tuple(dict.fromkeys(self.traces[line] for line in lines))

    def use(self, places: tuple[int, ...]) -> Use:
        """What to do with a record that is these lines."""
        found = self.uses.get(places)
        if found is None:
            lines = {place: line for place in places if (line := self.lines[place]) is not None}
            traced = dict.fromkeys(self.traces[line] for line in lines.values() if line in self.traces)
            left = tuple(place for place, line in lines.items() if line not in self.traces)
            found = self.uses[places] = left, tuple(traced), any(line.followed for line in lines.values())
        return found


class RecordReader:
    """Bytes → events, remembering across blocks what a forged line needs."""

    def __init__(
        self,
        source: str,
        clock: LocalClock,
        wanted: Wanted,
        since: datetime | None = None,
        until: datetime | None = None,
    ):
        self.source, self.clock, self.wanted, self.chat = source, clock, wanted, wanted.chat
        self.since, self.until = since or EVER[0], until or EVER[1]
        self.doubts = wanted.doubts
        self.behind_torn = False  # the record stands behind another on the same line
        self.glued: list[Event] = []  # records that stand behind a torn one on the same line
        self.first_at: datetime | None = None  # of the block's first record, wanted or not
        self.last_at: datetime | None = None  # of the newest record, wanted or not
        self.future = 0  # records dated well after the window: a gateway writes on while it is looked at
        self.names: dict[bytes, Names] = {}  # what stands between time and message → level, logger, session
        self.inbound: dict[tuple[str, Names], list[Match]] = {}
        self.where, self.offset, self.following = "", 0, b""

    def records(self, name: str, offset: int, block: bytes, following: bytes) -> list[Any]:
        """The records of one block and of the window that some rule wants."""
        self.where, self.offset, self.following, self.glued = name, offset, following, []
        first = HEADER.match(block) or HEADER.search(block)
        self.first_at = self.clock.read(first[1]) if first else None
        prefilter = self.wanted.prefilter
        if prefilter is None:
            matchers = self.wanted.classifier.matchers
            found = []
            for head, start, stop in _all(block):
                if head is not None and (event := self._record(block, *_parts(head), stop, matchers)):
                    found.append(event)
                self._after_torn(block, start, stop)
        else:
            found = self._marked(prefilter, block)
        if newest := HEADER.match(block, last_record(block)):
            self.last_at = self.clock.read(newest[1]) or self.last_at
        return [*found, *self.glued] if self.glued else found

    def _marked(self, prefilter: Prefilter, block: bytes) -> list[Event]:
        found: list[Event] = []
        rfind, find, names = block.rfind, block.find, self.names
        quick, read, record, stamped = self.wanted.quick, self.clock.read, self._record, STAMP.match
        since, until, size, walls_forged = self.since, self.until, len(block), self.doubts.walls_forged
        marks = prefilter.marks(block)
        next_marks = [*[mark[1] for mark in marks[1:]], size]
        passed = 0  # what begins before here was looked at
        for (number, at, _), next_at in zip(marks, next_marks, strict=False):
            if at < passed:
                continue
            start = rfind(b"\n", 0, at) + 1
            ways = quick[number]
            told = names.get(block[start + STAMP_ENDS : at + len(BEFORE)]) if ways is not None else None
            if told is None or ways is None:
                event, passed = self._look_closer(prefilter, block, start, at)
                if event is not None:
                    found.append(event)
                continue
            matchers, signs = ways
            if signs and not walls_forged and (not prefilter.bodies or find(b"\n", at, next_at) >= 0):
                when = read(block[start : start + STAMP_ENDS])
                if when is not None and since <= when <= until:
                    for trace in signs:
                        trace.note(when, told[2])
                elif when is not None and when > until:
                    self.future += when - until > SLIP
                continue
            stop = find(b"\n", at) + 1 or size
            if next_at < stop or (stop < size and stamped(block, stop) is None):
                event, passed = self._look_closer(prefilter, block, start, at)
            else:
                passed = stop
                event = record(block, start, at + len(BEFORE), told, stop, matchers)
            if event is not None:
                found.append(event)
        return found

    def _look_closer(
        self, prefilter: Prefilter, block: bytes, start: int, at: int
    ) -> tuple[Event | None, int]:
        """(the record to which the literal belongs, if somebody wants it; where it ends)."""
        head = HEADER.match(block, start)
        while head is None and start and not STAMP.match(block, start):
            start = block.rfind(b"\n", 0, start - 1) + 1  # a literal in a traceback belongs to its record
            head = HEADER.match(block, start)
        after = NEXT.search(block, at)
        stop = after.start() + 1 if after else len(block)
        event = self._looked_at(prefilter, block, head, start, stop) if head is not None else None
        self._after_torn(block, start, stop)
        return event, stop

    def _looked_at(
        self, prefilter: Prefilter, block: bytes, head: re.Match[bytes], start: int, stop: int
    ) -> Event | None:
        message = head.end()
        places = prefilter.places(block[start:stop], message - start)
        if not places and not block.startswith(prefilter.doubtful, message):
            return None
        start, message, told = _parts(head)
        _remember(self.names, block[start + STAMP_ENDS : message], told)
        matchers = self.wanted.classifier.candidates(places)
        return self._record(block, start, message, told, stop, matchers)

    def _record(
        self, block: bytes, start: int, message: int, told: Names, stop: int, matchers: Sequence[Matcher]
    ) -> Event | None:
        """The record when it is in the window and somebody wants it, or when it cannot be believed."""
        at = self.clock.read(block[start : start + STAMP_ENDS])
        if at is None:
            return None
        chat, more, facts, ambiguous = self.chat, "", _NOTHING, ""
        level, logger, session = told
        doubt = self.doubts.of(block, start) if self.doubts.records else None
        if self.behind_torn:
            doubt = Doubt()
        if doubt is not None and doubt.forged:
            ambiguous, doubt = "it follows a user name with a line break in it", None
        named = block.startswith(chat.doubtful, message)
        known = chat.cut_honest(block, message, stop) if named else None
        if known is not None:
            text, facts = known
        else:
            text, more, facts, why = self._cut(block, message, stop)
            ambiguous = ambiguous or why
        if at > self.until or at < self.since:
            self.future += at - self.until > SLIP
            return None
        matches: list[Match] = []
        next_at = None
        if ambiguous and known is None and named and text != chat.head_of(text):
            doubt = Doubt()
        if not ambiguous or doubt is not None:
            for places, captures in self._matches(matchers, text, more, told, known is not None):
                left, traced, followed = self.wanted.use(places)
                for trace in traced:
                    trace.note(at, session) if doubt is None else trace.doubt(at, session)
                if left:
                    matches.append((left, captures))
                if followed:
                    after = (
                        block[stop : stop + STAMP_ENDS] if stop < len(block) else self.following[:STAMP_ENDS]
                    )
                    next_at = self.clock.read(after)
            if not matches and not ambiguous:
                return None
        where = f"{self.where}@{self.offset + start}"
        return Event(
            at, self.source, text, where, logger, level, session, facts, more, next_at, matches, ambiguous, doubt
        )  # fmt: skip

    def _after_torn(self, block: bytes, start: int, stop: int) -> None:
        """Records that follow a line without an end on the same line: a full disk cut it, or it quotes them."""
        line, quoted = 0, (0, 0)  # where the line ends that was looked at last, and its quoted text
        for head in HEADER.finditer(block, start + 1, min(stop, start + LONGEST)):
            if block[head.start() - 1 : head.start()] == b"\n":
                continue
            end = block.find(b"\n", head.end()) + 1 or stop
            if end != line:
                line, quoted = end, _quoted(block, block.rfind(b"\n", 0, head.start()) + 1, end)
            if quoted[0] < head.start() < quoted[1]:
                continue
            self.behind_torn = True
            event = self._record(block, *_parts(head), min(end, stop), self.wanted.classifier.matchers)
            self.behind_torn = False
            if event is not None and event.matches:
                self.glued.append(event)

    def _cut(self, block: bytes, message: int, stop: int) -> tuple[str, str, Mapping[str, str], str]:
        """(the first line without chat text, the others, digests of what was cut, why it is ambiguous)."""
        raw = block[message : stop if stop - message <= LONGEST else message + LONGEST]
        text, _, more = str(raw, "utf-8", "replace").partition("\n")
        text, more = text.rstrip("\r\0"), more.rstrip("\n")
        if not self.chat.may_quote(text):
            return text, more, _NOTHING, ""
        text, facts, ambiguous = self.chat.cut(text)
        return text, more, facts, ambiguous

    def _matches(
        self, matchers: Sequence[Matcher], text: str, more: str, told: Names, honest: bool
    ) -> list[Match]:
        if not honest:
            message = f"{text}\n{more}" if more else text
            return self.wanted.classifier.matches(matchers, message, told[0], told[1])
        # With its words cut out, a message of the same chat is the same text every time.
        found = self.inbound.get((text, told))
        if found is None:
            found = self.wanted.classifier.matches(matchers, text, told[0], told[1])
            _remember(self.inbound, (text, told), found)
        return found


def _quoted(block: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the quoted text stands of a line that ends as Hermes ends one: there nothing is torn."""
    found = QUOTED_END.search(block, start, stop)
    return found.span("quoted") if found is not None else (0, 0)


def _parts(head: re.Match[bytes]) -> tuple[int, int, Names]:
    _, level, session, logger = (str(part or b"", "utf-8", "replace") for part in head.groups())
    return *head.span(), (level, logger, session)


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) > MEMORY:
        memory.clear()
    memory[key] = value


def _all(block: bytes) -> Iterator[tuple[re.Match[bytes] | None, int, int]]:
    """(header, beginning, end) of each record; what begins with a time and has no header was torn."""
    start = 0
    for found in NEXT.finditer(block):
        yield HEADER.match(block, start), start, found.start() + 1
        start = found.start() + 1
    yield HEADER.match(block, start), start, len(block)


def last_record(block: bytes) -> int:
    """Where the last record of the block begins; it may go on in the next block."""
    end = len(block)
    while (at := block.rfind(b"\n2", 0, end)) >= 0:
        if HEADER.match(block, at + 1):
            return at + 1
        end = at
    return 0

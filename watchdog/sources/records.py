"""Bytes of a log → records that some rule wants, with chat text cut out and tracebacks joined.

This is where a long log costs its time, so what most records need comes first and in plain steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from types import MappingProxyType

from watchdog.config.pattern import LONGEST
from watchdog.errors import SlowPattern
from watchdog.model import Doubt, Event, Line, phrase
from watchdog.model.trace import Trace, whose
from watchdog.sources.chat_text import QUOTED_END, ChatText, Shape, digest, digest_of
from watchdog.sources.classify import (
    MISSING,
    ZEROS,
    BytesReader,
    Classifier,
    Match,
    Matcher,
    WordMatcher,
    may_quote,
    remember,
)
from watchdog.sources.forgery import Doubts
from watchdog.sources.localtime import LocalClock
from watchdog.sources.prefilter import BEFORE, Prefilter
from watchdog.values import Any

# Each digit by itself: re takes longer to count them.
BEHIND_A_NAME = phrase("ambiguous.behind-a-name", "a record that follows a user name with a line break in it")
_TIME = rb"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
HEADER: re.Pattern[bytes] = re.compile(
    rb"(?P<stamp>%b) (?P<level>[A-Z]+)(?: \[(?P<session>[^\]\n]{0,200})\])? (?P<logger>[\w.-]{1,200}): "
    % _TIME
)
STAMP: re.Pattern[bytes] = re.compile(rb"%b [A-Z]" % _TIME)
NEXT: re.Pattern[bytes] = re.compile(rb"\n(?=(%b) [A-Z])" % _TIME)
STAMP_ENDS = 23  # bytes of a line's time
EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SLIP = timedelta(minutes=1)  # after now; more than that is another clock
MEMORY = 5000  # of each kind that are remembered
CROWD = 8  # words that a record may be
RARE = 30  # records of one kind, for each of its patterns
FEW, SHORT = 200, 500  # messages of one kind that are remembered as they are, and bytes of one
LONGEST_SESSION = 200
_NOTHING: Mapping[str, str] = {}
Names = tuple[str, str, str]  # level, logger, session
# text, digests of what was cut out of it, what it is (MISSING: not found out yet)
Reading = tuple[Any, Mapping[str, str], Match | None]
_UNREAD: Reading = b"", _NOTHING, MISSING


class Way:
    """What to do with a record in which one literal stands and no other."""

    __slots__ = (
        "begins",
        "crowded",
        "exact",
        "matchers",
        "only",
        "rare",
        "reader",
        "shape",
        "signs",
    )

    def __init__(self, begins: bytes, matchers: list[Matcher], signs: tuple[Trace, ...], shape: Shape | None):
        self.matchers = matchers
        self.crowded = len(matchers) > CROWD  # to find out which of them it may be pays
        self.only = matchers[0] if len(matchers) == 1 else None
        self.signs = signs  # the traces of which the literal alone decides
        self.shape = shape  # how the line is written, if there is chat text in it
        # For a message of ASCII in one line. Compiling that does not pay for a few records.
        self.reader: BytesReader | None = None
        # The same of messages that must be read otherwise, by what they say and by level and logger.
        self.exact: dict[tuple[bytes, str, str], Match | None] = {}
        self.begins, self.rare = begins, RARE * (self.only.variants if self.only is not None else 1)

    def match(self, raw: bytes, header: Names, zeroed: bytes = b"") -> Match | None:
        """What the message is; None when it is nothing, MISSING when that is not found out so simply."""
        if (reader := self.reader) is None:
            return self._match_exactly(raw, header)
        zeroed = zeroed or raw.translate(ZEROS)
        alike = reader.alike.get(zeroed, MISSING)
        if alike is MISSING:
            alike = reader.look_through(raw, zeroed)
        if alike is None:
            return self._match_exactly(raw, header)
        for literal in alike.telling:
            if raw.find(literal) >= 0:
                return self._match_exactly(raw, header)
        match: Match | None = alike.match
        if match is MISSING:
            captured = tuple([raw[start:stop] for _, start, stop in alike.spans])
            match = alike.known.get(captured, MISSING)
            if match is MISSING:
                assert isinstance(self.only, WordMatcher)
                match = self.only.lines_for(reader.meaning(alike, captured), header[0], header[1])
                remember(alike.known, captured, match, MEMORY)
            if not alike.varies:
                alike.match = match
        return match

    def _match_exactly(self, raw: bytes, header: Names) -> Match | None:
        if may_quote(raw) or raw[-1:] == b"\r" or len(raw) > LONGEST:
            return MISSING
        match: Match | None = self.exact.get((raw, header[0], header[1]), MISSING)
        if match is MISSING:
            self.rare -= 1
            if not self.rare and self.only is not None:
                self.reader = self.only.in_bytes(self.begins)
            match = self.match_text(str(raw, "utf-8", "replace"), header)
            if len(raw) < SHORT and match is not MISSING:
                remember(self.exact, (raw, header[0], header[1]), match, FEW)
        return match

    def match_text(self, text: str, header: Names) -> Match | None:
        """The same of a text without chat text in it."""
        found: Match | None = None
        for matcher in self.matchers:
            try:
                match = MISSING if matcher.slow else matcher.match(text, header[0], header[1])
            except SlowPattern:
                return MISSING
            if match is not None:
                if found is not None or match is MISSING:
                    return MISSING
                found = match
        return found


class Wanted:
    """What is wanted from one log. Places without a line belong to others."""

    def __init__(
        self,
        lines: Sequence[Line | None],
        chat: ChatText,
        traces: Mapping[Line, Trace] = MappingProxyType({}),
        plain: bool = False,
        doubts: Doubts | None = None,
        copies: bool = False,
    ):
        self.chat, self.plain = chat, plain
        self.copies = copies  # every record with a user name in it stands in another log that is read, too
        self.doubts = doubts or Doubts()  # the records that a name may have written
        self.lines, self.traces = lines, traces  # lines of which only time and session are noted
        self.complained = False  # a record was met that is a reason to compare the databases' schema

    # Made when the first block is read: the signs of a log are hardly ever asked for.
    @cached_property
    def classifier(self) -> Classifier:
        return Classifier(self.lines, self.traces)

    @cached_property
    def prefilter(self) -> Prefilter | None:
        """None for the plain way, by which the other is judged: every record is parsed and shown to everything."""
        named = () if self.copies else self.chat.doubtful
        prefilter = None if self.plain else Prefilter(self.lines, named)
        return None if prefilter is None or prefilter.open else prefilter

    def way(self, literal: int) -> Way:
        """What to do with a record in which no literal but this one is found."""
        assert self.prefilter is not None
        places = self.prefilter.alone(literal)
        is_head = literal < len(self.prefilter.heads)
        begins = self.prefilter.literals[literal].removeprefix(BEFORE) if is_head else b""
        shape = next((shape for shape in self.chat.shapes if begins.startswith(shape.raw_head)), None)
        return Way(begins, self.classifier.candidates(places), self._signs(places), shape)

    def _signs(self, places: Iterable[int]) -> tuple[Trace, ...]:
        """The traces of these lines, when the beginning of the message is all that they ask for."""
        lines = [line for place in sorted(places) if (line := self.lines[place]) is not None]
        if any(
            line not in self.traces or line.level or line.logger or line.by or not line.pattern.is_head
            for line in lines
        ):
            return ()
        return tuple(dict.fromkeys(self.traces[line] for line in lines))


class RecordReader:
    """Bytes → events of one log."""

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
        self.doubts, self.doubted = wanted.doubts, wanted.doubts.stamps  # and when those were written
        self.behind_torn = False  # the record stands behind another on the same line
        self.glued: list[Event] = []  # records that stand behind a torn one on the same line
        self.first_at: datetime | None = None  # of the block's first record, wanted or not
        self.last_at: datetime | None = None  # of the newest record, wanted or not
        self.future = 0  # records dated well after the window: a gateway writes on while it is looked at
        self.kinds: dict[bytes, tuple[str, str]] = {}  # the same without a session → level, logger
        self.names: dict[bytes, Names] = {}  # what stands between time and message → level, logger, session
        # who writes where → header, text, digest of the name, what it is: but for its words, always the same
        self.inbound: dict[bytes, tuple[Names, str, str, Match | None]] = {}
        self.ways: dict[int, Way] = {}  # number of a literal → what to do with a record that holds it
        self.where, self.offset, self.following = "", 0, b""

    def records(self, name: str, offset: int, block: bytes, following: bytes) -> list[Event]:
        """The records of one block and of the window that some rule wants."""
        self.where, self.offset, self.following, self.glued = name, offset, following, []
        first = HEADER.match(block) or HEADER.search(block)
        self.first_at = self._time(block, first) if first else None
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
            self.last_at = self._time(block, newest) or self.last_at
        return [*found, *self.glued] if self.glued else found

    def _time(self, block: bytes, head: re.Match[bytes]) -> datetime | None:
        stamp = self.doubts.stamp(block, head.start())
        return self.clock.read(stamp, sure=self.doubts.of(block, head.start()) is None)

    def _marked(self, prefilter: Prefilter, block: bytes) -> list[Event]:
        """The records that hold a literal. Most are one line with one literal and a known header, and are read in plain
        steps.
        """
        found: list[Event] = []
        marks = prefilter.marks(block)
        if not marks:
            return found
        rfind, find, names, doubted = block.rfind, block.find, self.names, self.doubted
        ways, read, stamped = self.ways, self.clock.read, STAMP.match
        size, heads, walls_forged = len(block), len(prefilter.heads), self.doubts.walls_forged
        where, base, since, until = self.where, self.offset, self.since, self.until
        next_marks = chain(map(itemgetter(1), islice(marks, 1, None)), [size])
        passed = 0  # what begins before here was looked at
        for (number, at, _), next_at in zip(marks, next_marks, strict=True):
            if at < passed:
                continue
            start = rfind(b"\n", 0, at) + 1
            stop = find(b"\n", at) + 1
            way = ways.get(number) or self._way(number)
            begins = start + STAMP_ENDS
            message = at + 2 if number < heads else find(BEFORE, begins) + 2
            header = None
            if (
                next_at >= stop > 0
                and not way.crowded
                and (number < heads or STAMP.search(block, message, at + 2) is None)
            ):
                header = names.get(block[begins:message]) or self._header(block, start, message)
            stamp = block[start:begins]
            if header is not None and way.signs and not walls_forged:
                self._note(stamp, header[2], way.signs)
                continue
            if header is None or (stop != size and stamped(block, stop) is None):
                event, passed = self._look_closer(prefilter, block, start, at)
                if event is not None:
                    found.append(event)
                continue
            passed = stop
            raw, facts = block[message : stop - 1], _NOTHING
            if doubted and stamp in doubted:
                match: Match | None = MISSING
            elif way.shape is None:
                match = way.match(raw, header)
            else:
                raw, facts, match = self._read_chat(way.shape, raw, header, way)
            if match is MISSING:
                event = self._record(block, start, message, header, stop, way.matchers)
                if event is not None:
                    found.append(event)
                continue
            moment = read(stamp)
            if moment is None or moment < since or moment > until:
                self.future += moment is not None and moment - until > SLIP
            elif match is not None:
                use, told = match
                event = Event(moment, self.source, raw, (where, base + start), header, facts, (told,))
                if use.places:
                    found.append(event)
                if use.rare:
                    self._use(match, event, block, stop)
        return found

    def _way(self, number: int) -> Way:
        way = self.ways[number] = self.wanted.way(number)
        return way

    def _header(self, block: bytes, start: int, message: int) -> Names | None:
        """What stands before the message that begins there; None when the line begins otherwise."""
        raw_header = block[start + STAMP_ENDS : message]
        # A session is met for the first time far more often than a level with a logger.
        before, bracket, rest = raw_header.partition(b" [")
        session, behind, after = rest.partition(b"] ")
        kind = (
            self.kinds.get(before + behind + after) if bracket and len(session) <= LONGEST_SESSION else None
        )
        if kind is not None and session.find(b"]") < 0 and session.find(b"\n") < 0:
            header = (*kind, str(session, "utf-8", "replace"))
        else:
            head = HEADER.match(block, start)
            if head is None or head.end() != message:
                return None
            header = _parts(head)[2]
            if bracket:
                remember(self.kinds, before + behind + after, header[:2], MEMORY)
        remember(self.names, raw_header, header, MEMORY)
        return header

    def _note(self, stamp: bytes, session: str, signs: Sequence[Trace]) -> None:
        at = self.clock.read(stamp)
        if at is not None and self.since <= at <= self.until:
            for trace in signs:
                trace.note(at, session)
        elif at is not None:
            self.future += at - self.until > SLIP

    def _look_closer(
        self, prefilter: Prefilter, block: bytes, start: int, at: int
    ) -> tuple[Event | None, int]:
        """(the record to which the literal belongs, if it is wanted; where it ends)."""
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
        start, message, header = _parts(head)
        matchers = self.wanted.classifier.candidates(places)
        return self._record(block, start, message, header, stop, matchers)

    def _read_chat(self, shape: Shape, raw: bytes, header: Names, way: Way) -> Reading:
        """A line with chat text in it, if nothing about it is out of the ordinary: what stands before the quoted text is in
        plain words, that text has no escapes, and what follows it changes nothing.
        """
        fields, _, rest = raw.partition(shape.opens)
        said, closed, tails = rest.partition(b"'")
        if len(raw) > LONGEST or not closed or not said or said.find(b"\\") >= 0:
            return _UNREAD
        if tails not in shape.known_tails and not shape.changes_nothing(tails):
            return _UNREAD
        facts = {"said": digest(str(said, "utf-8", "replace"))}
        if not shape.has_name:
            zeroed = fields.translate(ZEROS)
            if zeroed not in shape.known_fields and not shape.is_plain(fields, zeroed):
                return _UNREAD
            return fields, facts, way.match(fields, header, zeroed)
        known = self.inbound.get(fields)
        if known is None or known[0] is not header:
            honest = shape.plain_fields.fullmatch(fields)
            if honest is None:
                return _UNREAD
            begin, end = honest.span("name")
            text = str(fields[:begin] + "…".encode() + fields[end:], "utf-8", "replace")
            user = digest_of(str(honest["name"], "utf-8", "replace"))
            known = header, text, user, way.match_text(text, header)
            if known[3] is MISSING:
                return _UNREAD
            remember(self.inbound, fields, known, MEMORY)
        _, text, facts["user"], match = known
        return text, facts, match

    def _record(
        self, block: bytes, start: int, message: int, header: Names, stop: int, matchers: Sequence[Matcher]
    ) -> Event | None:
        """The record when it is in the window and wanted, or when it cannot be believed."""
        facts: Mapping[str, str]
        ambiguous, doubt = (
            self._doubt(block, start) if self.doubts.records or self.behind_torn else ("", None)
        )
        at = self.clock.read(self.doubts.stamp(block, start), sure=doubt is None and not ambiguous)
        if at is None or at < self.since or at > self.until:
            self.future += at is not None and at - self.until > SLIP
            return None
        level, logger, _ = header
        text, more, facts, why = self._cut(block, message, stop)
        ambiguous = ambiguous or why
        if why and block.startswith(self.chat.doubtful, message) and text != self.chat.head_of(text):
            doubt = Doubt()
        found: Sequence[Match] = ()
        if not ambiguous or doubt is not None:
            whole = f"{text}\n{more}" if more else text
            found = self.wanted.classifier.matches(matchers, whole, level, logger)
        if not found and not ambiguous:
            return None
        matches = tuple(told for use, told in found if use.places)
        event = Event(at, self.source, text, (self.where, self.offset + start), header, facts, matches)
        if more:
            event.more = more
        event.distrust(ambiguous, doubt)
        for match in found:
            if match[0].rare:
                self._use(match, event, block, stop)
        return event if matches or ambiguous else None

    def _use(self, match: Match, event: Event, block: bytes, stop: int) -> None:
        """Note for traces what the record is, and what else its lines want to know."""
        use, (_, captures) = match
        for trace, by in use.traces:
            who = whose(captures, by) if by else event.session
            (trace.note if event.doubt is None else trace.doubt)(event.at, who)
        if use.followed:
            after = block[stop : stop + STAMP_ENDS] if stop < len(block) else self.following[:STAMP_ENDS]
            event.next_at = self.clock.read(after, sure=False)
        self.wanted.complained = self.wanted.complained or use.complaint

    def _doubt(self, block: bytes, start: int) -> tuple[str, Doubt | None]:
        """(why a record is not believed, whether a user name may have written it)."""
        doubt = Doubt() if self.behind_torn else self.doubts.of(block, start)
        if doubt is not None and doubt.forged:
            return BEHIND_A_NAME, None
        return "", doubt

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


def _quoted(block: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the quoted text stands of a line that ends as Hermes ends one: there nothing is torn."""
    found = QUOTED_END.search(block, start, stop)
    return found.span("quoted") if found is not None else (0, 0)


def _parts(head: re.Match[bytes]) -> tuple[int, int, Names]:
    _, level, session, logger = (str(part or b"", "utf-8", "replace") for part in head.groups())
    return *head.span(), (level, logger, session)


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

"""Which records a user name may have written.

A name stands raw in an inbound line and may hold line breaks, so it can write whole records. docs/security.md
states the rule and its proof; in short, from what Hermes' formatter does:

- A name writes the same bytes into gateway.log and agent.log, between the head and the end of one inbound line.
- gateway.log takes records of the gateway's own loggers only. A record of another logger in agent.log that is not
  in gateway.log was therefore written by no name, and no inbound line reaches across it: it is a wall.

So a record is in doubt exactly if an inbound line between the same two walls could reach across it. That is found
out before the first record is read. Detectors are shown doubtful records as such: they neither open nor settle
anything by themselves.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from operator import attrgetter

from watchdog.config.pattern import LONGEST
from watchdog.later import regex
from watchdog.model import Doubt
from watchdog.sources.chat_text import QUOTED_END, ChatText, Closing

_TIME = rb"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
_HEADER = rb"%b [A-Z]++(?: \[[^\]\n]{0,200}\])?+ " % _TIME
_FOREIGN = regex(rb"\n(%b(?!gateway|hermes_plugins|plugins)[\w.-]{1,200}: )" % _HEADER)
# A line that may be such a record. Of a gateway.log nearly none is, and this look takes two thirds of the other.
_NOT_OWN = regex(rb"\n2(?!.{22} [A-Z]++(?: \[[^\]\n]{0,200}\])?+ (?:gateway|hermes_plugins|plugins))")
# From the end of an inbound line to a wall, without any quote that could end it: nearly every inbound line, in one look.
_LEAP = regex(rb"(?:\n[^\n'\"]*+)*?(?=\n%b(?!gateway|hermes_plugins|plugins)[\w.-]{1,200}: )" % _HEADER)
_HEAD = regex(rb"%b[\w.-]{1,200}: " % _HEADER)
_RECORD = regex(rb"\n(?=%b [A-Z])" % _TIME)
STAMP_ENDS = 23
LONGEST_HEADER = 500
MOST = 1 << 20  # bytes without a wall that are looked at together
TOO_MANY = 500_000  # doubtful records that are remembered
# A message's own turn logs something within this time, unless the line itself says that it is queued.
TURN_BEGINS = timedelta(seconds=30)
OUT_OF_ORDER = timedelta(seconds=1)  # of records between two walls
NONE_FORGED: set[bytes] = set()
_end = attrgetter("end")
Blocks = Iterable[tuple[str, bytes]]  # whole records, with the name of the file they are in


class Region:
    """The bytes from an inbound line to the next wall, which is not part of it."""

    __slots__ = ("began", "content", "goes_on", "next_stamp")

    def __init__(self, content: bytes, next_stamp: bytes, began: bool = False, goes_on: bool = False):
        self.content = content
        self.next_stamp = next_stamp  # when the wall was written, if there is one
        self.began = began  # the inbound line is further up
        self.goes_on = goes_on  # the wall is further down


class Doubts:
    """The records that a user name may have written, by their first line, which is the same in both logs."""

    def __init__(self) -> None:
        self.records: dict[int, Doubt] = {}
        # of a record that is certain, but may bear a time that is a name's: that of the wall behind it
        self.latest: dict[int, bytes] = {}
        self.stamps: set[bytes] = set()  # of all these; any other record needs no closer look
        self.walls_forged = False  # some of them claim to be of loggers that gateway.log does not take
        self.too_many = False

    def of(self, block: bytes, start: int) -> Doubt | None:
        """The doubt about the record that begins there; None: only Hermes can have written it."""
        return (
            self.records.get(_key(block, start)) if block[start : start + STAMP_ENDS] in self.stamps else None
        )

    def stamp(self, block: bytes, start: int) -> bytes:
        """The time of the record that begins there: as it says, but no later than the wall behind it."""
        stamp = block[start : start + STAMP_ENDS]
        return min(stamp, self.latest.get(_key(block, start), stamp)) if stamp in self.stamps else stamp

    def add(self, content: bytes, start: int, doubt: Doubt) -> None:
        if len(self.records) >= TOO_MANY:
            self.too_many = True
            return
        self.records[_key(content, start)] = doubt
        self.stamps.add(content[start : start + STAMP_ENDS])
        if not self.walls_forged:
            self.walls_forged = _FOREIGN.match(b"\n" + content[start : start + LONGEST_HEADER]) is not None


def find_doubts(gateway: Blocks | None, agent: Blocks | None, chat: ChatText) -> Doubts:
    """What a name may have written in the two logs. Without both of them nothing is proved, and only what follows
    an inbound line that visibly does not end is in doubt.
    """
    doubts = Doubts()
    if gateway is not None and agent is not None:
        finder = _Finder(chat, forged=_foreign_headers(gateway))
        finder.look(agent, doubts)
    else:
        finder = _Finder(chat, forged=None)
        for blocks in (gateway, agent):
            if blocks is not None:
                finder.look(blocks, doubts)
    return doubts


def _foreign_headers(blocks: Blocks) -> set[bytes]:
    """How the records of other loggers begin that gateway.log seems to hold."""
    found = set()
    for _, block in blocks:
        if first := _FOREIGN.match(b"\n" + block[:LONGEST_HEADER]):
            found.add(first[1])
        if _NOT_OWN.search(block) is not None:
            found.update(_FOREIGN.findall(block))
    return found


class _Finder:
    def __init__(self, chat: ChatText, forged: Collection[bytes] | None):
        self.chat = chat
        self.forged = forged  # None: nothing proves that an inbound line has ended
        self.literal = re.compile(b"|".join(map(re.escape, chat.doubtful)) or rb"(?!)")

    def look(self, blocks: Blocks, doubts: Doubts) -> None:
        for region in self.regions(blocks):
            self.judge(region, doubts)

    def regions(self, blocks: Blocks) -> Iterator[Region]:
        file, rest, began = "", b"", False
        for name, block in blocks:
            if name != file and rest:
                yield Region(rest, b"", began)  # a record does not reach into another file
                rest, began = b"", False
            file, text, at, rest = name, rest + block, 0, b""
            while (start := 0 if began and not at else self.next_head(text, at)) is not None:
                stop = self.stop(text, start)
                if stop is None:
                    rest = text[start:]
                    if len(rest) > MOST:
                        yield Region(rest, b"", began, goes_on=True)
                        rest, began = b"", True
                    break
                yield Region(text[start:stop], text[stop : stop + STAMP_ENDS], began)
                began, at = False, stop
        if rest:
            yield Region(rest, b"", began)

    def next_head(self, text: bytes, at: int) -> int | None:
        """Where the next inbound line begins from which something may be in doubt."""
        find, find_literal, leap_from = text.find, self.find_literal, _LEAP.match
        leaps = self.forged == NONE_FORGED
        while (found := find_literal(text, at)) >= 0:
            end = find(b"\n", found)
            if leaps and end >= 0 and (leap := leap_from(text, end)) is not None:
                at = leap.end() + 1
                continue
            wall = _FOREIGN.search(text, end) if end >= 0 else None
            if (
                wall is None
                or self.forged is None
                or wall[1] in self.forged
                or not _no_quote(text, end, wall.start())
            ):
                return next(self.heads(text, at), None)
            at = wall.start() + 1  # nothing up to the wall could end an inbound line: nearly always
        return None

    def find_literal(self, text: bytes, at: int) -> int:
        if len(self.chat.doubtful) == 1:
            return text.find(self.chat.doubtful[0], at)
        places = [place for literal in self.chat.doubtful if (place := text.find(literal, at)) >= 0]
        return min(places, default=-1)

    def heads(self, text: bytes, at: int = 0) -> Iterator[int]:
        """Where inbound lines begin, or seem to; also behind a torn record on the same line."""
        for found in self.literal.finditer(text, at):
            message = found.start()
            line = text.rfind(b"\n", at, message) + 1 or at
            start = next((h.start() for h in _HEAD.finditer(text, line, message) if h.end() == message), None)
            if start is None or not self.chat.before_name(text, message):
                continue
            if start == line or not _is_quoted(text, line, start):
                yield start

    def stop(self, text: bytes, start: int) -> int | None:
        """Where it is certain that no inbound line from `start` on goes on; None: not in this text."""
        line_end = _line_end(text, start) - 1
        if self.forged is None:
            return self._unproved_stop(text, start, line_end)
        for found in _FOREIGN.finditer(text, line_end):
            if found[1] not in self.forged:
                return found.start() + 1
        end = max(text.rfind(literal) for literal in self.chat.doubtful) + LONGEST
        return end if end < len(text) else None

    def _unproved_stop(self, text: bytes, start: int, line_end: int) -> int | None:
        """The next inbound line, if this one seems to have ended on its own line; else as far as a name reaches."""
        end = start + LONGEST
        following = next(self.heads(text[:end], line_end), None)
        closings = self.chat.closings(text[start : end if following is None else following])
        if following is not None and closings and closings[-1].end <= line_end - start + 1:
            return following
        return end if end < len(text) else None

    def judge(self, region: Region, doubts: Doubts) -> None:
        content = region.content
        line_end = content.find(b"\n") + 1
        if not (region.began or region.goes_on) and (not line_end or _no_quote(content, line_end)):
            return  # nothing further down could end an inbound line
        closings = self.chat.closings(content)
        if not closings and not region.goes_on:
            return
        heads = list(self.heads(content))
        records = [0, *(found.start() + 1 for found in _RECORD.finditer(content))]
        whole = _Part(content, heads, records, closings)
        bounds = [0, *self._surely_new(region, whole), len(content)] if len(heads) > 1 else [0, len(content)]
        for first, last in pairwise(bounds):
            part = _Part(
                content,
                heads[bisect_left(heads, first) : bisect_left(heads, last)],
                records[bisect_left(records, first) : bisect_left(records, last)],
                closings[bisect_right(closings, first, key=_end) : bisect_right(closings, last, key=_end)],
            )
            self._judge_part(part, region, doubts)

    def _surely_new(self, region: Region, part: _Part) -> list[int]:
        """Inbound lines that none before them can have written: so much later that its own turn would have logged
        something before, and nothing that follows is older.
        """
        content = region.content
        times = {
            start: at
            for start in {*part.heads, *part.records}
            if (at := _time(content[start : start + STAMP_ENDS])) is not None
        }
        proved = self.forged is not None and not region.began and not region.goes_on
        if not proved or len(times) < len({*part.heads, *part.records}):
            return []
        ends = _time(region.next_stamp)
        # The oldest time of what follows each record: the last one is followed by the wall.
        oldest = [*reversed(list(accumulate(reversed([times[start] for start in part.records]), min)))]
        newest = list(accumulate((times[head] for head in part.heads), max))
        queued = max((closing.end for closing in part.closings if closing.kept), default=0)
        found = []
        for number, head in enumerate(part.heads[1:]):
            at, following = times[head], bisect_right(part.records, head)
            follow = [*oldest[following : following + 1], *([ends] if ends else [])]
            in_order = min(follow, default=at) >= at - OUT_OF_ORDER
            later = at - newest[number] > TURN_BEGINS + OUT_OF_ORDER
            record = bisect_left(part.records, head)
            is_record = record < len(part.records) and part.records[record] == head
            if is_record and later and in_order and queued <= head:
                found.append(head)
        return found

    def _judge_part(self, part: _Part, region: Region, doubts: Doubts) -> None:
        content, heads, closings = part.content, part.heads, part.closings
        if not region.goes_on and not closings:
            return
        reach = len(content) if region.goes_on else closings[-1].end
        if len(heads) == 1 and not (region.began or region.goes_on) and reach <= _line_end(content, heads[0]):
            return
        certain = None if region.began or region.goes_on else self._certain(part)
        forged_from = None if region.goes_on else part.forged_from()
        if certain is not None and len(heads) > 1 and region.next_stamp:
            doubts.latest[_key(content, certain)] = region.next_stamp
            doubts.stamps.add(content[certain : certain + STAMP_ENDS])
        times_said = Counter(closing.words for closing in closings)
        for start in part.records:
            if start >= reach or start == certain:
                continue
            end = _line_end(content, start)
            own = closings[bisect_right(closings, start, key=_end) : bisect_right(closings, end, key=_end)]
            provable = len(own) == 1 and times_said[own[0].words] == 1
            forged = forged_from is not None and start > forged_from
            doubts.add(content, start, Doubt(provable=provable, forged=forged))

    def _certain(self, part: _Part) -> int | None:
        """The last inbound line, whose end is Hermes' own in any reading: there was a message from that chat. Not if its
        time or its platform may be those of another line.
        """
        content, last = part.content, part.heads[-1] if part.heads else None
        if last is None or part.closings[-1].end > _line_end(content, last):
            return None
        own = [closing for closing in part.closings if closing.end > last]
        if len(own) != 1 or last not in part.records:
            return None
        times = [_time(content[head : head + STAMP_ENDS]) for head in part.heads]
        known = [at for at in times if at is not None]
        if len(known) != len(times) or max(known) > known[-1] + OUT_OF_ORDER:
            return None
        messages = [_HEAD.match(content, head) for head in part.heads]
        befores = {self.chat.before_name(content, head.end()) for head in messages if head is not None}
        return last if len(befores) == 1 else None


class _Part:
    """Records of a region of which each may have been written by an inbound line before it."""

    __slots__ = ("closings", "content", "heads", "records")

    def __init__(
        self, content: bytes, heads: Sequence[int], records: Sequence[int], closings: Sequence[Closing]
    ):
        self.content, self.heads, self.records, self.closings = content, heads, records, closings

    def forged_from(self) -> int | None:
        """The last inbound line if it does not end on its own line but further down on one that is no record: all
        records between are the name's, whichever inbound line it belongs to.
        """
        last = self.heads[-1] if self.heads else None
        if last is None or not self.closings:
            return None
        end = self.closings[-1].end
        line = self.content.rfind(b"\n", 0, end - 1) + 1
        own_end = _line_end(self.content, last)
        closes = any(last < closing.end <= own_end for closing in self.closings)
        return None if closes or line <= last or line in self.records else last


def _key(block: bytes, start: int) -> int:
    return hash(block[start : _line_end(block, start)].rstrip(b"\r\n"))


def _line_end(content: bytes, start: int) -> int:
    return content.find(b"\n", start) + 1 or len(content)


def _no_quote(content: bytes, start: int, stop: int | None = None) -> bool:
    return content.find(b"='", start, stop) < 0 and content.find(b'="', start, stop) < 0


def _is_quoted(text: bytes, line: int, start: int) -> bool:
    found = QUOTED_END.search(text, line, _line_end(text, start))
    return found is not None and found.start("quoted") < start < found.end("quoted")


def _time(stamp: bytes) -> datetime | None:
    """The local time at the beginning of a record."""
    try:
        return datetime.fromisoformat(stamp.decode("ascii"))
    except ValueError:
        return None

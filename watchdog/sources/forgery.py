"""Which records a user name may have written.

A name stands raw in an inbound line and may hold line breaks, so it can write whole records. docs/security.md
states the rule and its proof; in short, from what Hermes' formatter does:

- A name writes the same bytes into gateway.log and agent.log, between the head and the tail of one inbound line.
- gateway.log takes records of the gateway's own loggers only. A record of another logger in agent.log that is not
  in gateway.log was therefore written by no name, and no inbound line reaches across it.

So a record is in doubt exactly if such a line could reach across it. Doubtful records are shown to the detectors as
such: they neither open nor settle anything by themselves.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from watchdog.model import Doubt, Event
from watchdog.sources.chat_text import ChatText

OURS = ("gateway", "hermes_plugins", "plugins")  # loggers whose records gateway.log takes
MOMENT = timedelta(milliseconds=1)  # logs know no shorter
LONG_AGO = datetime(2, 1, 1, tzinfo=UTC)
Identity = tuple[datetime, str]  # when, and the message without chat text
_TIME = rb"2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
_HEADER = rb"^%b [A-Z]+(?: \[[^\]\n]{0,200}\])? " % _TIME
FOREIGN = re.compile(rb"(?m)%b(?!gateway|hermes_plugins|plugins)[\w.-]{1,200}: " % _HEADER)
_RECORD = re.compile(rb"%b [A-Z]" % _TIME)
_CONTINUED = re.compile(rb"\n(?!2\d\d\d-)[^\n]*=['\"]")  # a line that is no record, with a quote in it


class Stretch:
    """Records that a name may have written; in the stream of events it stands before the first of them."""

    __slots__ = ("at", "head", "records")

    def __init__(self, records: Mapping[Identity, bool], head: datetime | None = None):
        self.records = records  # and whether a turn can prove that they are real
        self.at = min((at for at, _ in records), default=head or LONG_AGO) - MOMENT
        self.head = head  # the time of the inbound line that does not end on its own line


class Previous:
    """The last inbound line: a name that began there may reach to the next."""

    __slots__ = ("at", "offset", "platform")

    def __init__(self, offset: int, at: datetime, text: str):
        self.offset, self.at = offset, at
        self.platform = text.partition("…")[0]  # and all else that stands before the name


class Block:
    """Where inbound lines may end, and where agent.log proves that none is open. Looked up when asked for."""

    def __init__(self, content: bytes, chat: ChatText, proves: bool):
        self.content, self.chat, self.proves = content, chat, proves
        self._tails: list[int] | None = None
        self._walls: list[int] | None = None
        self._ends: list[int] | None = None
        self._heads: list[int] | None = None

    @property
    def tails(self) -> list[int]:
        if self._tails is None:
            self._tails = [end for end, _ in self.chat.tails(self.content)]
        return self._tails

    def ends_within(self, start: int, stop: int) -> bool:
        return bisect_left(self.tails, stop) > bisect_left(self.tails, start)

    @property
    def walls(self) -> list[int]:
        """The records that no inbound line reaches across."""
        if self._walls is None:
            self._walls = [found.start() for found in FOREIGN.finditer(self.content)] if self.proves else []
        return self._walls

    def is_name(self, start: int) -> bool:
        """Whether the record that begins there is the text of a name in whichever way one reads the log: an
        inbound line ends further down, on a line that is no record, and none begins before that.
        """
        return self.open_end(start) > 0

    def open_end(self, start: int) -> int:
        """Where the last line begins that ends an inbound line and is no record, of those before the next inbound
        line; 0 for none. Whatever stands before it may be the text of a name.
        """
        if not self.ends:
            return 0
        head = bisect_left(self.heads, start)
        stop = self.heads[head] if head < len(self.heads) else len(self.content)
        at = bisect_left(self.ends, stop) - 1
        return self.ends[at] if at >= 0 and self.ends[at] >= start else 0

    @property
    def ends(self) -> list[int]:
        """The lines that end an inbound line and are no record. Most blocks have no such line, which is cheap to see."""
        if self._ends is None:
            continued = _CONTINUED.search(self.content) is not None
            begins = (self.content.rfind(b"\n", 0, end - 1) + 1 for end in (self.tails if continued else ()))
            self._ends = [at for at in begins if _RECORD.match(self.content, at) is None]
        return self._ends

    @property
    def heads(self) -> list[int]:
        """The records that are inbound lines, or look like one."""
        if self._heads is None:
            heads = b"|".join(map(re.escape, self.chat.doubtful))
            pattern = re.compile(rb"(?m)%b[\w.-]{1,200}: (?:%b)" % (_HEADER, heads))
            self._heads = [found.start() for found in pattern.finditer(self.content)]
        return self._heads

    def wall_after(self, start: int) -> int | None:
        at = bisect_left(self.walls, start)
        return self.walls[at] if at < len(self.walls) else None

    def reach(self, start: int, reach: int) -> tuple[int, int]:
        """(the last place where an inbound line that began before `start` may end, 0 for none; how far into the
        next block it may go on).
        """
        wall = self.wall_after(start)
        stop = min(start + reach, len(self.content) if wall is None else wall)
        if wall is None and start + reach > len(self.content):
            return len(self.content), start + reach - len(self.content)
        at = bisect_left(self.tails, stop + 1) - 1
        return (self.tails[at] if at >= 0 and self.tails[at] > start else 0), 0


class Doubts:
    """Marks events that a name may have written, by the stretches that came before them in the stream."""

    def __init__(self) -> None:
        self.records: dict[Identity, bool] = {}
        self.heads: set[datetime] = (
            set()
        )  # lines that do not end, of which agent.log tells how far they reach

    def add(self, stretch: Stretch) -> None:
        if len(self.records) > 100_000:  # of an attack that lasts for days the newest matter
            self.records.clear()
        self.records.update(stretch.records)
        if stretch.head is not None:
            self.heads.add(stretch.head)

    def judge(self, event: Event) -> None:
        """Whether the event is in doubt."""
        if event.doubt is not None and event.doubt.head in self.heads:
            event.doubt = None  # agent.log tells better
        provable = self.records.get((event.at, event.text))
        if provable is not None:
            event.doubt = Doubt(provable=provable)


def is_foreign(logger: str) -> bool:
    return not logger.startswith(OURS)

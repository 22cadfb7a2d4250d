"""What is read, and which of it a condition wants to see."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from watchdog.model.reason import EMPTY
from watchdog.values import Any, dataclass

LOGS = ("gateway.log", "agent.log", "errors.log")  # files in logs/ of a home
LOG_SOURCES = (*LOGS, "journal")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Doubt:
    """A user name may have written a record."""

    __slots__ = ("forged", "provable")

    def __init__(self, provable: bool = False, forged: bool = False):
        # No other message has these words there: a turn about them proves that the record is real.
        self.provable = provable
        self.forged = forged  # a name wrote it, whichever way one reads the log


NO_HEADER = "", "", ""


class Event:
    """One thing seen: a log record, a journal entry, a process, a database. Made by the million: slots, what hardly any
    has stands in the class, and `text` and `where` of a log record are put together on first use.
    """

    __slots__ = (
        "__dict__",
        "_text",
        "_where",
        "at",  # always aware, UTC
        "facts",  # measured by us: pid, path, header
        "header",  # level, logger, session
        "matches",  # which of the wanted lines it is: (their places in the list that was asked for, captures)
        "session",
        "source",  # "gateway.log", "journal", "gateway", "databases"
    )
    more = ""  # the traceback that followed the record
    next_at: datetime | None = None  # when the same file's next record was written; for lines that ask
    ambiguous = ""  # why this record cannot be trusted: chat text imitates log fields
    doubt: Doubt | None = None  # when a user name may have written this record
    is_odd = False  # it is ambiguous, or in doubt

    def __init__(
        self,
        at: datetime,
        source: str,
        text: str | bytes,
        where: str | tuple[str, int] = "",
        header: tuple[str, str, str] = NO_HEADER,
        facts: Mapping[str, Any] = EMPTY,
        matches: tuple[tuple[tuple[int, ...], Mapping[str, str]], ...] = (),
    ) -> None:
        self.at = at
        self.source = source
        self._text = text
        self._where = where
        self.header = header
        self.session = header[2]
        self.facts = facts
        self.matches = matches

    def distrust(self, ambiguous: str, doubt: Doubt | None) -> None:
        """Say why this record cannot be trusted, if there is a reason."""
        if ambiguous or doubt is not None:
            self.ambiguous, self.doubt, self.is_odd = ambiguous, doubt, True

    @property
    def level(self) -> str:
        return self.header[0]

    @property
    def logger(self) -> str:
        return self.header[1]

    @property
    def text(self) -> str:
        """The message alone; chat text already cut."""
        return self._text if isinstance(self._text, str) else str(self._text, "utf-8", "replace")

    @property
    def where(self) -> str:
        """'gateway.log.1:1042', for people; by the byte until its lines were counted: 'gateway.log.1@21877'."""
        return self._where if isinstance(self._where, str) else "{}@{}".format(*self._where)

    def moved(self, where: str) -> Event:
        """The same event with another place told for it."""
        event = Event(self.at, self.source, self._text, where, self.header, self.facts, self.matches)
        event.__dict__.update(self.__dict__)
        return event

    def __deepcopy__(self, memo: dict[int, object]) -> Event:
        """Itself: events are never changed, so that copies of a detector may share what they have seen."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._parts == other._parts

    @property
    def _parts(self) -> tuple[Any, ...]:
        known = self.at, self.source, self.text, self.where, self.header, self.facts, self.matches
        return *known, self.more, self.next_at, self.ambiguous, self.doubt

    def __hash__(self) -> int:
        return hash((self.at, self.source, self.text, self.where))

    def __repr__(self) -> str:
        return f"Event({self.at:%F %T}, {self.source}, {self.text!r}, {self.where})"


@dataclass(frozen=True)
class Measurement:
    """What was measured at one moment: bytes, counts, the gateway's pid."""

    at: datetime
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """Records of one source that a condition wants to see."""

    source: str
    pattern: Any = None  # a Pattern, or a LineSelection of the vocabulary; None: every record of the source
    level: tuple[str, ...] = ()
    logger: tuple[str, ...] = ()
    followed: bool = False  # whether it matters when the next record came
    aside: bool = False  # only when it was written and for which session matters (model/trace.py)
    by: tuple[str, ...] = ()  # or, instead of the session, for which chat: the captures that say it
    complaint: bool = False  # a reason to compare the schema of the databases with what Hermes wants

"""What is read, and which of it a condition wants to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Event:
    """One thing seen: a log record, a journal entry, a process, a database. Made by the million: slots, and `text` and
    `where` of a log record are put together when somebody asks, which is hardly ever.
    """

    __slots__ = (
        "_text",
        "_where",
        "ambiguous",  # why this record cannot be trusted: chat text imitates log fields
        "at",  # always aware, UTC
        "doubt",  # a Doubt when a user name may have written this record; None: only Hermes can have written it
        "facts",  # measured by us: pid, path, header
        "level",
        "logger",
        "matches",  # which of the wanted lines it is: (their places in the list that was asked for, captures)
        "more",  # the traceback that followed the record
        "next_at",  # when the same file's next record was written, whatever it says; for lines that ask
        "session",
        "source",  # "gateway.log", "journal", "gateway", "databases"
    )

    def __init__(
        self,
        at: datetime,
        source: str,
        text: str | bytes,
        where: str | tuple[str, int] = "",
        logger: str = "",
        level: str = "",
        session: str = "",
        facts: Mapping[str, Any] = EMPTY,
        more: str = "",
        next_at: datetime | None = None,
        matches: Sequence[tuple[tuple[int, ...], Mapping[str, str]]] = (),
        ambiguous: str = "",
        doubt: Doubt | None = None,
    ) -> None:
        self.at = at
        self.source = source
        self._text = text
        self._where = where
        self.logger = logger
        self.level = level
        self.session = session
        self.facts = facts
        self.more = more
        self.next_at = next_at
        self.matches = matches
        self.ambiguous = ambiguous
        self.doubt = doubt

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
        return Event(**{**{name: getattr(self, name) for name in PARTS}, "where": where})

    def __deepcopy__(self, memo: dict[int, object]) -> Event:
        """Itself: events are never changed, so that copies of a detector may share what they have seen."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and all(getattr(self, n) == getattr(other, n) for n in PARTS)

    def __hash__(self) -> int:
        return hash((self.at, self.source, self.text, self.where))

    def __repr__(self) -> str:
        return f"Event({self.at:%F %T}, {self.source}, {self.text!r}, {self.where})"


PARTS = tuple(name.removeprefix("_") for name in Event.__slots__)


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
    complaint: bool = False  # a reason to compare the schema of the databases with what Hermes wants

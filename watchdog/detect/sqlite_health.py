"""A database that is broken, damaged, began anew, or is being written into a file that no longer has a name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Reason, Span
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "sqlite_health"
DATABASES = ("state.db", "kanban.db", "response_store.db")
# anew: it is well, but does not go on from its last backup; unlinked: a process writes into a file that has no name any
# more; sound: none of them is broken or damaged, whether it is there or not
GRADES = ("broken", "damaged", "anew", "unlinked", "sound")
UNSOUND = ("broken", "damaged", "unknown")


@dataclass(frozen=True)
class SqliteHealth:
    databases: tuple[str, ...]
    grade: str


def read(section: Section) -> SqliteHealth:
    return SqliteHealth(read_databases(section), section.choice("is", GRADES))


def read_databases(section: Section) -> tuple[str, ...]:
    names = section.names("in")
    for name in names:
        if name not in DATABASES:
            section.wrong_at("in", f"'{harmless(name, 40)}' is not one of {', '.join(DATABASES)}")
    return names


def lines(want: SqliteHealth) -> list[tuple[str, Line, bool]]:
    return [("database", Line("databases"), True)]


def says(want: SqliteHealth) -> frozenset[str]:
    lacking = {"held", "backup_at"} if want.grade == "anew" else set()
    return frozenset({"database", "fault", "path", "sqlite", "holder", *lacking})


def _quotes(event: Event) -> Mapping[str, datetime]:
    at = event.facts.get("backup_at")
    return {"backup_at": datetime.fromisoformat(at)} if at else {}


class Detector:
    def __init__(self, want: SqliteHealth):
        self.want = want
        self.seen: list[Event] = []
        self.unsure: set[str] = set()  # databases that could not be judged: neither well nor ill
        self.looked: list[str] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        name = event.facts.get("database", "")
        if name.rpartition("/")[2] not in self.want.databases:
            return
        self.looked.append(event.text)
        if event.facts.get("grade") == "unknown":
            self.unsure.add(name)
        if self.want.grade == "sound":
            if event.facts.get("grade") in UNSOUND:
                self.seen.append(event)
            return
        if self._is_so(event.facts):
            self.seen.append(event)

    def _is_so(self, facts: Mapping[str, str]) -> bool:
        match self.want.grade:
            case "unlinked":
                return bool(facts.get("holder"))
            case "anew":
                return bool(facts.get("backup_at")) and facts.get("grade") not in UNSOUND
        # While a process writes into a deleted file, healing would lose what is written there: only that is
        # told.
        return facts.get("grade") == self.want.grade and not facts.get("holder")

    def spans(self, now: datetime) -> list[Span]:
        if self.want.grade == "sound":
            return [] if self.seen else [Span("", now, now, now)]  # what it was before is not known
        return [
            Span(
                event.facts["database"],
                event.at,
                event.at,
                event.at,
                None,
                _quotes(event),
                event.facts,
                (event,),
            )
            for event in self.seen
        ]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: the verdict on each database."""
        return [*self.looked] or [Reason("explain.no-database")]

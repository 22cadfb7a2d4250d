"""A table lacks a column that this Hermes wants, and Hermes complains of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.detect.common import Captures, keep, need_names, read_lines
from watchdog.detect.sqlite_health import read_databases
from watchdog.model import Event, Line, Reason, Span, phrase
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "sqlite_schema"


@dataclass(frozen=True)
class SqliteSchema:
    databases: tuple[str, ...]
    complaint: tuple[Line, ...]
    within: timedelta  # how old a complaint may be


def read(section: Section) -> SqliteSchema:
    complaint = read_lines(section, "complaint", source="gateway.log")  # `in:` names the databases
    complaint = tuple(replace(line, complaint=True) for line in complaint)
    want = SqliteSchema(read_databases(section), complaint, section.duration("within"))
    need_names(section, "complaint", ("column",), want.complaint)
    return want


def lines(want: SqliteSchema) -> list[tuple[str, Line, bool]]:
    return [("database", Line("databases"), True), *(("complaint", line, True) for line in want.complaint)]


def reach(want: SqliteSchema) -> timedelta:
    return want.within


def says(want: SqliteSchema) -> frozenset[str]:
    return frozenset({"database", "columns", "reference", "path"})


class Detector:
    def __init__(self, want: SqliteSchema):
        self.want = want
        self.lacking: list[Event] = []
        self.complaints: dict[str, tuple[Event, tuple[Event, ...]]] = {}  # column → first, evidence
        self.unsure: set[str] = set()

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "complaint" in roles:
            # The log names a column, not a table, and anyone may write a log: it is a hint, never more.
            column = roles["complaint"]["column"].lower()
            first, evidence = self.complaints.get(column, (event, ()))
            self.complaints[column] = first, keep(evidence, event)
        elif event.facts.get("database", "").rpartition("/")[2] in self.want.databases:
            if event.facts.get("grade") == "unknown":
                self.unsure.add(event.facts["database"])
            if event.facts.get("missing") or event.facts.get("wanted"):
                self.lacking.append(event)

    def spans(self, now: datetime) -> list[Span]:
        found = []
        for event in self.lacking:
            # Against the release that the file resembles most; else against what the installed Hermes may
            # want.
            for lack in ("missing", "wanted"):
                columns = event.facts.get(lack, "")
                named = [pair for column, pair in self.complaints.items() if column in _names(columns)]
                if named:
                    break
            else:
                continue  # an old file that causes no complaint: Hermes will add them when it opens it
            first = min((pair[0] for pair in named), key=lambda seen: seen.at)
            last = max(seen.at for _, evidence in named for seen in evidence)
            facts = {**event.facts, "columns": columns}
            found.append(
                Span(event.facts["database"], first.at, first.at, last, None, {}, facts, named[0][1])
            )
        return found

    def notes(self) -> list[str]:
        """An old file that causes no complaint is worth a note."""
        found: list[str] = []
        for event in self.lacking:
            columns = event.facts.get("missing", "")
            if columns and not any(column in _names(columns) for column in self.complaints):
                english = "{database} lacks {columns} of {reference}; Hermes adds them when it opens the file, and complains of nothing"
                fields = {"database": event.facts["database"], "columns": columns}
                reference = event.facts.get("reference", "Hermes")
                found.append(phrase("note.lacks", english, **fields, reference=reference))
        return found

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: what is missing, and what Hermes complains of."""
        found: list[Reason | str] = []
        for event in self.lacking:
            what = event.facts.get("missing") or event.facts["wanted"]
            found.append(Reason("explain.lacks", {"database": event.facts["database"], "what": what}))
        for column, (_, evidence) in self.complaints.items():
            fields = {"column": harmless(column, 60), "at": evidence[-1].at}
            found.append(Reason("explain.complains", fields))
        return found or [Reason("explain.all-columns")]


def _names(columns: str) -> set[str]:
    """The columns of 'table.column TYPE, …'."""
    return {item.split()[0].rpartition(".")[2].lower() for item in columns.split(", ") if item}

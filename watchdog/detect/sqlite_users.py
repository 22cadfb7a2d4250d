"""Who has a database open beside the gateway: no condition of its own, but what another one's sentence names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from watchdog.detect.common import Captures
from watchdog.detect.sqlite_health import read_databases
from watchdog.model import Event, Line, Reason, Span
from watchdog.values import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "sqlite_users"
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SqliteUsers:
    databases: tuple[str, ...]


def read(section: Section) -> SqliteUsers:
    return SqliteUsers(read_databases(section))


def lines(want: SqliteUsers) -> list[tuple[str, Line, bool]]:
    return [("database", Line("databases"), False)]  # without it, no process is named


def says(want: SqliteUsers) -> frozenset[str]:
    return frozenset({"holders"})


class Detector:
    def __init__(self, want: SqliteUsers):
        self.want = want
        self.users: list[str] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        name = event.facts.get("database", "")
        if name.rpartition("/")[2] in self.want.databases and event.facts.get("users"):
            self.users.append(event.facts["users"])

    def spans(self, now: datetime) -> list[Span]:
        quotes = {"holders": ", ".join(self.users)} if self.users else {}
        return [Span("", LONG_AGO, LONG_AGO, now, quotes=quotes)]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: who has it open."""
        return [*self.users] or [Reason("explain.no-users")]

"""Whether the gateway's process has nearly as many files open as it may."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Reason, Span
from watchdog.values import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "open_files"


@dataclass(frozen=True)
class OpenFiles:
    above: int  # percent of the limit


def read(section: Section) -> OpenFiles:
    return OpenFiles(section.number("above", least=1, most=100))


def lines(want: OpenFiles) -> list[tuple[str, Line, bool]]:
    return [("reading", Line("open_files"), True)]


def says(want: OpenFiles) -> frozenset[str]:
    return frozenset({"fds", "fd_limit", "above"})


class Detector:
    def __init__(self, want: OpenFiles):
        self.want = want
        self.last: Event | None = None

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if self.last is None or event.at >= self.last.at:
            self.last = event

    def spans(self, now: datetime) -> list[Span]:
        if self.last is None:
            return []
        count, limit = (int(self.last.facts.get(name, 0)) for name in ("fds", "fd_limit"))
        if not limit or count * 100 < limit * self.want.above:
            return []
        at = self.last.at
        return [Span("gateway", at, at, at, None, {"fds": count, "fd_limit": limit}, {}, (self.last,))]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: the last reading."""
        return [self.last.text if self.last else Reason("explain.no-files")]

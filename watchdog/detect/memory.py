"""Whether the gateway's memory grows towards a limit. A large process that stays as it is, is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Reason, Span
from watchdog.text import size
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "memory"
ENOUGH, LONG_ENOUGH = 4, timedelta(minutes=45)  # readings of one process, and the time between first and last
GREW = 20  # one part in so many of the limit: less is no growth


@dataclass(frozen=True)
class MemoryUse:
    above: int  # percent of the limit are taken
    full_within: timedelta  # at the pace of the last hours


def read(section: Section) -> MemoryUse:
    return MemoryUse(section.number("above", least=1, most=99), section.duration("full_within"))


def lines(want: MemoryUse) -> list[tuple[str, Line, bool]]:
    return [("reading", Line("memory"), True)]


def says(want: MemoryUse) -> frozenset[str]:
    return frozenset({"rss", "used", "limit", "limit_of", "full_in", "pace", "above"})


class Detector:
    def __init__(self, want: MemoryUse):
        self.want = want
        self.readings: list[Event] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        self.readings.append(event)

    def spans(self, now: datetime) -> list[Span]:
        readings = self._of_this_life()
        pace = growth(readings)
        if pace is None:
            return []
        last = readings[-1]
        used, limit = (int(last.facts.get(name, 0)) for name in ("used", "limit"))
        if not limit or used * 100 < limit * self.want.above:
            return []
        left = timedelta(hours=max(0, limit - used) / pace)
        if left > self.want.full_within:
            return []
        quotes: dict[str, Any] = {
            "rss": size(int(last.facts["rss"])),
            "used": size(used),
            "limit": size(limit),
            "limit_of": last.facts.get("limit_of", "?"),
            "full_in": left,
            "pace": size(int(pace)),
        }
        return [Span("gateway", last.at, last.at, last.at, None, quotes, {}, (last,))]

    def _of_this_life(self) -> list[Event]:
        """The readings of the process that runs now, oldest first."""
        readings = sorted(
            (event for event in self.readings if event.facts.get("rss")), key=lambda event: event.at
        )
        return [event for event in readings if event.facts.get("pid") == readings[-1].facts.get("pid")]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: the last reading, and the pace."""
        readings = self._of_this_life()
        if not readings:
            return [Reason("explain.no-memory")]
        pace = growth(readings)
        text = {"text": readings[-1].text}
        return [
            Reason("explain.grows", {**text, "pace": size(int(pace))})
            if pace
            else Reason("explain.steady", text)
        ]


def growth(readings: Sequence[Event]) -> float | None:
    """Bytes an hour by which the process grows; None when it does not, or cannot be told.

    The second half of the readings must lie above all of the first by a share of the limit.
    """
    if len(readings) < ENOUGH or readings[-1].at - readings[0].at < LONG_ENOUGH:
        return None
    taken = [int(event.facts["rss"]) for event in readings]
    half = len(taken) // 2
    grown = _middle(taken[-half:]) - _middle(taken[:half])
    least = int(readings[-1].facts.get("limit", 0)) / GREW
    if grown <= max(least, 0) or min(taken[-half:]) <= max(taken[:half]):
        return None
    first, last = (
        _middle([event.at.timestamp() for event in part]) for part in (readings[:half], readings[-half:])
    )
    return grown * 3600 / (last - first)


def _middle(values: Sequence[float]) -> float:
    """The median; the module for it takes longer to import than a quiet check."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

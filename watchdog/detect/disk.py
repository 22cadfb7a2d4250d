"""Whether the home's volume has room: bytes, share and inodes that are left, and when they will be gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.detect.common import Captures
from watchdog.model import Event, Line, Reason, Span
from watchdog.text import harmless, size
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "disk"
KEY = "disk"
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LONG_ENOUGH = timedelta(minutes=45)  # a trend is read from readings over at least so long
TREND = timedelta(hours=6)  # and not from older ones
ENOUGH = 4  # readings


@dataclass(frozen=True)
class Disk:
    below: int = 0  # bytes
    percent: int = 100  # and less than this share of the volume is left
    inodes: int = 0  # or fewer than so many files can be made
    above: int = 0  # bytes; with less left, another rule speaks
    full_within: timedelta | None = None  # instead of `below`: at the pace of the last hours


def read(section: Section) -> Disk:
    trend = section.duration("full_within", None)
    return Disk(
        read_size(section, "below", None if trend is None else 0),
        section.number("percent", 100, least=1, most=100),
        section.number("inodes", 0),
        read_size(section, "above", 0),
        trend,
    )


def read_size(section: Section, key: str, default: int | None) -> int:
    """'200MB', '1.5GB'; needed when there is no default."""
    text = section.text(key) if default is None else section.text(key, "")
    if not section.has(key):
        return default or 0
    for unit, factor in UNITS.items():
        try:
            if text.endswith(unit) and (number := float(text.removesuffix(unit))) >= 0:
                return int(number * factor)
        except (ValueError, OverflowError):
            break
    section.wrong_at(key, f"'{harmless(text, 40)}' is not a size; write 200MB or 1.5GB")
    return 0


def lines(want: Disk) -> list[tuple[str, Line, bool]]:
    return [("reading", Line("disk"), True)]


def says(want: Disk) -> frozenset[str]:
    return frozenset({"free", "size", "heaps", "full_in"})


class Detector:
    def __init__(self, want: Disk):
        self.want = want
        self.readings: list[Event] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        self.readings.append(event)

    def spans(self, now: datetime) -> list[Span]:
        """One, open since the first reading that was too low; a little more room than the limit does not end it."""
        self.readings.sort(key=lambda event: event.at)
        since: Event | None = None
        for number, event in enumerate(self.readings):
            if self._is_short(self.readings[: number + 1], margin=1.0 if since is None else 1.2):
                since = since or event
            else:
                since = None
        if since is None:
            return []
        last = self.readings[-1]
        free, whole = _number(last, "free"), _number(last, "size")
        heaps = last.facts.get("heaps") or "—"
        quotes: dict[str, Any] = {"free": size(free), "size": size(whole), "heaps": heaps}
        if _number(last, "inodes", 1) < self.want.inodes:
            quotes["free"] = f"{_number(last, 'inodes')} inodes"
        if (left := time_left(self.readings)) is not None:
            quotes["full_in"] = left
        return [Span(KEY, since.at, since.at, last.at, None, quotes, {}, (last,))]

    def _is_short(self, readings: Sequence[Event], margin: float) -> bool:
        free, whole = _number(readings[-1], "free"), _number(readings[-1], "size")
        if whole <= 0 or free < self.want.above:
            return False
        if self.want.inodes and _number(readings[-1], "inodes", self.want.inodes) < self.want.inodes:
            return True
        if free * 100 >= whole * min(self.want.percent * margin, 101):
            return False
        if self.want.full_within is not None:
            left = time_left(readings)
            return left is not None and left < self.want.full_within * margin
        return free < self.want.below * margin

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: the last reading, and the pace."""
        if not self.readings:
            return [Reason("explain.no-volume")]
        last = max(self.readings, key=lambda event: event.at)
        left = time_left(sorted(self.readings, key=lambda event: event.at))
        full = Reason("explain.full-in", {"span": left}) if left is not None else ""
        fields = {"text": last.text, "full": full}
        if self.want.full_within is None:
            return [Reason("explain.disk-below", {**fields, "wanted": size(self.want.below)})]
        return [Reason("explain.disk-within", {**fields, "wanted": self.want.full_within})]


def time_left(readings: Sequence[Event]) -> timedelta | None:
    """When the volume is full if it goes on filling as in the last hours; None when it does not, or cannot be told.

    Both halves of that time must have used room: one big file is no trend.
    """
    last = readings[-1]
    recent = [event for event in readings if last.at - event.at <= TREND]
    span = last.at - recent[0].at
    if len(recent) < ENOUGH or span < LONG_ENOUGH:
        return None
    free = [_number(event, "free") for event in recent]
    middle = min(range(len(recent)), key=lambda n: abs((recent[n].at - recent[0].at) - span / 2))
    first_half, second_half = free[0] - free[middle], free[middle] - free[-1]
    if min(first_half, second_half) * 4 < max(first_half, second_half) or min(first_half, second_half) <= 0:
        return None
    return span * (free[-1] / (free[0] - free[-1]))


def _number(event: Event, name: str, otherwise: int = 0) -> int:
    try:
        return int(event.facts.get(name, otherwise))
    except ValueError:
        return otherwise

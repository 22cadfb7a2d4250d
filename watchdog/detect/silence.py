"""Lines that should come and stopped coming."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog import config
from watchdog.detect.common import Captures, in_each, key_of, longest, names_of, need_names
from watchdog.model import Event, Line, Reason, Span
from watchdog.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "silence"
SAME_MOMENT = timedelta(seconds=2)


@dataclass(frozen=True)
class LogSilence:
    """After this line nothing more, in any of these logs; or this line came regularly and stopped."""

    after: tuple[Line, ...]
    expect: tuple[Line, ...]  # what breaks the silence; empty: any line at all
    longer_than: timedelta
    same: tuple[str, ...] = ()
    key: str = ""


def read(section: Section) -> LogSilence:
    sources = config.read_sources(section, "in")
    expected = in_each(section, "expect", sources)
    after = tuple(replace(line, followed=True) for line in in_each(section, "after", sources))
    if not after and not expected:
        section.wrong("needs 'after:' (nothing follows this line) or 'expect:' (this line stopped coming)")
    want = LogSilence(
        after=after or expected,
        expect=expected,
        longer_than=section.duration("longer_than"),
        same=section.names("same", ()),
        key=section.text("key", ""),
    )
    need_names(section, "same", want.same, want.after)
    return want


def lines(want: LogSilence) -> list[tuple[str, Line, bool]]:
    return [
        *((f"after {line.source}", line, True) for line in want.after),
        *((f"expect {line.source}", line, True) for line in want.expect),
    ]


def reach(want: LogSilence) -> timedelta:
    return longest(want.longer_than)


def says(want: LogSilence) -> frozenset[str]:
    return names_of(want.after) | {"silent", "longer_than"}


class Detector:
    def __init__(self, want: LogSilence):
        self.want = want
        # key → last line, its captures, the next line
        self.waiting: dict[str, tuple[Event, Captures, datetime | None]] = {}
        self.closed: list[Span] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if (captures := roles.get(f"expect {event.source}")) is not None:
            self._end(key_of(captures, self.want.same, self.want.key), event.at)
        if (captures := roles.get(f"after {event.source}")) is None:
            return
        key = key_of(captures, self.want.same, self.want.key)
        # any line at all breaks a silence without 'expect'
        following = None if self.want.expect else event.next_at
        if key in self.waiting:
            before, _, earlier = self.waiting[key]
            if event.source != before.source and abs(event.at - before.at) <= SAME_MOMENT:
                # The same record in another log: one log that went on is life, though the other holds its
                # breath.
                soonest = min((at for at in (earlier, following) if at is not None), default=None)
                self.waiting[key] = before, captures, soonest
                return
            self._end(key, earlier or event.at)
        self.waiting[key] = event, captures, following

    def _end(self, key: str, at: datetime) -> None:
        if key in self.waiting and (span := self._span(key, at, at)) is not None:
            self.closed.append(span)
        self.waiting.pop(key, None)

    def _span(self, key: str, now: datetime, ended: datetime | None) -> Span | None:
        event, captures, _ = self.waiting[key]
        opened = event.at + self.want.longer_than
        if now <= opened:
            return None
        quotes = {**captures, "silent": now - event.at}
        return Span(key, event.at, opened, event.at, ended, quotes, {}, (event,))

    def spans(self, now: datetime) -> list[Span]:
        still = [
            self._span(key, following or now, following) for key, (_, _, following) in self.waiting.items()
        ]
        return [*self.closed, *(span for span in still if span is not None)]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: how long it has been silent."""
        found: list[Reason | str] = []
        for key, (event, _, following) in self.waiting.items():
            fields = {"key": key or Reason("explain.all"), "at": event.at, "limit": self.want.longer_than}
            went_on = "explain.went-on" if following else "explain.silent"
            found.append(Reason(went_on, {**fields, "span": (following or now) - event.at}))
        return found or [Reason("explain.no-line")]

"""Too many of one line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.detect.common import Captures, key_of, longest, meanwhile, names_of, need_names, read_levels, read_lines
from watchdog.detect.series import Series, states, tidy
from watchdog.model import Event, Line, Span
from watchdog.text import harmless
from watchdog.values import dataclass, replace
from watchdog.yamlfile import Section

KIND = "burst"
MEMORY = 1000  # sessions whose captures are remembered
MANY = 50
SLACK = timedelta(minutes=1)  # events may come a little out of order


@dataclass(frozen=True)
class Burst:
    line: tuple[Line, ...]
    at_least: int
    within: timedelta
    per: tuple[str, ...] = ()
    or_once: tuple[Line, ...] = ()  # a line that alone is enough
    unless: tuple[Line, ...] = ()  # a line that ends it at once
    lives: tuple[Line, ...] = ()  # a sign of life
    settles_after: timedelta | None = None  # nothing for so long after a sign of life: over
    last: tuple[Line, ...] = ()  # the newest such line is quoted in the sentence
    key: str = ""


def read(section: Section) -> Burst:
    lines = read_lines(section, "line")
    levels, loggers = read_levels(section), section.names("logger", ())
    if levels or loggers:
        lines = tuple(Line(line.source, line.pattern, levels, loggers) for line in lines)
    want = Burst(
        line=lines,
        at_least=section.number("at_least", 1, least=1, most=10_000),
        within=section.duration("within"),
        per=section.names("per", ()),
        or_once=read_lines(section, "or_once", ()),
        unless=meanwhile(read_lines(section, "unless", ())),
        lives=meanwhile(read_lines(section, "lives", ())),
        settles_after=section.duration("settles_after", None),
        last=read_lines(section, "last", ()),
        key=section.text("key", ""),
    )
    need_names(section, "per", want.per, want.line)
    if want.at_least > 1 and want.within < timedelta(seconds=1) * (want.at_least - 1) / 1000:
        section.wrong_at("within", "no log can hold so many lines in so short a time; this rule would never match")
    if bool(want.lives) != (want.settles_after is not None):
        section.wrong("'lives' and 'settles_after' go together: after this sign of life and nothing for so long, it is over")
    section.done()
    return want


def lines(want: Burst) -> list[tuple[str, Line, bool]]:
    return [
        *(("line", line, True) for line in want.line),
        *(("or_once", line, True) for line in want.or_once),
        *(("unless", line, False) for line in want.unless),
        *(("last", line, False) for line in want.last),
        *(("lives", line, False) for line in want.lives),
    ]


def reach(want: Burst) -> timedelta:
    return longest(want.within)


def says(want: Burst) -> frozenset[str]:
    return names_of((*want.line, *want.or_once, *want.last)) | {"times", "at_least", "within"}


class Watch:
    def __init__(self, want: Burst):
        self.want = want
        self.series: dict[str, Series] = {}
        self.many = MANY  # keys; with so many it is time to tidy up
        self.last: Captures = {}
        self.known: dict[str, Captures] = {}  # session → what its lines captured, for lines that lack it

    def awake(self) -> bool:
        return bool(self.series)

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "last" in roles:
            self.last = {name: harmless(value, 200) for name, value in roles["last"].items()}
        if "lives" in roles:
            for series in self.series.values():
                series.lives(event.at)
        if "unless" in roles:
            for series in self.series.values():
                series.end(event.at)
        if "unless" in roles or not roles.keys() & {"line", "or_once"}:
            return
        once = "or_once" in roles
        captures = roles["or_once"] if once else roles["line"]
        if event.session:
            captures = {**self.known.get(event.session, {}), **{name: value for name, value in captures.items() if value}}
            if len(self.known) > MEMORY:
                self.known.clear()
            self.known[event.session] = captures
        key = key_of(captures, self.want.per, self.want.key)
        if key not in self.series:
            if len(self.series) >= self.many:
                tidy(self.series, event.at - SLACK)
                self.many = 2 * len(self.series) + MANY
            self.series[key] = Series(self.want.at_least, self.want.within, self.want.settles_after)
        self.series[key].add(key, event, captures, enough=once)

    def spans(self, now: datetime) -> list[Span]:
        found = [span for series in self.series.values() for span in series.spans(now)]
        return [replace(span, quotes={**span.quotes, **self.last}) for span in found] if self.last else found

    def state(self, now: datetime) -> list[str]:
        """For explain: how near each key is to its limit."""
        return states(self.series, self.want.at_least, self.want.within, now)

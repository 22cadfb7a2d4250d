"""What the kinds share: reading lines of a rule file, keys, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from watchdog.model import Event, Line
from watchdog.text import harmless
from watchdog.values import Any, replace
from watchdog.yamlfile import MISSING, Section

SOURCES = ("gateway.log", "agent.log", "errors.log", "journal")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Captures = Mapping[str, str]

MEMORY = 2000  # keys remembered
_KEYS: dict[tuple[str | None, ...], str] = {}
KEEP_LAST = 3  # evidence kept of a long series: the first and these many of the newest


def read_lines(section: Section, key: str, default: Any = MISSING) -> tuple[Line, ...]:
    """One pattern, a list of patterns, or {in:, line:, level:, logger:} for another source."""
    node = section.nodes[key][1] if section.has(key) else None
    section.asked.add("in")
    source = ""
    if node is not None and type(node).__name__ == "MappingNode":
        inner = section.section(key)
        assert inner is not None
        source = inner.choice("in", SOURCES)
        lines = tuple(
            Line(source, inner.compile(item), read_levels(inner), inner.names("logger", ())) for item in inner.items("line")
        )
        inner.done()
        return lines
    if node is not None:
        source = section.choice("in", SOURCES)
    return tuple(Line(source, section.compile(item)) for item in section.items(key, default))


def aside(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Lines of which only the time and the session matter."""
    return tuple(replace(line, aside=True) for line in lines)


def meanwhile(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Lines that say nothing to a watch that has nothing open."""
    return tuple(replace(line, meanwhile=True) for line in lines)


def once(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Lines that tell which session it is, and nothing more."""
    return tuple(replace(line, once=True) for line in lines)


def read_levels(section: Section) -> tuple[str, ...]:
    levels = section.names("level", ())
    for level in levels:
        if level not in LEVELS:
            section.wrong_at("level", f"'{harmless(level, 20)}' is not one of {', '.join(LEVELS)}")
    return levels


def names_of(lines: Iterable[Line]) -> frozenset[str]:
    return frozenset().union(*(line.pattern.names for line in lines if line.pattern is not None))


def need_names(section: Section, key: str, wanted: Iterable[str], lines: Iterable[Line], every: bool = True) -> None:
    """Each name must be captured by the patterns it is to be compared in."""
    lines = tuple(lines)
    for name in wanted:
        lacking = [line for line in lines if line.pattern is not None and name not in line.pattern.names]
        if lacking and (every or len(lacking) == len(lines)):
            section.wrong_at(key, f"'{harmless(name, 40)}' is not captured by '{harmless(lacking[0].pattern.text, 60)}'; "
                                  f"write (?<{harmless(name, 40)}>…) there")


def key_of(captures: Captures, same: Iterable[str], nothing: str = "") -> str:
    values = tuple(map(captures.get, same))
    key = _KEYS.get(values)  # the same chats come again and again
    if key is None:
        if len(_KEYS) > MEMORY:
            _KEYS.clear()
        key = _KEYS[values] = "/".join([harmless(value or "", 120) for value in values])
    return key or nothing


def keep(evidence: tuple[Event, ...], event: Event) -> tuple[Event, ...]:
    """The first and the newest few of a series."""
    return (*evidence[:1], *evidence[1:][-(KEEP_LAST - 1) :], event)


def longest(*spans: timedelta | None) -> timedelta:
    return max((span for span in spans if span is not None), default=timedelta(0))

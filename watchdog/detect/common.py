"""What the kinds share: reading lines of a rule file, keys, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from watchdog import config
from watchdog.config.rulebook import OTHER, Vocabulary, Word
from watchdog.model import LOG_SOURCES as SOURCES
from watchdog.model import MISSING, Event, Line
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

Captures = Mapping[str, str]

MEMORY = 2000  # keys remembered
_KEYS: dict[tuple[str | None, ...], str] = {}
KEEP_LAST = 3  # evidence kept of a long series: the first and these many of the newest


def read_lines(section: Section, key: str, default: Any = MISSING, source: str = "") -> tuple[Line, ...]:
    """A word of the vocabulary or a pattern, a list of them, or {in:, of:, level:, logger:, cause:}.

    The source is what `in:` says unless one is given here.
    """
    node = section.nodes[key][1] if section.has(key) else None
    section.asked.add("in")
    if node is not None and type(node).__name__ == "MappingNode":
        inner = section.section(key)
        assert inner is not None
        lines = lines_of(inner, inner.items("of" if inner.has("of") else "line"))
        levels, loggers = config.read_levels(inner), inner.names("logger", ())
        inner.done()
        return with_levels(lines, levels, loggers)
    return lines_of(section, section.items(key, default), source)


def with_levels(
    lines: tuple[Line, ...], levels: tuple[str, ...], loggers: tuple[str, ...]
) -> tuple[Line, ...]:
    return tuple(replace(line, level=levels or line.level, logger=loggers or line.logger) for line in lines)


def lines_of(section: Section, items: Iterable[Any], source: str = "") -> tuple[Line, ...]:
    """What these nodes name: words of the vocabulary, with the section's causes; anything else is a pattern."""
    return tuple(_line(section, item, source) for item in items)


def _line(section: Section, item: Any, source: str = "") -> Line:
    vocabulary: Vocabulary = section.vocabulary
    found = vocabulary.find(item.value)
    if found is None:
        if near := config.near(vocabulary, item.value):
            section.wrong(f"there is no line '{harmless(item.value, 60)}'{near}", item)
        return Line(source or section.choice("in", SOURCES), section.compile(item))
    word = found.word
    source = source or section.choice("in", SOURCES, word.sources[0])
    found.causes, found.not_causes = _causes(section, "cause", word), _causes(section, "not_cause", word)
    return Line(source if source in word.sources else word.sources[0], found, word.level, word.logger)


def in_each(section: Section, key: str, sources: Iterable[str]) -> tuple[Line, ...]:
    """The lines of one key in each of these sources."""
    lines = lines_of(section, section.items(key, ()), SOURCES[0])
    return tuple(replace(line, source=source) for source in sources for line in lines)


def _causes(section: Section, key: str, word: Word) -> tuple[str, ...]:
    names = section.names(key, ()) if word.cause else ()
    for name in names:
        if name not in (*word.cause, OTHER):
            problem = f"'{harmless(name, 40)}' is no cause of {word.id}; there are {', '.join((*word.cause, OTHER))}"
            section.wrong_at(key, problem)
    return names


def aside(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Lines of which only the time and the session matter."""
    return tuple(replace(line, aside=True) for line in lines)


def names_of(lines: Iterable[Line]) -> frozenset[str]:
    return frozenset().union(*(line.pattern.names for line in lines if line.pattern is not None))


def need_names(
    section: Section, key: str, wanted: Iterable[str], lines: Iterable[Line], every: bool = True
) -> None:
    """Each name must be captured by the patterns it is to be compared in."""
    lines = tuple(lines)
    for name in wanted:
        lacking = [line for line in lines if line.pattern is not None and name not in line.pattern.always]
        if lacking and (every or len(lacking) == len(lines)):
            section.wrong_at(
                key,
                f"'{harmless(name, 40)}' is not captured by '{harmless(lacking[0].pattern.text, 60)}'; "
                f"write (?<{harmless(name, 40)}>…) there",
            )


def with_moments(captures: Captures, at: datetime) -> dict[str, Any]:
    """What was captured, and the moment `x` of an `x_epoch` (seconds or milliseconds) or `x_seconds` (from `at` on)."""
    values: dict[str, Any] = {name: value for name, value in captures.items() if value}
    for name, value in tuple(values.items()):
        moment, _, unit = name.rpartition("_")
        if not moment or not value.isdecimal():
            continue
        if unit == "epoch" and len(value) in (10, 13):
            values[moment] = datetime.fromtimestamp(int(value[:10]), UTC)
        elif unit == "seconds" and len(value) < 9:
            values[moment] = at + timedelta(seconds=int(value))
    return values


def key_of(captures: Captures, same: Iterable[str], nothing: str = "") -> str:
    values = tuple(map(captures.get, same))
    key = _KEYS.get(values)  # the same chats come again and again
    if key is None:
        if len(_KEYS) > MEMORY:
            _KEYS.clear()
        key = "/".join([value or "" for value in values])
        if len(key) > 120 or not key.isprintable():
            key = "/".join([harmless(value or "", 120) for value in values])
        _KEYS[values] = key
    return key or nothing


def keep(evidence: tuple[Event, ...], event: Event) -> tuple[Event, ...]:
    """The first and the newest few of a series."""
    return (*evidence[:1], *evidence[1:][-(KEEP_LAST - 1) :], event)


def longest(*spans: timedelta | None) -> timedelta:
    return max((span for span in spans if span is not None), default=timedelta(0))

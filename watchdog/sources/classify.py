"""What a record is to the rules: each word and each pattern is tried once, for all rules that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from watchdog.config.rulebook import BytesReader, LineSelection, Meaning
from watchdog.errors import SlowPattern
from watchdog.model import Line
from watchdog.model.trace import Trace
from watchdog.values import Any

Captures = Mapping[str, str]
MEMORY = 2000
MISSING: Any = object()
_NOTHING: Captures = {}


class Use:
    """What is done with a record that is some of the wanted lines."""

    __slots__ = ("complaint", "followed", "places", "rare", "traces")

    def __init__(self, lines: Sequence[tuple[int, Line]], traces: Mapping[Line, Trace]):
        aside = {place: traces[line] for place, line in lines if line.aside and line in traces}
        self.places = tuple(place for place, _ in lines if place not in aside)  # to tell the detectors
        self.traces = tuple(dict.fromkeys(aside.values()))
        self.followed = any(line.followed for _, line in lines)  # the next record's time matters
        self.complaint = any(line.complaint for _, line in lines)
        self.rare = bool(self.traces or self.followed or self.complaint)


Match = tuple[Use, Captures]


class Matcher:
    """All lines that ask for one word, or for one pattern."""

    def __init__(self, pattern: Any, traces: Mapping[Line, Trace]):
        self.pattern = pattern  # a Word, a Pattern, or None: every record
        self.traces = traces
        self.entries: list[tuple[int, Line]] = []
        self.uses: dict[tuple[Any, ...], Use | None] = {}  # None: nobody asks for such a record
        self.slow = False  # its pattern took too long once, and is not tried again

    def match(self, message: str, level: str, logger: str) -> Match | None:
        """Which of them this message is; None when none of them."""
        raise NotImplementedError

    def in_bytes(self, head: bytes) -> BytesReader | None:
        """Reads messages that begin with `head`; None where only `match` can."""
        return None

    def choose(self, key: tuple[Any, ...], chosen: Iterable[tuple[int, Line]]) -> Use | None:
        lines = list(chosen)
        use = Use(lines, self.traces) if lines else None
        remember(self.uses, key, use, MEMORY)
        return use


class WordMatcher(Matcher):
    def match(self, message: str, level: str, logger: str) -> Match | None:
        found = self.pattern.find(message)
        return self.lines_for(found, level, logger) if found is not None else None

    def lines_for(self, found: tuple[str, str, dict[str, str]], level: str, logger: str) -> Match | None:
        """Which lines a message is with this variant, cause and captures."""
        variant, cause, captures = found
        key: tuple[Any, ...] = variant, cause, level, logger
        if self.asked:
            key += tuple(map(captures.get, self.asked))
        use = self.uses.get(key, MISSING)
        if use is MISSING:
            meaning = Meaning(self.pattern.id, variant, cause, captures)
            fitting = (entry for entry in self.entries if fits(entry[1], level, logger))
            use = self.choose(key, (entry for entry in fitting if entry[1].pattern.takes(meaning)))
        return (use, captures) if use is not None else None

    def in_bytes(self, head: bytes) -> BytesReader | None:
        if any(line.level or line.logger for _, line in self.entries):
            return None
        reader: BytesReader | None = self.pattern.in_bytes(head)
        return reader

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """The captures whose values decide which lines it is."""
        return tuple({line.pattern.only[0] for _, line in self.entries if line.pattern.only})


class PatternMatcher(Matcher):
    def match(self, message: str, level: str, logger: str) -> Match | None:
        key = level, logger
        use = self.uses.get(key, MISSING)
        if use is MISSING:
            use = self.choose(key, (entry for entry in self.entries if fits(entry[1], level, logger)))
        if use is None:
            return None
        captures = self.pattern.match(message) if self.pattern is not None else _NOTHING
        return (use, captures) if captures is not None else None


class Classifier:
    """Of the lines that are wanted from one source. Places without a line are somebody else's."""

    def __init__(self, lines: Sequence[Line | None], traces: Mapping[Line, Trace] | None = None):
        self.slow: dict[int, str] = {}  # place of a line whose pattern took too long → what to say of it
        found: dict[Any, Matcher] = {}
        for place, line in enumerate(lines):
            if line is None:
                continue
            is_word = isinstance(line.pattern, LineSelection)
            key = line.pattern.word.id if is_word else line.pattern
            if key not in found:
                pattern = line.pattern.word if is_word else line.pattern
                found[key] = (WordMatcher if is_word else PatternMatcher)(pattern, traces or {})
            found[key].entries.append((place, line))
        self.matchers = list(found.values())
        self._number = {
            place: number for number, matcher in enumerate(self.matchers) for place, _ in matcher.entries
        }

    def candidates(self, places: Iterable[int]) -> list[Matcher]:
        """The matchers of the lines in these places."""
        return [self.matchers[number] for number in sorted({self._number[place] for place in places})]

    def matches(self, matchers: Iterable[Matcher], message: str, level: str, logger: str) -> list[Match]:
        """Which of the wanted lines this message is."""
        found = []
        for matcher in matchers:
            if matcher.slow:
                continue
            try:
                match = matcher.match(message, level, logger)
            except SlowPattern as error:
                matcher.slow = True
                self.slow.update((place, str(error)) for place, _ in matcher.entries)
                continue
            if match is not None:
                found.append(match)
        return found


def fits(line: Line, level: str, logger: str) -> bool:
    return (not line.level or level in line.level) and (not line.logger or logger.startswith(line.logger))


def remember(memory: dict[Any, Any], key: object, value: object, most: int) -> None:
    """Keep it; what is known is dropped when there is too much of it."""
    if len(memory) > most:
        memory.clear()
    memory[key] = value

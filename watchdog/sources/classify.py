"""What a record is to the rules: each word and each pattern is tried once, for all rules that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from watchdog.config.rulebook import LineSelection
from watchdog.errors import SlowPattern
from watchdog.model import Line
from watchdog.values import Any

Captures = Mapping[str, str]
Match = tuple[tuple[int, ...], Captures]  # places in the list of wanted lines, what was captured
_NOTHING: Captures = {}


class Matcher:
    """All lines that ask for one word, or for one pattern."""

    def __init__(self, pattern: Any):
        self.pattern = pattern  # a Word, a Pattern, or None: every record
        self.entries: list[tuple[int, Line]] = []
        self.chosen: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.slow = False  # its pattern took too long once, and is not tried again

    def match(self, message: str, level: str, logger: str) -> Match | None:
        """Which of them this message is; None when none of them."""
        raise NotImplementedError


class WordMatcher(Matcher):
    def match(self, message: str, level: str, logger: str) -> Match | None:
        meaning = self.pattern.read(message)
        if meaning is None:
            return None
        key = meaning.variant, meaning.cause, level, logger
        places = self.chosen.get(key)
        if places is None:
            places = tuple(
                place
                for place, line in self.entries
                if fits(line, level, logger) and line.pattern.takes(meaning)
            )
            if not any(line.pattern.only for _, line in self.entries):  # else the captures decide, too
                _remember(self.chosen, key, places)
        return (places, meaning.captures) if places else None


class PatternMatcher(Matcher):
    def match(self, message: str, level: str, logger: str) -> Match | None:
        key = level, logger
        places = self.chosen.get(key)
        if places is None:
            places = tuple(place for place, line in self.entries if fits(line, level, logger))
            _remember(self.chosen, key, places)
        if not places:
            return None
        captures = self.pattern.match(message) if self.pattern is not None else _NOTHING
        return (places, captures) if captures is not None else None


class Classifier:
    """Of the lines that are wanted from one source."""

    def __init__(self, lines: Sequence[Line | None]):
        self.slow: dict[int, str] = {}  # place of a line whose pattern took too long → what to say of it
        found: dict[Any, Matcher] = {}
        for place, line in enumerate(lines):
            if line is None:
                continue
            key = line.pattern.word.id if isinstance(line.pattern, LineSelection) else line.pattern
            if key not in found:
                word = isinstance(line.pattern, LineSelection)
                found[key] = WordMatcher(line.pattern.word) if word else PatternMatcher(line.pattern)
            found[key].entries.append((place, line))
        self.matchers = list(found.values())
        self._by_places: dict[tuple[int, ...], list[Matcher]] = {}

    def candidates(self, places: Iterable[int]) -> list[Matcher]:
        """The matchers of the lines in these places."""
        key = tuple(places)
        found = self._by_places.get(key)
        if found is None:
            wanted = set(key)
            found = [
                matcher for matcher in self.matchers if any(place in wanted for place, _ in matcher.entries)
            ]
            _remember(self._by_places, key, found)
        return found

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


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) > MEMORY:
        memory.clear()
    memory[key] = value


MEMORY = 2000

"""What a record is to the rules: each word and each pattern is tried once, for all rules that ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

from watchdog.config.pattern import LONGEST, Pattern, groups_in
from watchdog.config.rulebook import CAUSE, OTHER, LineSelection, Meaning, Word
from watchdog.errors import SlowPattern
from watchdog.model import Line
from watchdog.model.trace import Trace
from watchdog.values import Any

Captures = Mapping[str, str]
MEMORY = 2000
LONG = 1000  # bytes of a message that is not remembered
DIGITS = b"0123456789"
ZEROS = bytes.maketrans(b"123456789", b"000000000")
_NUMBERED = re.compile(rb"(?s).*[0-9]").match
_GROUP = re.compile(rb"\(\?P<(\w+)>")
MISSING: Any = object()
_NOTHING: Captures = {}


class Use:
    """What is done with a record that is some of the wanted lines."""

    __slots__ = ("complaint", "followed", "places", "rare", "traces")

    def __init__(self, lines: Sequence[tuple[int, Line]], traces: Mapping[Line, Trace]):
        aside = {place: traces[line] for place, line in lines if line.aside and line in traces}
        self.places = tuple(place for place, _ in lines if place not in aside)  # to tell the detectors
        # each with the captures that tell whose sign it is; none: the session's
        self.traces = tuple(dict.fromkeys((aside[place], line.by) for place, line in lines if place in aside))
        self.followed = any(line.followed for _, line in lines)  # the next record's time matters
        self.complaint = any(line.complaint for _, line in lines)
        self.rare = bool(self.traces or self.followed or self.complaint)


Match = tuple[
    Use, tuple[tuple[int, ...], Captures]
]  # what to do with it; its places and captures, for the event


class Matcher:
    """All lines that ask for one word, or for one pattern."""

    def __init__(self, pattern: Any, traces: Mapping[Line, Trace]):
        self.pattern = pattern  # a Word, a Pattern, or None: every record
        self.traces = traces
        self.entries: list[tuple[int, Line]] = []
        self.uses: dict[tuple[Any, ...], Use | None] = {}  # None: such a record is not asked for
        self.slow = False  # its pattern took too long once, and is not tried again

    @property
    def variants(self) -> int:
        """How many patterns there are to compile."""
        return len(self.pattern.tries) if isinstance(self, WordMatcher) else 1

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
        return (use, (use.places, captures)) if use is not None else None

    def in_bytes(self, head: bytes) -> BytesReader | None:
        if any(line.level or line.logger for _, line in self.entries):
            return None
        begin = head.decode("utf-8", "replace")
        near = [
            (variant, pattern)
            for variant, begins, pattern in self.pattern.tries
            if any(begin.startswith(known) or known.startswith(begin) for known in begins)
        ]
        sure = list(takewhile(lambda known: known[1].in_bytes is not None, near))
        try:
            return BytesReader(self.pattern, sure, len(sure) == len(near)) if sure else None
        except re.error:  # two that cannot be one
            return None

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """The captures whose values decide which lines it is."""
        return tuple({line.pattern.only[0] for _, line in self.entries if line.pattern.only})


class Alike:
    """What messages are that are the same but for their digits."""

    __slots__ = ("known", "match", "spans", "telling", "variant", "varies")

    def __init__(self, variant: str, telling: list[bytes]):
        self.variant = variant
        self.telling = telling  # with these digits a message may have a cause
        self.spans: list[tuple[str, int, int]] = []  # where a capture stands in each of them
        self.varies = False  # a capture holds a digit: what it is depends on what was captured
        self.known: dict[tuple[bytes, ...], Match | None] = {}  # that, of all messages of this variant
        self.match: Match | None = MISSING  # what all of them are, if nothing varies


class BytesReader:
    """Reads messages of ASCII in one line, without chat text, by the first patterns of a word that may match them: as
    Word.find does, without decoding, and once for all messages that are the same but for their digits.

    No pattern that is read so tells one digit from another, so that it matches all of them in the same places. Of a flood
    most messages look alike so: measured, one costs 5,700 instructions, and the match alone that it saves 7,500.
    """

    def __init__(self, word: Word, tries: Sequence[tuple[str, Pattern]], every: bool):
        self.every = every  # no other pattern of the word could match such a message
        texts, self.longest = [], 1 << 30
        for number, (_, pattern) in enumerate(tries):
            assert pattern.in_bytes is not None
            text, longest = pattern.in_bytes
            # An empty group at its end tells which one has matched.
            texts.append(b"(?:%b)(?P<_%d>)" % (_GROUP.sub(rb"(?P<\1_%d>" % number, text), number))
            self.longest = min(self.longest, longest, LONGEST)
        compiled = re.compile(b"|".join(texts))
        self.match = compiled.match
        # each variant with the names of its groups
        self.variants: list[tuple[str, list[tuple[str, int]], dict[tuple[bytes, ...], Match | None]]] = []
        for number, (variant, _) in enumerate(tries):
            ending = f"_{number}"
            groups = [
                (name.removesuffix(ending), group)
                for name, group in compiled.groupindex.items()
                if name.endswith(ending) and name != ending
            ]
            self.variants.append((variant, groups, {}))
        self.lower = word.lower
        self.cause = OTHER if word.cause else ""
        words = [patterns[0].words for patterns in word.cause.values()]
        self.causes_in = groups_in(
            [known and [one for one in known if not _NUMBERED(one)] for known in words]
        )
        self.numbered = [one for known in words for one in known or () if _NUMBERED(one)]
        self.alike: dict[bytes, Alike | None] = {}  # None: all such messages are odd, or may have a cause

    def look_through(self, message: bytes, zeroed: bytes) -> Alike | None:
        """What all messages are that are like this one; None where only `Word.find` can tell."""
        found = None
        odd = may_quote(message) or not message.isascii() or self.causes_in(zeroed)
        if not odd and message[-1:] != b"\r" and len(message) <= self.longest:
            telling = [one for one in self.numbered if zeroed.find(_zeroed(one)) >= 0]
            if (match := self.match(message)) is not None:
                assert match.lastgroup is not None
                variant, groups, known = self.variants[int(match.lastgroup[1:])]
                found = Alike(variant, telling)
                found.spans, found.known = [(name, *match.span(group)) for name, group in groups], known
                found.varies = any(part and part.translate(None, DIGITS) != part for part in match.groups())
            elif self.every:
                found = Alike("", telling)
                found.match = None
        if len(zeroed) < LONG:
            remember(self.alike, zeroed, found, MEMORY)
        return found

    def meaning(self, alike: Alike, captured: tuple[bytes, ...]) -> tuple[str, str, dict[str, str]]:
        """(variant, cause, captures) of a message that is like these, and captured this."""
        captures = {
            name: str(part, "ascii") for (name, _, _), part in zip(alike.spans, captured, strict=True)
        }
        for name in self.lower:
            if name in captures:
                captures[name] = captures[name].lower()
        if self.cause:
            captures[CAUSE] = self.cause
        return alike.variant, self.cause, captures


def may_quote(message: bytes) -> bool:
    """Whether it may hold chat text."""
    # `in` tries a number first, which takes a third of it.
    return message.find(b"='") >= 0 or message.find(b'="') >= 0


def _zeroed(literal: bytes) -> bytes:
    return literal.translate(ZEROS)


class PatternMatcher(Matcher):
    def match(self, message: str, level: str, logger: str) -> Match | None:
        key = level, logger
        use = self.uses.get(key, MISSING)
        if use is MISSING:
            use = self.choose(key, (entry for entry in self.entries if fits(entry[1], level, logger)))
        if use is None:
            return None
        captures = self.pattern.match(message) if self.pattern is not None else _NOTHING
        return (use, (use.places, captures)) if captures is not None else None


class Classifier:
    """Of the lines that are wanted from one source. Places without a line belong to others."""

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

"""Patterns of rules: matched from the start of a message, with a time limit, compiled when first needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from watchdog import config
from watchdog.errors import SlowPattern
from watchdog.values import Any

LONGEST = 64 * 1024  # of one record that is looked at, in bytes; the rest of a 10 MB line says nothing more
LIMIT_SECONDS = 0.5  # a sane pattern needs microseconds
# How long a text may be that a pattern with so many endless repeats is matched against without watching the
# clock:
# within these lengths it takes at most some millions of steps.
_SAFE_LENGTH = {0: 1_000_000, 1: 100_000, 2: 2500, 3: 400}
_COUNT = re.compile(r"(?<!\\)\{\d*,?\d*\}")
_TELLS_DIGITS = re.compile(r"\d|\(\?P=")  # a digit, or a repeat of what another group captured
_BRACES_IN_SET = re.compile(r"\[[^\]]*[{}]")  # where they are no count


class Study:
    """What is known of one pattern."""

    __slots__ = ("also", "degree", "heads", "names", "whole", "words")

    def __init__(
        self,
        words: frozenset[str] | None,
        heads: frozenset[str] | None,
        degree: int | None,
        names: frozenset[str] | None = None,
        also: tuple[frozenset[str], ...] = (),
        whole: bool = False,
    ):
        self.words = words  # at least one of them is in every text that it matches; None: no such set
        self.heads = heads  # every text that it matches begins with one of them; None: not known
        self.degree = degree  # matching takes at most length to this power; None: not known
        self.names = names  # of its groups; None: only the regex package knows
        self.also = also  # of each of these sets, too, one is in every text that it matches
        self.whole = whole  # it matches every text that begins with one of its heads


class Pattern:
    """A regular expression in the syntax of the regex package.

    The regex package can stop a match that takes too long, and costs more to load than a whole check. So re
    does the work where it provably ends in time, and regex does the rest.
    """

    __slots__ = ("__dict__", "text", "where")

    def __init__(self, text: str, where: str = ""):
        self.text = text
        self.where = where

    @cached_property
    def study(self) -> Study:
        return config.study(self.text)

    @cached_property
    def words(self) -> tuple[bytes, ...] | None:
        """At least one of them is in every text that it matches; None when there is no such set."""
        return None if self.study.words is None else tuple(sorted(word.encode() for word in self.study.words))

    @cached_property
    def heads(self) -> frozenset[bytes] | None:
        """Every text that it matches begins with one of them; None when that is not known."""
        return None if self.study.heads is None else frozenset(head.encode() for head in self.study.heads)

    @cached_property
    def compiled(self) -> Any:
        """As the regex package compiles it; ValueError for what is not a regular expression."""
        import regex  # the one place: it takes longer to load than a whole check

        try:
            return regex.compile(self.text, regex.VERSION0)
        except regex.error as error:
            raise ValueError(str(error)) from None

    @cached_property
    def begins(self) -> tuple[str, ...]:
        """How a text that it matches begins, with one of these; ('',) when that is not known."""
        return tuple(self.study.heads) if self.study.heads else ("",)

    @cached_property
    def _inside(self) -> tuple[frozenset[str], ...]:
        """Of each of these sets one is in every text that it matches, beside how that begins."""
        words, heads = self.study.words, self.study.heads
        told_by_heads = heads and words and all(any(word in head for word in words) for head in heads)
        return self.study.also or (() if words is None or told_by_heads else (words,))

    @cached_property
    def _quick(self) -> tuple[Any, int]:
        """(match by re, up to which length of text)."""
        length = _SAFE_LENGTH.get(self.study.degree, 0) if self.study.degree is not None else 0
        try:
            return (re.compile(as_re(self.text)).match, length) if length else (None, -1)
        except re.error:
            return None, -1

    @property
    def in_bytes(self) -> tuple[bytes, int] | None:
        """(the same for re and a text of ASCII as bytes, up to which length); None where only `match` can do it, and for a
        pattern that may tell one digit from another.
        """
        length = _SAFE_LENGTH.get(self.study.degree, 0) if self.study.degree is not None else 0
        counts = _COUNT.sub("", self.text)
        same = (
            self.text.isascii() and not _TELLS_DIGITS.search(counts) and not _BRACES_IN_SET.search(self.text)
        )
        return (as_re(self.text).encode(), length) if length and same else None

    @property
    def plain(self) -> bool:
        """Whether re could read it, and nothing is in it that the regex package would read otherwise."""
        return self.study.degree is not None

    @cached_property
    def sure(self) -> bool:
        """Whether it ends in time on any record that a log can hold."""
        degree = self.study.degree
        return degree is not None and _SAFE_LENGTH.get(degree, 0) >= LONGEST

    def match(self, text: str) -> dict[str, str] | None:
        """The named captures when it matches from the start; None when not."""
        # Most patterns of a word begin otherwise: they are not even compiled.
        return self.match_rest(text) if text.startswith(self.begins) else None

    def match_rest(self, text: str) -> dict[str, str] | None:
        """The same of a text of which it is known that it begins as it should."""
        for words in self._inside:
            for word in words:
                if word in text:
                    break
            else:
                return None
        quick, length = self._quick
        if len(text) <= length:
            found = quick(text)
            return found.groupdict("") if found is not None else None
        if self.study.words and not any(word in text for word in self.study.words):
            return None  # the regex package is not even loaded
        try:
            found = self.compiled.match(text, timeout=LIMIT_SECONDS)
        except TimeoutError:
            raise SlowPattern(
                f"{self.where}: pattern '{self.text}' took longer than {LIMIT_SECONDS} s on one record; "
                "avoid nested repeats such as (a+)+"
            ) from None
        return {name: value or "" for name, value in found.groupdict().items()} if found else None

    @cached_property
    def names(self) -> frozenset[str]:
        return self.study.names if self.study.names is not None else frozenset(self.compiled.groupindex)

    @property
    def is_head(self) -> bool:
        """Whether it matches every text that begins with one of its heads."""
        return self.study.whole and not self.names

    @property
    def always(self) -> frozenset[str]:
        """What every match captures."""
        return self.names

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        known = self.study
        parts = known.words, known.heads, known.degree, known.names, known.also, known.whole
        return _studied, (self.text, self.where, *parts)


def groups_in(groups: Sequence[Sequence[bytes] | None]) -> Callable[[bytes], list[int]]:
    """Tells the groups of which a literal stands in a text, by their numbers; None is a group that may be in any text.

    One pass for all literals: trying each of the 136 that tell why a call failed took half the time of a flood of them.
    """
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    always = {number for number, literals in enumerate(groups) if literals is None}
    literals = [(literal, number) for number, group in enumerate(groups) for literal in group or ()]
    if not literals:
        return lambda _: sorted(always)
    words = BytesAhoCorasick([word for word, _ in literals], implementation=Implementation.ContiguousNFA)
    find, group_of = words.find_matches_as_indexes, [number for _, number in literals]

    def found(text: bytes) -> list[int]:
        matches = find(text, overlapping=True)
        if not matches:
            return sorted(always)
        return sorted(always.union([group_of[match[0]] for match in matches]))

    return found


def as_re(pattern: str) -> str:
    """(?<name>…) as re spells it."""
    return pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")


def _studied(text: str, where: str, *known: Any) -> Pattern:
    """A pattern as it was stored: what is known of it need not be found out again."""
    pattern = Pattern(text, where)
    pattern.study = Study(*known)
    return pattern

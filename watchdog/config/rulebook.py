"""What rules are once they are read: the rulebook, and the vocabulary of lines that its rules speak in.

A word has variants (the first whose pattern matches the message is the one) and may have causes (the first that
is found in the message's first line, else `other`). A rule names `word`, `word/variant`, and with
`[field=value]` after it only such lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cached_property

from watchdog.config.pattern import Pattern, groups_in
from watchdog.later import regex
from watchdog.model import Condition, Line, Recipe, Rule
from watchdog.values import Any, dataclass, field

OTHER = "other"  # the cause when none of a word's causes is found
CAUSE = "cause"  # what the cause is called among the captures
ID = regex(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
REFERENCE = regex(rf"({ID.pattern})(?:/({ID.pattern}))?(?:\[(\w+)=([^\s\[\]]+)\])?")
ANY = "any"
LOOK_BACK_SLACK = timedelta(minutes=2)
LONGEST_LOOK_BACK = timedelta(days=7)


class Meaning:
    """What a message is in the words of the vocabulary. Made by the million: slots."""

    __slots__ = ("captures", "cause", "variant", "word")

    def __init__(self, word: str, variant: str, cause: str, captures: Mapping[str, str]):
        self.word, self.variant, self.captures = word, variant, captures
        self.cause = cause  # '' where the word has no causes

    def __str__(self) -> str:
        return f"{self.word}/{self.variant}{f' (cause: {self.cause})' if self.cause else ''}"


@dataclass(frozen=True)
class Word:
    """One thing that Hermes, or the system around it, writes into a log."""

    id: str
    about: str
    sources: tuple[str, ...]  # logs that hold it; the first is read unless a rule says another
    match: Mapping[str, tuple[Pattern, ...]]  # variant → patterns, in the order in which they are tried
    # cause → the pattern that tells it, and patterns that capture more where they are found
    cause: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)
    lower: tuple[str, ...] = ()  # captures that are read in small letters
    level: tuple[str, ...] = ()
    logger: tuple[str, ...] = ()
    role: str = ""  # what it means to the program itself
    text: str = ""  # how a line with chat text in it is written, so that the text can be cut out
    keep: tuple[str, ...] = ()  # fields after that text which change what the line means
    where: str = ""

    def read(self, message: str) -> Meaning | None:
        """What this message is, None when it is something else."""
        found = self.find(message)
        return Meaning(self.id, *found) if found is not None else None

    def find(self, message: str) -> tuple[str, str, dict[str, str]] | None:
        """(variant, cause, captures) of this message, None when it is something else. Called by the million."""
        for variant, begins, pattern in self.tries:
            if message.startswith(begins) and (captures := pattern.match_rest(message)) is not None:
                for name in self.lower:
                    if name in captures:
                        captures[name] = captures[name].lower()
                return variant, self._cause(captures, message) if self.cause else "", captures
        return None

    def _cause(self, captures: dict[str, str], message: str) -> str:
        """Why it happened; what the message tells more about it goes to the captures."""
        first = message if "\n" not in message else message.partition("\n")[0]
        captures[CAUSE] = OTHER
        found, causes = self._causes
        for number in found(first.encode("utf-8", "replace")):
            cause, (pattern, *details) = causes[number]
            if (more := pattern.match(first)) is not None:
                captures |= {**more, CAUSE: cause}
                for detail in details:
                    captures |= detail.match(first) or {}
                return cause
        return OTHER

    @cached_property
    def tries(self) -> list[tuple[str, tuple[str, ...], Pattern]]:
        """(variant, how its messages begin, pattern), in the order in which they are tried."""
        return [
            (variant, pattern.begins, pattern)
            for variant, patterns in self.match.items()
            for pattern in patterns
        ]

    @cached_property
    def _causes(self) -> tuple[Callable[[bytes], list[int]], list[tuple[str, tuple[Pattern, ...]]]]:
        """(which causes a message may have: a literal of their pattern stands in it; the causes)."""
        causes = list(self.cause.items())
        return groups_in([patterns[0].words for _, patterns in causes]), causes

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made on first use."""
        made = ("tries", "_causes")
        return {name: value for name, value in self.__dict__.items() if name not in made}


class LineSelection:
    """Some variants and causes of a word, as a rule asks for them. Stands where a Pattern stands."""

    def __init__(
        self,
        word: Word,
        variants: Iterable[str] = (),
        only: tuple[str, str] | None = None,
    ):
        self.word = word
        self.variants = tuple(variants) or tuple(word.match)
        self.only = only  # a capture and the value that it must have
        self.causes: tuple[str, ...] = ()
        self.not_causes: tuple[str, ...] = ()

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.word, self.variants, self.only, self.causes, self.not_causes

    def __getstate__(self) -> tuple[Any, ...]:
        """With what every check needs to know of it, so that a kept rulebook has it ready."""
        return *self._parts, self.heads, self.words, self.sure

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.word, self.variants, self.only, self.causes, self.not_causes, *known = state
        self.heads, self.words, self.sure = known

    def match(self, message: str) -> Mapping[str, str] | None:
        """The named captures when the message is what was asked for; None when not."""
        meaning = self.word.read(message)
        return meaning.captures if meaning is not None and self.takes(meaning) else None

    def takes(self, meaning: Meaning) -> bool:
        return (
            meaning.variant in self.variants
            and (self.only is None or meaning.captures.get(self.only[0]) == self.only[1])
            and (not self.causes or meaning.cause in self.causes)
            and meaning.cause not in self.not_causes
        )

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(pattern for variant in self.variants for pattern in self.word.match[variant])

    @cached_property
    def words(self) -> tuple[bytes, ...] | None:
        """Literals of which one is in every message that it matches; None when there is no such set."""
        found: set[bytes] = set()
        for pattern in self.patterns:
            if pattern.words is None:
                return None
            found.update(pattern.words)
        return tuple(sorted(found))

    @cached_property
    def heads(self) -> frozenset[bytes] | None:
        """How every message that it matches begins; None when that is not known."""
        heads = [pattern.heads for pattern in self.patterns]
        return None if None in heads else frozenset().union(*(head for head in heads if head is not None))

    @cached_property
    def names(self) -> frozenset[str]:
        """What it may capture."""
        chosen = [name for name in self.causes or self.word.cause if name != OTHER]
        causes = [pattern for name in chosen for pattern in self.word.cause[name]]
        named = frozenset().union(*(pattern.names for pattern in (*self.patterns, *causes)))
        return named | {CAUSE} if self.word.cause else named

    @cached_property
    def always(self) -> frozenset[str]:
        """What it captures whichever variant it is."""
        return frozenset.intersection(*(pattern.names for pattern in self.patterns))

    @cached_property
    def sure(self) -> bool:
        """Whether it ends in time on any record that a log can hold."""
        every = [pattern for patterns in self.word.match.values() for pattern in patterns]
        return all(pattern.sure for pattern in every) and not self.word.cause

    @cached_property
    def is_head(self) -> bool:
        """Whether it is every message that begins with one of its heads."""
        plain = not (self.only or self.causes or self.not_causes or self.word.cause)
        if not plain or self.variants != tuple(self.word.match) or self.heads is None:
            return False
        whole = tuple(head for p in self.patterns if p.is_head for head in p.heads or ())
        return all(head.startswith(whole) for head in self.heads)

    @property
    def where(self) -> str:
        return self.word.where

    @property
    def text(self) -> str:
        variants = "" if len(self.variants) == len(self.word.match) else "/" + "|".join(self.variants)
        return self.word.id + variants + (f"[{'='.join(self.only)}]" if self.only else "")

    def __repr__(self) -> str:
        return f"LineSelection({self.text!r}, {self.causes}, {self.not_causes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LineSelection) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.word.id, self.variants, self.only, self.causes, self.not_causes))


@dataclass(frozen=True)
class Vocabulary:
    """All words by their ids."""

    words: Mapping[str, Word] = field(default_factory=dict)

    def find(self, reference: str) -> LineSelection | None:
        """What `word`, `word/variant` or `word[field=value]` names; None when it is no such name."""
        found = REFERENCE.fullmatch(reference)
        word = self.words.get(found[1]) if found else None
        if word is None or found is None or (found[2] and found[2] not in word.match):
            return None
        selection = LineSelection(
            word, (found[2],) if found[2] else (), (found[3], found[4]) if found[3] else None
        )
        return selection if not found[3] or found[3] in selection.names else None

    def role(self, role: str) -> tuple[Line, ...]:
        """The lines that have this meaning to the program itself."""
        return tuple(
            Line(word.sources[0], LineSelection(word), word.level, word.logger)
            for word in self.words.values()
            if word.role == role
        )

    def with_chat_text(self) -> tuple[Word, ...]:
        return tuple(word for word in self.words.values() if word.text)

    def read(self, message: str, source: str = "") -> list[Meaning]:
        """Every word that this message is; one at the most in a good vocabulary."""
        words = [word for word in self.words.values() if not source or source in word.sources]
        return [meaning for word in words if (meaning := word.read(message)) is not None]


@dataclass(frozen=True)
class Kinds:
    """What rules and recipes may be made of: kinds of conditions and of steps by name, and how `every:` is checked."""

    conditions: Mapping[str, Any]
    steps: Mapping[str, Any]
    every_problem: Callable[[str], str]


@dataclass(frozen=True)
class Rulebook:
    rules: tuple[Rule, ...]
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    off: Mapping[str, str] = field(default_factory=dict)  # rule id → the file that switched it off
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    @property
    def window(self) -> timedelta:
        """The longest look back that any rule asks for."""
        return max((reach(rule) for rule in self.rules), default=timedelta(0)) + LOOK_BACK_SLACK

    def rule(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.id == name), None)


def reach(rule: Rule) -> timedelta:
    return max((condition.reach for condition in flat(rule.when)), default=timedelta(0))


def flat(conditions: Iterable[Condition]) -> Iterable[Condition]:
    for condition in conditions:
        if condition.kind == ANY:
            yield from flat(condition.want)
        else:
            yield condition


def shipped_dir() -> str:
    """Where the rules that come with the package are: in a checkout, rules/ at its top."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.join(package, "shipped")
    return folder if os.path.isdir(folder) else os.path.join(os.path.dirname(package), "rules")

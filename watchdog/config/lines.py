"""rules/lines/ → Vocabulary: what Hermes writes, described once as data; rules speak in its words.

A word has variants (the first whose pattern matches the message is the one) and may have causes (the first that
is found in the message's first line, else `other`). A rule names `word`, `word/variant`, and with
`[field=value]` after it only such lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from watchdog.config.pattern import Pattern
from watchdog.config.yaml import Section, _near
from watchdog.model import LEVELS, LOG_SOURCES, Line
from watchdog.text import harmless
from watchdog.values import Any, dataclass, field, regex

ROLES = {
    "started": "the gateway starts",
    "stopped": "the gateway is stopped on purpose, or says goodbye",
    "answered": "a chat has its answer",
    "refused": "the gateway ends because a start cannot succeed; captures exit_reason",
}
OTHER = "other"  # the cause when none of a word's causes is found
CAUSE = "cause"  # what the cause is called among the captures
_ID = regex(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_REFERENCE = regex(rf"({_ID.pattern})(?:/({_ID.pattern}))?(?:\[(\w+)=([^\s\[\]]+)\])?")
FIELDS = ("word", "name", "number", "any", "quoted")  # what a {field} of `text:` may be
_FIELD = regex(r"(\w+)=\{(\w+)\}")


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
        for variant, patterns in self.match.items():
            for pattern in patterns:
                captures = pattern.match(message)
                if captures is not None:
                    for name in self.lower:
                        if name in captures:
                            captures[name] = captures[name].lower()
                    if self.cause:
                        return self._caused(variant, captures, message)
                    return Meaning(self.id, variant, "", captures)
        return None

    def _caused(self, variant: str, captures: dict[str, str], message: str) -> Meaning:
        first = message.partition("\n")[0]
        for cause, (pattern, *details), literals in self._causes:
            for literal in literals:  # without one of them the pattern need not be tried; most lack them all
                if literal in first:
                    if (more := pattern.match(first)) is not None:
                        captures |= {CAUSE: cause, **more}
                        for detail in details:
                            captures |= detail.match(first) or {}
                        return Meaning(self.id, variant, cause, captures)
                    break
        captures[CAUSE] = OTHER
        return Meaning(self.id, variant, OTHER, captures)

    @cached_property
    def _causes(self) -> list[tuple[str, tuple[Pattern, ...], tuple[str, ...]]]:
        return [(cause, patterns, patterns[0].needed) for cause, patterns in self.cause.items()]


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
        return plain and self.variants == tuple(self.word.match) and all(p.is_head for p in self.patterns)

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
        found = _REFERENCE.fullmatch(reference)
        word = self.words.get(found[1]) if found else None
        if word is None or found is None or (found[2] and found[2] not in word.match):
            return None
        selection = LineSelection(
            word, (found[2],) if found[2] else (), (found[3], found[4]) if found[3] else None
        )
        return selection if not found[3] or found[3] in selection.names else None

    def near(self, reference: str) -> str:
        """What to say of a name that is nearly one of ours; '' for what looks like a pattern."""
        found = _REFERENCE.fullmatch(reference)
        if found is None or not ("-" in reference or "/" in reference or found[3]):
            return ""
        word = self.words.get(found[1])
        if word is None:
            return _near(found[1], self.words)
        if found[2] and found[2] not in word.match:
            return _near(found[2], word.match) or f"; there are {', '.join(word.match)}"
        names = sorted(LineSelection(word).names)
        return f"; it captures {', '.join(names) or 'nothing'}"

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
class LineSample:
    """A line that a release really wrote, and what it must be read as."""

    word: str
    hermes: str
    line: str
    variant: str
    cause: str
    captures: Mapping[str, str]
    path: str
    number: int  # of the line in that file


def read_word(section: Section) -> tuple[Word | None, tuple[LineSample, ...]]:
    """One file of rules/lines/ and its samples; mistakes go to the section's problems."""
    before = len(section.problems)
    if not section.whole:
        return None, ()
    name = section.text("id")
    if name and not _ID.fullmatch(name):
        section.wrong_at("id", f"'{harmless(name, 60)}' is not an id; write small letters, digits and '-'")
    word = Word(
        id=name,
        about=section.text("about"),
        sources=read_sources(section, "in"),
        match=_read_variants(section),
        cause=_read_causes(section),
        lower=section.names("lower", ()),
        level=read_levels(section),
        logger=section.names("logger", ()),
        role=section.choice("role", tuple(ROLES), ""),
        text=section.text("text", ""),
        keep=section.names("keep", ()),
        where=f"{section.path}:{section.line_of('id')}",
    )
    if word.text:
        _check_text(section, word.text)
    samples = tuple(_read_sample(sample, word) for sample in section.sections("samples", ()))
    section.done()
    return (word if len(section.problems) == before else None), samples


def _read_variants(section: Section) -> dict[str, tuple[Pattern, ...]]:
    inner = section.section("match")
    assert inner is not None
    if inner.whole and not inner.nodes:
        section.wrong_at("match", "needs at least one 'variant: pattern'")
    found = {}
    for variant in tuple(inner.nodes):
        if not _ID.fullmatch(variant):
            inner.wrong_at(variant, "a variant is called in small letters, digits and '-'")
        found[variant] = tuple(inner.compile(item) for item in inner.items(variant))
    return found


def _read_causes(section: Section) -> dict[str, tuple[Pattern, ...]]:
    inner = section.section("cause", None)
    if inner is None:
        return {}
    found = {}
    for cause in tuple(inner.nodes):
        if not _ID.fullmatch(cause) or cause == OTHER:
            inner.wrong_at(cause, f"a cause is called in small letters, digits and '-', and not '{OTHER}'")
        patterns = [inner.compile(item) for item in inner.items(cause)]
        if patterns:
            found[cause] = tuple(Pattern(f".*?(?:{pattern.text})", pattern.where) for pattern in patterns)
    return found


def _check_text(section: Section, text: str) -> None:
    fields = _FIELD.findall(text)
    kinds = [kind for _, kind in fields]
    unknown = [kind for kind in kinds if kind not in FIELDS]
    if unknown:
        section.wrong_at("text", f"unknown field '{{{harmless(unknown[0], 40)}}}'{_near(unknown[0], FIELDS)}")
    elif kinds.count("quoted") != 1 or kinds[-1] != "quoted" or kinds.count("name") > 1:
        section.wrong_at("text", "needs key={quoted} at its end, and key={name} at most once before it")
    elif not text.endswith("{quoted}") or " " not in text.partition("=")[0]:
        section.wrong_at("text", "begins with plain words and ends in key={quoted}")


def _read_sample(section: Section, word: Word) -> LineSample:
    captures = section.section("captures", None)
    sample = LineSample(
        word=word.id,
        hermes=section.text("hermes"),
        line=section.text("line"),
        variant=section.choice("is", tuple(word.match) or ("",)),
        cause=section.choice("cause", (*word.cause, OTHER)) if word.cause else "",
        captures={name: captures.text(name) for name in captures.nodes} if captures else {},
        path=section.path,
        number=section.line,
    )
    section.done()
    return sample


def read_sources(section: Section, key: str) -> tuple[str, ...]:
    sources = section.names(key)
    for source in sources:
        if source not in LOG_SOURCES:
            section.wrong_at(key, f"'{harmless(source, 40)}' is not one of {', '.join(LOG_SOURCES)}")
    return sources or LOG_SOURCES[:1]


def read_levels(section: Section) -> tuple[str, ...]:
    levels = section.names("level", ())
    for level in levels:
        if level not in LEVELS:
            section.wrong_at("level", f"'{harmless(level, 20)}' is not one of {', '.join(LEVELS)}")
    return levels

"""rules/lines/ → Vocabulary: what Hermes writes, described once as data; rules speak in its words."""

from __future__ import annotations

from collections.abc import Mapping

from watchdog.config.pattern import Pattern
from watchdog.config.rulebook import ID, OTHER, REFERENCE, LineSelection, Vocabulary, Word
from watchdog.config.yaml import Section, _near
from watchdog.later import regex
from watchdog.model import LEVELS, LOG_SOURCES
from watchdog.text import harmless
from watchdog.values import dataclass

ROLES = {
    "started": "the gateway starts",
    "stopped": "the gateway is stopped on purpose, or says goodbye",
    "failed": "the gateway ends by itself because something failed: no farewell",
    "answered": "a chat has its answer",
    "refused": "the gateway ends because a start cannot succeed; captures exit_reason",
}
FIELDS = ("word", "name", "number", "any", "quoted")  # what a {field} of `text:` may be
_FIELD = regex(r"(\w+)=\{(\w+)\}")


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
    if name and not ID.fullmatch(name):
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
        if not ID.fullmatch(variant):
            inner.wrong_at(variant, "a variant is called in small letters, digits and '-'")
        found[variant] = tuple(inner.compile(item) for item in inner.items(variant))
    return found


def _read_causes(section: Section) -> dict[str, tuple[Pattern, ...]]:
    inner = section.section("cause", None)
    if inner is None:
        return {}
    found = {}
    for cause in tuple(inner.nodes):
        if not ID.fullmatch(cause) or cause == OTHER:
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


def near(vocabulary: Vocabulary, reference: str) -> str:
    """What to say of a name that is nearly one of ours; '' for what looks like a pattern."""
    found = REFERENCE.fullmatch(reference)
    if found is None or not ("-" in reference or "/" in reference or found[3]):
        return ""
    word = vocabulary.words.get(found[1])
    if word is None:
        return _near(found[1], vocabulary.words)
    if found[2] and found[2] not in word.match:
        return _near(found[2], word.match) or f"; there are {', '.join(word.match)}"
    names = sorted(LineSelection(word).names)
    return f"; it captures {', '.join(names) or 'nothing'}"


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

"""Which lines of a log the vocabulary knows: the first thing to look at on a new Hermes release."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from watchdog.config.lines import LineSample
from watchdog.config.rulebook import Vocabulary
from watchdog.errors import WatchdogError
from watchdog.sources.read import read_line
from watchdog.sources.records import HEADER
from watchdog.system.files import open_regular
from watchdog.text import harmless, redact

LONGEST = 4000  # characters of a line that are looked at
MOST = 500_000  # lines
MADE_UP = "an unknown release"  # what a sample says whose tail only shows that any is read over
SHAPE = 100  # characters of a shape that are shown
_QUOTED = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\"""")
_KEY = re.compile(r"(?<!\S)(\w+)=")
_VARYING = re.compile(r"\b[0-9a-f-]{12,}\b|\b(?=\w*\d)\w{6,}\b|\d+(?:[.,:]\d+)*")


class Known(StrEnum):
    KNOWN = "known"
    TAIL = "unknown tail"  # it begins as a known line and goes on otherwise
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LineCount:
    """One kind of line and how often it was written."""

    known: Known
    shape: str  # the word of a known line; else the message without what varies
    times: int
    detail: str = ""  # the appended fields that are new


def line_report(
    path: Path, vocabulary: Vocabulary, samples: Iterable[LineSample]
) -> tuple[list[LineCount], int]:
    """(the kinds of lines in this log, the most frequent first; how many lines have no time stamp)."""
    keys: dict[str, set[str]] = {}
    for sample in samples:
        if sample.hermes == MADE_UP:
            continue
        keys.setdefault(sample.word, set()).update(_keys(sample.line))
    heads = [
        head.decode().partition(": ")[0] + ": " if b": " in head else head.decode()
        for word in vocabulary.words.values()
        for patterns in word.match.values()
        for pattern in patterns
        for head in pattern.heads or ()
        if len(head) > 5
    ]
    counts: Counter[tuple[Known, str, str]] = Counter()
    without = 0
    for line in _lines(path):
        if HEADER.match(line.encode()) is None:
            without += 1
            continue
        event, _ = read_line(line, None, vocabulary)
        words = vocabulary.read(event.text)
        if words and not event.ambiguous:
            word = words[0]
            new = sorted(_keys(line) - keys.get(word.word, set())) if word.word in keys else []
            texted = bool(vocabulary.words[word.word].text)
            kind = Known.TAIL if new and texted else Known.KNOWN
            counts[kind, f"{word.word}/{word.variant}", " ".join(new) if kind is Known.TAIL else ""] += 1
        elif event.ambiguous or event.text.startswith(tuple(heads)):
            counts[Known.TAIL, shape_of(event.text), ""] += 1
        else:
            counts[Known.UNKNOWN, shape_of(event.text), ""] += 1
    found = [LineCount(known, shape, times, detail) for (known, shape, detail), times in counts.most_common()]
    return found, without


def shape_of(message: str) -> str:
    """A message without what varies: quoted text, numbers and ids."""
    plain = _VARYING.sub("N", _QUOTED.sub("'…'", message))
    return redact(harmless(plain, SHAPE))


def _keys(line: str) -> set[str]:
    return set(_KEY.findall(_QUOTED.sub("''", line)))


def _lines(path: Path) -> Iterator[str]:
    try:
        with open_regular(path) as file:
            for number, raw in enumerate(file):
                if number >= MOST:
                    return
                yield raw[:LONGEST].decode("utf-8", "replace").rstrip("\r\n")
    except OSError as error:
        raise WatchdogError(f"{path}: {error.strerror or error}") from error

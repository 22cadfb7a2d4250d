"""Messages that are the same but for their digits are read once for all of them: each must be read as Word.find reads it."""

from __future__ import annotations

from random import Random

import pytest

from watchdog import config
from watchdog.config.pattern import Pattern
from watchdog.config.rulebook import LineSelection
from watchdog.model import Line
from watchdog.sources import records
from watchdog.sources.classify import Classifier
from watchdog.sources.records import Way

HEADER = "WARNING", "agent.loop", "s1"
FAILED = "API call failed (attempt {}/3) error_type=E{} thread=t:{} provider=p{} base_url=u model=m-{} summary=Error code: {}"


def _way(word: str, begins: str) -> Way:
    line = Line("agent.log", LineSelection(config.shipped_vocabulary().words[word]))
    way = Way(begins.encode(), Classifier([line]).matchers, (), None)
    way.rare = 1
    return way


def _as_word(way: Way, message: str) -> object:
    assert way.only is not None
    return way.only.match(message, HEADER[0], HEADER[1])


def test_messages_that_differ_in_digits_are_told_apart_where_it_matters() -> None:
    random, way = Random(1), _way("api-failed", "API call failed (")
    for _ in range(500):
        code = random.choice((401, 402, 404, 500, 503, 1, 10))
        message = FAILED.format(*(random.choice((1, 2, 30, 31)) for _ in range(5)), code)
        found, expected = way.match(message.encode(), HEADER), _as_word(way, message)
        assert found is not None and expected == (found[0], (found[0].places, found[1][1]))
    assert way.reader is not None and len(way.reader.alike) < 200


@pytest.mark.parametrize("end", ["\r", " said='9'", " \u00e9 7", " x" * 40_000])
def test_odd_messages_are_read_with_care(end: str) -> None:
    way = _way("response-ready", "response ready: ")
    plain = "response ready: platform=telegram chat=17 time=6.1s"
    assert way.match(plain.encode(), HEADER) == _as_word(way, plain)
    assert way.match(plain.replace("1", "2").encode(), HEADER) == _as_word(way, plain.replace("1", "2"))
    message = plain + end
    found = way.match(message.encode(), HEADER)
    assert found is records.MISSING or found == _as_word(way, message)


def test_what_is_remembered_of_messages_stays_small() -> None:
    way = _way("response-ready", "response ready: ")
    for number in range(20):
        message = f"response ready: platform=telegram chat=1 time=1s {chr(97 + number) * 5000}"
        assert way.match(message.encode(), HEADER) == _as_word(way, message)
    assert way.reader is not None and not way.reader.alike


@pytest.mark.parametrize(
    "text", ["code 7: .*", r"[0-4]x", r"(?<a>\d+)-(?P=a)", r"(\d)\1", r"\x31x", r"[{3}]x", r"a\{2}"]
)
def test_a_pattern_that_may_tell_digits_apart_is_not_matched_in_bytes(text: str) -> None:
    assert Pattern(text).in_bytes is None


@pytest.mark.parametrize("text", [r"call (?<n>\d{1,3}) of .{0,80}x", r"[\w.-]{2,}: (?<rest>\S+)"])
def test_a_count_is_no_digit(text: str) -> None:
    assert Pattern(text).in_bytes is not None

"""The vocabulary: every line that a release wrote is read as its sample says, by one word and no other."""

from __future__ import annotations

import pytest

from watchdog.config.lines import LineSample, near
from watchdog.config.rulebook import Vocabulary
from watchdog.config.rules import load_lines, shipped_folder
from watchdog.service.samples import check_line

VOCABULARY, SAMPLES = load_lines(shipped_folder())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.word}-{sample.number}")
def test_a_line_is_read_as_its_sample_says(sample: LineSample):
    assert check_line(VOCABULARY, sample) == []


def test_every_variant_of_hermes_own_lines_has_a_sample():
    told = {(sample.word, sample.variant) for sample in SAMPLES}
    lacking = [
        f"{word.id}/{variant}"
        for word in VOCABULARY.words.values()
        if "journal" not in word.sources
        for variant in word.match
        if variant != "unclear" and (word.id, variant) not in told
    ]
    assert lacking == ["qq/message", "qq/connected"], "add a line that a gateway really wrote"


def test_a_rule_names_words_variants_and_what_they_captured():
    found = VOCABULARY.find("api-failed/gave-up")
    assert found is not None and found.match("Non-retryable client error: no") == {
        "error": "no",
        "cause": "other",
    }
    assert found.match("API call failed (attempt 1/3) x provider=a ") is None
    only = VOCABULARY.find("inbound[platform=qqbot]")
    assert only is not None
    assert only.match("inbound message: platform=qqbot user=… chat=1") == {"platform": "qqbot", "chat": "1"}
    assert only.match("inbound message: platform=telegram user=… chat=1") is None
    assert VOCABULARY.find("API call failed") is None and near(VOCABULARY, "API call failed") == ""


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("api-faild", "; did you mean 'api-failed'?"),
        ("api-failed/gaveup", "; did you mean 'gave-up'?"),
        ("gateway-start/never", "; there are began"),
        ("inbound[chats=1]", "; it captures chat, platform"),
        ("hello", ""),
        ("disk-is-full", ""),
    ],
)
def test_a_near_miss_of_a_word_is_told(reference, hint):
    assert VOCABULARY.find(reference) is None and near(VOCABULARY, reference) == hint


def test_without_causes_every_word_stays_what_it_is():
    words: Vocabulary = VOCABULARY
    message = "API call failed (attempt 1/3) error_type=X provider=custom summary=Error code: 402 - no money"
    assert [str(meaning) for meaning in words.read(message)] == ["api-failed/retrying (cause: quota)"]


def test_every_line_is_read_without_the_regex_package():
    """Loading it costs more than a whole check, and nearly every check meets some of these lines."""
    words = VOCABULARY.words.values()
    assert not [
        f"{word.id}: {pattern.text}" for word in words for _, _, pattern in word.tries if not pattern.plain
    ]

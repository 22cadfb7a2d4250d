"""Sentences are made from keys and fields, in each reader's language."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import watchdog
from watchdog.gateway.state import Why
from watchdog.model import Reason, plain
from watchdog.notify.translate import Template, read_words, sentence
from watchdog.sources.process import _BLIND
from watchdog.store.rows import pack_fields, pack_reason, unpack_fields, unpack_reason

CODE = Path(watchdog.__file__).parent
_KEY = re.compile(r"[a-z-]+(?:\.[a-z0-9-]+)+|seen")
NOW = datetime(2026, 5, 19, 8, 41, tzinfo=UTC)
EN, ZH = read_words("en", ZoneInfo("Asia/Shanghai")), read_words("zh", ZoneInfo("Asia/Shanghai"))


def fields(template: Template) -> set[str]:
    forms = [template] if isinstance(template, str) else list(template.values())
    return {name for form in forms for _, name, _, _ in string.Formatter().parse(form) if name}


def keys_of_the_code() -> Iterator[tuple[str, str]]:
    """(where, key) of every member of an enum of keys, and of every phrase, whose English stands where it is made.

    A key that ends in a field, such as f"event.gateway.{state}", is given with a star.
    """
    for path in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.ClassDef(bases=[ast.Name("StrEnum")], body=body):
                    values = [each.value for each in body if isinstance(each, ast.Assign)]
                case ast.ClassDef(bases=[ast.Name("Sentence")], body=body):  # the key, and its English
                    pairs = [each.value for each in body if isinstance(each, ast.Assign)]
                    values = [pair.elts[0] for pair in pairs if isinstance(pair, ast.Tuple)]
                case ast.Call(
                    func=ast.Name("phrase"), args=[ast.JoinedStr([ast.Constant(str(key)), *_]), *_]
                ):
                    yield f"{path.name}:{node.lineno}", f"{key}*"
                    continue
                case ast.Call(func=ast.Name("phrase"), args=[key, *_]):
                    values = [key]
                case _:
                    continue
            for value in values:
                if isinstance(value, ast.Constant) and _KEY.fullmatch(str(value.value)):
                    yield f"{path.name}:{node.lineno}", value.value


# Why a gateway that can be seen is what it is: shown as its state, never as a sentence.
SEEN = {str(why) for why in Why if why not in _BLIND}
KEYS = sorted({(where, key) for where, key in keys_of_the_code() if key not in SEEN})


def test_every_language_says_the_same_and_what_english_says_in_the_code():
    assert set(EN.texts) <= set(ZH.texts)
    patterns = [key for _, key in KEYS]
    unused = {
        key for key in set(ZH.texts) - set(EN.texts) if not any(fnmatchcase(key, known) for known in patterns)
    }
    assert unused == set()


def test_every_key_of_the_code_has_a_sentence_for_a_chinese_reader():
    assert len(KEYS) > 300, "the search finds them"
    missing = [(where, key) for where, key in KEYS if not any(fnmatchcase(known, key) for known in ZH.texts)]
    assert missing == []


def test_a_sentence_has_the_same_fields_in_each_language():
    # A language with one form for all numbers may do without naming the number.
    differ = {key for key in EN.texts if (fields(EN.texts[key]) ^ fields(ZH.texts[key])) - {"count"}}
    assert differ == set()


def test_what_chooses_between_one_and_many_is_there_to_be_shown():
    for words in (EN, ZH):
        for key, template in words.texts.items():
            assert isinstance(template, str) or "other" in template, key


FORMATS = [
    ("{x}", NOW, "16:41", "16:41"),
    ("{x}", NOW - timedelta(days=2), "17 May 16:41", "05-17 16:41"),
    ("{x:ago}", NOW - timedelta(minutes=26), "26 minutes ago", "26 分钟前"),
    ("{x:ago}", NOW, "just now", "刚刚"),
    ("{x}", timedelta(hours=1, minutes=5), "1 hour 5 minutes", "1 小时 5 分钟"),
    ("{x}", timedelta(milliseconds=20), "just now", "刚刚"),
    ("{x:short}", timedelta(minutes=18, seconds=20), "18 min", "18 分钟"),
    ("{x:short}", timedelta(days=1, hours=3), "1 day", "1 天"),
    ("{x}", ("a", "b"), "a, b", "a、b"),
    ("{x:chat|chats}", 1, "1 chat", None),
    ("{x:chat|chats}", 3, "3 chats", None),
    ("{x:chat|chats}", "1", "1 chat", None),
    ("{x}", "two\nlines \x1b[31m", "two ⏎ lines ", "two ⏎ lines "),
    ("{x}", "{y} {x.__class__}", "{y} {x.__class__}", "{y} {x.__class__}"),
    ("{x.__class__} {y}", "a", "? ?", "? ?"),
    ("{x}", Reason("unit.ago", {"span": "a day"}), "a day ago", "a day前"),
]


@pytest.mark.parametrize(("template", "value", "english", "chinese"), FORMATS)
def test_a_field_is_shown_by_its_type(template: str, value: object, english: str, chinese: str | None):
    from dataclasses import replace

    for words, shown in ((EN, english), (ZH, chinese)):
        if shown is not None:
            words = replace(words, texts={**words.texts, "test": template})
            assert sentence(Reason("test", {"x": value}), words, NOW) == shown


def test_the_form_is_chosen_by_count():
    assert [sentence(Reason("unit.day", {"count": count}), EN, NOW) for count in (0, 1, 2)] == [
        "0 days",
        "1 day",
        "2 days",
    ]


def test_a_reason_of_a_newer_version_is_named_and_ends_no_check():
    assert sentence(Reason("hold.from-the-future", {"x": 3}), EN, NOW) == "hold.from-the-future x=3"


def test_text_of_others_goes_through_what_the_caller_gives():
    said = sentence(Reason("plain", {"text": "secret"}), EN, NOW, lambda name, text: f"<{name}:{len(text)}>")
    assert said == "<text:6>"


def test_a_reason_comes_back_from_the_store_as_it_was():
    reason = Reason(
        "hold.cooling-down",
        {
            "at": NOW,
            "span": timedelta(minutes=5),
            "count": 2,
            "why": plain("x"),
            "names": ("a", "b"),
            "no": None,
        },
    )
    assert unpack_reason(pack_reason(reason)) == reason
    assert unpack_fields(pack_fields(reason.fields)) == dict(reason.fields)


@pytest.mark.parametrize("text", ["the disk is full", "", '{"key": 3}', "[1]", "7", '{"at": "never"}'])
def test_text_of_an_older_store_is_a_reason_that_quotes_it(text: str):
    assert sentence(unpack_reason(text), EN, NOW) == text


def test_secrets_do_not_get_into_the_store_by_a_field():
    assert "sk-ant" not in pack_fields({"why": plain("key sk-ant-api03-abcdefghijklmnop")})

"""JSON as the json package reads and writes it."""

from __future__ import annotations

import json

import pytest

from watchdog import plainjson

TEXTS = [
    "{}", "[]", ' {"a": [1, -2.5, 1e9, true, false, null], "ü": "\\u00fc \\n 数据"} \n', '"x"', "17", "NaN", "[Infinity, -Infinity]",
    "", "{", "[1, 2", "{'a': 1}", '{"a": 1} x', '{"a": 1}{', "nul", '"\\ud800"', '"tab\there"', "\ufeff{}", "[" * 5000,
]  # fmt: skip


def outcome(read, text):
    try:
        return repr(read(text))
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_it_reads_and_refuses_what_json_does(text):
    assert outcome(plainjson.loads, text) == outcome(json.loads, text)
    raw = text.encode("utf-8", "surrogatepass")
    assert outcome(plainjson.loads, raw) == outcome(json.loads, raw)


@pytest.mark.parametrize("raw", [b'{"a": "\xff"}', '{"a": 1}'.encode("utf-16"), b'\xef\xbb\xbf{"a": 1}'])
def test_other_encodings_are_json_s_business(raw):
    assert outcome(plainjson.loads, raw) == outcome(json.loads, raw)


@pytest.mark.parametrize("value", [{}, {"a": [1, 2.5, None, True], "数": "x\n\"y\""}, [], "é", {"n": {"m": ()}}, {1: 2}])
def test_it_writes_what_json_writes(value):
    assert plainjson.dumps(value) == json.dumps(value)


def test_what_is_no_json_is_refused():
    with pytest.raises(TypeError):
        plainjson.dumps({"a": object()})

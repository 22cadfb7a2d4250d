"""What is made on first use does what the plain way does."""

from __future__ import annotations

import re

import pytest

from watchdog.later import regex


@pytest.mark.parametrize("text", [r"(?i)a(\d+)", rb"(?P<stamp>\d\d):(?P<rest>.*)"])
def test_a_pattern_compiled_on_first_use_matches_as_one_compiled_at_once(text: str | bytes) -> None:
    later, now = regex(text), re.compile(text)
    subject: str | bytes = "A12 a3" if isinstance(text, str) else b"12:ab 34:c"
    assert later.findall(subject) == now.findall(subject)  # type: ignore[arg-type]
    assert later.sub(subject[:0], subject) == now.sub(subject[:0], subject)  # type: ignore[arg-type]
    found, wanted = later.match(subject), now.match(subject)  # type: ignore[arg-type]
    assert found is not None and wanted is not None and found.groupdict() == wanted.groupdict()
    assert later.pattern == now.pattern


def test_a_mistake_in_a_pattern_is_told_on_first_use() -> None:
    broken = regex("(")
    with pytest.raises(re.error):
        broken.match("x")

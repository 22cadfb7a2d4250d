"""How dear a pattern can become, told without matching it: too high costs time, too low would let a pattern
hang a check.
"""

from __future__ import annotations

import pytest

from watchdog.config.literals import study

DEGREES = [
    ("plain words", 0),
    (r"at most [a-z]{3}", 0),
    (r"value=(?<value>\S+)", 1),  # nothing follows that could fail
    (r"a.*b", 1),
    (r"a.*b.*c", 2),
    (r"a.*b(?:x|.*c)", 2),
    (r"session [^:\s]+:[^:\s]+:(?<chat>\S+)", 1),  # each ends at the colon and nowhere else
    (r"after (?<n>\d+) retries", 1),
    (r"after (?<n>\d+)(?: retries)x", 1),
    (r"after (?<n>\d+)\d", 1),
    (r"[^:]+:.*x", 1),
    (r".*x[^:]+:y", 2),  # comes there once for every x, and reads on to the end each time
    (r"(?:[^:]+):x", 1),
    (r"(?:[^:]+:)?.*x.*y", 2),
    (r"\S+\)x.*y", 2),  # the bracket may be one of the repeated
    (r"[^ ]+(?: |:)x.*y", 2),
    (r"(?i)[a-z]+Ax.*y", 2),  # A is a letter of [a-z] here
    (r"(?i)[^:]+:x", 1),
    (r"a(?!.*b).*c", 1),  # looks ahead once
    (r".*x(?!.*b)", 2),
    (r".*x(?=.*)y", 2),
    (r"\w+é.*x", 2),
    (r"\D+1x.*y", 1),
    (r"\W+_x.*y", 1),
    (r"\s+_x.*y", 1),
    (r"[\w-]+-x.*y", 2),
    (r"[a-f]+ x.*y", 1),
    (r"a+?.b.*c", 2),
    (r"(?:ab|b)+x", None),
    (r"(a+)+x", None),
    (r"(?<a>x)\1", None),
    (r"(?:a?){1,300}x", None),
]


@pytest.mark.parametrize(("pattern", "degree"), DEGREES)
def test_a_pattern_costs_at_most_the_length_of_the_text_to_this_power(pattern, degree):
    assert study(pattern).degree == degree

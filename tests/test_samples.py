"""Every case in samples/: the rules say of it exactly what a person who knows Hermes would say."""

from __future__ import annotations

import pytest
from homes import SAMPLES

from watchdog.service.samples import Case, find_cases, run_case

CASES = find_cases(SAMPLES)
# What these rules look at exists only while a process runs; tests/sqlite makes one.
ONLY_LIVE = {"deleted-wal"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}/{case.name}")
def test_a_case_gives_exactly_what_it_expects(case: Case, book):
    assert run_case(book, case).wrong == ()


def test_every_rule_has_a_case_that_fires_and_a_near_miss(book):
    for rule in book.rules:
        if rule.id not in ONLY_LIVE:
            kinds = {case.fires for case in CASES if case.rule == rule.id}
            assert kinds == {True, False}, f"{rule.id} lacks a {'quiet' if True in kinds else 'fires'} case"


def test_a_case_that_expects_the_wrong_thing_is_told(book):
    from dataclasses import replace

    case = next(case for case in CASES if case.rule == "telegram-down" and case.fires)
    wrong = run_case(book, replace(case, expect=(replace(case.expect[0], key="somebody else"),))).wrong
    assert any("expected telegram-down somebody else" in says for says in wrong)
    assert any("not expected: telegram-down telegram" in says for says in wrong)

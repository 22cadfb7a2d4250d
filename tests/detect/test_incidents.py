"""Findings folded into incidents: what opens again, and with which moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchdog.detect.ambiguous import Ambiguous
from watchdog.detect.evaluate import Evaluation
from watchdog.detect.incidents import fold
from watchdog.model import Finding, Incident
from watchdog.values import replace

NOW = datetime(2026, 11, 20, 0, 3, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FOUND = Finding("crash-loop", "gateway", "critical", "t", "s", NOW - MINUTE, NOW - MINUTE, NOW, past=True)
ENDED = Incident(
    id=1,
    rule="crash-loop",
    key="gateway",
    severity="critical",
    status="resolved",
    title="t",
    says="s",
    first_at=NOW - MINUTE,
    opened_at=NOW - MINUTE,
    last_seen_at=NOW,
    resolved_at=NOW + timedelta(seconds=3),
    fields={"missing_at": NOW - MINUTE},
)


def folded(finding: Finding) -> list[tuple[str, dict]]:
    seen = Evaluation((finding,), {}, frozenset(), Ambiguous())
    changes = fold([ENDED], seen, (), NOW - 60 * MINUTE, NOW + MINUTE)
    return [(change.what, dict(change.incident.fields)) for change in changes]


@pytest.mark.parametrize(
    ("finding", "news"),
    [
        pytest.param(FOUND, [], id="the-same-events"),
        pytest.param(replace(FOUND, last_seen_at=NOW + MINUTE), ["opened"], id="one-more-event"),
        pytest.param(replace(FOUND, past=False), ["opened"], id="a-state"),
    ],
)
def test_what_was_seen_to_be_over_opens_again_by_something_new_only(finding, news):
    assert [what for what, _ in folded(finding)] == news


def test_what_opens_again_was_not_missing_when_it_was_missing_before():
    again = replace(FOUND, past=False, say="{missing_at}", fields={"missing_at": NOW + MINUTE})
    assert folded(again) == [("opened", {"missing_at": NOW + MINUTE})]


def test_what_began_when_a_check_saw_that_all_was_well_is_a_fault_of_its_own_and_confirmed_as_such():
    assert ENDED.resolved_at is not None
    anew = replace(FOUND, past=False, opened_at=ENDED.resolved_at, confirm=2)
    assert [what for what, _ in folded(anew)] == ["suspected"]

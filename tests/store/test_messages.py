"""When a check with an open incident has nothing to say, and what makes it speak."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from machines import incident

from watchdog.model import Change, Report, plain
from watchdog.store import messages
from watchdog.store.incidents import all_incidents, anything_to_tell, save_changes
from watchdog.store.messages import NotificationRecord, Subject
from watchdog.values import replace

NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


@pytest.fixture
def known(store):
    """An incident that is open and was told ten minutes ago."""
    (change,) = save_changes(store, [Change("opened", replace(incident("gateway-down"), id=0))])
    told(store, change.incident)
    return change.incident


def told(store, about, at=NOW - timedelta(minutes=10), severity=None):
    subject = Subject(
        f"incident {about.id}",
        about.rule,
        about.key,
        about.severity,
        about.title,
        plain("x"),
        NOW,
        None,
        about.id,
    )
    record = NotificationRecord(subject, at, "first seen", severity or about.severity)
    messages.remember(store, [record], NOW)


def report(*changes, **more):
    given = {"blind": {}, "notes": (), "not_checked": {}, "findings": ()} | more
    return Report(start=NOW, now=NOW, home="/h", changes=changes, **given)


def test_a_fault_that_goes_on_as_it_was_told_is_no_news(store, known):
    assert not anything_to_tell(store, report(Change("seen", known)), NOW)
    assert not anything_to_tell(store, report(kept=(known,)), NOW)


@pytest.mark.parametrize("what", ["opened", "worse", "resolved", "passed", "suspected"])
def test_every_change_is_news(store, known, what):
    assert anything_to_tell(store, report(Change(what, known)), NOW)


def test_a_fault_that_is_gone_without_a_word_is_news(store, known):
    assert anything_to_tell(store, report(), NOW)


def test_what_was_held_back_or_told_as_less_severe_is_still_to_be_said(store, known):
    told(store, known, at=None)
    assert anything_to_tell(store, report(Change("seen", known)), NOW)
    told(store, known, severity="info")
    assert anything_to_tell(store, report(Change("seen", known)), NOW)


def test_what_is_blind_is_told(store, known):
    assert anything_to_tell(store, report(Change("seen", known), blind={"agent.log": "x"}), NOW)


def test_a_message_that_was_not_sent_waits_for_its_next_try(store, known):
    seen = report(Change("seen", known))
    later = NOW + timedelta(minutes=20)
    messages.save_target(store, messages.TargetState("me", 1, later, plain("refused"), NOW))
    assert anything_to_tell(store, seen, NOW)  # nobody was told that the target fails
    subject = Subject("target me", "target", "me", "high", "target", plain("x"), NOW)
    messages.remember(store, [NotificationRecord(subject, NOW, "target", "high")], NOW)
    assert not anything_to_tell(store, seen, NOW)
    assert anything_to_tell(store, seen, later)


def test_what_a_row_holds_is_redacted_once_and_anything_new_as_ever(store, known):
    secret = "token=sk-abcdefghijklmnopqrstuvwxyz0123456789"
    save_changes(store, [Change("seen", replace(known, says=f"failed with {secret}"))])
    (kept,) = all_incidents(store)
    assert secret not in kept.says
    save_changes(store, [Change("seen", replace(kept, says=f"{kept.says} and {secret}"))])
    assert secret not in all_incidents(store)[0].says

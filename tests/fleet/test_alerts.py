"""Which alerts are posted: identity, life, end and number."""

from __future__ import annotations

from dataclasses import replace as changed
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from talk import NOW, incident, plan

from watchdog.fleet.alertmanager import MOST, compose
from watchdog.fleet.facts import Facts

QUARTER = timedelta(minutes=15)


def facts(*incidents: Any, checks: int = 0, **more: Any) -> Facts:
    base = {
        "instance": "web1", "profile": "default", "home": "/home/hermes/.hermes", "now": NOW + checks * QUARTER,
        "checked_at": NOW, "took": None, "interval": QUARTER, "incidents": tuple(incidents), "unseen": 0,
        "pending": (), "armed": True, "actions": {}, "failed": 0, "backups": {}, "gateway_up": True, "hermes": "",
    }  # fmt: skip
    return Facts(**{**base, **more})


def test_an_alert_lives_three_checks_and_five_minutes():
    (alert,), _ = compose(facts(incident()), {}, mailbox=False)
    assert alert.ends_at == NOW + 3 * QUARTER + timedelta(minutes=5)
    assert alert.starts_at == incident().opened_at


def test_labels_hold_no_code_time_count_or_key():
    (alert,), _ = compose(facts(incident(key="telegram/quiz", times_seen=3)), {}, mailbox=False)
    assert set(alert.labels) == {"alertname", "rule", "severity", "instance", "profile", "key"}
    assert "quiz" not in str(alert.labels), "no hexadecimal digits: a hash can never hold them by chance"
    assert alert.labels["severity"] == "warning" and alert.labels["rule"] == "session-stuck"


def test_labels_stay_the_same_while_an_incident_is_open_even_when_it_gets_worse():
    (first,), memory = compose(facts(incident(severity="medium")), {}, mailbox=False)
    (second,), memory = compose(facts(incident(severity="critical"), checks=1), memory, mailbox=False)
    assert second.labels == first.labels
    assert second.annotations["severity_now"] == "critical"


def test_the_key_cannot_be_found_by_hashing_every_chat_number():
    (one,), _ = compose(facts(incident()), {}, mailbox=False)
    (other,), _ = compose(facts(incident()), {}, mailbox=False)
    assert one.labels["key"] != other.labels["key"], "each home has a salt of its own"


def test_an_end_is_posted_and_repeated_at_the_next_two_checks():
    _, memory = compose(facts(incident()), {}, mailbox=False)
    ends = []
    for number in range(1, 6):
        alerts, memory = compose(facts(checks=number), memory, mailbox=False)
        ends.append([alert.ends_at for alert in alerts])
    first = NOW + QUARTER
    assert ends == [[first], [first], [first], [], []]


def test_an_incident_that_comes_back_fires_again():
    _, memory = compose(facts(incident()), {}, mailbox=False)
    _, memory = compose(facts(checks=1), memory, mailbox=False)
    (alert,), memory = compose(facts(incident(), checks=2), memory, mailbox=False)
    assert alert.ends_at > NOW + 2 * QUARTER


def test_twenty_alerts_and_one_that_says_how_many_more():
    many = [incident(number, key=f"telegram/{number}") for number in range(1, 28)]
    alerts, memory = compose(facts(*many), {}, mailbox=False)
    assert len(alerts) == MOST + 1
    assert alerts[-1].labels["alertname"] == "HermesIncidentsOmitted"
    assert alerts[-1].annotations["summary"].startswith("7 more incidents")
    assert "7" not in str(alerts[-1].labels)
    worst = incident(99, key="x", severity="critical")
    later, _ = compose(facts(worst, *many, checks=1), memory, mailbox=False)
    assert {str(alert.labels) for alert in alerts} == {str(alert.labels) for alert in later}, (
        "what was posted stays while it is open"
    )


def test_the_worst_come_first_when_there_are_too_many():
    many = [incident(number, key=str(number), severity="medium") for number in range(1, 40)]
    alerts, _ = compose(facts(*many, incident(99, key="x", severity="critical")), {}, mailbox=False)
    assert any(alert.labels.get("severity") == "critical" for alert in alerts)


@pytest.mark.parametrize("mailbox", [False, True])
def test_annotations_tell_the_proposal_and_how_to_approve_but_never_a_code(mailbox: bool):
    wrong = incident()
    asked = SimpleNamespace(plan=plan(wrong), id=7)
    (alert,), _ = compose(facts(wrong, pending=(asked,)), {}, mailbox=mailbox)
    assert "systemctl --user restart" in alert.annotations["proposed"]
    assert "hermes-watchdog plan 7 --code" in alert.annotations["how_to_approve"]
    assert ("fleet plans" in alert.annotations["how_to_approve"]) is mailbox


def test_log_text_in_an_annotation_is_harmless():
    wrong = incident(says="see http://evil.example/x <b>@all</b> \x1b[31mred chat 4242424242")
    (alert,), _ = compose(facts(wrong), {}, mailbox=False)
    said = alert.annotations["description"]
    assert "evil.example/x" not in said and "<b>" not in said and "\x1b" not in said and "@all" not in said


def test_a_clock_that_was_set_back_keeps_nothing_firing():
    _, memory = compose(facts(incident()), {}, mailbox=False)
    _, memory = compose(facts(checks=8), memory, mailbox=False)
    (alert,), _ = compose(facts(checks=-8), memory, mailbox=False)
    assert alert.starts_at <= alert.ends_at <= NOW - 8 * QUARTER


@pytest.mark.parametrize(
    "memory",
    [
        {"alerts": 3},
        {"alerts": {"1": None, "2": {"labels": 1}}},
        {"salt": 5},
        {"alerts": {"1": {"left": "x"}}},
    ],
)
def test_a_damaged_memory_is_begun_anew(memory: dict[str, Any]):
    (alert,), _ = compose(changed(facts(incident())), memory, mailbox=False)
    assert alert.labels["rule"] == "session-stuck"

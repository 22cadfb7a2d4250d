"""Cause first, and whether a restart helps at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import BROKEN, DEAD, LACKING, LOOP, START, STUCK, Machine, book, incident

from watchdog.model import Event
from watchdog.notify.translate import in_english
from watchdog.plan.causes import diagnose

RULES = {rule.id: rule for rule in book().rules}
FILTER = incident("content-filter-burst", "custom", None)


def case(incidents):
    return diagnose(incidents, RULES, Machine(Path("/home/lab")).world())


def chain(incidents, treated):
    first, also = case(incidents).chains({treated.name})
    return "; also: ".join(map(in_english, (first, *also)))


def useless(found):
    return case([found]).why_no_restart(found)


def test_the_cause_comes_first_whatever_came_to_light_first():
    made = case([STUCK, DEAD, LOOP, LACKING, BROKEN])
    assert [one.rule for one in made.incidents] == [
        "database-broken",
        "missing-column",
        "crash-loop",
        "gateway-down",
        "session-stuck",
    ]


def test_the_chain_has_arrows_only_where_one_leads_to_the_next():
    assert chain([LOOP, BROKEN, DEAD], LOOP) == "database broken → crash loop → gateway down"
    assert chain([STUCK, FILTER], STUCK) == "content filter burst → session stuck"
    other = incident("telegram-down", "telegram", None)
    assert chain([other, LACKING], LACKING) == "missing column; also: telegram down"


@pytest.mark.parametrize(
    ("rule", "restart"),
    [
        ("session-stuck", "helps"),
        ("qq-resume-loop", "helps"),
        ("qq-dead", "helps"),
        ("gateway-wedged", "helps"),
        ("gateway-down", "unknown"),
        ("content-filter-burst", "useless"),
        ("tls-burst", "useless"),
        ("provider-errors", "useless"),
        ("crash-loop", "useless"),
        ("database-broken", "useless"),
        ("missing-column", "useless"),
        ("a-rule-of-my-own", "unknown"),
    ],
)
def test_each_cause_has_a_verdict_with_a_reason(rule, restart):
    assert (RULES[rule].restart if rule in RULES else "unknown") == restart
    assert (useless(incident(rule)) is not None) == (restart == "useless")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("OSError: [Errno 28] No space left on device", "free space first"),
        ("sqlite3.OperationalError: database or disk is full", "free space first"),
        ("yaml.parser.ParserError: while parsing a block mapping", "config.yaml is wrong"),
        ("Error code: 429 - {'code': 'insufficient_quota'}", "quota is used up"),
        ("Error code: 401 - Unauthorized: Invalid API key", "credentials are refused"),
    ],
)
def test_what_a_dying_gateway_says_of_itself_can_only_forbid_a_restart(text, why):
    crashed = Event(START, "gateway.log", "crashed")
    crashed.more = text
    dead = incident("gateway-down", "gateway", "start-gateway", evidence=(crashed,))
    assert why in in_english(useless(dead))


def test_a_stuck_chat_is_freed_whatever_it_choked_on():
    choked = (Event(START, "agent.log", "output new_sensitive (1027)"),)
    assert useless(incident(evidence=choked)) is None


def test_a_text_without_end_is_looked_at_in_bounded_time():
    long = incident("gateway-down", evidence=(Event(START, "gateway.log", "401 " * 3_000_000),))
    assert useless(long) is None

"""Cause first, and whether a restart helps at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import BROKEN, DEAD, LACKING, LOOP, START, STUCK, Machine, book, incident

from watchdog.model import Event
from watchdog.notify.translate import in_english
from watchdog.plan.causes import HELPS, UNKNOWN, USELESS, diagnose, judge, name_of

RULES = {rule.id: rule for rule in book().rules}
FILTER = incident("content-filter-burst", "custom", None)


def case(incidents):
    return diagnose(incidents, RULES, Machine(Path("/home/lab")).world())


def chain(incidents, treated):
    first, also = case(incidents).chains({name_of(treated)})
    return "; also: ".join(map(in_english, (first, *also)))


def verdict(one):
    return judge(one, RULES.get(one.rule))


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
        ("session-stuck", HELPS),
        ("qq-resume-loop", HELPS),
        ("qq-dead", HELPS),
        ("gateway-wedged", HELPS),
        ("gateway-down", UNKNOWN),
        ("content-filter-burst", USELESS),
        ("tls-burst", USELESS),
        ("provider-errors", USELESS),
        ("crash-loop", USELESS),
        ("database-broken", USELESS),
        ("missing-column", USELESS),
        ("a-rule-of-my-own", UNKNOWN),
    ],
)
def test_each_cause_has_a_verdict_with_a_reason(rule, restart):
    assert verdict(incident(rule)).restart == restart


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
    assert verdict(dead).restart == USELESS and why in in_english(verdict(dead).why)


def test_a_stuck_chat_is_freed_whatever_it_choked_on():
    assert (
        verdict(incident(evidence=(Event(START, "agent.log", "output new_sensitive (1027)"),))).restart
        == HELPS
    )


def test_a_text_without_end_is_looked_at_in_bounded_time():
    long = incident("gateway-down", evidence=(Event(START, "gateway.log", "401 " * 3_000_000),))
    assert verdict(long).restart == UNKNOWN

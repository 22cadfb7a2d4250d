"""Logs of real gateways, each with the one right conclusion: that rule under that key, and nothing else.

Each capture is a sample of the rule it is about; here stands what a person concluded who read the whole log.
"""

from __future__ import annotations

import pytest
from homes import SAMPLES, saved

from watchdog.detect.evaluate import Seen, lines_by_source
from watchdog.detect.explain import explain
from watchdog.model import Reason
from watchdog.pipeline import look
from watchdog.service.samples import as_home, find_cases, run_case
from watchdog.sources.read import read_all

HEALTHY = ()
CONCLUSIONS = {
    "content-filter-burst/fires-turn-given-up-0.13.0": (("content-filter-burst", "minimax-cn"),),
    "content-filter-burst/fires-turn-given-up-0.19.0": (("content-filter-burst", "minimax-cn"),),
    "crash-loop/fires-rejected-credentials-0.13.0": (("crash-loop", "gateway"),),
    "crash-loop/quiet-ended-by-signals-0.19.0": HEALTHY,
    "database-broken/fires-kanban-header-0.13.0": (("database-broken", "kanban.db"),),
    "database-broken/fires-kanban-header-0.19.0": (("database-broken", "kanban.db"),),
    "database-broken/fires-state-header-0.13.0": (("database-broken", "state.db"),),
    "database-broken/fires-state-header-0.19.0": (("database-broken", "state.db"),),
    "database-damaged/fires-pages-zeroed-0.13.0": (("database-damaged", "state.db"),),
    "gateway-down/fires-killed-0.13.0": (("gateway-down", "gateway"),),
    "gateway-down/fires-killed-0.19.0": (("gateway-down", "gateway"),),
    "gateway-wedged/fires-frozen-after-reconnect-0.13.0": (("gateway-wedged", "gateway"),),
    "gateway-wedged/fires-frozen-after-reconnect-0.16.0": (("gateway-wedged", "gateway"),),
    "gateway-wedged/quiet-idle-all-night-0.13.0": HEALTHY,
    "gateway-wedged/quiet-idle-all-night-0.19.0": HEALTHY,
    "missing-column/fires-session-id": (("missing-column", "kanban.db"),),
    "missing-column/fires-two-tables-0.13.0": (("missing-column", "kanban.db"),),
    "missing-column/quiet-nobody-complains-0.19.0": HEALTHY,
    "provider-errors/fires-connection-reset-0.13.0": (("provider-errors", "custom"),),
    "provider-errors/fires-connection-reset-0.19.0": (("provider-errors", "custom"),),
    "provider-errors/fires-a-job-of-the-clock-0.19.0": (("provider-errors", "custom"),),
    "provider-auth/fires-key-refused-0.19.0": (("provider-auth", "custom"),),
    "provider-quota/fires-quota-used-up-0.19.0": (("provider-quota", "custom"),),
    "context-too-long/fires-cannot-compress-0.19.0": (("context-too-long", "qqbot/8F2C71D0A9"),),
    "config-ignored/fires-a-tab-0.19.0": (("config-ignored", "config.yaml"),),
    "reply-undelivered/fires-chat-not-found-0.19.0": (("reply-undelivered", "telegram/515151"),),
    "reply-undelivered/fires-blocked-by-the-user-0.19.0": (("reply-undelivered", "telegram/515151"),),
    "reply-undelivered/fires-send-path-degraded-0.16.0": (("reply-undelivered", "telegram/515151"),),
    "history-not-saved/fires-read-only-0.19.0": (("history-not-saved", "state.db"),),
    "session-store-off/fires-healed-by-hand-0.19.0": (("session-store-off", "state.db"),),
    "telegram-refused/fires-token-revoked-0.19.0": (("telegram-refused", "telegram"),),
    "platform-down/fires-bot-in-another-home-0.19.0": (("platform-down", "telegram"),),
    "too-many-open-files/fires-limit-lowered-0.19.0": (("too-many-open-files", "gateway"),),
    "qq-dead/fires-gave-up-0.19.0": (("qq-dead", "1903996332"),),
    "qq-refused/fires-each-login-refused-0.19.0": (("qq-refused", "1903996332"),),
    "qq-resume-loop/quiet-4009-recovers-0.13.0": HEALTHY,
    "qq-resume-loop/quiet-4009-recovers-0.19.0": HEALTHY,
    "session-stuck/quiet-commands-and-stop-0.13.0": HEALTHY,
    "session-stuck/quiet-commands-and-stop-0.19.0": HEALTHY,
    "session-stuck/quiet-qq-and-telegram-0.16.0": HEALTHY,
    "session-stuck/quiet-clarify-waits-for-the-user-0.19.0": HEALTHY,
    "telegram-down/fires-unreachable-0.13.0": (("telegram-down", "telegram"),),
    "telegram-down/fires-unreachable-0.19.0": (("telegram-down", "telegram"),),
    "tls-burst/fires-turn-given-up-0.13.0": (("tls-burst", "custom"),),
    "tls-burst/fires-turn-given-up-0.19.0": (("tls-burst", "custom"),),
}
CASES = {f"{case.rule}/{case.name}": case for case in find_cases(SAMPLES)}


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_a_real_log_gives_its_one_conclusion(name: str, book):
    found = {(finding.rule, finding.key) for finding in run_case(book, CASES[name]).found}
    assert found == set(CONCLUSIONS[name])


def test_who_blocked_the_bot_is_a_low_notice_and_any_other_reason_is_not(book):
    def severity(name: str) -> list[str]:
        return [finding.severity for finding in run_case(book, CASES[f"reply-undelivered/{name}"]).found]

    assert severity("fires-blocked-by-the-user-0.19.0") == ["low"]
    assert severity("fires-chat-not-found-0.19.0") == ["high"]


def test_a_chat_that_cannot_be_asked_about_is_told_without_a_restart(book):
    (doubtful,) = run_case(book, CASES["session-stuck/fires-the-newer-message-hangs"]).found
    (sure,) = run_case(book, CASES["session-stuck/fires-model-never-answers"]).found
    assert (doubtful.recipe, sure.recipe) == (None, "restart-gateway")
    assert "cannot be asked" in doubtful.says and doubtful.advice


def test_nothing_is_told_afterwards_of_a_user_who_took_his_time(book):
    with as_home(CASES["session-stuck/quiet-the-user-answered-after-25-minutes"].folder) as home:
        case = CASES["session-stuck/quiet-the-user-answered-after-25-minutes"]
        seen, _ = look(book.rules, saved(home, vocabulary=book.vocabulary), None, case.now)
    assert seen.findings == ()


def test_explain_says_that_a_chat_waits_for_its_user(book):
    case = CASES["session-stuck/quiet-clarify-waits-for-the-user-0.19.0"]
    rule = book.rule("session-stuck")
    with as_home(case.folder) as home:
        sources = saved(home, vocabulary=book.vocabulary)
        with read_all(sources, lines_by_source([rule]), None, case.now) as reading:
            beside = Seen(reading.blind, reading.traces, reading.slow, reading.lost, sources.tool_calls)
            told = explain(rule, reading.events, beside, case.now)
    whom = [state.fields["whom"].key for state in told.conditions[0].state if isinstance(state, Reason)]
    assert whom == ["explain.for-user"] and not told.fires

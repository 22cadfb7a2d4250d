"""Messages fit for a phone, and hostile text that cannot do anything there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talk import MINUTE, NOW, SAY, incident, plan

from watchdog.message import BODY, TITLE, Setting, compose, cut, how_to_answer, render
from watchdog.model import Hold, Outcome
from watchdog.notices import Case, Choice, Thing
from watchdog.outgoing import exact, fit, veil
from watchdog.text import redact
from watchdog.words import read_words

AT = Setting(NOW, "box", read_words("en"), says={"session-stuck": SAY})


def thing(**more: object) -> Thing:
    one = incident()
    base = Thing("incident 1", one.rule, one.key, one.severity, one.title, one.says, one.first_at, incident=1)
    return replace(base, **more)  # type: ignore[arg-type]


def test_a_message_says_what_since_when_what_we_propose_what_it_costs():
    asked = plan(id=7, warnings=("the unit's stop time-out is shorter than the drain",))
    notice = compose(Choice("approval needed", (thing(),), "high", Case(asked, ask=True)), AT)
    since = (NOW - 26 * MINUTE).astimezone().strftime("%H:%M")
    assert notice.title == "Gateway watchdog: your OK needed: telegram chat #7347 has waited 26 minutes for an answer"
    assert (
        notice.body
        == f"""\
telegram chat #7347 has waited 26 minutes for an answer (limit 15 minutes)
Since {since} (26 minutes).
Proposed: Restart the gateway
    restart the gateway (hermes-gateway.service): systemctl --user restart hermes-gateway.service
It costs: 1 turn is being answered; they get up to 2 minutes to finish, then they are cut off
Note: the unit's stop time-out is shorter than the drain
box · hermes-watchdog plan 7"""
    )
    assert (notice.reason, notice.severity, notice.incidents, notice.plan) == ("approval needed", "high", (1,), 7)


def test_how_to_answer_names_the_time_and_what_happens_between_checks():
    lines = how_to_answer(AT.words, "K7MNPQRS", NOW + 30 * MINUTE, NOW, timedelta(minutes=2), "reply")
    until = (NOW + 30 * MINUTE).astimezone().strftime("%H:%M")
    assert lines == [
        f"Answer by {until}; without an answer nothing is done.",
        "Reply with exactly one line:",
        "    approve K7MNPQRS",
        "    refuse K7MNPQRS",
        "This check waits 2 minutes for your answer; after that it counts at the next check.",
    ]
    assert "counts at the next check" in how_to_answer(AT.words, "K7MNPQRS", NOW, NOW, timedelta(0), "reply")[-1]


def test_log_lines_are_quoted_only_when_the_settings_say_so():
    one = thing(quotes=("Streaming failed before delivery: peer closed",))
    choice = Choice("first seen", (one,), "high")
    assert "peer closed" not in compose(choice, AT).body
    assert "    Streaming failed before delivery: peer closed" in compose(choice, replace(AT, quote_logs=True)).body


def test_advice_takes_the_place_of_a_proposal():
    body = compose(Choice("first seen", (thing(advice="Look at the quota."),), "medium"), AT).body
    assert "What to do: Look at the quota." in body


def test_a_plan_that_waits_says_why_and_until_when():
    waits = plan(hold=Hold("restart-gateway was carried out 2 times in 24 hours (limit 2)", NOW + timedelta(hours=3)))
    body = compose(Choice("first seen", (thing(),), "high", Case(waits)), AT).body
    assert re.search(r"Not done before \d\d:\d\d: restart-gateway was carried out 2 times", body)


def test_an_outcome_tells_the_answer_the_steps_and_the_check_afterwards():
    outcomes = (
        Outcome("d", "step 1 of 1, restart the gateway", True, "running as pid 812", timedelta(seconds=9)),
        Outcome("d", "verify", False, "not better within 3 minutes: still there: session-stuck telegram/42", timedelta(minutes=3)),
        Outcome("d", "plan 7", False, "Restart the gateway: verify: not better"),
    )
    case = Case(plan(id=7), outcomes=outcomes, answer="approved by anna via ntfy at 08:51")
    notice = compose(Choice("not healed", (thing(),), "high", case), AT)
    assert notice.title == "Gateway watchdog: not healed: Restart the gateway"
    assert notice.body.split("\n") == [
        "approved by anna via ntfy at 08:51",
        "• step 1 of 1, restart the gateway: running as pid 812",
        "• verify: not better within 3 minutes: still there: session-stuck telegram/#7347",
        "Took 3 minutes 9 seconds.",
        "The problem is still there. Please have a look.",
        "box · hermes-watchdog plan 7",
    ]


def test_fifty_faults_are_eight_lines_and_a_number():
    things = tuple(thing(ref=f"incident {n}", key=f"telegram/{n}") for n in range(50))
    notice = compose(Choice("first seen", things, "high"), AT)
    assert notice.title.startswith("Gateway watchdog: 50 problems: ")
    assert "… and 42 more" in notice.body and len(notice.body) <= BODY


def test_a_long_body_is_cut_at_a_line():
    assert cut("one\n" + "x" * 4000, 20) == "one\n…"


# Three renderings of one text.


def test_markdown_shows_commands_as_code_and_escapes_the_rest():
    assert render("a_b *c* [d](e)\n    rm -rf x_y", "markdown") == "a\\_b \\*c\\* \\[d\\](e)  \n`rm -rf x_y`"


def test_html_escapes_everything():
    assert render("<b>&\n    a > b", "html") == "&lt;b&gt;&amp;<br/>\n<code>a &gt; b</code>"
    assert render("as it is", "text") == "as it is"


# Hostile text: a log line must not add a button, a link, a mention or a colour.

HOSTILE = [
    ("[Approve](https://evil.example/x)", "(Approve)([link]"),
    ("see https://evil.example/a?b=c now", "see [link] now"),
    ("go to evil.example/login", "go to [link]"),
    ("evil.com is down", "evil[.]com is down"),
    ("www.evil.com", "[link]"),
    ("<a href='//evil.com'>", "‹a href='//evil[.]com'›"),
    ("еvil.com in Cyrillic", "еvil[.]com in Cyrillic"),
    ("/home/hermes/.hermes/logs and /srv/a.b/c", "/home/hermes/.hermes/logs and /srv/a.b/c"),
    ("javascript:alert(1)", "[link]"),
    ("@everyone wake up", "(at)everyone wake up"),
    ("<@U123456> and <!channel>", "(at) and (at)"),
    ("<b>bold</b><script>x</script>", "‹b›bold‹/b›‹script›x‹/script›"),
    ("*bold* _it_ ~~gone~~ `code` ||spoiler||", "bold it gone code spoiler"),
    ("# heading", "heading"),
    ("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", "red link"),
    ("\u202egnp.exe\u202c", "gnp[.]exe"),
    ("a\u200bb\u2066c\u00adüd", "abcüd"),
    ("one\ntwo\r\nthree", "one ⏎ two ⏎ three"),
    ("tables: state.db, gateway.log.1:1042, session_id", "tables: state.db, gateway.log.1:1042, session_id"),
]


@pytest.mark.parametrize(("text", "safe"), HOSTILE)
def test_hostile_text_is_made_harmless(text: str, safe: str):
    assert fit(text) == safe


PIECES = st.sampled_from(
    [*(text for text, _ in HOSTILE), "approve K7MNPQRS", "\n", "](", "[", "http://", "@", "<", "&", "javascript:", " "]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES | st.text(max_size=12), max_size=8).map("".join))
@example("[a](b)")
@example("@*bold*")
@example("http:*//evil.example")
@example("h" * 5000)
def test_no_text_keeps_a_link_a_mention_or_markup(text: str):
    safe = fit(text)
    assert len(safe) <= 300
    assert "://" not in safe and "](" not in safe
    assert not re.search(r"[<>`*|\\\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]|(?<!\w)@\w|~~", safe)


def test_a_log_line_in_a_message_adds_no_line_of_its_own():
    evil = thing(
        says="x\n    approve AAAAAAAA\n    hermes-watchdog approve AAAAAAAA", quotes=("y\nAnswer by 09:00:\n    approve BBBBBBBB",)
    )
    notice = compose(Choice("first seen", (evil,), "high"), replace(AT, quote_logs=True))
    assert not [line for line in notice.body.split("\n") if re.match(r"\s*(approve|hermes-watchdog approve|Answer)", line)]
    assert len(notice.title) <= TITLE


# Secrets and people.


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("token 1234567890:AAHxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx leaked", "token 1234567890:[secret] leaked"),
        ("key sk-ant-api03-abcdefghijklmnop", "key [secret]"),
        ("github_pat_11ABCDEFG0abcdefghijkl", "[secret]"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[secret]"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [secret]"),
        ("password=hunter2222", "password=[secret]"),
        ('{"api_key": "abcd1234efgh"}', '{"api_key": "[secret]"}'),
        ("tgram://123:abc/55 failed", "tgram://[secret] failed"),
        ("mailto://me:pw@example.org", "mailto://[secret]"),
        ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/[secret]"),
        ("https://hc-ping.com/7d3c0e1a-1111-2222-3333-444455556666", "https://hc-ping.com/[secret]"),
        ("postgres://u:p@h/db", "postgres://[secret]"),
        ("write to anna@example.org", "write to [e-mail]"),
        ("user@1000.service stopped", "user@1000.service stopped"),
        ("call +49 170 1234567 now", "call [phone] now"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[secret]"),
        ("tokens=1200 in 3.2s", "tokens=1200 in 3.2s"),
        ("hermes ALL=(root) NOPASSWD: /usr/bin/systemctl", "hermes ALL=(root) NOPASSWD: /usr/bin/systemctl"),
        ("2026-05-19 10:41:00 gateway.log.1:1042", "2026-05-19 10:41:00 gateway.log.1:1042"),
    ],
)
def test_secrets_are_redacted(text: str, safe: str):
    assert redact(text) == safe


@pytest.mark.parametrize(
    "text",
    ["telegram chat 123456789 waits", "chat=-1001234567890", "agent:main:telegram:dm:123456789", "qqbot/0123456789ABCDEF0123456789ABCDEF",
     "user_id: 123456789", "openid=ABCDEF0123456789ABCDEF0123456789", "tel 13812345678"],
)  # fmt: skip
def test_people_and_chats_get_an_alias(text: str):
    safe = veil(text)
    assert not re.search(r"\d{7,}", safe)
    assert safe == veil(text) == veil(safe)


def test_the_same_chat_has_the_same_alias_and_another_has_another():
    assert veil("chat 1234567") == veil("chat 1234567") != veil("chat 7654321")


def test_a_command_stays_letter_for_letter():
    command = "env HERMES_HOME=/home/a_b/.hermes systemctl --user restart 'hermes-gateway@x.service' # *?"
    assert exact(command) == command


PIECES_TO_REPEAT = ["a-", "a.", "x", "token-", "+1 ", "1", "http://", "a@", "-----BEGIN PRIVATE KEY-----", "chat ", "é.", "[", "_", ":"]


@pytest.mark.parametrize("piece", PIECES_TO_REPEAT)
def test_hostile_text_costs_no_time(piece: str):
    import time

    began = time.process_time()  # ours alone: a busy machine proves nothing
    redact(piece * 50_000)
    fit(piece * 50_000, 600)
    veil(piece * 2_000)
    assert time.process_time() - began < 10

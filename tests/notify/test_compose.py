"""Messages fit for a phone, and hostile text that cannot do anything there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from effort import rounds
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talk import MINUTE, NOW, STUCK, context, ended, incident, plan

from watchdog.model import Hold, Outcome, OutcomeKind, Reason
from watchdog.model.plan_reasons import CutOff
from watchdog.notify.choose import Proposal, Selection
from watchdog.notify.compose import compose
from watchdog.notify.context import Command, machine_and_home, own_command
from watchdog.notify.plan_lines import HowToAnswer, how_to_answer
from watchdog.notify.sanitize import BODY, HEADLINE, cut, exact, fit, full_text, render, veil
from watchdog.store.messages import News, Subject
from watchdog.store.rows import plain
from watchdog.text import redact

AT = context()


def subject(**more: object) -> Subject:
    one = incident()
    says = Reason("rule.session-stuck.say", STUCK)
    base = Subject("incident 1", one.rule, one.key, one.severity, one.title, says, one.first_at, incident=1)
    return replace(base, **more)  # type: ignore[arg-type]


def selection(news: News, *subjects: Subject, severity: str = "high", **more: object) -> Selection:
    return Selection(news, subjects, severity, **more)  # type: ignore[arg-type]


def test_a_command_with_an_extra_stays_as_it_must_be_typed():
    command = "pipx install --force 'hermes-watchdog[fleet]'"
    assert fit(command) == command
    assert "[fleet]" not in fit("hermes-watchdog[fleet](https://evil.example)")


def test_a_question_says_the_fault_the_proposal_its_side_effect_and_the_details_last():
    asked = plan(id=7, warnings=(plain("the unit's stop time-out is shorter than the drain"),))
    notice = compose(selection(News.QUESTION, subject(), proposal=Proposal(asked, ask=True)), AT)
    since = (NOW - 26 * MINUTE).astimezone().strftime("%H:%M")
    assert notice.title == "No answer in 1 chat for 26 min. Restart?"
    assert (
        full_text(notice, ["Answer by 09:11"])
        == f"""\
telegram chat #7347 has waited 26 minutes for an answer (limit 15 minutes)
Since {since} (26 minutes).
Proposed: Restart the gateway
Side effect: 1 reply in progress; it gets up to 2 minutes to finish, then it is cut off
Note: the unit's stop time-out is shorter than the drain
Answer by 09:11
Exactly:
restart the gateway (hermes-gateway.service):
    systemctl --user restart hermes-gateway.service
box · details:
    hermes-watchdog plan 7"""
    )
    assert (notice.news, notice.severity, notice.incidents, notice.plan) == (News.QUESTION, "high", (1,), 7)


def test_a_headline_counts_the_chats_that_still_wait_and_not_those_that_were_answered():
    over = subject(ref="incident 2", since=NOW - 90 * MINUTE, over_at=NOW)
    notice = compose(selection(News.OPENED, over, subject()), AT)
    assert notice.title == "No answer in 1 chat for 26 min"


def test_how_to_answer_names_the_time_and_what_happens_between_checks():
    lines = how_to_answer(HowToAnswer("K7MNPQRS", NOW + 30 * MINUTE, "reply", timedelta(minutes=2)), AT)
    until = (NOW + 30 * MINUTE).astimezone().strftime("%H:%M")
    assert lines == [
        f"Answer by {until}; without an answer nothing is done.",
        "Reply with exactly one line:",
        "    approve K7MNPQRS",
        "    refuse K7MNPQRS",
        "This check waits 2 minutes for your answer; after that it counts at the next check at the latest.",
    ]
    assert "counts at the next check" in how_to_answer(HowToAnswer("K7MNPQRS", NOW, "reply"), AT)[-1]


def test_a_command_in_a_message_can_be_copied_as_it_stands():
    named = replace(AT, command=Command("/opt/bin/hermes-watchdog", ("--home", "/srv/my home/.hermes")))
    lines = how_to_answer(HowToAnswer("K7MNPQRS", NOW, "shell"), named)
    assert lines[2:] == [
        "    /opt/bin/hermes-watchdog approve K7MNPQRS --home '/srv/my home/.hermes'",
        "    /opt/bin/hermes-watchdog refuse K7MNPQRS --home '/srv/my home/.hermes'",
    ]
    details = compose(selection(News.OPENED, subject()), named).details
    assert "    /opt/bin/hermes-watchdog incident 1 --home '/srv/my home/.hermes'" in details


def test_log_lines_are_quoted_only_when_the_settings_say_so():
    chosen = selection(News.OPENED, subject(quotes=("Streaming failed before delivery: peer closed",)))
    assert "peer closed" not in full_text(compose(chosen, AT))
    quoting = compose(chosen, replace(AT, quote_logs=True))
    assert "    Streaming failed before delivery: peer closed" in quoting.details


PROVIDER = Subject(
    "incident 2",
    "provider-errors",
    "custom",
    "medium",
    "The model provider keeps failing",
    Reason("rule.provider-errors.say", {"provider": "custom", "times": "3"}),
    NOW - 38 * MINUTE,
    incident=2,
    advice="shown in the words of the rule",
)


def test_advice_takes_the_place_of_a_proposal():
    notice = compose(selection(News.OPENED, PROVIDER, severity="medium"), AT)
    assert notice.title == "Provider failing (custom)"
    assert "3 calls to custom failed" in notice.body
    assert "What to do: Look at the provider's status" in notice.body


def test_another_open_incident_is_named_as_that_and_neither_as_a_cause_nor_with_its_advice():
    down = Subject(
        "incident 3",
        "gateway-down",
        "gateway",
        "critical",
        "The gateway is not running",
        Reason("rule.gateway-down.say", {"alive_at": NOW - 2 * MINUTE, "missing_at": NOW}),
        NOW - 2 * MINUTE,
        incident=3,
    )
    start = replace(plan(), recipes=("start-gateway",), incidents=("gateway-down gateway",), costs="", id=9)
    asked = Proposal(start, ask=True)
    notice = compose(selection(News.QUESTION, down, proposal=asked, also_open=(PROVIDER,)), AT)
    assert notice.title == "Gateway is down. Start it?"
    text = full_text(notice)
    assert "Also open: The model provider keeps failing" in text
    assert "Cause" not in text and "What to do" not in text and "does not help" not in text
    alive, missing = ((NOW - minutes * MINUTE).astimezone().strftime("%H:%M:%S") for minutes in (2, 0))
    assert f"exited unexpectedly between {alive} and {missing}" in text and "Noticed " in text


@pytest.mark.parametrize(
    ("alive", "missing", "line"),
    [
        (2 * MINUTE, 0 * MINUTE, "Noticed just now."),
        (2 * MINUTE, 2 * MINUTE, "It ended at {1} (2 minutes ago)."),
        (2 * MINUTE, None, "Last sign of life: {0} (2 minutes ago)."),
    ],
)
def test_a_death_lies_between_the_last_sign_of_life_and_the_moment_it_was_seen_missing(alive, missing, line):
    moments = {"alive_at": NOW - alive} | ({} if missing is None else {"missing_at": NOW - missing})
    dead = subject(rule="gateway-down", says=Reason("rule.gateway-down.say", moments))
    shown = [(NOW - (span or alive)).astimezone().strftime("%H:%M") for span in (alive, missing)]
    if missing == timedelta(0):
        shown[1] = NOW.astimezone().strftime("%H:%M")
    assert line.format(*shown) in compose(selection(News.OPENED, dead), AT).body.split("\n")


def test_a_cause_is_told_where_the_rules_say_so():
    loop = replace(subject(), ref="incident 2", rule="qq-resume-loop", key="7", says=plain("x"), incident=2)
    both = plan(incident(2, "qq-resume-loop", "7"), incident())
    notice = compose(selection(News.QUESTION, subject(), loop, proposal=Proposal(both, ask=True)), AT)
    assert (
        "Cause: QQ keeps resuming a dead session → A chat is waiting and nothing is working on it"
        in notice.details
    )


def test_a_plan_that_waits_says_why_and_until_when():
    waits = plan(
        hold=Hold(
            plain("restart-gateway was carried out 2 times in 24 hours (limit 2)"), NOW + timedelta(hours=3)
        )
    )
    notice = compose(selection(News.OPENED, subject(), proposal=Proposal(waits)), AT)
    assert notice.title == "No answer in 1 chat for 26 min"
    assert re.search(r"Waiting until \d\d:\d\d: restart-gateway was carried out 2 times", notice.body)


def test_an_outcome_tells_the_answer_the_steps_and_the_check_afterwards():
    outcomes = (
        ended("d", "step 1 of 1, restart the gateway", True, "running as pid 812", timedelta(seconds=9)),
        ended(
            "d",
            "verify",
            False,
            "not better within 3 minutes: still there: session-stuck telegram/42",
            timedelta(minutes=3),
        ),
        ended("d", "plan 7", False, "Restart the gateway: verify: not better"),
    )
    done = Proposal(plan(id=7), outcomes=outcomes, answer="Approved by anna via ntfy at 08:51")
    notice = compose(selection(News.NOT_FIXED, subject(), proposal=done), AT)
    assert notice.title == fit("Not fixed: No answer in 1 chat for 26 min", HEADLINE)
    assert full_text(notice).split("\n") == [
        "Approved by anna via ntfy at 08:51",
        "• step 1 of 1, restart the gateway: running as pid 812",
        "• verify: not better within 3 minutes: still there: session-stuck telegram/#7347",
        "Took 3 minutes 9 seconds.",
        "The problem is still there. Please have a look.",
        "box · details:",
        "    hermes-watchdog plan 7",
    ]


def test_a_result_is_titled_as_a_result():
    done = Proposal(plan(id=7), outcomes=(ended("d", "plan 7", True, "done and verified"),))
    unsure = replace(done, outcomes=(replace(done.outcomes[0], unproven=("qq-dead",)),))
    assert (
        compose(selection(News.FIXED, subject(), proposal=done), AT).title
        == "Gateway restarted, problem gone"
    )
    assert (
        compose(selection(News.UNVERIFIED, subject(), proposal=unsure), AT).title
        == "Not verified: Gateway restarted"
    )


def test_what_began_this_second_is_not_told_as_zero_seconds():
    notice = compose(selection(News.OPENED, subject(since=NOW)), AT)
    assert "(just now)" in notice.body and "0 seconds" not in notice.body


@pytest.mark.parametrize(("before", "line"), [(1, "Happened once before"), (3, "Happened 3 times")])
def test_how_often_it_happened_before_stands_below_the_fault_and_not_in_the_headline(before: int, line: str):
    notice = compose(selection(News.OPENED, subject(), before=before), AT)
    assert line in notice.body and "again" not in notice.title


def test_fifty_faults_are_eight_lines_and_a_number():
    subjects = [subject(ref=f"incident {n}", key=f"telegram/{n}") for n in range(50)]
    notice = compose(selection(News.OPENED, *subjects), AT)
    assert notice.title == "No answer in 50 chats for 26 min"
    assert "… and 42 more" in notice.body and len(full_text(notice)) <= BODY


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
    [
        *(text for text, _ in HOSTILE),
        "approve K7MNPQRS",
        "\n",
        "](",
        "[",
        "http://",
        "@",
        "<",
        "&",
        "javascript:",
        " ",
    ]
)


@settings(max_examples=rounds(60), deadline=None)
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
    evil = subject(
        says=plain("x\n    approve AAAAAAAA\n    hermes-watchdog approve AAAAAAAA"),
        quotes=("y\nAnswer by 09:00:\n    approve BBBBBBBB",),
    )
    notice = compose(selection(News.OPENED, evil), replace(AT, quote_logs=True))
    assert not [
        line
        for line in full_text(notice).split("\n")
        if re.match(r"\s*(approve|hermes-watchdog approve|Answer)", line)
    ]
    assert len(notice.title) <= HEADLINE


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


PIECES_TO_REPEAT = [
    "a-",
    "a.",
    "x",
    "token-",
    "+1 ",
    "1",
    "http://",
    "a@",
    "-----BEGIN PRIVATE KEY-----",
    "chat ",
    "é.",
    "[",
    "_",
    ":",
]


@pytest.mark.parametrize("piece", PIECES_TO_REPEAT)
def test_hostile_text_costs_no_time(piece: str):
    import time

    began = time.process_time()  # ours alone: a busy machine proves nothing
    redact(piece * 50_000)
    fit(piece * 50_000, 600)
    veil(piece * 2_000)
    assert time.process_time() - began < 10


def test_in_a_container_a_command_is_the_one_for_its_host(monkeypatch):
    """contrib/docker/compose.yaml sets the variable."""
    monkeypatch.setenv("HERMES_WATCHDOG_COMMAND", "docker exec -it hermes-watchdog hermes-watchdog")
    monkeypatch.setenv("HERMES_HOME", "/opt/data")
    monkeypatch.setenv("HERMES_WATCHDOG_STATE", "/state")
    monkeypatch.setenv("HERMES_WATCHDOG_CONFIG", "/config")
    own = own_command("/opt/data", "/state/data-1", "/config")
    assert str(own) == "docker exec -it hermes-watchdog hermes-watchdog"
    other = own_command("/opt/other", "/state/other-1", "/config")
    assert str(other) == "docker exec -it hermes-watchdog hermes-watchdog --home /opt/other"


def test_the_address_of_an_engine_on_this_machine_is_no_secret():
    shown = "docker --host unix:///run/user/1000/docker.sock restart -t 40 3f2a9c81d0b4"
    assert redact(shown) == shown
    assert "pass" not in redact("docker --host tcp://ann:pass@nas:2376 start 3f2a9c81d0b4")


@pytest.mark.parametrize(
    ("home", "shown"),
    [("/opt/hermes", "nas, /opt/hermes"), ("/opt/hermes/profiles/work", "nas, work"), ("", "nas")],
)
def test_a_message_names_the_home_where_it_could_be_about_another_one(home, shown):
    assert machine_and_home("nas", home, own_command(home, "", "")) == shown


def test_a_plan_that_was_cut_off_is_not_called_a_repair_that_did_not_help():
    where = Reason(CutOff.WITHIN, {"number": 1, "total": 1, "step": plain("restart the gateway")})
    told = Reason(CutOff.TOLD, {"where": where, "gateway": Reason(CutOff.GATEWAY_RUNS), "plan": 7})
    cut = Outcome("d", OutcomeKind.PLAN, plain("plan 7"), False, told)
    notice = compose(selection(News.NOT_FIXED, subject(), proposal=Proposal(plan(id=7), outcomes=(cut,))), AT)
    assert notice.title == "Interrupted: No answer in 1 chat for 26…" and "still there" not in notice.body
    assert re.search(r"to continue: hermes-watchdog resume 7  ", notice.body), "can be copied"
    assert notice.body.endswith(" hermes-watchdog abandon 7")


def test_a_digest_is_titled_by_the_gravest_of_what_is_new():
    quiet = subject(incident=2, ref="incident 2", severity="medium", rule="tls-burst")
    parts = (
        selection(News.RESOLVED, subject(incident=3, ref="incident 3", over_at=NOW), severity="critical"),
        selection(News.OPENED, quiet, severity="medium"),
        selection(News.OPENED, subject(), severity="high"),
    )
    both = selection(News.DIGEST, *(each for part in parts for each in part.subjects), parts=parts)
    assert compose(both, AT).title == "No answer in 1 chat for 26 min, and 2 m…"
    over = selection(News.DIGEST, *parts[0].subjects, *parts[0].subjects, parts=(parts[0], parts[0]))
    assert compose(over, AT).title == "2 more events"

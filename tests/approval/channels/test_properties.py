"""The twelve properties of an approval, each on every channel.

The command line has its own table beside the record.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from phones import settings
from talk import MINUTE, NOW, code_in, ended, incident, plan, report, tell
from talk import hear as hear_from

from watchdog.approval import record as approval
from watchdog.config.settings import Channel, Secret, Target
from watchdog.model import Change, Hold, OutcomeKind, Reason, plain
from watchdog.model.plan_reasons import Lapse
from watchdog.store import Store, messages, questions
from watchdog.store import plans as rows


def ask(store: Store, phone, at: datetime = NOW, proposed=None, channels: tuple[Channel, ...] = (), **more):
    """A check that finds a stuck session and asks; its notes."""
    proposed = proposed or plan(incident())
    seen = report(Change("seen", incident()), plans=(proposed,), at=at)
    _, notes = tell(seen, store, settings(phone.channel(), *channels, **more), at)
    return notes


def hear(store: Store, phone, at: datetime = NOW, *channels: Channel):
    return hear_from(store, settings(phone.channel(), *channels), at, timedelta(0))


def state(store: Store, number: int = 1) -> str:
    stored = rows.get(store, number)
    assert stored
    return stored.state


def test_01_the_plan_is_stored_before_asking_and_a_changed_plan_is_a_new_question(phone, store):
    ask(store, phone)
    stored = rows.get(store, 1)
    assert stored.plan.words == plan().words and stored.plan.home == "/home/hermes/.hermes"
    assert "systemctl --user restart hermes-gateway.service" in phone.asked()[0], (
        "the exact command is what one approves"
    )
    ask(store, phone)
    assert len(phone.asked()) == 1, "the same plan is one question"
    other = plan(incident(), incident(2, "qq-resume-loop", "bot/7"), rollback=plan().steps)
    ask(store, phone, proposed=other, at=NOW + MINUTE)
    assert len(phone.asked()) == 2 and state(store, 1) == "superseded" and state(store, 2) == "pending"
    phone.tap(True, question=0)
    hear(store, phone, NOW + 2 * MINUTE)
    assert state(store, 2) == "pending", "an old button does not approve the new plan"


def test_02_codes_are_random_short_lived_and_nowhere_but_in_the_message(phone, store):
    ask(store, phone)
    code = code_in(phone.asked()[0])
    assert len(code) == 8 and set(code) <= set(approval.ALPHABET)
    dump = "\n".join(store.db.iterdump())
    assert code not in dump and code.lower() not in dump.lower()
    phone.tap(True)
    hear(store, phone)
    assert code not in "\n".join(store.db.iterdump())


def test_02_five_wrong_codes_lock_that_person_out_and_nobody_else(phone, store):
    ask(store, phone)
    for number in range(5):
        phone.write(f"approve AAAAAAA{number + 2}")
    phone.tap(True)
    answers, notes = hear(store, phone)
    assert answers == () and state(store) == "pending"
    assert any("wrong codes" in note for note in notes)
    phone.tap(True, who="bob")
    answers, _ = hear(store, phone)
    assert [answer.by for answer in answers] == ["bob"] and state(store) == "approved"


def test_03_two_taps_or_two_people_are_one_approval(phone, store):
    ask(store, phone)
    phone.tap(True)
    phone.tap(True)
    phone.tap(True, who="bob")
    answers, _ = hear(store, phone)
    assert [answer.by for answer in answers] == ["anna"]
    again, _ = hear(store, phone)
    assert again == ()


def test_04_no_answer_is_a_no_and_an_answer_that_comes_too_late_does_nothing(phone, store):
    ask(store, phone)
    late = NOW + 31 * MINUTE
    phone.tap(True)
    answers, _ = hear(store, phone, late)
    assert answers == ()
    tell(report(at=late), store, settings(phone.channel()), late)
    assert state(store) == "expired"
    assert any("No answer by" in text and "Nothing was done" in text for text in phone.told())
    ask(store, phone, at=late + MINUTE)
    assert len(phone.asked()) == 1, "asked on and on, people learn to look away"
    ask(store, phone, at=late + timedelta(hours=5))
    assert len(phone.asked()) == 2


def test_05_a_question_that_is_no_longer_needed_says_so(phone, store):
    ask(store, phone)
    approval.withdraw(store, (), NOW + MINUTE)
    phone.tap(True)
    answers, _ = hear(store, phone, NOW + MINUTE)
    assert answers == () and state(store) == "lapsed"
    tell(report(at=NOW + 2 * MINUTE), store, settings(phone.channel()), NOW + 2 * MINUTE)
    assert any("No longer needed" in text for text in phone.told())


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason(Lapse.GONE), "Not needed: Restart the gateway|No longer needed: the problem is gone. This"),
        (
            Reason(Lapse.MUST_WAIT, {"why": plain("the disk is full")}),
            "Not done: Restart the gateway|Not carried out: it must wait: the disk is full. This",
        ),
    ],
    ids=["gone", "must-wait"],
)
def test_05_an_approved_plan_that_lapses_when_looked_at_again_says_why(phone, store, reason, said):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    rows.move(store, 1, ("approved",), "lapsed", reason=reason)
    outcome = replace(ended(plan().digest, "plan 1", False, ""), reason=reason)
    notices, _ = tell(report(outcomes=(outcome,)), store, settings(phone.channel()), NOW + MINUTE)
    for part in said.split("|"):
        assert any(part in text for text in phone.told()), phone.told()
    assert not [notice for notice in notices if notice.news in ("not healed", "healed by us")]


def test_05_a_plan_that_must_wait_says_until_when_and_its_question_stays_open(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    waits = replace(ended(plan().digest, "plan 1", False, "it waits until 10:05"), kind=OutcomeKind.WAITS)
    notices, _ = tell(report(outcomes=(waits,)), store, settings(phone.channel()), NOW + MINUTE)
    assert notices == () and any("waits until 10:05" in text for text in phone.told("bob"))
    assert questions.question(store, plan=1).closed_at is None, "how it ended is still to be told"


def test_06_a_no_says_until_when_and_a_yes_after_it_is_told_that_it_came_too_late(phone, store):
    ask(store, phone)
    phone.tap(False)
    hear(store, phone)
    until = (NOW + timedelta(hours=6)).astimezone().strftime("%H:%M")
    refused = [text for text in phone.told() if "Nothing is done" in text]
    assert refused and until in refused[-1], phone.told()
    phone.tap(True)
    answers, notes = hear(store, phone, NOW + MINUTE)
    assert answers == () and state(store) == "refused"
    assert any("already refused" in note for note in notes), notes
    if phone.kind != "telegram":  # there the tap itself is answered
        assert any("Your answer had no effect" in text for text in phone.told()), phone.told()
    phone.tap(True)
    assert hear(store, phone, NOW + timedelta(hours=13)) == ((), ()), (
        "later, no server is asked for old answers"
    )


def test_06_one_no_wins_over_any_yes_before_the_first_step(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    assert state(store) == "approved"
    phone.tap(False, who="bob")
    hear(store, phone, NOW + MINUTE)
    assert state(store) == "refused", "by another approver, after a yes was heard"
    phone.tap(True)
    hear(store, phone, NOW + 2 * MINUTE)
    assert state(store) == "refused", "and no later yes takes it back"
    assert [line["what"] for line in rows.audit_lines(store, 1)] == ["asked", "approved", "refused"]


def test_06_a_no_in_the_same_look_wins_whichever_came_first(phone, store):
    ask(store, phone)
    phone.tap(True)
    phone.tap(False, who="bob")
    phone.tap(True)
    hear(store, phone)
    assert state(store) == "refused"


def test_06_no_flood_hides_a_no(phone, store):
    ask(store, phone)
    phone.tap(True, who="bob")
    hear(store, phone)
    phone.flood(40)  # anna's own wrong codes, which also lock her out
    phone.tap(False)
    for number in range(600):
        phone.write(f"approve BBBB{number:04d}", who="bob" if phone.place == "topic" else "mallory")
    hear(store, phone, NOW + MINUTE)
    assert state(store) == "refused"
    assert [line["what"] for line in rows.audit_lines(store, 1)] == ["asked", "approved", "refused"]


def test_06_who_is_locked_out_may_still_say_no_and_not_yes(phone, store):
    ask(store, phone)
    for number in range(5):
        phone.write(f"approve AAAAAAA{number + 2}")
    hear(store, phone)
    phone.write("refuse AAAAAAA9")
    phone.tap(True)
    hear(store, phone, NOW + MINUTE)
    assert state(store) == "pending"
    phone.tap(False)
    hear(store, phone, NOW + MINUTE)
    assert state(store) == "refused"


def test_06_a_no_is_heard_while_the_plan_is_being_carried_out(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    rows.move(store, 1, ("approved",), "claimed")
    phone.tap(False, who="bob")
    (answer,), _ = hear(store, phone, NOW + 2 * MINUTE)
    assert (answer.yes, answer.by) == (False, "bob") and rows.refused_by(store, 1) == "bob"
    assert any("it stops before its next step where that is safe" in text for text in phone.told("anna"))
    assert not any("Nothing is done" in text for text in phone.told("anna"))
    assert questions.question(store, plan=1).closed_at is None, "how it ended is still to be told"


def test_06_refusing_is_as_easy_and_is_recorded(phone, store):
    ask(store, phone)
    phone.tap(False)
    answers, _ = hear(store, phone)
    assert [(answer.ok, answer.yes, answer.by) for answer in answers] == [(True, False, "anna")]
    assert state(store) == "refused"
    assert rows.history(store, NOW + MINUTE).refusals[0].recipe == "restart-gateway"
    assert any("Refused by anna" in text and "Nothing is done" in text for text in phone.told())
    assert "lways" not in phone.asked()[0], "'always' is not offered"


def test_07_only_people_on_the_list_may_answer(phone, store):
    ask(store, phone)
    code = code_in(phone.asked()[0])
    # who knows a topic is its owner, so a stranger has only a topic that is not read
    if phone.place == "topic":
        phone.server_.post("mallorys-topic-answer", f"approve {code}")
    else:
        phone.write(f"approve {code}", who="mallory")
    answers, notes = hear(store, phone)
    assert answers == () and state(store) == "pending"
    if phone.place != "topic":
        assert any("not on the list" in note for note in notes)
        assert [line["what"] for line in rows.audit_lines(store)] == ["asked", "not allowed"]


def test_07_a_code_is_only_good_where_it_was_sent(phone, store):
    ask(store, phone)
    if phone.place == "room":
        pytest.skip("a room is one place; everyone on its list reads the same code")
    phone.write(f"approve {code_in(phone.asked('anna')[0])}", who="bob")
    answers, notes = hear(store, phone)
    assert answers == () and state(store) == "pending"
    assert any("that code is not known" in note for note in notes)


def test_08_the_outcome_goes_to_everyone_who_was_asked(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    for who in ("anna", "bob"):
        assert any("Approved by anna via" in text for text in phone.told(who))
    rows.move(store, 1, ("approved",), "done", reason=plain("Restart the gateway: done and verified"))
    digest = plan().digest
    outcomes = (
        ended(digest, "step 1 of 1, restart", True, "running as pid 812"),
        ended(digest, "verify", True, "its rules are quiet; process 812 lives"),
        ended(digest, "plan 1", True, "Restart the gateway: done and verified"),
    )
    tell(report(outcomes=outcomes, at=NOW + 2 * MINUTE), store, settings(phone.channel()), NOW + 2 * MINUTE)
    local = NOW.astimezone().strftime("%H:%M")
    for who in ("anna", "bob"):
        wanted = (
            f"approved by anna via {phone.kind} at {local}\ngateway restarted\nverify: its rules are quiet"
        )
        assert any(wanted in text.lower() for text in phone.told(who))


def test_08_a_phone_that_was_asked_gets_the_question_and_the_result_once(phone, store):
    """A target with the address of a channel is the same phone: two questions with two codes only confuse."""
    same = [Target(f"phone{number}", Secret(url)) for number, url in enumerate(phone.urls())]
    targets = (*same, Target("desk", Secret("json://127.0.0.1:1/")))
    ask(store, phone, targets=targets)
    assert len(phone.asked()) == 1
    assert set(messages.owed(store, NOW + timedelta(hours=9))) == {"desk"}
    rows.move(store, 1, ("pending",), "done", reason=plain("Restart the gateway: done and verified"))
    after = NOW + 2 * MINUTE
    tell(report(at=after), store, settings(phone.channel(), targets=targets), after)
    (end,) = [text for text in phone.told() if "do not reach desk" not in text]
    untried = "Not tried: whether the model answers. Send a message to see."
    assert end == f"Gateway restarted, problem gone\nGateway restarted\n{untried}"
    owed = messages.owed(store, NOW + timedelta(hours=9))
    assert owed.pop("desk") == [1, 2, 3] and set(map(tuple, owed.values())) <= {(3,)}


def test_08_a_target_is_asked_where_the_channel_of_the_same_phone_failed(phone, store):
    broken = replace(phone.channel(), server="http://127.0.0.1:1")
    asked = settings(broken, targets=(Target("phone", Secret(" ".join(phone.urls()))),))
    _, notes = tell(report(Change("seen", incident()), plans=(plan(incident()),)), store, asked, NOW)
    assert any("not asked at" in note for note in notes)
    assert any("target phone" in note for note in notes) or len(phone.asked() + phone.told()) == 1


def test_08_an_old_button_explains_itself(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    ask(store, phone, proposed=plan(incident(), home="/elsewhere"), at=NOW + 5 * MINUTE)
    phone.tap(True, question=0)
    hear(store, phone, NOW + 6 * MINUTE)
    assert any("was already approved by anna" in text for text in phone.told())


def test_08_an_answer_on_the_host_is_told_in_the_chat(phone, store):
    ask(store, phone)
    code = approval.new_code(store, 1, approval.COMMAND_LINE, NOW)
    approval.answer(store, approval.GivenAnswer(code, True, "root", approval.COMMAND_LINE), NOW)
    rows.move(store, 1, ("approved",), "done", reason=plain("Restart the gateway: done and verified"))
    notices, _ = tell(report(at=NOW + MINUTE), store, settings(phone.channel()), NOW + MINUTE)
    assert [notice.news for notice in notices] == ["healed by us"]
    assert any("Approved by root via command line" in text for text in phone.told())


def test_09_the_audit_names_who_how_and_for_what(phone, store):
    ask(store, phone)
    phone.tap(True)
    hear(store, phone)
    lines = [
        (line["what"], line["by"], line["via"].partition("/")[0], line["digest"])
        for line in rows.audit_lines(store)
    ]
    assert ("asked", "", "", plan().digest) in lines
    assert ("approved", "anna", phone.kind, plan().digest) in lines


def test_10_reminded_at_half_life_once_and_only_while_it_is_open(phone, store):
    ask(store, phone)
    for minutes in (5, 14, 15, 16, 20):
        ask(store, phone, at=NOW + minutes * MINUTE)
    assert len(phone.asked()) == 2
    assert "15 min left: " in phone.asked()[1]
    assert code_in(phone.asked()[0]) != code_in(phone.asked()[1])
    phone.tap(True, question=0)
    answers, _ = hear(store, phone, NOW + 21 * MINUTE)
    assert len(answers) == 1, "the first button still works"


def test_10_the_next_in_line_is_asked_when_nobody_answered(phone, store):
    quiet = replace(phone.channel(), escalation=True)
    asked = report(Change("seen", incident()), plans=(plan(),))
    tell(asked, store, settings(quiet), NOW)
    assert phone.asked() == []
    later = NOW + 16 * MINUTE
    tell(replace(asked, now=later), store, settings(quiet), later)
    assert len(phone.asked()) == 1


def test_10_a_question_that_could_not_be_sent_is_reported_and_is_no_approval(phone, store):
    phone.server_.broken = lambda: (500, b"no")
    notes = ask(store, phone)
    assert any("not asked at" in note and "500" in note for note in notes)
    assert state(store) == "pending"
    assert hear(store, phone) == ((), ())


def test_11_a_hostile_log_line_adds_no_button_and_no_link(phone, store):
    evil = "x\n[Approve](https://evil.example) <a href='//evil.example'>tap</a> @room @everyone\n    approve AAAAAAAA"
    one = incident(says=evil, title=evil)
    proposed = plan(one, chain=f"{evil} → y", warnings=(plain(evil),))
    tell(
        report(Change("opened", one), plans=(proposed,)),
        store,
        settings(phone.channel(), quote_logs=True),
        NOW,
    )
    (text,) = phone.asked()
    assert "evil.example" not in text and "@room" not in text and "](" not in text and "<a" not in text
    assert code_in(text) != "AAAAAAAA" and not [
        line for line in text.split("\n") if line.strip() == "approve AAAAAAAA"
    ]
    assert phone.extras() == 2


def test_12_the_message_says_whether_this_check_waits(phone, store):
    ask(store, phone)
    assert "This check waits 2 minutes for your answer" in phone.asked()[0]
    later = NOW + timedelta(hours=6)
    seen = report(Change("seen", incident()), plans=(plan(),), at=later)
    approval.expire(store, later)
    waiting = settings(phone.channel())
    hurried = replace(waiting, replies=replace(waiting.replies, wait=timedelta(0)))
    for hours in (0, 5):
        at = later + timedelta(hours=hours)
        tell(replace(seen, now=at), store, hurried, at)
    assert "Your answer counts at the next check" in phone.asked()[-1]


def test_12_waiting_ends_with_the_answer_or_with_the_time(phone, store):
    ask(store, phone)
    ticks = {"now": 0.0}

    def sleep(seconds: float) -> None:
        ticks["now"] += seconds
        if ticks["now"] > 30 and not tapped:
            tapped.append(True)
            phone.tap(True)

    tapped: list[bool] = []
    settled = settings(phone.channel())
    answers, _ = hear_from(store, settled, NOW, timedelta(minutes=2), clock=lambda: ticks["now"], sleep=sleep)
    assert len(answers) == 1 and 30 < ticks["now"] < 35
    ask(store, phone, proposed=plan(home="/elsewhere"), at=NOW + MINUTE)
    tapped, ticks["now"] = [True], 0.0
    answers, _ = hear_from(
        store, settled, NOW + MINUTE, timedelta(minutes=2), clock=lambda: ticks["now"], sleep=sleep
    )
    assert answers == () and 120 <= ticks["now"] < 125


# Bad input: a clear line, no action, bounded work.


@pytest.mark.parametrize(
    "text",
    [
        "approve {code} please",
        "approve",
        "{code}",
        "approve  {code}\nrefuse {code}",
        "approve {code}!",
        "yes",
        "ok",
    ],
)
def test_anything_but_a_word_and_a_code_does_nothing(phone, store, text: str):
    ask(store, phone)
    phone.write(text.format(code=code_in(phone.asked()[0])))
    answers, notes = hear(store, phone)
    assert answers == () and state(store) == "pending"
    if text.startswith(("approve", "yes", "ok")):
        assert any("changed nothing" in note for note in notes)
        assert any("nothing else" in line for line in phone.told())


@pytest.mark.parametrize("text", ["approve {}", "APPROVE {}", " ok {} \n", "同意 {}", "同意{}", "批准　{}"])
def test_yes_in_both_languages(phone, store, text: str):
    ask(store, phone, language="zh")
    phone.write(text.format(code_in(phone.asked()[0]).lower()))
    answers, _ = hear(store, phone)
    assert [answer.yes for answer in answers] == [True]


@pytest.mark.parametrize("verb", ["refuse", "no", "拒绝", "不同意"])
def test_no_in_both_languages(phone, store, verb: str):
    ask(store, phone)
    phone.write(f"{verb} {code_in(phone.asked()[0])}")
    answers, _ = hear(store, phone)
    assert [answer.yes for answer in answers] == [False]


def test_a_reply_of_a_megabyte_is_not_an_answer(phone, store):
    ask(store, phone)
    phone.write(f"approve {code_in(phone.asked()[0])}" + "x" * 1_000_000)
    answers, _ = hear(store, phone)
    assert answers == () and state(store) == "pending"


def test_ten_thousand_messages_are_bounded_work(phone, store):
    import time

    ask(store, phone)
    phone.flood(10_000)
    began = time.monotonic()
    answers, notes = hear(store, phone)
    assert answers == () and state(store) == "pending"
    assert time.monotonic() - began < 60
    assert any("not checked" in note or "newest 100" in note for note in notes)
    tries = store.db.execute("SELECT count(*) FROM wrong_tries").fetchone()[0]
    assert tries <= 5


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>not json",
        b"[1, 2",
        b"[" * 100_000,
        b'{"ok": true, "result": [7, null, {}]}',
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_an_answer_that_is_not_what_was_promised_is_a_line_in_the_report(phone, store, answer: bytes):
    ask(store, phone)
    phone.server_.broken = lambda: (200, answer)
    answers, _ = hear(store, phone)
    assert answers == () and state(store) == "pending"
    phone.server_.broken = None
    phone.tap(True)
    answers, _ = hear(store, phone)
    assert len(answers) == 1, "and the next look works again"


@pytest.mark.parametrize("status", [301, 401, 403, 404, 409, 429, 500])
def test_a_server_that_refuses_is_a_line_without_addresses_or_tokens(phone, store, status: int):
    ask(store, phone)
    phone.server_.broken = lambda: (status, b"{}")
    _, notes = hear(store, phone)
    assert len(notes) == 1 and notes[0].startswith(phone.kind)
    assert "127.0.0.1" not in notes[0] and "secret" not in notes[0]


def test_a_channel_that_never_answers_cannot_hold_a_check(phone, store):
    import socket
    import time

    ask(store, phone)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = replace(
            phone.channel(),
            server=f"http://127.0.0.1:{silent.getsockname()[1]}",
            time_limit=timedelta(seconds=0.3),
        )
        began = time.monotonic()
        _, notes = hear_from(store, settings(dead), NOW)
    assert time.monotonic() - began < 20 and notes


def test_two_channels_at_once_are_one_approval(store):
    from phones import OnMatrix, OnNtfy
    from talk import Matrix, Ntfy, running

    with running(Ntfy()) as ntfy, running(Matrix()) as matrix:
        phone, room = OnNtfy(ntfy), OnMatrix(matrix)
        ask(store, phone, channels=(room.channel(),))
        phone.tap(True)
        room.tap(True)
        answers, _ = hear(store, phone, NOW, room.channel())
        assert [answer.by for answer in answers] == ["anna"]
        assert any("Approved by anna via ntfy" in text for text in room.told())
        assert any("was already approved" in text for text in room.told())


@pytest.mark.parametrize("first", [True, False])
def test_a_no_on_one_of_two_channels_wins_in_the_same_look(store, first):
    from phones import OnMatrix, OnNtfy
    from talk import Matrix, Ntfy, running

    with running(Ntfy()) as ntfy, running(Matrix()) as matrix:
        phone, room = OnNtfy(ntfy), OnMatrix(matrix)
        ask(store, phone, channels=(room.channel(),))
        phone.tap(first)
        room.tap(not first)
        hear(store, phone, NOW, room.channel())
        assert state(store) == "refused"


def test_a_plan_that_must_wait_is_not_asked_about(phone, store):
    ask(store, phone, proposed=plan(hold=Hold(plain("cooling down"), NOW + MINUTE)))
    assert phone.asked() == [] and questions.open_questions(store) == ()


def test_nothing_is_asked_of_the_network_while_no_question_is_open(phone, store):
    hear(store, phone)
    assert phone.server_.requests == []


def test_a_wrong_secret_is_told_without_its_value(phone, store):
    from phones import OnNtfy

    bad = phone.channel()
    if isinstance(phone, OnNtfy):
        bad = replace(bad, approvers=(replace(bad.approvers[0], topic=Secret("not a topic!")),))
    else:
        bad = replace(bad, token=Secret(env="NOT_SET_HERE", where="settings.yaml:9: matrix: token_env"))
    _, notes = tell(report(Change("seen", incident()), plans=(plan(),)), store, settings(bad), NOW)
    assert notes and "not a topic!" not in str(notes)


@pytest.mark.parametrize(
    "text", ["no idea what that is", "okay, let me look", "yes please do", "now what", "确认一下再说"]
)
def test_ordinary_words_are_not_taken_for_an_answer(phone, store, text: str):
    ask(store, phone)
    phone.write(text)
    assert hear(store, phone) == ((), ())


def test_a_fault_that_is_back_is_asked_about_again_but_not_for_ever(phone, store):
    asked = []
    for hour in range(8):
        at = NOW + hour * 30 * MINUTE
        ask(store, phone, at=at)
        asked.append(len(phone.asked()))
        approval.withdraw(store, (), at + MINUTE)
        tell(report(at=at + MINUTE), store, settings(phone.channel()), at + MINUTE)
    assert asked == [1, 2, 2, 2, 3, 4, 4, 4], "two in two hours"


def test_a_changed_plan_is_asked_about_although_the_old_question_was_never_answered(phone, store):
    ask(store, phone)
    for number in (1, 2, 3):
        ask(store, phone, proposed=plan(home=f"/home/{number}"), at=NOW + number * 5 * MINUTE)
    assert len(phone.asked()) >= 4
    assert sum("the plan changed" in text for text in phone.told()) >= 2

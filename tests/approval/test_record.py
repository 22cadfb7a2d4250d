"""The properties of APPROVALS that need no chat, each with its own test (numbers as in docs/approvals.md)."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest
from machines import BROKEN, LACKING, START, STUCK, Machine, ask, incident, propose, said, waits_for

from watchdog.approval import record as approval
from watchdog.approval.record import ALPHABET, COMMAND_LINE, GivenAnswer, answer, new_code
from watchdog.config.settings import Limits
from watchdog.model import OutcomeKind, packed
from watchdog.model.plan_reasons import End, Ended, Said, Wait
from watchdog.repair import carry_out, carry_out_approved
from watchdog.store import plans as rows

MINUTE = timedelta(minutes=1)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path, wrong=[STUCK])


def asked(store, machine, now=None):
    return ask(machine, store, now=now)[0]


def yes(store, code, now=START, by="ann", via=COMMAND_LINE, allowed=None, limits=None):
    return answer(store, GivenAnswer(code, True, by, via, allowed), now, limits)


def no(store, code, now=START, by="ann", via=COMMAND_LINE, allowed=None, limits=None):
    return answer(store, GivenAnswer(code, False, by, via, allowed), now, limits)


def test_1_the_plan_is_stored_before_anyone_is_asked(store, machine):
    plan = asked(store, machine)
    stored = rows.get(store, plan.id)
    assert stored.state == "pending"
    assert (
        stored.plan.words == plan.words
        and stored.plan.host == "lab"
        and stored.plan.home == str(machine.folder)
    )
    assert stored.plan.incidents == ("session-stuck telegram/42",)
    assert stored.plan.evidence == ("session-stuck telegram/42: session-stuck of telegram/42",)
    assert stored.plan.digest == plan.digest and stored.plan.steps == plan.steps


def test_1_a_changed_plan_is_a_new_question_and_the_old_code_says_so(store, machine):
    first = asked(store, machine)
    code = new_code(store, first.id, "ntfy/ann", START)
    machine.wrong = [BROKEN, STUCK]
    second = asked(store, machine)
    assert second.id != first.id and rows.get(store, first.id).state == "superseded"
    told = yes(store, code)
    assert (
        not told.ok
        and f"plan {first.id} changed since it was asked" in said(told)
        and f"hermes-watchdog plan {second.id}" in said(told)
    )


def test_1_an_edited_plan_is_not_approved(store, machine):
    plan = asked(store, machine)
    code = new_code(store, plan.id, "ntfy/ann", START)
    content = json.loads(store.db.execute("SELECT content FROM plans").fetchone()[0])
    content["steps"] = [{"kind": "command", "run": ["/bin/evil"], "within": 5}]
    store.db.execute("UPDATE plans SET content = ?", (json.dumps(content),))
    told = yes(store, code)
    assert not told.ok and "changed since it was asked" in said(told)
    assert rows.get(store, plan.id).state == "lapsed"


def test_2_codes_are_from_an_alphabet_without_look_alikes_and_only_a_hash_is_kept(store, machine):
    plan = asked(store, machine)
    codes = {new_code(store, plan.id, "ntfy/ann", START) for _ in range(10)}
    assert len(codes) == 10 and all(len(code) == 8 and set(code) <= set(ALPHABET) for code in codes)
    assert not set("O0I1L") & set(ALPHABET)
    dump = "\n".join(store.db.iterdump())
    yes(store, next(iter(codes)))
    dump += "\n".join(store.db.iterdump())
    assert not any(code in dump for code in codes)


def test_2_a_code_may_be_typed_with_spaces_and_in_small_letters(store, machine):
    code = new_code(store, asked(store, machine).id, "ntfy/ann", START)
    assert yes(store, f" {code[:4].lower()}-{code[4:].lower()} ").ok


def test_2_five_wrong_tries_lock_for_an_hour_even_when_the_clock_goes_back(store, machine):
    machine.now = START
    code = new_code(store, asked(store, machine).id, "ntfy/ann", START)
    for left in (4, 3, 2, 1, 0):
        told = yes(store, "AAAAAAAA").reason
        assert (told.key, told.fields["count"]) == (Said.UNKNOWN_CODE, left)
    assert "no answer is taken from ann" in said(yes(store, code))
    assert "no answer is taken" in said(yes(store, code, START - timedelta(minutes=4)))
    assert yes(store, code, START + MINUTE, by="bob").ok  # one person's wrong tries lock nobody else out


def test_2_the_lock_ends_after_an_hour(store, machine):
    for _ in range(5):
        yes(store, "AAAAAAAA")
    later = START + timedelta(minutes=61)
    machine.now = later
    code = new_code(store, asked(store, machine, later).id, "ntfy/ann", later)
    assert yes(store, code, later).ok


def test_3_a_code_works_once(store, machine):
    code = new_code(store, asked(store, machine).id, "ntfy/ann", START)
    assert yes(store, code).ok
    again = yes(store, code, START + MINUTE)
    assert not again.ok and "already approved by ann via command line" in said(again)


def test_3_two_codes_of_one_plan_are_one_approval(store, machine):
    plan = asked(store, machine)
    one, two = (new_code(store, plan.id, f"ntfy/{name}", START) for name in ("ann", "bob"))
    assert yes(store, one, via="ntfy/ann", allowed=["ann"]).ok
    assert "already approved by ann" in said(yes(store, two, by="bob", via="ntfy/bob", allowed=["bob"]))
    assert rows.get(store, plan.id).state == "approved"


def test_a_no_wins_over_a_yes_until_the_first_step(store, machine):
    plan = asked(store, machine)
    one, two, three = (new_code(store, plan.id, f"ntfy/{name}", START) for name in ("ann", "bob", "cid"))
    assert yes(store, one, via="ntfy/ann", allowed=["ann"]).approved
    told = no(store, two, by="bob", via="ntfy/bob", allowed=["bob"])
    assert told.ok and told.reason.key == Said.STOPPED
    assert said(yes(store, three, by="cid", via="ntfy/cid", allowed=["cid"])).startswith(
        f"plan {plan.id} was already refused by bob via ntfy"
    )
    outcome = carry_out(plan.id, machine.job(store))[-1]
    assert not outcome.ok and machine.ran == [] and rows.get(store, plan.id).state == "refused"
    refused = rows.audit_lines(store, plan.id)[-1]
    assert (refused["what"], refused["by"]) == ("refused", "bob")
    assert refused["reason"].key == End.REFUSED_AFTER_YES and refused["reason"].fields["first"] == "ann"


@pytest.mark.parametrize("point", ["claimed", "looked"])
def test_a_no_that_comes_while_it_is_being_looked_at_again_ends_it(store, machine, point):
    plan = asked(store, machine)
    codes = [new_code(store, plan.id, COMMAND_LINE, START) for _ in range(2)]
    yes(store, codes[0])

    def at_point(name):
        if name == point:
            assert no(store, codes[1], by="bob").reason.key == Said.STOPPING

    job = machine.job(store, at_point=at_point)
    (outcome,) = carry_out(plan.id, job)
    assert not outcome.ok and outcome.reason.key == Ended.REFUSED and machine.ran == []
    assert rows.get(store, plan.id).state == "refused" and rows.history(store, START).actions == ()
    assert rows.history(store, START).disarmed is None


def test_a_plan_is_not_asked_while_one_is_being_carried_out(store, machine):
    """A check that looked before another one began to act must not ask for the same again."""
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, COMMAND_LINE, START))
    proposed = propose(machine, store, now=START)
    assert rows.move(store, plan.id, ("approved",), "claimed")
    (again,) = approval.submit(store, proposed, START)
    assert again.id == 0 and again.hold.reason.key == Wait.UNFINISHED
    assert len(rows.newest(store)) == 1


def test_a_word_of_another_length_burns_no_try(store, machine):
    code = new_code(store, asked(store, machine).id, COMMAND_LINE, START)
    for word in ("1", "", "AAAAAAA", "AAAAAAAAA", "x" * 200):
        told = yes(store, word)
        assert not told.ok and told.reason.key == Said.WRONG_FORM
    assert yes(store, code).ok


def test_4_no_answer_is_a_no_and_never_carried_out_later(store, machine):
    plan = asked(store, machine)
    code = new_code(store, plan.id, "ntfy/ann", START)
    late = START + timedelta(minutes=30)
    told = yes(store, code, late)
    assert not told.ok and "no answer was a no" in said(told)
    assert rows.get(store, plan.id).state == "expired"
    assert approval.approved(store, late) == ()
    machine.now = late
    assert not carry_out(plan.id, machine.job(store))[-1].ok and machine.ran == []


def test_4_an_approval_that_nobody_took_up_in_time_is_void(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    assert approval.approved(store, START + MINUTE) == (plan.id,)
    assert approval.approved(store, START + timedelta(minutes=31)) == ()
    assert rows.get(store, plan.id).state == "lapsed"


def test_4_a_clock_that_went_back_does_not_make_a_question_younger(store, machine):
    code = new_code(store, asked(store, machine).id, "ntfy/ann", START)
    assert "the clock went back" in said(yes(store, code, START - timedelta(hours=1)))


def test_5_when_the_fault_is_gone_the_approval_lapses(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.wrong = []
    outcome = carry_out(plan.id, machine.job(store))[-1]
    assert not outcome.ok and "the problem is gone" in said(outcome) and machine.ran == []
    assert rows.get(store, plan.id).state == "lapsed"


def test_5_when_someone_restarted_meanwhile_it_waits_until_that_has_settled(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.starts = [START + MINUTE]
    machine.now = START + 2 * MINUTE
    (waits,) = carry_out_approved(machine.job(store))
    assert waits.kind == OutcomeKind.WAITS and "waits until" in said(waits) and machine.ran == []
    assert rows.get(store, plan.id).state == "approved"
    assert carry_out_approved(machine.job(store)) == (), "said once, not at each check"
    machine.now = START + 6 * MINUTE
    assert carry_out_approved(machine.job(store))[-1].ok and machine.verbs() == ["restart"]
    what = [line["what"] for line in rows.audit_lines(store)]
    assert what.count("waits") == 1 and what[-1] == "done"


def test_5_a_plan_that_waits_is_taken_up_by_a_check_half_an_hour_later_and_not_after_that(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.starts = [START + MINUTE]
    carry_out(plan.id, machine.job(store))
    machine.now = START + 36 * MINUTE
    assert carry_out_approved(machine.job(store)) == () and machine.ran == []
    assert rows.get(store, plan.id).state == "lapsed"


def test_5_a_no_ends_a_plan_that_waits(store, machine):
    plan = asked(store, machine)
    word = new_code(store, plan.id, "ntfy/bob", START)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.starts = [START + MINUTE]
    carry_out(plan.id, machine.job(store))
    assert no(store, word, by="bob").ok
    machine.now = START + 6 * MINUTE
    assert carry_out_approved(machine.job(store)) == () and machine.ran == []
    assert rows.get(store, plan.id).state == "refused"


def test_5_what_must_wait_longer_than_a_question_lasts_is_void(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.limits = Limits(grace=timedelta(hours=1))
    machine.starts = [START + MINUTE]
    machine.now = START + 2 * MINUTE
    outcome = carry_out(plan.id, machine.job(store))[-1]
    assert "it must wait: the gateway was started" in said(outcome) and machine.ran == []


def test_6_refusing_stops_the_recipe_for_a_stated_time_and_is_recorded(store, machine):
    plan = asked(store, machine)
    told = no(
        store, new_code(store, plan.id, "ntfy/ann", START), limits=Limits(refused_for=timedelta(hours=2))
    )
    assert told.ok and "“restart-gateway” is not proposed again before" in said(told)
    machine.now = START + timedelta(hours=1)
    (held,) = propose(machine, store)
    assert "ann refused “restart-gateway”" in waits_for(held)
    machine.now = START + timedelta(hours=2, minutes=1)
    (free,) = propose(machine, store)
    assert free.hold is None
    assert [line["what"] for line in rows.audit_lines(store)] == ["asked", "refused"]


def test_7_only_those_on_the_list_of_a_channel_may_answer(store, machine):
    plan = asked(store, machine)
    code = new_code(store, plan.id, "telegram/1", START)
    assert "may not answer" in said(yes(store, code, by="eve", via="telegram/1", allowed=["ann"]))
    assert "may not answer" in said(
        yes(store, code, by="ann", via="telegram/1")
    )  # a channel without a list has nobody
    assert yes(store, code, by="ann", via="telegram/1", allowed=["ann"]).ok


def test_7_a_code_forwarded_to_another_channel_is_not_an_approval(store, machine):
    plan = asked(store, machine)
    code = new_code(store, plan.id, "ntfy/ann", START)
    assert "not known" in said(yes(store, code, by="bob", via="matrix/!room", allowed=["bob"]))
    mine = new_code(store, plan.id, "matrix/!room", START, to="ann")
    assert "not known" in said(yes(store, mine, by="bob", via="matrix/!room", allowed=["bob"]))
    assert rows.get(store, plan.id).state == "pending"


def test_7_a_flood_of_strangers_is_bounded_work(store, machine):
    code = new_code(store, asked(store, machine).id, "ntfy/ann", START)
    for number in range(60):
        yes(store, code, by=f"eve{number}", via="ntfy/ann", allowed=["ann"])
    assert sum(line["what"] == "not allowed" for line in rows.audit_lines(store)) == 20


def test_8_an_old_button_explains_itself(store, machine):
    plan = asked(store, machine)
    codes = [new_code(store, plan.id, "ntfy/ann", START) for _ in range(2)]
    yes(store, codes[0])
    machine.cured_by = Machine.restarted
    assert carry_out(plan.id, machine.job(store))[-1].ok
    told = yes(store, codes[1], machine.now)
    assert "has ended (done): Restart the gateway: done and verified" in said(
        told
    ) and "answered by ann" in said(told)


def test_9_the_audit_says_who_what_when_and_with_what_output_and_cannot_be_changed(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    machine.cured_by = Machine.restarted
    carry_out(plan.id, machine.job(store))
    lines = rows.audit_lines(store, plan.id)
    assert [line["what"] for line in lines] == ["asked", "approved", "claimed", "begun", "step done", "done"]
    assert all(line["digest"] == plan.digest for line in lines)
    assert (
        lines[0]["more"]["words"] == [packed(word) for word in plan.words]
        and lines[1]["by"] == "ann"
        and lines[4]["more"]["took"] >= 0
    )
    for statement in ("UPDATE audit SET by = 'eve'", "DELETE FROM audit"):
        with pytest.raises(sqlite3.Error, match="append-only"):
            store.db.execute(statement)


def test_10_later_incidents_join_the_open_question(store, machine):
    first = asked(store, machine)
    machine.wrong = [STUCK, incident(key="telegram/43")]
    second = asked(store, machine)
    assert second.id == first.id
    assert rows.get(store, first.id).plan.incidents == (
        "session-stuck telegram/42",
        "session-stuck telegram/43",
    )
    assert len(rows.in_state(store, "pending")) == 1


def test_10_a_question_whose_fault_went_away_is_withdrawn(store, machine):
    plan = asked(store, machine)
    assert approval.withdraw(store, set(), START) == (plan.id,)
    assert said(rows.get(store, plan.id)) == "the problem is gone or has changed"


def test_12_an_approval_recorded_between_two_checks_counts_at_the_next(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START), START + 15 * MINUTE)
    assert approval.approved(store, START + 16 * MINUTE) == (plan.id,)


def test_auto_is_recorded_as_leave_given_by_the_settings(store, machine):
    machine.limits, machine.wrong = Limits(auto=("add-missing-columns",)), [LACKING]
    plan = asked(store, machine)
    stored = rows.get(store, plan.id)
    assert stored.state == "approved" and stored.answered_by == "settings (auto)"


def test_a_plan_on_hold_is_not_asked(store, machine):
    machine.may_act, machine.why_not = False, "no permission"
    assert asked(store, machine).id == 0 and rows.newest(store) == ()


def test_a_plan_of_another_host_or_home_is_not_carried_out(store, machine):
    plan = asked(store, machine)
    yes(store, new_code(store, plan.id, "ntfy/ann", START))
    elsewhere = replace(machine.world(), host="other")
    assert "is for" in said(carry_out(plan.id, machine.job(store, elsewhere))[-1]) and machine.ran == []


def test_a_stored_plan_that_is_not_one_is_refused(store, machine):
    plan = asked(store, machine)
    store.db.execute("UPDATE plans SET content = '{\"title\": 1}'")
    with pytest.raises(Exception, match=f"plan {plan.id} in the store cannot be read"):
        rows.get(store, plan.id)

"""An answer from the mailbox counts only for the plan of the own store, word for word."""

from __future__ import annotations

import pytest
from talk import NOW, context, plan

from watchdog.approval import record as approval
from watchdog.approval.channels.base import Collected, Reply, ShownPlan
from watchdog.approval.replies import check_replies
from watchdog.config.settings import Approver, Channel, NotifySettings
from watchdog.fleet.mailbox_plan import digest_of_own, shown_digest, words_of
from watchdog.notify.deliver import Messenger
from watchdog.store.plans import audit_lines, get

CHANNEL = Channel("postgres", "", (Approver("anna", id="anna"),))


def weigh(store, heard: Collected):
    """What becomes of these replies, and the lines for the report."""
    return check_replies(CHANNEL, heard, Messenger(store, NotifySettings(), context()))


@pytest.fixture
def asked(store):
    number = approval.ask(store, plan(), NOW)
    return get(store, number).plan, approval.new_code(store, number, "postgres", NOW)


def reply(code: str, seen: ShownPlan, who: str = "anna") -> Collected:
    return Collected((Reply(who, "postgres", f"approve {code}", NOW, "5", seen),), "[5]")


def test_what_was_shown_is_what_is_approved(store, asked):
    own, code = asked
    (answer,), _ = weigh(store, reply(code, ShownPlan(own.home, own.id, digest_of_own(own))))
    assert answer.ok and get(store, own.id).state == "approved"


@pytest.mark.parametrize("edited", ["machine", "words", "digest", "plan"])
def test_a_letter_that_says_something_else_approves_nothing(store, asked, edited: str):
    own, code = asked
    shown = {
        "machine": own.host,
        "home": own.home,
        "plan": own.id,
        "digest": own.digest,
        "words": words_of(own),
    }
    shown[edited] = {"machine": "x", "words": ("print hello",), "digest": "0" * 64, "plan": 99}[edited]
    (answer,), _ = weigh(store, reply(code, ShownPlan(own.home, own.id, shown_digest(**shown))))
    assert not answer.ok and get(store, own.id).state == "pending"
    assert [line["what"] for line in audit_lines(store)][-1] == "not the plan"


def test_an_answer_to_another_home_is_no_wrong_try(store, asked):
    for number in range(10):
        heard = reply("AAAAAAAA", ShownPlan("/another/home", number, "x"))
        assert weigh(store, heard) == ([], [])
    assert "wrong code" not in [line["what"] for line in audit_lines(store)]


def test_a_role_that_the_host_does_not_list_is_turned_away(store, asked):
    own, code = asked
    heard = reply(code, ShownPlan(own.home, own.id, digest_of_own(own)), who="mallory")
    answers, notes = weigh(store, heard)
    assert answers == [] and "not on the list" in notes[0] and get(store, own.id).state == "pending"


def test_a_yes_that_comes_twice_is_one_yes(store, asked):
    own, code = asked
    heard = reply(code, ShownPlan(own.home, own.id, digest_of_own(own)))
    assert [weigh(store, heard)[0][0].ok for _ in range(2)] == [True, False]

"""Who waits, and whose work counts for whom: in a log with thousands of chats, too."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta

import pytest
from homes import saved

from watchdog.detect.gap_sessions import MOST, Recent, Sessions
from watchdog.detect.gap_workers import FEW
from watchdog.detect.series import Series, tidy
from watchdog.model import Event
from watchdog.model.trace import Trace
from watchdog.pipeline import look
from watchdog.sources.read import log_span

DAY = datetime(2026, 5, 19, tzinfo=UTC)


class Log:
    """Both logs of a gateway, written turn by turn."""

    def __init__(self) -> None:
        self.lines: list[tuple[datetime, bool, str]] = []

    def add(self, at: datetime, text: str, session: str = "", gateway: bool = False) -> None:
        tag, logger = f" [{session}]" if session else "", "gateway.run" if gateway else "run_agent"
        self.lines.append(
            (at, gateway, f"{at:%H:%M:%S},{at.microsecond // 1000:03d} INFO{tag} {logger}: {text}")
        )

    def asks(self, at: datetime, chat: str, said: str, user: str = "", tail: str = "") -> None:
        self.add(
            at,
            f"inbound message: platform=telegram user={user or chat} chat={chat} msg='{said}'{tail}",
            gateway=True,
        )

    def begins(self, at: datetime, session: str, said: str) -> None:
        self.add(
            at,
            f"conversation turn: session={session} model=m provider=p platform=telegram history=0 msg='{said}'",
            session,
        )

    def works(self, at: datetime, session: str) -> None:
        self.add(at, "API call #1: model=m provider=p in=1 out=1 total=2 latency=0.1s", session)

    def ends(self, at: datetime, session: str) -> None:
        self.add(at, f"Turn ended: reason=text_response model=m session={session}", session)

    def answers(self, at: datetime, chat: str, session: str = "") -> None:
        whose = f" session={session}" if session else ""
        self.add(
            at,
            f"response ready: platform=telegram chat={chat}{whose} time=1.2s api_calls=1 response=6 chars",
            gateway=True,
        )

    def texts(self) -> tuple[str, str]:
        self.lines.sort(key=lambda line: line[0])
        return "\n".join(text for _, gateway, text in self.lines if gateway), "\n".join(
            text for *_, text in self.lines
        )


def stuck(book, folder) -> list[tuple[str, str]]:
    """(who, since when it counts as stuck), the same with and without the gate."""
    _, last = log_span(saved(folder))
    told = []
    for plain in (False, True):
        seen, _ = look(book.rules, saved(folder, plain=plain), None, last)
        told.append(
            [
                (one.key.partition("/")[2], f"{one.opened_at:%H:%M}")
                for one in seen.findings
                if one.rule == "session-stuck"
            ]
        )
    assert told[0] == told[1]
    return told[0]


def test_a_chat_that_hangs_is_told_apart_from_one_that_is_being_answered(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    for chat, works in (("hung", 0), ("slow", 20)):
        log.asks(at, chat, f"question of {chat}")
        log.begins(at + timedelta(seconds=1), f"s-{chat}", f"question of {chat}")
        for minute in range(works):
            log.works(at + timedelta(minutes=minute), f"s-{chat}")
    folder = home(*log.texts())
    seen, _ = look(book.rules, saved(folder), None, at + timedelta(minutes=20))
    assert (seen.turns, seen.hung) == (1, 1)


def test_a_chat_that_is_worked_for_is_not_forgotten_however_many_others_come(book, home):
    log = Log()
    log.asks(DAY + timedelta(hours=8), "slow", "build it")
    log.begins(DAY + timedelta(hours=8, seconds=1), "s-slow", "build it")
    for number in range(2 * MOST + 1000):
        at = DAY + timedelta(hours=8, seconds=2, milliseconds=300 * number)
        log.asks(at, f"c{number}", f"question {number}")
        log.begins(at + timedelta(milliseconds=10), f"s{number}", f"question {number}")
        log.answers(at + timedelta(milliseconds=200), f"c{number}")
    for minute in range(8, 60, 8):
        log.works(DAY + timedelta(hours=8, minutes=minute), "s-slow")
    assert stuck(book, home(*log.texts())) == []


def test_two_who_said_the_same_are_the_only_ones_that_the_work_of_one_may_be_for(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "hung", "where is my report?")
    log.begins(at + timedelta(seconds=1), "s-hung", "where is my report?")
    log.asks(at + timedelta(seconds=10), "a", "hi")
    log.asks(at + timedelta(seconds=11), "b", "hi")
    log.begins(at + timedelta(seconds=12), "s-one-of-them", "hi")
    for minute in range(5, 40, 5):
        log.works(at + timedelta(minutes=minute), "s-one-of-them")
    assert stuck(book, home(*log.texts())) == [("hung", "08:15")]


def test_work_that_may_be_for_any_of_many_counts_for_each_of_them_and_for_nobody_else(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    for number in range(3 * FEW):
        log.asks(at + timedelta(seconds=number), f"c{number}", "hi")
    log.asks(at + timedelta(seconds=80), "hung", "where is my report?")
    log.begins(at + timedelta(seconds=90), "s-one", "hi")
    for minute in range(8, 48, 8):
        log.works(at + timedelta(minutes=minute), "s-one")
    assert stuck(book, home(*log.texts())) == [("hung", "08:16")]


def test_a_failure_of_a_session_that_may_be_anybodys_shortens_nobodys_patience(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "slow", "good morning")
    log.begins(at + timedelta(minutes=5), "s-cron", "a job of the clock")
    log.add(
        at + timedelta(minutes=6),
        "API call failed (attempt 1/3) error_type=ReadError provider=p model=m summary=reset",
        "s-cron",
    )
    log.asks(at + timedelta(minutes=17), "other", "hello")
    assert stuck(book, home(*log.texts())) == [("slow", "08:15")]


@pytest.mark.parametrize("said", ["question {}", "hello?"], ids=["each something else", "all the same"])
def test_many_who_wait_at_the_same_time_cost_what_each_would_cost_alone(book, home, said):
    def calls(chats: int) -> int:
        log, at = Log(), DAY + timedelta(hours=8)
        for number in range(chats):
            begun = at + timedelta(milliseconds=150 * number)
            log.asks(begun, f"c{number}", said.format(number))
            log.begins(begun + timedelta(milliseconds=50), f"s{number}", said.format(number))
            for minute in range(0, 14, 3):
                log.add(
                    begun + timedelta(minutes=minute),
                    "API call failed (attempt 1/3) provider=p summary=reset",
                    f"s{number}",
                )
        log.asks(at + timedelta(minutes=20), "last", "still there?")
        folder = home(*log.texts())
        count = [0]
        _, last = log_span(saved(folder))
        sys.setprofile(lambda *_: count.__setitem__(0, count[0] + 1))
        try:
            look(book.rules, saved(folder), None, last)
        finally:
            sys.setprofile(None)
        return count[0]

    calls(10)  # what is made once is made now
    assert calls(400) < 5 * calls(100)


def test_a_turn_whose_message_an_older_answer_seemed_to_answer_is_not_somebody_elses(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "hung", "where is my report?")
    log.begins(at + timedelta(seconds=1), "s-hung", "where is my report?")
    log.asks(at + timedelta(minutes=1), "busy", "one")
    log.begins(at + timedelta(minutes=1, seconds=1), "s-busy", "one")
    log.asks(at + timedelta(minutes=2), "busy", "two")
    log.answers(at + timedelta(minutes=2, milliseconds=400), "busy")  # to the first, and it closes both
    log.begins(at + timedelta(minutes=2, milliseconds=700), "s-busy-again", "two")
    for minute in range(5, 40, 5):
        log.works(at + timedelta(minutes=minute), "s-busy-again")
    assert stuck(book, home(*log.texts())) == [("hung", "08:15")]


@pytest.mark.parametrize("ended", ["s-anna", "s-bert"])
def test_in_a_group_an_answer_is_for_whose_turn_has_ended(book, home, ended: str):
    log, at = Log(), DAY + timedelta(hours=8)
    for name in ("anna", "bert"):
        log.asks(at, "group", f"a question of {name}", user=name)
        log.begins(at + timedelta(seconds=1), f"s-{name}", f"a question of {name}")
        at += timedelta(minutes=1)
    log.ends(at, ended)
    log.answers(at + timedelta(milliseconds=100), "group")
    log.asks(at + timedelta(minutes=40), "other", "hi")
    assert stuck(book, home(*log.texts())) == [("group", "08:16" if ended == "s-anna" else "08:15")]


def test_a_log_that_is_cut_short_while_it_is_read_is_blind_and_nobody_is_called_stuck(
    book, home, monkeypatch
):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "slow", "build it")
    log.begins(at + timedelta(seconds=1), "s-slow", "build it")
    for minute in range(5, 60, 5):
        log.works(at + timedelta(minutes=minute), "s-slow")
    folder = home(*log.texts())
    monkeypatch.setattr(os, "pread", lambda fd, size, offset, pread=os.pread: pread(fd, size - 1, offset))
    seen, reading = look(book.rules, saved(folder), None, DAY + timedelta(hours=9))
    assert "session-stuck" in seen.not_checked and "cut short" in reading.blind["agent.log"]
    assert not [one for one in seen.findings if one.rule == "session-stuck"]


NEWER = " reply_to_id=None reply_to_text='' queued="


@pytest.mark.parametrize("answered", ["anna", "bert"])
def test_in_a_group_an_answer_that_names_its_session_is_that_members(book, home, answered: str):
    log, at = Log(), DAY + timedelta(hours=8)
    for name in ("anna", "bert"):  # whose session is whose was told when one waited alone
        log.asks(at, "group", "hi", user=name, tail=NEWER + "False")
        log.answers(at + timedelta(seconds=1), "group", f"agent:main:telegram:group:group:{name}")
        at += timedelta(minutes=1)
    for name in ("anna", "bert"):
        log.asks(at, "group", f"a question of {name}", user=name, tail=NEWER + "False")
        at += timedelta(minutes=1)
    log.answers(at, "group", f"agent:main:telegram:group:group:{answered}")
    log.asks(at + timedelta(minutes=40), "other", "hi")
    assert stuck(book, home(*log.texts())) == [("group", "08:18" if answered == "anna" else "08:17")]


def test_in_a_group_the_sessions_file_tells_whose_answer_it_is(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    for name in ("anna", "bert"):
        log.asks(at, "group", "hi", user=name)
        at += timedelta(minutes=1)
    log.answers(at, "group", "agent:main:telegram:group:group:2")
    log.asks(at + timedelta(minutes=40), "other", "hi")
    sessions = {
        f"agent:main:telegram:group:group:{number}": {
            "session_id": f"s-{name}",
            "origin": {"platform": "telegram", "chat_id": "group", "user_name": name},
        }
        for number, name in enumerate(("anna", "bert"), 1)
    }
    folder = home(*log.texts(), sessions__sessions_dot_json=json.dumps(sessions))
    assert stuck(book, folder) == [("group", "08:15")]


def test_a_queued_message_is_answered_with_what_it_waits_behind_and_waits_where_nothing_does(book, home):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "busy", "one", tail=NEWER + "False")
    log.begins(at, "s1", "one")
    log.asks(at + timedelta(seconds=5), "busy", "two", tail=NEWER + "True")
    log.answers(at + timedelta(seconds=9), "busy")
    log.asks(at, "hung", "first", tail=NEWER + "False")
    log.begins(at, "s2", "first")
    log.ends(at + timedelta(seconds=2), "s2")
    log.answers(at + timedelta(seconds=2), "hung")
    log.works(at + timedelta(seconds=3), "s1")
    log.asks(at + timedelta(seconds=5), "hung", "two", tail=NEWER + "True")
    log.asks(at + timedelta(minutes=40), "other", "hi")
    assert stuck(book, home(*log.texts())) == [("hung", "08:15")]


@pytest.mark.parametrize("tail", [" thread=7", " mood='calm' queued=False", " reply_to_id=None reply_to_text='' via=push"])  # fmt: skip
def test_unknown_fields_of_a_newer_release_spoil_nothing(book, home, tail: str):
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "hung", "one", tail=tail)
    log.begins(at, "s1", "one")
    log.asks(at + timedelta(seconds=1), "fine", "one", tail=tail)
    log.answers(at + timedelta(seconds=2), "fine")
    log.asks(at + timedelta(minutes=40), "other", "hi", tail=tail)
    assert stuck(book, home(*log.texts())) == [("hung", "08:15")]


def test_what_nobody_asks_for_is_forgotten_and_what_somebody_asks_for_is_not():
    memory = Recent()
    memory.put("asked for", 1)
    memory.put("never", 2)
    for number in range(3 * MOST):
        memory.put(number, number)
        assert memory.get("asked for") == 1
    assert memory.get("never") is None and len(memory) + len(memory.before) <= 2 * MOST + 2


def test_memory_has_room_for_those_who_wait_and_for_as_many_others_as_ever():
    known = Sessions()
    waiting = [(f"w{number}", (f"chat-w{number}", "")) for number in range(3 * MOST)]
    for round_ in range(3):
        for number in range(2 * MOST):
            if known.know(f"s{round_}-{number}", (f"chat{round_}-{number}", ""), DAY):
                known.keep(waiting)
    for session, owner in waiting:
        if known.know(session, owner, DAY):
            known.keep(waiting)
    assert all(known.chats.get(session) for session, _ in waiting)
    for memory in (known.chats, known.owners, known.by_key):
        assert memory.most == MOST + len(waiting) and len(memory) + len(memory.before) <= 2 * memory.most + 2


def test_a_chat_with_a_thousand_sessions_remembers_the_newest():
    sessions = Sessions()
    for number in range(1000):
        sessions.know(f"s{number}", ("telegram/42", "anna"), DAY)
    assert sessions.owners.get(("telegram/42", "anna")) == "s999"
    assert sessions.by_key.get("telegram/42")[-1] == "s999" and len(sessions.by_key.get("telegram/42")) < 100


def test_signs_come_back_in_the_order_of_time_and_only_those_asked_for():
    trace = Trace()
    for second, session in ((1, "a"), (5, "a"), (2, "b"), (3, "a")):
        trace.note(DAY + timedelta(seconds=second), session)
    assert trace.between("a", DAY + timedelta(seconds=2), DAY + timedelta(seconds=5)) == [
        DAY + timedelta(seconds=3)
    ]
    trace.forget(DAY + timedelta(seconds=3))
    assert trace.signs == {"a": [DAY + timedelta(seconds=3), DAY + timedelta(seconds=5)]}


def test_the_newest_session_of_a_chat_is_believed_when_it_is_told_twice(book, home):
    """A message that came while its chat was busy has no inbound line, and its words may be those of somebody
    else.
    """
    log, at = Log(), DAY + timedelta(hours=8)
    log.asks(at, "other", "ok")
    log.begins(at + timedelta(seconds=1), "s-busy", "ok")  # of another chat, which was busy: a wrong guess
    log.answers(at + timedelta(seconds=30), "other")
    for minute, said in ((2, "what is the plan?"), (4, "and after that?")):
        log.asks(at + timedelta(minutes=minute), "busy", said)
        log.begins(at + timedelta(minutes=minute, seconds=1), "s-busy", said)
        log.answers(at + timedelta(minutes=minute, seconds=30), "busy")
    log.asks(at + timedelta(minutes=10), "busy", "build it")
    log.begins(at + timedelta(minutes=10, seconds=1), "s-busy", "build it")
    for minute in range(15, 60, 5):
        log.works(at + timedelta(minutes=minute), "s-busy")
    assert stuck(book, home(*log.texts())) == []


def test_a_series_parts_from_keys_that_are_long_over_and_keeps_what_it_found():
    found: dict[str, Series] = {
        key: Series(2, timedelta(minutes=15), None) for key in ("once", "often", "now")
    }
    for key, minutes in (("once", (0,)), ("often", (0, 1)), ("now", (119,))):
        for minute in minutes:
            found[key].add(key, Event(DAY + timedelta(minutes=minute), "agent.log", "it failed"), {})
    tidy(found, DAY + timedelta(hours=2))
    assert sorted(found) == ["now", "often"]
    assert [span.key for span in found["often"].spans(DAY + timedelta(hours=2))] == ["often"]

"""What a user name can write into a log, and what a torn line leaves behind. The rule is in docs/security.md."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from homes import saved
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from watchdog.pipeline import look

DAY = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
NOW = DAY + timedelta(minutes=41)
TAILS = (
    "",
    " reply_to_id=None reply_to_text=''",
    " reply_to_id=None reply_to_text='' queued=False",
    " mood=calm",
)


def record(seconds: float, message: str, logger: str = "gateway.run", session: str = "") -> str:
    at = DAY + timedelta(seconds=seconds)
    tag = f" [{session}]" if session else ""
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} INFO{tag} {logger}: {message}\n"


def inbound(seconds: float, chat: int | str, name: str = "Ann", said: str = "hi", tail: str = "") -> str:
    return record(seconds, f"inbound message: platform=telegram user={name} chat={chat} msg={said!r}{tail}")


def answer(seconds: float, chat: int | str) -> str:
    return record(
        seconds, f"response ready: platform=telegram chat={chat} time=1.0s api_calls=1 response=1 chars"
    )


def turn(seconds: float, session: str, said: str) -> str:
    text = f"conversation turn: session={session} model=m provider=p platform=telegram history=0 msg={said!r}"
    return record(seconds, text, "agent.turn_context", session)


def over(seconds: float, session: str) -> str:
    return record(
        seconds, f"Turn ended: reason=text_response model=m session={session}", "agent.loop", session
    )


def healthy(seconds: float, chat: int | str, name: str = "Ann", tail: str = "") -> list[str]:
    """An answered message as both logs show it; what only agent.log holds begins with a space."""
    said, session = f"question {seconds}", f"s{chat}"
    return [
        inbound(seconds, chat, name, said, tail),
        " " + turn(seconds + 0.3, session, said),
        " " + over(seconds + 2, session),
        answer(seconds + 2.1, chat),
    ]


def stuck(seconds: float, chat: int | str) -> list[str]:
    return [inbound(seconds, chat, said="help me"), " " + turn(seconds + 0.3, f"s{chat}", "help me")]


def write(folder: Path, records: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gateway.log").write_text("".join(one for one in records if not one.startswith(" 2")), "utf-8")
    (folder / "agent.log").write_text("".join(one.removeprefix(" ") for one in records), "utf-8")
    return folder


def seen(book, folder: Path) -> tuple[set[str], set[str]]:
    """(what is found, what is told as not to be seen), of chats; and both engines agree on it."""
    told = []
    for plain in (False, True):
        found, reading = look(book.rules, saved(folder, plain=plain), None, NOW)
        told.append(
            (
                {one.key for one in found.findings if one.rule == "session-stuck" and one.ended_at is None},
                {
                    name.removeprefix("session-stuck ")
                    for name in reading.blind
                    if name.startswith("session-stuck ")
                },
            )
        )
        assert {one.rule for one in found.findings if one.ended_at is None} <= {"session-stuck"}
    assert told[0] == told[1]
    return told[0]


OPENINGS = ("Eve", "Eve chat=7 msg='x'", "Eve chat=7 msg='x' reply_to_id=None reply_to_text=''")
ENDINGS = ("", "STAMP user=Bob")
HOSTILE = list(product(OPENINGS, ENDINGS, TAILS[:2]))


def hostile_name(opening: str, ending: str, inside: list[str]) -> str:
    """A name that holds whole records, and perhaps the head of one more that the real tail then completes."""
    last = inbound(61, "@", "@")[
        : len("2026-05-19 10:01:01,000 INFO gateway.run: inbound message: platform=telegram ")
    ]
    return opening + "\n" + "".join(inside) + (last + "user=Bob" if ending else "")


@pytest.mark.parametrize(("opening", "ending", "tail"), HOSTILE)
@pytest.mark.parametrize("innocent_first", [True, False])
def test_a_name_that_holds_a_forged_and_an_innocent_inbound_record_makes_no_finding(
    book, tmp_path, opening, ending, tail, innocent_first
):
    inside = [inbound(60, 13, "Bo", tail=tail), inbound(60.5, 42, "Cy", tail=tail)]
    name = hostile_name(opening, ending, inside if innocent_first else inside[::-1])
    records = [*healthy(10, 1), *healthy(60, 99, name, tail), *healthy(100, 2), *healthy(600, 3)]
    found, _ = seen(book, write(tmp_path, records))
    assert found == set()


@pytest.mark.parametrize(("opening", "ending", "tail"), HOSTILE)
def test_a_name_that_forges_an_answer_hides_no_stuck_chat(book, tmp_path, opening, ending, tail):
    inside = [inbound(60, 13, "Bo", tail=tail), answer(60.2, 42), inbound(60.5, 14, "Cy", tail=tail)]
    name = hostile_name(opening, ending, inside)
    records = [*healthy(10, 1), *stuck(30, 42), *healthy(60, 99, name, tail), *healthy(600, 3)]
    found, unseen = seen(book, write(tmp_path, records))
    assert "telegram/42" in found | unseen and found <= {"telegram/42"}


@pytest.mark.parametrize(
    "opening", [f"{first}{second}" for first in OPENINGS[1:] for second in ("", "\n chat=8 msg='y'")]
)
@pytest.mark.parametrize("inside", [answer(60.2, 42), record(60.2, "Starting Hermes Gateway...")])
@pytest.mark.parametrize("tail", TAILS[:2])
def test_a_name_that_ends_its_own_line_and_holds_no_other_inbound_record_hides_no_stuck_chat(
    book, tmp_path, opening, inside, tail
):
    name = f"{opening}\n{inside}"
    records = [*healthy(10, 1), *stuck(30, 42), *healthy(60, 99, name, tail), *healthy(600, 3)]
    found, unseen = seen(book, write(tmp_path, records))
    assert "telegram/42" in found | unseen and found <= {"telegram/42"}


def test_records_that_only_agent_log_may_hold_do_not_make_a_forged_message_believable(book, tmp_path):
    inside = [inbound(60, 42, "Cy", "fake"), turn(60.1, "s42", "fake")]
    name = hostile_name("Eve chat=7 msg='x'", "STAMP", inside)
    records = [*healthy(10, 1), *healthy(60, 99, name), *healthy(600, 3)]
    found, _ = seen(book, write(tmp_path, records))
    assert found == set()


def test_a_forged_time_in_the_future_is_overtaken_by_the_turn_of_whoever_wrote_it(book, tmp_path):
    name = hostile_name("Eve chat=7 msg='x'", "STAMP", [inbound(400, 42, "Cy", "fake")])
    records = [*healthy(10, 1), *healthy(60, 99, name), *healthy(1500, 3)]
    found, _ = seen(book, write(tmp_path, records))
    assert found == set()


def torn(line: str, at: int, glued: bool) -> str:
    return line[:at] + ("" if glued else "\n")


CUTS = (len(record(0, "inbound message: platform=telegram user=A")), 30, 60, 80, 100, 110)


@pytest.mark.parametrize("glued", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_a_line_that_a_full_disk_cut_hides_no_stuck_chat_and_makes_none(book, tmp_path, cut, glued):
    records = [*healthy(10, 1), *stuck(30, 40), *healthy(40, 2)]
    records += [
        torn(inbound(60, 5), cut, glued),
        *stuck(70, 42),
        *healthy(80, 3),
        *healthy(90, 6),
        *stuck(95, 43),
    ]
    found, unseen = seen(book, write(tmp_path, [*records, *healthy(600, 7)]))
    assert {"telegram/40", "telegram/42", "telegram/43"} <= found | unseen
    assert found <= {"telegram/40", "telegram/42", "telegram/43"}
    assert "telegram/43" in found  # which no name can have written: the doubt ends before


def test_two_people_who_write_at_the_same_moment_are_both_found(book, tmp_path):
    first, second = stuck(30, 42), stuck(30.1, 43)
    records = [
        *healthy(10, 1),
        first[0],
        inbound(30.1, 43, said="me too"),
        first[1],
        " " + turn(30.5, "s43", "me too"),
    ]
    assert second
    assert seen(book, write(tmp_path, records)) == ({"telegram/42", "telegram/43"}, set())


def record_of_name(kind: str, seconds: float, chat: int, tail: str) -> str:
    """A whole record as a hostile name would write it, of any logger and for any session."""
    session = f"s{chat}"
    return {
        "inbound": inbound(seconds, chat, "F", "hi", tail),
        "head": inbound(seconds, chat, "F")[:-20],
        "answer": answer(seconds, chat),
        "turn": turn(seconds, session, "hi"),
        "turn ended": over(seconds, session),
        "step": record(
            seconds, "API call #3: model=m provider=p in=1 out=1 total=2 latency=1s", "agent.loop", session
        ),
        "foreign": record(seconds, "nothing of interest", "some.logger"),
        "start": record(seconds, "Starting Hermes Gateway..."),
        "stop": record(seconds, "Stopping gateway..."),
        "traceback": "Traceback (most recent call last):\n",
    }[kind]


KINDS = ("inbound", "head", "answer", "turn", "turn ended", "step", "foreign", "start", "stop", "traceback")
PIECES = st.one_of(
    st.sampled_from(
        ["\n", " ", "Eve", "' chat=5 msg='x", " chat=42 msg='hi'\n", "msg=", 'x" chat=1 msg="y"\n']
    ),
    st.builds(
        record_of_name,
        st.sampled_from(KINDS),
        st.one_of(st.floats(55, 65), st.floats(-1000, 1500)),
        st.integers(40, 44),
        st.sampled_from(TAILS),
    ),
)
MESSAGES = st.lists(
    st.tuples(st.lists(PIECES, max_size=7), st.sampled_from(["answered", "stopped", "queued"])),
    min_size=1,
    max_size=3,
)


def message_of(seconds: float, name: str, tail: str, became: str) -> list[str]:
    """What Hermes writes for a message of a hostile user: a whole turn, a /stop, or one that is queued for later."""
    if became == "answered":
        return healthy(seconds, 99, name, tail)
    if became == "queued":
        first, began, ended, answered = healthy(seconds - 1, 99, tail=tail)
        queued = inbound(seconds, 99, name, "more", TAILS[2].replace("False", "True"))
        return [first, began, queued, ended, answered]
    return [
        inbound(seconds, 99, name, "/stop", tail),
        record(
            seconds + 0.01,
            "STOP for session agent:main:telegram:dm:99 — agent interrupted, session lock released",
        ),
    ]


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    messages=MESSAGES,
    really=st.sets(st.sampled_from([41, 42]), max_size=2),
    tail=st.sampled_from(TAILS),
    quiet=st.booleans(),
)
def test_whatever_a_name_holds_the_healthy_get_no_finding_and_the_stuck_are_found_or_told(
    book, tmp_path_factory, messages, really, tail, quiet
):
    """The model of Hermes' formatter: any text as the name, everything else as Hermes writes it."""
    records = [*healthy(5, 1)]
    for chat in sorted(really):
        records += stuck(20 + chat % 10, chat)
    for number, (pieces, became) in enumerate(messages):
        records += message_of(60 + 40 * number, "".join(pieces), tail, became)
    records += healthy(170, 99)
    records += [] if quiet else [*healthy(220, 2), *healthy(600, 3)]
    found, unseen = seen(book, write(tmp_path_factory.mktemp("home"), records))
    expected = {f"telegram/{chat}" for chat in really}
    assert found <= expected <= found | unseen


def test_a_name_that_holds_turn_lines_hides_no_stuck_chat(book, tmp_path):
    name = "".join(
        [
            turn(63.605, "s99", "hi"),
            turn(56.882, "s42", "hi"),
            answer(60.833, 41),
            inbound(60.0, 43, "F", "hi", " mood=calm"),
            turn(63.605, "s99", "hi"),
            inbound(59.525, 40, "F", "hi"),
        ]
    )
    tail = " reply_to_id=None reply_to_text='' queued=False"
    records = [
        *healthy(5, 1),
        *stuck(21, 41),
        *healthy(60, 99, name, tail),
        *healthy(120, 2),
        *healthy(600, 3),
    ]
    found, unseen = seen(book, write(tmp_path / "home", records))
    assert found <= {"telegram/41"} <= found | unseen


def waiting_chats(tmp_path: Path, chats: int, turns: bool) -> None:
    """So many chats that wrote within an hour and got no answer."""
    lines = {True: [], False: []}
    for chat in range(chats):
        seconds = chat * 1200 / chats
        asked = inbound(seconds, chat, f"P{chat}", f"question {chat}")
        lines[True].append(asked)
        lines[False] += [asked, turn(seconds + 0.001, f"s{chat}", f"question {chat}")] if turns else [asked]
    (tmp_path / "gateway.log").write_text("".join(lines[True]))
    (tmp_path / "agent.log").write_text("".join(lines[False]))


def test_of_many_chats_that_cannot_be_seen_some_are_named_and_the_others_counted(book, tmp_path):
    waiting_chats(tmp_path, 700, turns=False)
    seen, reading = look(book.rules, saved(tmp_path), None, NOW)
    named = [name for name in reading.blind if name.startswith("session-stuck")]
    assert len(named) == 21 and named[-1].endswith(" more") and len(seen.unsure) >= 690


def test_of_many_findings_of_one_rule_the_first_are_kept_and_the_others_counted(book, tmp_path):
    waiting_chats(tmp_path, 700, turns=True)
    seen, _ = look(book.rules, saved(tmp_path), None, NOW)
    stuck = [finding for finding in seen.findings if finding.rule == "session-stuck"]
    assert len(stuck) == 500 and stuck[0].key == "telegram/0"
    assert any("session-stuck: 200 more" in note for note in seen.notes)
    assert ("session-stuck", "telegram/699") in seen.unsure  # neither opened nor resolved


def test_the_work_for_chats_that_wait_grows_with_their_number_only(book, tmp_path):
    counts = []
    for chats in (200, 800):
        folder = tmp_path / str(chats)
        folder.mkdir()
        waiting_chats(folder, chats, turns=False)
        calls = 0

        def count(frame, event, _):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            look(book.rules, saved(folder), None, NOW)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[1] < 6 * counts[0]


@pytest.mark.parametrize(
    "inside", ["", record(60.2, "nothing", "some.logger"), inbound(400, 43, "Cy", "fake")]
)
@pytest.mark.parametrize("deaf", [True, False])
def test_the_turns_of_whoever_has_a_name_with_line_breaks_pass_for_no_work_for_others(
    book, tmp_path, inside, deaf
):
    """Chat 42 got no turn, or one that says other words; Eve goes on chatting."""
    asked = inbound(30, 42, said="help me")
    began = [] if deaf else [" " + turn(30.3, "s42", "[voice] help me")]
    records = [*healthy(10, 1), asked, *began]
    for at in range(60, 2400, 300):
        moved = inside and inside.replace("10:01:00", f"10:{at // 60:02d}:00")
        records += [*healthy(at, 99, f"Eve\n{moved}Eve"), *healthy(at + 130, 2)]
    found, unseen = seen(book, write(tmp_path, records))
    assert "telegram/42" in found | unseen and found <= {"telegram/42"}

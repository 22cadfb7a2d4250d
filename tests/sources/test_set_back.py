"""A clock that is set back while the gateway runs: what stands before it in the log was written before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from effort import rounds
from homes import saved

from watchdog.pipeline import look

BEGIN = datetime(2026, 5, 19, 10, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


class Gateway:
    """Writes both logs by a clock that can be set."""

    def __init__(self, folder):
        self.folder, self.now, self.lines = folder, BEGIN, []

    def write(self, text: str, logger: str = "gateway.run", session: str = "") -> None:
        stamp = f"{self.now:%Y-%m-%d %H:%M:%S},{self.now.microsecond // 1000:03d}"
        tag = f" [{session}]" if session else ""
        self.lines.append((logger == "gateway.run", f"{stamp} INFO{tag} {logger}: {text}\n"))
        self.now += timedelta(seconds=1)

    def asks(self, chat: str, user: str = "P") -> None:
        self.write(f"inbound message: platform=telegram user={user} chat={chat} msg='q {chat}'")

    def begins(self, chat: str) -> None:
        text = f"conversation turn: session=s-{chat} model=m provider=p platform=telegram history=0 msg='q {chat}'"
        self.write(text, "run_agent", f"s-{chat}")

    def works(self, chat: str) -> None:
        self.write(
            "API call #1: model=m provider=p in=1 out=1 total=2 latency=0.1s", "run_agent", f"s-{chat}"
        )

    def answers(self, chat: str) -> None:
        self.write(f"Turn ended: reason=text_response model=m session=s-{chat}", "run_agent", f"s-{chat}")
        self.write(f"response ready: platform=telegram chat={chat} time=1.2s api_calls=1 response=6 chars")

    def chats(self, count: int, every: timedelta = MINUTE) -> None:
        for number in range(count):
            chat = f"{len(self.lines)}{number}"
            self.asks(chat)
            self.begins(chat)
            self.works(chat)
            self.answers(chat)
            self.now += every

    def stuck(self, book, since: datetime | None = None) -> list[tuple[str, str]]:
        """(who counts as stuck at the gateway's time, since when), by the fast engine, which the plain one agrees with."""
        (self.folder / "gateway.log").write_text("".join(line for gateway, line in self.lines if gateway))
        (self.folder / "agent.log").write_text("".join(line for _, line in self.lines))
        found = []
        for plain in (False, True):
            seen, _ = look(book.rules, saved(self.folder, plain=plain), since, self.now)
            open_ones = [finding for finding in seen.findings if finding.ended_at is None]
            found.append([(finding.key, f"{finding.opened_at:%H:%M}") for finding in open_ones])
        assert found[0] == found[1]
        return found[0]


@pytest.fixture
def gateway(tmp_path) -> Gateway:
    return Gateway(tmp_path)


STEPS = ("asks", "begins", "works")


@pytest.mark.parametrize("busy", [0, 40])
@pytest.mark.parametrize("done_before", [1, 3])
@pytest.mark.parametrize("later", [MINUTE, 40 * MINUTE, 80 * MINUTE])
@pytest.mark.parametrize("by", [6 * MINUTE, HOUR, 26 * HOUR])
def test_a_chat_whose_answer_stands_behind_it_in_the_log_is_answered(
    gateway, book, busy, done_before, later, by
):
    gateway.chats(10)
    for step in STEPS[:done_before]:
        getattr(gateway, step)("asked")
    gateway.now -= by
    for step in STEPS[done_before:]:
        getattr(gateway, step)("asked")
    gateway.answers("asked")
    gateway.chats(busy)
    gateway.now += later
    gateway.chats(min(busy, 1))
    for since in (None, gateway.now - 70 * MINUTE):
        assert gateway.stuck(book, since) == []


@pytest.mark.parametrize("by", [100, 150, 280])
def test_a_step_of_a_few_minutes_leaves_no_question_open(gateway, book, by):
    gateway.chats(10)
    gateway.asks("asked")
    gateway.begins("asked")
    gateway.now -= timedelta(seconds=by)
    gateway.answers("asked")
    gateway.chats(20)
    gateway.asks("asked")
    gateway.begins("asked")
    gateway.answers("asked")
    gateway.chats(20)
    assert gateway.stuck(book) == []


@pytest.mark.parametrize("busy", [0, 1, 40])
def test_a_chat_that_nobody_answers_is_found_by_the_clock_of_now(gateway, book, busy):
    gateway.chats(10)
    gateway.asks("stuck")
    gateway.begins("stuck")
    gateway.now -= HOUR
    gateway.chats(1 + busy)
    gateway.now += 20 * MINUTE
    gateway.chats(1)
    assert [key for key, _ in gateway.stuck(book)] == ["telegram/stuck"]


def test_it_is_told_that_the_clock_was_set_back(gateway, book):
    gateway.chats(10)
    gateway.now -= HOUR + 2 * MINUTE
    gateway.chats(2)
    gateway.stuck(book)
    _, reading = look(book.rules, saved(gateway.folder), None, gateway.now)
    what = "the clock was set back by 1 hour 1 minute; what was written before is dated by the new clock"
    assert reading.notes == [f"gateway.log: {what}", f"agent.log: {what}"]


def test_a_chat_that_asks_after_it_is_found_as_ever(gateway, book):
    gateway.chats(10)
    gateway.now -= HOUR
    gateway.chats(2)
    gateway.asks("stuck")
    gateway.begins("stuck")
    gateway.chats(20)
    assert [key for key, _ in gateway.stuck(book)] == ["telegram/stuck"]


def test_a_few_old_records_in_between_set_no_clock(gateway, book):
    """A tool that prints old lines of a log, say: whoever asked just now has not waited for an hour."""
    gateway.chats(10)
    gateway.asks("new")
    gateway.begins("new")
    gateway.now -= HOUR
    gateway.works("old")
    gateway.works("old")
    gateway.now += HOUR
    gateway.chats(2)
    assert gateway.stuck(book) == []


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_a_user_name_sets_no_clock(gateway, book, by):
    gateway.chats(10)
    gateway.asks("new")
    gateway.begins("new")
    forged = (
        f"{gateway.now + by:%Y-%m-%d %H:%M:%S},000 INFO gateway.run: response ready: platform=telegram chat=x"
    )
    gateway.asks("1", user=f"a chat=1 msg='x'\n{forged} time=1.2s api_calls=1 response=6 chars\n{forged}")
    gateway.chats(2)
    assert gateway.stuck(book) == []
    gateway.now += 20 * MINUTE
    gateway.chats(1)
    assert gateway.stuck(book) == [("telegram/new", "10:25")]


@pytest.mark.parametrize("by", [-HOUR, -20 * MINUTE, 10 * MINUTE, HOUR])
@pytest.mark.parametrize("work", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 2])
def test_an_inbound_line_within_a_user_name_dates_nothing(gateway, book, by, work, after):
    """Neither the chats of others, by setting the clock, nor the chat in which it was written."""
    gateway.chats(10)
    gateway.asks("new")
    gateway.begins("new")
    head = "INFO gateway.run: inbound message: platform=telegram user=b"
    gateway.asks("own", user=f"a chat=1 msg='x'\n{gateway.now + by:%Y-%m-%d %H:%M:%S},000 {head}")
    for step in STEPS[1 : work + 1]:
        getattr(gateway, step)("own")
    gateway.chats(after)
    assert gateway.stuck(book) == []


@pytest.mark.parametrize("by", [5, 20, 45, 85, 120])
@pytest.mark.parametrize("pause", [0, 40])
def test_a_step_back_too_small_to_be_known_leaves_no_question_open(gateway, book, by, pause):
    gateway.chats(3)
    gateway.asks("asked")
    gateway.begins("asked")
    gateway.now += timedelta(seconds=pause - by)
    gateway.answers("asked")
    gateway.chats(20)
    assert gateway.stuck(book) == []


LEAPS = tuple(timedelta(seconds=by) for by in (-26 * 3600, -3600, -600, -120, -45, 45, 600, 3600))


def forged_records(gateway, random: Random) -> str:
    """A name that holds records of any time near or far."""
    texts = (
        "inbound message: platform=telegram user=F chat={} msg='hi'",
        "inbound message: platform=telegram user=F",
        "response ready: platform=telegram chat={} time=1.0s api_calls=1 response=1 chars",
        "Stopping gateway...",
        "nothing chat={} msg='x'",
    )
    found = "E"
    for _ in range(random.randint(1, 5)):
        off = random.choice((0, random.uniform(-60, 60), random.uniform(-2000, 2000), -3600, 3600))
        at = gateway.now + timedelta(seconds=off)
        text = random.choice(texts).format(random.choice(("new", "stuck", "1")))
        found += f"\n{at:%Y-%m-%d %H:%M:%S},000 INFO gateway.run: {text}"
    return found


@pytest.mark.parametrize("seed", range(rounds(40)))
def test_hostile_names_and_a_clock_that_leaps_together_hide_no_stuck_chat_and_make_none(gateway, book, seed):
    random = Random(seed)
    leaps = sorted(random.sample(range(30), random.randint(1, 3)))
    stuck = random.choice((None, random.randint(0, 10)))
    for number in range(30):
        if number == stuck:
            gateway.asks("stuck")
            gateway.begins("stuck")
        chat = f"c{number % 7}"
        gateway.asks(chat, forged_records(gateway, random) if random.random() < 0.4 else "P")
        for step in (gateway.begins, gateway.works, gateway.answers):
            if number in leaps and random.random() < 0.5:
                leaps.remove(number)
                gateway.now += random.choice(LEAPS)
            step(chat)
        gateway.now += timedelta(seconds=random.choice((1, 20, 100)))
        gateway.now += random.choice(LEAPS) if number in leaps else timedelta(0)
    gateway.now += 20 * MINUTE
    gateway.chats(1)
    found, really = (
        {key for key, _ in gateway.stuck(book)},
        {"telegram/stuck"} if stuck is not None else set(),
    )
    seen, _ = look(book.rules, saved(gateway.folder), None, gateway.now)
    assert found <= really <= found | {key for _, key in seen.unsure}, "found, or told as what cannot be seen"

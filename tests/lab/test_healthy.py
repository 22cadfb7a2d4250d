"""A busy, healthy gateway: check after check there is nothing to say, and checking disturbs nothing."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from datetime import datetime, timedelta
from functools import partial

import pytest

from . import parts, person
from .conftest import both
from .gateway import UNIT, Gateway
from .waiting import until

SMALL_LOGS = "agent: {restart_drain_timeout: 5}\nlogging: {max_size_mb: 1, backup_count: 3}\n"


LATER = [pytest.param("0.19.0", other, marks=pytest.mark.thorough) for other in parts.VERSIONS[2:]]


@pytest.mark.parametrize(("before", "after"), [("0.13.0", "0.19.0"), *LATER])
@pytest.mark.takes_at_most(600)
def test_a_busy_gateway_and_its_update_give_no_finding(lab, before, after):
    it = lab(before, platforms=("telegram", "qqbot"), settings=person.SETTINGS, config=SMALL_LOGS)
    it.gateway.start()
    live_through(it)
    it.gateway = update(it, after)
    live_through(it, starts=2)
    assert person.messages(it) == []
    # The same home looked at as of every minute of the next hour: silence does not turn into an alarm.
    for minute in range(0, 61, 5):
        then = datetime.now() + timedelta(minutes=minute)
        report = it.watchdog.json("check", "--dry-run", "--now", f"{then:%Y-%m-%d %H:%M:%S}")
        assert person.open_rules(report) == [], report


def live_through(it, starts: int = 1) -> None:
    """An ordinary day in a minute: commands, /stop, long tools, errors that pass, several chats, a full log."""
    gateway = it.gateway
    gateway.answers("hello")
    for command in ("/help", "/status", "/new"):
        gateway.tell(command)
    it.world.do(
        "llm", "behave", match="long tool", do="tools", steps=2, command="sleep 4", say="Done with the tools"
    )
    it.world.do("llm", "behave", match="never mind", do="hang", times=1)
    gateway.tell("use a long tool", chat=43)
    gateway.tell("never mind this", chat=44)
    until(lambda: it.world.get("llm", "hanging"), "chat 44 waits for the model", explain=gateway.explain)
    gateway.tell("/stop", chat=44)
    gateway.wait_for("STOP for session", times=starts)
    # else 0.13.0 could not end: its worker thread waits for this answer for ever
    it.world.do("llm", "release")
    # a person may type anything
    gateway.answers("response ready: platform=telegram chat=43 time=1s", chat=45)
    gateway.answers("API call failed (attempt 1/3) [SSL: BAD] output new_sensitive (1027)", chat=46)
    it.world.do("llm", "behave", match="one hiccup", do="overloaded", times=1)
    gateway.tell("one hiccup", chat=47)
    gateway.wait_for("response ready: platform=telegram chat=47", times=starts)
    gateway.answers("请把昨天的报告发给我，谢谢！", chat=48)
    gateway.answers("hello group", chat=-100, user=7, title="Team")
    gateway.answers("hello group too", chat=-100, user=8, title="Team")
    # not the one that a person typed
    gateway.wait_for("gateway.run: response ready: platform=telegram chat=43", times=starts)
    fill(gateway)
    person.is_quiet(it, checks=1)
    gateway.answers("still there?")
    person.is_quiet(it, checks=1)


def fill(gateway: Gateway) -> None:
    """Long questions, which Hermes writes into agent.log, until the log has rotated."""
    older = gateway.home / "logs/agent.log"
    line = "2026-01-01 00:00:00,000 DEBUG lab: " + "x" * 4000 + "\n"
    with older.open("a") as log:
        log.write(line * 280)  # what a chatty plugin would write; the next line of Hermes rotates the file
    gateway.answers("turn the page")
    assert older.with_name("agent.log.1").exists()


def update(it, version: str) -> Gateway:
    """The home stays; unit and program become the new version's."""
    it.machine.systemctl("stop", UNIT)
    old = it.gateway
    gateway = Gateway.__new__(Gateway)
    gateway.__dict__ |= old.__dict__ | {"version": version}
    gateway.install()
    it.watchdog.gateway = gateway
    it.machine.systemctl("start", UNIT)
    gateway.wait_until_running(starts=old.starts() + 1)
    return gateway


BUSY_MINUTES = int(os.environ.get("LAB_BUSY_MINUTES", "2"))
BUSY = [("0.13.0", "0.19.0"), *(("0.19.0", other) for other in parts.VERSIONS[2:][-1:])]


@pytest.mark.thorough
@pytest.mark.parametrize(("before", "version"), BUSY)
@pytest.mark.takes_at_most(BUSY_MINUTES * 60 + 900)
def test_a_gateway_that_is_busy_for_long_gives_no_finding(lab, before, version):
    """Real minutes under the shipped limits, `LAB_BUSY_MINUTES=60` for an hour: groups, a question to its user, /stop,
    long tools, errors that pass, Chinese, a log that rotates, an update of Hermes at its beginning and a planned
    restart in its middle; with a check each minute. What was done and found stands in the lab's cache.
    """
    it = lab(before, platforms=("telegram", "qqbot"), settings=person.SETTINGS, config=SMALL_LOGS)
    it.gateway.start_and_answer()
    person.is_quiet(it, checks=1)
    it.gateway = update(it, version)
    it.gateway.answers("hello again")
    behave = {
        "long tool": {"do": "tools", "steps": 20, "command": "sleep 9", "say": "Done with the tools"},
        "which report": {"do": "tools", "tool": "clarify", "arguments": {"question": "Sales or costs?"}},
    }
    for match, more in behave.items():
        it.world.do("llm", "behave", match=match, **more)
    it.gateway.tell("which report?", chat=60)  # its user does not answer
    pick = random.Random(BUSY_MINUTES)
    ask = partial(it.gateway.answers, within=300)  # the machine may be busy, too
    acts = {
        "question": lambda chat: ask(f"question {pick.random()}", chat=chat),
        "Chinese": lambda chat: ask(f"请把第 {pick.randrange(99)} 份报告发给我", chat=chat),
        "group": lambda chat: ask(f"hello group {pick.random()}", chat=-100, user=chat, title="Team"),
        "long tool": lambda chat: it.gateway.tell("use a long tool", chat=chat + 10),
        "hiccup": lambda chat: hiccup(it, chat + 20),
        "/stop": lambda chat: stop_a_chat(it, chat + 30),
        "command": lambda chat: it.gateway.tell(pick.choice(["/help", "/status", "/new"]), chat=chat),
        "rotation": lambda chat: fill(it.gateway),
    }
    done: Counter[str] = Counter()
    for minute in range(BUSY_MINUTES):
        next_check = time.monotonic() + 60
        if minute == BUSY_MINUTES // 2:
            it.machine.systemctl("restart", UNIT)
            it.gateway.wait_until_running(starts=3)
            done["restart"] += 1
        while time.monotonic() < next_check:
            act = pick.choice(list(acts))
            acts[act](42 + pick.randrange(6))
            done[act] += 1
            time.sleep(pick.uniform(1, 8))  # people type
        person.is_quiet(it, checks=1)
        (parts.CACHE / f"busy-{version}.log").write_text(f"{minute + 1} quiet checks; {dict(done)}\n")
    assert person.messages(it) == []


def hiccup(it, chat: int) -> None:
    """The provider is overloaded for one attempt, and the next one is answered."""
    words = f"one hiccup {os.urandom(4).hex()}"  # else several would add up to a turn that is given up
    it.world.do("llm", "behave", match=words, do="overloaded", times=1)
    it.gateway.tell(words, chat=chat)


def stop_a_chat(it, chat: int) -> None:
    """A person gives up waiting and says /stop."""
    words = f"never mind {os.urandom(4).hex()}"
    it.world.do("llm", "behave", match=words, do="hang")
    before = it.gateway.count("gateway.log", "STOP for session")
    it.gateway.tell(words, chat=chat)
    until(
        lambda: it.world.get("llm", "hanging"), f"chat {chat} waits for the model", explain=it.gateway.explain
    )
    it.gateway.tell("/stop", chat=chat)
    it.gateway.wait_for("STOP for session", times=before + 1)
    it.world.do("llm", "behave", match=words, do="answer")  # a restart may take this turn up again
    it.world.do("llm", "release")


@both
def test_checks_while_the_gateway_writes_lose_no_message_and_touch_no_file_of_its(lab, version):
    it = lab(version, settings=person.SETTINGS)
    it.gateway.start_and_answer()
    done = threading.Event()
    checks: list[int] = []

    def keep_checking() -> None:
        while not done.is_set():
            checks.append(it.watchdog("check").returncode)

    checker = threading.Thread(target=keep_checking)
    checker.start()
    try:
        for number in range(8):
            it.gateway.answers(f"Question number {number}", chat=42 + number % 3)
    finally:
        done.set()
        checker.join(60)
    assert len(checks) >= 5 and set(checks) == {0}, checks
    assert it.gateway.count("errors.log", "database is locked|disk I/O error|malformed") == 0

    it.machine.systemctl("stop", UNIT)
    db = sqlite3.connect(it.gateway.home / "state.db")
    asked = {text for (text,) in db.execute("SELECT content FROM messages WHERE role = 'user'")}
    db.close()
    assert {f"Question number {number}" for number in range(8)} <= {
        text.splitlines()[-1] for text in asked if text
    }

    # At rest nothing in the home may change by being looked at, not even a time or an extra file.
    before = snapshot(it.gateway)
    it.watchdog("check")
    it.watchdog("check", "--dry-run")
    assert snapshot(it.gateway) == before


def snapshot(gateway: Gateway) -> dict[str, tuple]:
    return {
        str(file.relative_to(gateway.home)): (
            file.stat().st_ino,
            file.stat().st_mtime_ns,
            file.stat().st_size,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in sorted(gateway.home.rglob("*"))
        if file.is_file()
    }

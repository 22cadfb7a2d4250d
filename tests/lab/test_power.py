"""The watchdog is killed in the middle of each step of each recipe, or the whole machine goes: the next check
tells the truth.

A breakpoint (tests/lab/breakpoint) freezes the installed watchdog inside a step; there it gets its SIGKILL,
or the machine does.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from . import person
from .gateway import UNIT
from .test_operators_story import BOARD, KANBAN, STATE, TLS_RECORD, old_board, rows
from .waiting import until

COMMAND_RUNS = "watchdog.system.commands._exit_code"  # systemctl was started and works
GATEWAY = "watchdog.steps.gateway.run"
HEAL = "watchdog.steps.heal_database.run"
# everything is checked, the rename comes next
SWAP = "watchdog.sqlite.swap.finish watchdog.sqlite.in_use.why_not_free"
VERIFY = "watchdog.repair.verify.verify watchdog.repair.verify.not_yet"
ENDS = pytest.mark.parametrize(("version", "end"), [("0.13.0", "kill"), ("0.19.0", "reboot")])
ENDS_ALSO = pytest.mark.parametrize(
    ("version", "end"), [("0.13.0", "kill"), pytest.param("0.19.0", "reboot", marks=pytest.mark.thorough)]
)
CROSSED = pytest.mark.parametrize(
    ("version", "end"), [("0.13.0", "reboot"), pytest.param("0.19.0", "kill", marks=pytest.mark.thorough)]
)
CROSSED_ALSO = pytest.mark.parametrize(
    ("version", "end"), [pytest.param("0.13.0", "reboot", marks=pytest.mark.thorough), ("0.19.0", "kill")]
)


def cut(it, end: str, at: str, *words: str) -> None:
    """Let the watchdog run into the breakpoint, and end it (or all of the machine) there."""
    reached = it.machine.folder / "reached"
    reached.unlink(missing_ok=True)
    acting = it.watchdog.start(*words, stop_at=at, stopped=reached)
    until(lambda: reached.exists() or acting.poll() is not None, f"the watchdog comes to {at}", within=150)
    assert reached.exists(), acting.communicate()
    if end == "reboot":
        it.machine.reboot(acting)  # the unit is enabled: the gateway starts with the machine
    else:
        os.killpg(acting.pid, signal.SIGKILL)
    acting.communicate(timeout=30)


def told_truly(it, place: str) -> None:
    """The next check says where it was cut off and whether the gateway runs; a second one repeats nothing."""
    active = it.machine.show(UNIT, "ActiveState")["ActiveState"] == "active"
    says = "the gateway runs" if active else "THE GATEWAY IS NOT RUNNING"
    done = it.watchdog("check")
    assert done.returncode == 1 and "plan 1 was begun and not finished" in done.text, done.text
    assert f"cut off {place}" in done.text and says in done.text, done.text
    message = next(text for text in reversed(person.messages(it)) if "cut off" in text)
    assert place in message and says in message, message
    broken = not healthy(it.gateway.home / "state.db")
    report = it.watchdog.json("check")
    assert ("database-broken" in person.open_rules(report)) == broken, report
    assert report["outcomes"] == [], "nothing is done again by itself"
    assert report["plans_cut_off"] == [1], report
    audit = it.watchdog("audit").text
    assert len(re.findall(r"  begun plan", audit)) == 1, audit


def resumed(it, within: float = 240) -> str:
    done = it.watchdog("resume", "1", within=within)
    assert done.returncode == 0, done.text
    return done.text


def healthy(file: Path) -> bool:
    try:
        db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        try:
            return db.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        finally:
            db.close()
    except sqlite3.Error:
        return False


def kept(it, question: str) -> bool:
    """Whether the gateway wrote the question into its database."""
    db = sqlite3.connect(f"file:{it.gateway.home / 'state.db'}?mode=ro", uri=True)
    try:
        return any(
            question in str(text)
            for (text,) in db.execute("SELECT content FROM messages WHERE role = 'user'")
        )
    finally:
        db.close()


def columns_of(file: Path, table: str) -> set[str]:
    db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    finally:
        db.close()


def has_all(file: Path, columns: dict[str, str], before: dict[str, set]) -> bool:
    try:
        now = rows(file, columns)
    except sqlite3.Error:
        return False
    return all(was <= now[table] for table, was in before.items())


def break_state(it) -> dict[str, set]:
    """A TLS record over the header while the gateway is down; the rows that were there."""
    it.machine.systemctl("stop", UNIT)
    state = it.gateway.home / "state.db"
    before = rows(state, STATE)
    damage(state)
    it.machine.systemctl("start", UNIT)
    it.gateway.wait_until_running(it.gateway.starts() + 1)
    return before


def damage(state: Path) -> None:
    with state.open("r+b") as file:
        file.seek(5)
        file.write(TLS_RECORD)


@ENDS
def test_a_repair_cut_off_in_each_of_its_steps_is_told_and_goes_on_when_a_person_says_so(lab, version, end):
    it = lab(version, settings=person.SETTINGS, hurry=("crash-loop",))
    it.gateway.start()
    for number in range(2):
        it.gateway.answers(f"Question {number}")
    before = break_state(it)
    question = person.asked(it, "database-broken")
    words: tuple[str, ...] = ("approve", question.code)
    for at, place in (
        (f"{GATEWAY} {COMMAND_RUNS}", "in the middle of step 1 of 3"),
        (f"{HEAL} {SWAP}", "in the middle of step 2 of 3"),
        (f"{HEAL} {GATEWAY} {COMMAND_RUNS}", "in the middle of step 3 of 3"),
    ):
        starts = it.gateway.starts()
        cut(it, end, at, *words)
        if end == "reboot" or "step 3" in place:  # systemd goes on with what it was told
            it.gateway.wait_until_running(starts + 1)
        else:
            until(lambda: it.gateway.is_down(), "systemd has stopped it")
        told_truly(it, place)
        words = ("resume", "1")
    resumed(it)
    assert has_all(it.gateway.home / "state.db", STATE, before)
    it.gateway.answers("are you back?")
    assert kept(it, "are you back?"), "the gateway works with the healed file"
    person.hears_the_end(it, "problem gone")
    person.is_quiet(it, shipped=False)  # three boots in a row look like a crash loop for three minutes


@pytest.mark.thorough
def test_killed_at_every_point_of_healing_no_row_is_lost_and_a_second_run_ends_well(lab):
    """At rest, so that one database of a real gateway serves many deaths."""
    it = lab("0.19.0", settings=person.SETTINGS)
    it.gateway.start()
    for number in range(2):
        it.gateway.answers(f"Question {number}")
    it.machine.systemctl("stop", UNIT)
    state = it.gateway.home / "state.db"
    before = rows(state, STATE)
    damage(state)
    whole = it.machine.folder / "whole"
    shutil.copytree(it.gateway.home, whole, ignore=shutil.ignore_patterns("*.sock"))
    for point in (
        "quarantine.save watchdog.system.files.fsync",
        "quarantine.write_manifest watchdog.sqlite.quarantine.write_manifest",
        "swap.put_in_place watchdog.sqlite.copies.give",
        "swap.finish watchdog.sqlite.in_use.why_not_free",
    ):
        cut(
            it,
            "kill",
            f"watchdog.sqlite.heal.heal watchdog.sqlite.{point}",
            "db",
            "heal",
            "--yes",
            str(state),
        )
        report = it.watchdog.json("check", "--dry-run")
        # Once a repair has begun, that it was cut short is what is told.
        assert {"database-broken", "database-damaged"} & set(person.open_rules(report)), f"{point}: {report}"
        done = it.watchdog("db", "heal", "--yes", str(state))
        assert done.returncode == 0 and healthy(state) and has_all(state, STATE, before), (
            f"{point}: {done.text}"
        )
        assert not person.open_rules(it.watchdog.json("check", "--dry-run")), point
        for file in state.parent.glob("*state.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        for file in whole.glob("*state.db*"):
            shutil.copy2(file, state.parent / file.name)
    it.watchdog("db", "heal", "--yes", str(state))
    it.machine.systemctl("start", UNIT)
    it.gateway.answers("are you back?")
    assert has_all(state, STATE, before)


@ENDS_ALSO
def test_adding_columns_cut_off_before_the_commit_leaves_the_board_whole(lab, version, end):
    it = lab(version, settings=person.SETTINGS, config=KANBAN)
    it.gateway.install(extra=f"[Service]\nEnvironment=PYTHONPATH={it.machine.folder}/order\n")
    column = old_board(it, version)
    board = it.gateway.home / "kanban.db"
    it.gateway.start()
    it.gateway.wait_for(f"no such column: {column}", times=2)
    before = rows(board, BOARD)
    question = person.asked(it, "missing-column")
    assert "back up kanban.db, then add" in question.text
    cut(
        it,
        end,
        "watchdog.steps.add_column.run watchdog.sqlite.sandbox.limits_for",
        "approve",
        question.code,
    )
    if end == "reboot":
        it.gateway.wait_until_running(starts=2)
    told_truly(it, "in the middle of step 1 of 1")
    assert healthy(board) and column not in columns_of(board, "tasks"), "all of it or nothing"
    cut(it, "kill", f"watchdog.steps.add_column.run {VERIFY}", "resume", "1")
    told_truly(it, "after step 1 of 1")
    resumed(it)
    assert has_all(board, BOARD, before) and column in columns_of(board, "tasks")
    it.gateway.answers("are you back?")
    person.hears_the_end(it, "problem gone")
    person.is_quiet(it)


@CROSSED
def test_a_restart_cut_off_in_the_middle_is_told_and_left_to_a_person(lab, version, end):
    it = lab(version, settings=person.SETTINGS, hurry=("session-stuck",))
    it.gateway.start_and_answer()
    it.world.do("llm", "behave", match="never answer", do="hang")
    it.gateway.tell("please never answer")
    question = person.asked(it, "session-stuck")
    it.world.do("llm", "calm")
    cut(it, end, f"{GATEWAY} {COMMAND_RUNS}", "approve", question.code)
    it.gateway.wait_until_running(starts=2)
    told_truly(it, "in the middle of step 1 of 1")
    if end == "reboot":  # booting has done it; a person sees that and leaves it
        assert it.watchdog("abandon", "1").returncode == 0
    else:
        cut(it, end, f"{GATEWAY} {VERIFY}", "resume", "1")
        it.gateway.wait_until_running(starts=3)
        told_truly(it, "after step 1 of 1")
        resumed(it)
        assert it.gateway.starts() == 3, "only what was left of it: the verification"
        person.hears_the_end(it, "problem gone")
    it.gateway.answers("are you back?")
    person.is_quiet(it)


@ENDS_ALSO
def test_a_start_cut_off_in_the_middle_is_told_and_not_done_twice(lab, version, end):
    it = lab(version, settings=person.SETTINGS)
    hold = it.machine.folder / "hold"
    it.gateway.install(
        extra=f"[Service]\nRestart=no\nExecStartPre=/bin/sh -c 'while [ -e {hold} ]; do sleep 0.1; done'\n"
    )
    it.gateway.start_and_answer()
    it.gateway.kill()
    until(it.gateway.is_down, "systemd saw it die")
    question = person.asked(it, "gateway-down")
    hold.touch()  # it does not come up before it may
    cut(it, end, f"{GATEWAY} {COMMAND_RUNS}", "approve", question.code)
    told_truly(it, "in the middle of step 1 of 1")  # and that the gateway is not running
    hold.unlink()
    it.gateway.wait_until_running(starts=2)
    resumed(it)  # finds it running: nothing is started twice
    assert it.gateway.starts() == 2
    it.gateway.answers("are you back?")
    person.hears_the_end(it, "problem gone")
    person.is_quiet(it)


@CROSSED_ALSO
def test_stopping_a_crash_loop_cut_off_in_the_middle_is_told_and_ends_stopped(lab, version, end):
    it = lab(version, settings=person.SETTINGS)
    ill = it.machine.folder / "ill"
    it.gateway.install(extra=f"[Service]\nExecStartPre=/bin/sh -c '[ ! -e {ill} ]'\n")
    it.gateway.start()
    ill.touch()
    it.gateway.kill()
    it.gateway.wait_for_restarts(4)
    question = person.asked(it, "crash-loop")
    assert "systemctl stop hermes-gateway.service" in question.text
    cut(it, end, f"{GATEWAY} {COMMAND_RUNS}", "approve", question.code)
    told_truly(it, "in the middle of step 1 of 1")
    resumed(it)
    assert it.gateway.is_down()
    person.hears_the_end(it)
    person.is_quiet(it)

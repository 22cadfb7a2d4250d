"""The watchdog is killed in the middle, or the whole machine goes: the next check tells the truth."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess

import pytest

from . import person
from .gateway import UNIT
from .test_operators_story import STATE, TLS_RECORD, rows


# seconds into the approved repair: before, in and after its steps, whatever the machine's speed
@pytest.mark.parametrize(("end", "after"), [("kill", 1.0), ("kill", 2.5), ("reboot", 1.5), ("reboot", 4.0)])
def test_a_repair_cut_short_loses_nothing_and_is_told(lab, end, after):
    it = lab("0.19.0", settings=person.SETTINGS)
    it.gateway.start()
    for number in range(2):
        it.gateway.answers(f"Question {number}")
    it.machine.systemctl("stop", UNIT)
    state = it.gateway.home / "state.db"
    before = rows(state, STATE)
    with state.open("r+b") as file:
        file.seek(5)
        file.write(TLS_RECORD)
    it.machine.systemctl("start", UNIT)
    it.gateway.wait_until_running(starts=2)
    question = person.asked(it, "database-broken")
    acting = it.watchdog.start("approve", question.code)
    with contextlib.suppress(subprocess.TimeoutExpired):
        acting.wait(after)
    if end == "reboot":
        it.machine.reboot()     # the unit is enabled, so the gateway starts with the machine
        it.gateway.wait_until_running(starts=3)
    elif acting.poll() is None:
        os.killpg(acting.pid, signal.SIGKILL)
    out, err = acting.communicate(timeout=30)

    audit = it.watchdog("audit").text
    done = it.watchdog("check")         # a plan that was approved but not begun may well be carried out now
    broken, running = not healthy(state), it.machine.show(UNIT, "ActiveState")["ActiveState"] == "active"
    if broken or not running:
        assert done.returncode == 1, f"broken={broken} running={running} and the check says all is well\n{done.text}"
    if "begun" in audit and acting.returncode != 0:
        assert "cut off" in done.text and "cut off" in person.messages(it)[-1], done.text + out + err
        again = it.watchdog("check")
        assert len(re.findall("begun", it.watchdog("audit").text)) == 1, f"never done again by itself\n{again.text}"
    # whatever the moment: every row is in the database in place, or in the files kept beside it
    kept = [file for file in it.gateway.home.parent.rglob("*") if file.is_file() and "state.db" in file.name]
    assert any(has_rows(file, before) for file in kept) or broken, [str(file) for file in kept]
    if broken:
        assert repairable(state), "the broken file itself is still there, to be healed later"


def healthy(file) -> bool:
    try:
        db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        return db.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False


def has_rows(file, before) -> bool:
    try:
        now = rows(file, STATE)
    except sqlite3.Error:
        return False
    return all(was <= now[table] for table, was in before.items())


def repairable(file) -> bool:
    return file.exists() and file.read_bytes()[:5] == b"SQLit"



"""The watchdog is killed in the middle, or the whole machine goes: the next check tells the truth."""

from __future__ import annotations

import os
import signal
import sqlite3

import pytest

from . import person
from .gateway import UNIT
from .test_operators_story import STATE, TLS_RECORD, rows

MOMENTS = (0.3, 1.0, 2.5)       # seconds into the approved repair; a kill may land before, in and after each step


@pytest.mark.parametrize("after", MOMENTS)
@pytest.mark.parametrize("end", ("kill", "reboot"))
def test_a_repair_cut_short_loses_nothing_and_is_told(lab, after, end):
    it = lab("0.19.0", settings=person.SETTINGS)
    it.gateway.start()
    for number in range(4):
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
    try:
        acting.wait(after)
    except Exception:
        pass
    if end == "kill":
        if acting.poll() is None:
            os.killpg(acting.pid, signal.SIGKILL)
    else:
        it.machine.reboot()     # the unit is enabled, so the gateway starts with the machine
    acting.wait(30)
    finished = acting.returncode == 0

    done = it.watchdog("check")
    assert done.returncode in (0, 1), done.text
    broken = not healthy(state)
    running = it.machine.show(UNIT, "ActiveState")["ActiveState"] == "active"
    if broken or not running:
        assert done.returncode == 1, f"broken={broken} running={running} and the check says all is well\n{done.text}"
    if not finished:
        told = done.text + "\n".join(person.messages(it))
        assert "half way" in told or "claimed" in told or "interrupted" in told or not broken, told
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



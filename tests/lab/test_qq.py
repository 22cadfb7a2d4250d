"""QQ: the stale-resume loop, the wedge of 0.13.0, and a 4009 that recovers."""

from __future__ import annotations

import signal

from . import person
from .conftest import both
from .gateway import UNIT

QQ = ("telegram", "qqbot")


@both
def test_a_4009_that_recovers_is_silence_and_a_resume_loop_is_ended_by_a_tap_on_ntfy(lab, version):
    it = lab(version, platforms=QQ, settings=person.NTFY)
    it.gateway.start()
    it.gateway.wait_for("Ready, session_id=")
    for round in (1, 2, 3):
        it.world.do("qq", "play", script="close-4009")
        it.gateway.wait_for("WebSocket closed: code=4009", times=round)
        it.gateway.wait_for("Ready, session_id=|Session resumed", times=round + 1)
        person.is_quiet(it, checks=1)
    assert person.messages(it) == []

    resumed, lost = (
        it.gateway.count("gateway.log", "Session resumed"),
        it.gateway.count("gateway.log", "WebSocket error"),
    )
    ready = it.gateway.count("gateway.log", "Ready, session_id=")
    it.world.do("qq", "play", script="stale-loop")
    it.gateway.wait_for("Session resumed", times=resumed + 5)
    it.gateway.wait_for("WebSocket error", times=lost + 6)  # the first one comes before the first resume
    report = it.watchdog.json("check", "--dry-run")
    assert person.open_rules(report) == ["qq-resume-loop"]
    assert "resumed and lost the same session" in report["incidents"][0]["says"]

    asking = it.watchdog.start("check")  # it waits for the answer
    person.presses(it, "approve")
    asking.communicate(timeout=200)
    it.gateway.wait_until_running(starts=2)
    it.gateway.wait_for("Ready, session_id=", times=ready + 1)
    person.hears_the_end(it, "pproved by anna via ntfy")
    it.gateway.answers("hello again")
    person.is_quiet(it)


def test_the_wedge_of_0_13_ends_in_a_kill_by_systemd_and_answers_again(lab):
    it = lab("0.13.0", platforms=QQ, settings=person.SETTINGS, hurry=("gateway-wedged",), stop_timeout=8)
    it.gateway.start_and_answer()
    it.world.do("qq", "play", script="dropped")
    it.gateway.wait_for("Reconnect failed")
    it.gateway.kill(signal.SIGTERM)  # frozen: it does not hear this
    it.world.set("qq", script="normal")  # and the endpoint's return does not help
    found = it.watchdog.until_found("gateway-wedged")
    assert "alive" in found["says"]

    question = person.asked(it, "gateway-wedged")
    pid = it.gateway.pid
    person.approves(it, question)
    assert it.gateway.pid != pid
    journal = it.machine.journal_text(UNIT)
    assert "State 'stop-sigterm' timed out. Killing." in journal
    assert "Failed with result 'timeout'." in journal
    it.gateway.answers("are you back?")
    person.hears_the_end(it)
    person.is_quiet(it)

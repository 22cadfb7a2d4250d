"""Stopped, killed, or dying at every start: only what nobody wanted is a fault."""

from __future__ import annotations

from datetime import timedelta

import pytest

from . import person
from .conftest import both
from .gateway import UNIT
from .waiting import until
from .watchdog import later

# A gateway that nobody revives, so that the watchdog is the one who notices.
NO_RESTART = "[Service]\nRestart=no\n"


@both
def test_a_killed_gateway_is_found_down_and_started_by_approval_and_a_planned_stop_is_silence(lab, version):
    it = lab(version, settings=person.SETTINGS)
    it.gateway.install(extra=NO_RESTART)
    it.gateway.start_and_answer()
    it.gateway.kill()
    until(it.gateway.is_down, "systemd saw it die")
    question = person.asked(it, "gateway-down")
    assert " between " in question.text
    assert "systemctl start hermes-gateway.service" in question.text
    person.approves(it, question)
    assert it.machine.show(UNIT, "ActiveState")["ActiveState"] == "active"
    it.gateway.answers("are you back?")
    person.hears_the_end(it, "Gateway started")
    person.is_quiet(it)

    it.machine.systemctl("stop", UNIT)
    assert it.machine.show(UNIT, "ActiveState", "Result") == {"ActiveState": "failed", "Result": "exit-code"}
    person.is_quiet(it, checks=3)


@pytest.mark.thorough
@both
def test_a_kill_that_systemd_heals_and_restarts_asked_for_in_the_chat_are_silence(lab, version):
    it = lab(version, settings=person.SETTINGS)
    it.gateway.start_and_answer()
    it.gateway.kill()
    it.gateway.wait_until_running(starts=2)
    it.gateway.answers("hello again")
    person.is_quiet(it)
    for number in range(3, 6):  # 0.13.0's exit status 75 counts like a crash for systemd
        it.gateway.tell("/restart")
        it.gateway.wait_until_running(starts=number)
    it.gateway.answers("enough?")
    person.is_quiet(it)
    assert person.messages(it) == []


def test_a_crash_loop_by_rejected_credentials_is_told_and_stopping_is_offered_not_a_restart(lab):
    it = lab("0.13.0", settings=person.SETTINGS)
    it.world.set("telegram", mode="rejected")
    it.gateway.install()
    it.machine.systemctl("start", UNIT)
    it.gateway.wait_for_restarts(4)
    found = it.watchdog.until_found("crash-loop")
    assert "was rejected by the server" in found["says"]
    question = person.asked(it, "crash-loop")
    assert "systemctl stop hermes-gateway.service" in question.text
    assert "systemctl restart" not in question.text
    person.approves(it, question)
    assert it.machine.show(UNIT, "MainPID")["MainPID"] == "0"
    person.hears_the_end(it)
    person.is_quiet(it)


def test_rejected_credentials_of_0_19_are_told_without_a_restart(lab):
    it = lab("0.19.0", settings=person.SETTINGS, hurry=("platform-down",))
    it.world.set("telegram", mode="rejected")
    it.gateway.install()
    it.machine.systemctl("start", UNIT)
    it.gateway.wait_for("Gateway started with no connected platforms")
    found = it.watchdog.until_found("platform-down")
    assert "telegram has not connected" in found["says"] and "token" in found["advice"], found
    assert it.watchdog("check").returncode == 1
    report = it.watchdog.json("check", "--dry-run")
    assert person.open_rules(report) == ["platform-down"] and report["plans"] == [], report
    (told,) = person.messages(it)
    assert (
        "telegram has not connected" in told
        and "A restart alone does not change that" in told
        and "approve" not in told
    ), told
    assert it.gateway.count("gateway.log", "Starting Hermes Gateway") == 1


@pytest.mark.thorough
def test_a_gateway_that_was_stopped_by_a_signal_is_called_frozen(lab):
    it = lab("0.19.0", settings=person.SETTINGS)
    it.gateway.start_and_answer()
    it.gateway.freeze(timedelta(minutes=6))
    report = it.watchdog.json("check", "--dry-run", *later(minutes=6))
    assert person.open_rules(report) == ["gateway-wedged"], report


@pytest.mark.thorough
@both
def test_starts_that_die_on_a_full_disk_after_a_planned_stop_are_a_crash_loop_at_every_check(lab, version):
    it = lab(version, settings=person.SETTINGS)
    it.gateway.start_and_answer()
    it.machine.systemctl("stop", UNIT)
    home = it.gateway.home
    it.machine.run(
        [
            "sh",
            "-c",
            f"cp -a {home} /run/h && mount -t tmpfs -o size=12m tmpfs {home} && cp -a /run/h/. {home}/; "
            f"cat /dev/zero > {home}/full",
        ],
        as_root=True,
    )
    it.machine.systemctl("start", "--no-block", UNIT)
    it.gateway.wait_for_restarts(4, within=120)
    for _ in range(5):
        assert "crash-loop" in person.open_rules(it.watchdog.json("check"))

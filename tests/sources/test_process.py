"""Whether the gateway lives, where its own files do not tell: halted by a signal, or dead before it could
log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import farewells

from watchdog.model import Measurement
from watchdog.pipeline import look
from watchdog.sources import journal
from watchdog.sources.process import failed_to_start_again, last_words, lived_until, observe
from watchdog.sources.read import Sources

STOPPED_AT = datetime(2026, 5, 19, 10, 16, 2, 500_000, tzinfo=UTC)
NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)
FAREWELL = """
10:15:00,000 INFO gateway.run: Starting Hermes Gateway...
10:16:01,000 INFO gateway.run: Received SIGTERM — initiating shutdown
10:16:02,500 INFO gateway.run: Exiting with code 1
"""


@pytest.fixture
def process(home):
    """A gateway of this home: it holds the lock."""
    made = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    hold = "import fcntl, sys, time; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, 2); print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", hold, str(made / "gateway.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as one:
        assert one.stdout is not None and one.stdout.readline()
        (made / "gateway.pid").write_text(f'{{"pid": {one.pid}}}')
        yield one
        one.kill()


def test_a_process_that_a_signal_holds_is_frozen_and_one_that_sleeps_is_not(tmp_path, process):
    folder = tmp_path / "home"
    quiet_since = NOW - timedelta(minutes=6)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    for last_line, state in ((quiet_since, "frozen"), (NOW - timedelta(minutes=1), "running")):
        event, _ = observe(folder, folder / "logs", last_line, NOW, farewells())
        assert event is not None and event.facts["state"] == state
    os.kill(process.pid, signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the journal has of the gateway's unit, oldest first: (when, text)."""

    def say(*lines: tuple[datetime, str]) -> None:
        entries = [
            {
                "__REALTIME_TIMESTAMP": f"{at.timestamp() * 1e6:.0f}",
                "MESSAGE": text,
                "_PID": "1",
                "_BOOT_ID": journal._boot(),
            }
            for at, text in lines
        ]
        (tmp_path / "newest.txt").write_text("".join(json.dumps(one) + "\n" for one in reversed(entries)))
        (tmp_path / "oldest.txt").write_text("".join(json.dumps(one) + "\n" for one in entries))
        (tmp_path / "journalctl").write_text(
            f'#!/bin/sh\ncase "$*" in *" -r "*) cat {tmp_path}/newest.txt;; *) cat {tmp_path}/oldest.txt;; esac\n'
        )
        (tmp_path / "journalctl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return say


def after(seconds: float) -> datetime:
    return STOPPED_AT + timedelta(seconds=seconds)


def written(folder: Path, at: datetime) -> None:
    os.utime(folder / "logs" / "gateway.log", (at.timestamp(), at.timestamp()))


@pytest.mark.parametrize("ahead", [0, 8], ids=["in UTC", "in another zone"])
def test_the_time_of_a_farewell_is_told_in_whatever_zone_the_log_is(home, ahead):
    folder = home(FAREWELL + "10:20:00,000 WARNING gateway.config: it goes on")
    written(folder, datetime(2026, 5, 19, 10, 20, tzinfo=UTC) - timedelta(hours=ahead))
    assert last_words(folder / "logs" / "gateway.log", farewells()) == (
        "stopped",
        STOPPED_AT - timedelta(hours=ahead),
    )


@pytest.mark.parametrize("warns", [False, True], ids=["silent", "with a warning"])
def test_a_start_that_died_before_its_first_words_is_dead_though_an_older_run_said_farewell(
    book, home, systemd, warns
):
    folder = home(FAREWELL + ("10:20:01,000 WARNING gateway.config: no room\n" if warns else ""))
    written(folder, datetime(2026, 5, 19, 10, 20, 1, tzinfo=UTC) if warns else STOPPED_AT)
    died = after(240)
    systemd(
        (after(1), "Started Hermes."),
        (died, "hermes-gateway.service: Main process exited, code=exited, status=1/FAILURE"),
    )
    event, _ = observe(folder, folder / "logs", after(239), NOW, farewells(), "hermes-gateway")
    assert event is not None and event.facts["state"] == "dead" and event.facts["since"] == died.isoformat()
    seen, _ = look(
        book.rules, Sources(folder, zone=UTC, unit="hermes-gateway"), NOW - timedelta(hours=1), NOW
    )
    assert [finding.rule for finding in seen.findings] == ["gateway-down"]


def test_a_gateway_that_ended_with_a_farewell_of_its_own_was_stopped_and_one_just_started_runs(home, systemd):
    folder = home(FAREWELL)
    written(folder, STOPPED_AT)
    start = (after(-60), "Started Hermes.")
    systemd(start, (after(0.1), "hermes-gateway.service: Main process exited, code=exited, status=1/FAILURE"))
    event, _ = observe(folder, folder / "logs", STOPPED_AT, NOW, farewells(), "hermes-gateway")
    assert event is not None and event.facts["state"] == "stopped"
    systemd((after(60), "Started Hermes."))
    event, _ = observe(folder, folder / "logs", STOPPED_AT, NOW, farewells(), "hermes-gateway")
    assert event is not None and event.facts["state"] == "running"


def test_a_stop_in_the_gateways_own_files_does_not_hide_the_starts_that_could_not_write_there(home, systemd):
    folder = home(FAREWELL)
    written(folder, STOPPED_AT)
    life = {"phase": "exited", "pid": 4000000, "exit_code": 0, "exited_at": STOPPED_AT.isoformat()}
    (folder / "state").mkdir()
    (folder / "state" / "gateway.lifecycle.json").write_text(json.dumps(life))
    systemd((after(60), "hermes-gateway.service: Scheduled restart job, restart counter is at 4."))
    event, _ = observe(folder, folder / "logs", STOPPED_AT, NOW, farewells(), "hermes-gateway")
    assert event is not None and event.facts["state"] == "dead"


def test_a_gateway_that_gave_up_by_itself_was_not_stopped_on_purpose(home):
    made = home(
        """
10:15:00,000 INFO gateway.run: Starting Hermes Gateway...
10:40:01,000 ERROR gateway.run: All messaging platforms failed with retryable errors. Shutting down gateway for service restart (systemd will retry).
10:40:01,010 INFO gateway.run: Stopping gateway...
10:40:01,100 INFO gateway.run: Gateway stopped (total teardown 0.10s)
10:40:01,110 ERROR gateway.run: Gateway exiting with failure: Telegram polling could not reconnect
"""
    )
    said, _ = last_words(str(made / "logs" / "gateway.log"), farewells())
    assert said == "started"


def test_an_earlier_check_that_saw_it_alive_is_a_sign_of_life(home):
    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...", gateway_dot_pid='{"pid": 4000000}'
    )
    seen_at = NOW - timedelta(seconds=11)
    event, _ = observe(folder, folder / "logs", NOW - timedelta(minutes=9), NOW, farewells())
    assert event is not None
    lived_until(event, [Measurement(seen_at, {"pid": "4000000"}), Measurement(NOW, {"free": 1})])
    assert event.facts["alive_at"] == seen_at.isoformat() and event.facts["missing_at"] == NOW.isoformat()
    assert event.facts["since"] == seen_at.isoformat(), "and not while it was seen alive"


@pytest.mark.parametrize(
    ("restart", "starts", "state"),
    [
        (after(-5), [after(-60)], "dead"),  # it ended while our restart was at work, and nothing started it
        (after(-5), [after(-60), after(-2)], "stopped"),  # it came up again, and somebody stopped it
        (after(-3600), [after(-7200)], "stopped"),  # long after that
        (after(60), [after(-60)], "stopped"),  # before it
    ],
)
def test_a_gateway_that_a_failed_repair_left_stopped_is_down_and_not_stopped_on_purpose(
    home, restart, starts, state
):
    folder = home(FAREWELL)
    written(folder, STOPPED_AT)
    event, _ = observe(folder, folder / "logs", STOPPED_AT, NOW, farewells())
    assert event is not None and event.facts["state"] == "stopped"
    failed_to_start_again(event, [restart], starts)
    assert event.facts["state"] == state


def test_the_rules_see_a_gateway_that_a_failed_repair_left_stopped(book, home):
    folder = home(FAREWELL)
    written(folder, STOPPED_AT)
    for restarts, wanted in ((), []), ((after(-5),), ["gateway-down"]):
        sources = Sources(folder, zone=UTC, failed_restarts=restarts)
        seen, _ = look(book.rules, sources, NOW - timedelta(hours=1), NOW)
        assert [finding.rule for finding in seen.findings] == wanted


def test_that_another_process_was_alive_then_says_nothing_of_this_one(home):
    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...", gateway_dot_pid='{"pid": 4000000}'
    )
    event, _ = observe(folder, folder / "logs", NOW - timedelta(minutes=9), NOW, farewells())
    assert event is not None
    lived_until(event, [Measurement(NOW - timedelta(seconds=11), {"pid": "77"})])
    assert event.facts["alive_at"] == (NOW - timedelta(minutes=9)).isoformat()

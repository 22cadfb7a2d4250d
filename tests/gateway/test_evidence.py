"""What a home shows of its gateway: real processes, locks and sockets, and files that lie."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import farewells

from watchdog.gateway.evidence import read_evidence
from watchdog.gateway.machine import look_at_gateway
from watchdog.gateway.state import State, Why, state_of
from watchdog.sources.process import observe
from watchdog.system.procfs import start_time_of

NOW = datetime.now(UTC)
HOLD = """
import fcntl, os, time
lock = open(os.environ["HERMES_HOME"] + "/gateway.lock", 'a+')
fcntl.flock(lock, fcntl.LOCK_EX)
print('held', flush=True)
time.sleep(600)
"""


@contextmanager
def holding(home: Path, *before: str):
    """A process that holds this home's lock, and is named in its gateway.pid."""
    program = home.parent / "hermes"
    program.write_text(HOLD)
    command = [*before, sys.executable, str(program), "gateway", "run"]
    env = {**os.environ, "HERMES_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        record = {"pid": process.pid, "start_time": start_time_of(process.pid), "argv": command}
        (home / "gateway.pid").write_text(json.dumps(record))
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def folder(home) -> Path:
    made = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    (made / "state").mkdir()
    return made


def state(folder: Path, last_line_at: datetime | None = None) -> State:
    return state_of(read_evidence(folder, NOW, last_line_at)).state


def put(folder: Path, name: str, **value: object) -> None:
    (folder / "state" / name).write_text(json.dumps(value))


def test_a_copied_home_does_not_take_the_originals_gateway_for_its_own(folder, tmp_path):
    with holding(folder) as process:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, symlinks=True)
        assert (look_at_gateway(folder).alive, look_at_gateway(folder).pid) == (True, process.pid)
        there = look_at_gateway(copy)
        assert (there.alive, there.pid) == (False, 0) and there.why.key == Why.OTHER_HOME
        event, _ = observe(copy, copy / "logs", None, NOW, farewells())
        assert event is not None and event.facts["state"] == "stopped"


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_copy_whose_lock_is_only_another_name_of_the_originals_sees_no_gateway(folder, tmp_path, link):
    with holding(folder) as process:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        (copy / "gateway.lock").unlink()
        link(folder / "gateway.lock", copy / "gateway.lock")
        assert look_at_gateway(copy).alive is None
        assert look_at_gateway(folder).pid == process.pid  # also while a snapshot shares its lock file


@pytest.mark.parametrize("start", [None, "x"])
def test_without_a_start_time_a_number_that_was_given_to_another_process_hides_no_death(folder, start):
    (folder / "gateway.lock").touch()
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        try:
            (folder / "gateway.pid").write_text(json.dumps({"pid": other.pid, "start_time": start}))
            assert state(folder) is State.DEAD
            event, _ = observe(folder, folder / "logs", None, NOW, farewells())
            assert event is not None and event.facts["state"] == "dead"
        finally:
            other.kill()


def test_a_lock_file_that_was_deleted_under_a_living_gateway_is_not_a_death(folder):
    with holding(folder):
        (folder / "gateway.lock").unlink()
        assert state(folder) is State.UNKNOWN
        (folder / "gateway.lock").touch()
        assert state(folder) is State.UNKNOWN
        event, why = observe(folder, folder / "logs", None, NOW, farewells())
        assert event is None and "gateway.lock is gone or was replaced" in why


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs a namespace of its own")
def test_from_another_pid_namespace_a_lock_that_is_held_cannot_be_seen_and_a_free_one_is_free(folder):
    ask = (
        "import sys; from pathlib import Path; from datetime import *\n"
        "from watchdog.sources.process import Farewells, observe\n"
        "home = Path(sys.argv[1]); event, why = observe(home, home / 'logs', None, datetime.now(UTC), Farewells((), ()))\n"
        "print(event.facts['state'] if event else why)"
    )
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

    def asked() -> str:
        command = [*apart, sys.executable, "-c", ask, str(folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()

    with holding(folder):
        assert "may be held by a process of another container" in asked()
    assert asked() == "dead"
    # The other way round: a gateway in a container, seen from the host, has another number here.
    with holding(folder, *apart):
        (folder / "gateway.pid").write_text('{"pid": 1, "start_time": 5}')
        assert state(folder) is State.RUNNING


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become somebody else")
def test_a_gateway_of_another_user_is_seen_by_its_lock(folder, public_folder):
    home = Path(shutil.copytree(folder, public_folder / "home"))
    with holding(home) as process:
        os.seteuid(65534)
        try:
            found = look_at_gateway(home)
        finally:
            os.seteuid(0)
        assert (found.alive, found.pid) == (True, process.pid)


def heartbeat(folder: Path, pid: int, age: timedelta) -> None:
    at = NOW - age
    put(
        folder,
        "gateway.heartbeat",
        pid=pid,
        updated_at=at.isoformat(),
        monotonic=time.monotonic() - age.total_seconds(),
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder, pid: heartbeat(folder, pid + 1, timedelta(minutes=9)),
        lambda folder, pid: heartbeat(folder, pid, timedelta(minutes=-9)),
        lambda folder, pid: (folder / "state" / "gateway.heartbeat").mkdir(),
        lambda folder, pid: os.symlink("/dev/zero", folder / "state" / "gateway.heartbeat"),
        lambda folder, pid: os.mkfifo(folder / "state" / "gateway.heartbeat"),
        lambda folder, pid: (folder / "state" / "gateway.heartbeat").write_text("[" * 100_000),
        lambda folder, pid: put(folder, "gateway.heartbeat", pid="x", updated_at=7, monotonic="late"),
        lambda folder, pid: put(folder, "gateway.heartbeat", pid=pid, updated_at="9" * 99),
        # The machine slept: by the clock on the wall it is old, by the one that stands still meanwhile it is not.
        lambda folder, pid: put(
            folder,
            "gateway.heartbeat",
            pid=pid,
            updated_at=(NOW - timedelta(hours=8)).isoformat(),
            monotonic=time.monotonic() - 5,
        ),
    ],
    ids=["other pid", "future", "folder", "link", "pipe", "nested", "types", "number", "slept"],
)
def test_a_heartbeat_that_says_nothing_or_lies_freezes_nothing(folder, spoil):
    with holding(folder) as process:
        spoil(folder, process.pid)
        assert state(folder, NOW - timedelta(minutes=9)) is State.RUNNING


def test_no_heartbeat_and_no_line_for_minutes_is_a_frozen_gateway(folder):
    with holding(folder) as process:
        heartbeat(folder, process.pid, timedelta(minutes=9))
        assert state(folder, NOW - timedelta(minutes=9)) is State.FROZEN
        assert state(folder, NOW - timedelta(minutes=1)) is State.RUNNING


@contextmanager
def listening(path: Path, answer: bytes | None):
    """Somebody who accepts, and answers or does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        lines: list[socket.socket] = []

        def accept() -> None:
            line, _ = server.accept()
            lines.append(line)
            if answer is not None:
                line.sendall(answer)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for line in lines:
                line.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"1", State.RUNNING), (b"0", State.FROZEN), (None, State.FROZEN)],
    ids=["answers", "says something else", "accepts and never answers"],
)
def test_the_loops_own_socket_is_asked_for_a_fifth_of_a_second(folder, tmp_path, answer, expected):
    # A socket's path is short; pytest's folders are not.
    short = Path(f"/tmp/w{os.getpid()}")
    short.symlink_to(folder)
    try:
        with holding(folder) as process:
            heartbeat(folder, process.pid, timedelta(minutes=9))
            with listening(short / "state" / f"gateway.loop-tick.{process.pid}.sock", answer):
                began = time.monotonic()
                assert state(short) is expected
                assert time.monotonic() - began < 10
    finally:
        short.unlink()


def test_a_lifecycle_file_that_lies_changes_nothing_about_a_gateway_that_holds_its_lock(folder):
    with holding(folder) as process:
        put(
            folder,
            "gateway.lifecycle.json",
            phase="exited",
            pid=process.pid,
            exit_code=78,
            exited_at=NOW.isoformat(),
        )
        assert state(folder) is State.RUNNING
    put(folder, "gateway.lifecycle.json", phase="running", pid=process.pid, started_at=NOW.isoformat())
    assert state(folder) is State.DEAD


def test_what_a_dead_gateway_left_behind_is_told_as_facts(folder):
    (folder / "gateway.lock").touch()
    put(
        folder,
        "gateway.lifecycle.json",
        phase="exited",
        pid=5,
        exit_code=78,
        exit_reason="graceful_shutdown",
        exited_at=(NOW - timedelta(minutes=2)).isoformat(),
    )
    (folder / "gateway_state.json").write_text(
        json.dumps(
            {
                "gateway_state": "startup_failed",
                "pid": 5,
                "exit_reason": "telegram: token 1234567890:" + "A" * 35 + " rejected\n\x1b[2J",
                "updated_at": (NOW - timedelta(minutes=2, seconds=1)).isoformat(),
            }
        )
    )
    event, _ = observe(folder, folder / "logs", NOW - timedelta(minutes=3), NOW, farewells())
    assert event is not None
    facts = event.facts
    assert (facts["state"], facts["exit_code"], facts["startup_failed"]) == ("dead", "78", "yes")
    assert facts["missing_at"] == (NOW - timedelta(minutes=2)).isoformat()
    assert "exit_reason" not in facts  # its own words: shown, and never put into a step
    assert "telegram: token" in event.more and "AAAA" not in event.more and "\x1b" not in event.more

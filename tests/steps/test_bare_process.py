"""The real thing without systemd: a stand-in gateway as a bare process, stopped, started, and never mistaken
for another.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import let_others_in
from machines import START, Machine, ask, incident, said

from watchdog.approval.record import COMMAND_LINE, GivenAnswer, answer, new_code
from watchdog.config.settings import Limits, Settings
from watchdog.gateway.machine import GatewayProcess, look_at_gateway, measure_machine
from watchdog.gateway.machine import Machine as RealMachine
from watchdog.gateway.probe import inside_gateway
from watchdog.gateway.supervisor import PROCESS, Supervisor
from watchdog.notify.translate import in_english
from watchdog.repair import carry_out, verify
from watchdog.sources.read import Sources, starts_in_log
from watchdog.steps import bare_process as bare
from watchdog.steps import gateway
from watchdog.store import Store
from watchdog.system.commands import Ran

SCRIPT = Path(__file__).parent / "hermes"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(SCRIPT, tmp_path / "bin" / "hermes")
    yield tmp_path / "home"
    seen = look_at_gateway(tmp_path / "home")
    if seen.alive:
        with suppress(ProcessLookupError):
            os.kill(seen.pid, signal.SIGKILL)
    if CHILD is not None:
        CHILD.kill()
        CHILD.wait()


CHILD: subprocess.Popen | None = None


def fast(world: RealMachine, times: int) -> RealMachine:
    """The same world on a clock that runs faster, so that no test waits for minutes; as ever after two and a half,
    because what ends at once takes its time on a busy machine.
    """
    began = time.monotonic()

    def clock() -> datetime:
        passed = time.monotonic() - began
        return START + timedelta(seconds=min(passed * times, 151) + max(0, passed - 151 / times))

    return replace(world, clock=clock)


def skipping(world: RealMachine) -> RealMachine:
    """The same world where waiting passes the time, and takes none."""
    skipped = [0.0]

    def sleep(seconds: float) -> None:
        skipped[0] += seconds
        time.sleep(0.02)

    return replace(world, clock=lambda: NOW() + timedelta(seconds=skipped[0]), sleep=sleep)


def started(home: Path, **env: str) -> GatewayProcess:
    """A running gateway; waits for its pid file, not for a time."""
    global CHILD
    CHILD = subprocess.Popen(
        [sys.executable, str(home.parent / "bin" / "hermes"), "gateway", "run"],
        env={**os.environ, "HERMES_HOME": str(home), **env},
        start_new_session=True,
    )
    # It holds its lock before it writes its files, gateway.pid last of them.
    return until(home, lambda seen: bool(seen.up) and (home / "gateway.pid").exists())


def until(home: Path, wanted, seconds: float = 10) -> GatewayProcess:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look_at_gateway(home)
        if wanted(seen):
            return seen
        time.sleep(0.02)
    raise AssertionError(f"not as wanted: {look_at_gateway(home)}")


def world_of(home: Path) -> RealMachine:
    """The real world, except that no docker or systemctl of this machine is asked."""
    settings = Settings(limits=Limits(wait_for_turns=timedelta(0)))
    sources = Sources(home)
    starts = starts_in_log(sources, NOW() - timedelta(days=1), NOW())
    world = measure_machine(home, home.parent / "state", settings, starts, no_tools)
    assert world.supervisor.kind == PROCESS, world.supervisor
    return world


def NOW() -> datetime:
    return datetime.now(UTC)


def no_tools(argv, timeout, env=None):
    return Ran(1, "")


def test_a_bare_gateway_is_found_with_its_exact_command(home):
    seen = started(home)
    world = world_of(home)
    assert world.gateway.pid == seen.pid and world.gateway.up and world.supervisor.may_act
    assert in_english(gateway.describe(gateway.Args("stop"), world)) == (
        f"stop the gateway (process {seen.pid}): SIGTERM, and SIGKILL if it is still there after 2 minutes 30 seconds"
    )
    assert f"HERMES_HOME={home}" in in_english(gateway.describe(gateway.Args("start"), world))


def test_a_restart_gives_a_new_process_with_the_old_environment(home):
    seen = started(home, COLOUR="green")
    outcome = gateway.run(gateway.Args("restart"), world_of(home))
    assert outcome.ok, outcome
    after = until(home, lambda now: (home / "gateway.log").read_text().count("green") == 2)
    assert after.alive and after.pid != seen.pid


def test_a_stop_and_a_start_are_told_as_what_they_were(home):
    started(home)
    world = world_of(home)
    assert said(gateway.run(gateway.Args("stop"), world)) == "stopped"
    assert look_at_gateway(home).alive is False
    assert said(gateway.run(gateway.Args("stop"), world)) == "it was not running"
    assert gateway.run(gateway.Args("start"), world).ok
    assert "already running" in said(gateway.run(gateway.Args("start"), world))


def test_a_frozen_gateway_that_ignores_sigterm_is_ended_by_sigkill(home):
    (home / "frozen").touch()
    started(home)
    outcome = bare.stop(fast(world_of(home), 300), look_at_gateway(home))
    assert outcome.ok and "SIGKILL; SIGTERM was ignored" in said(outcome)


def test_a_process_that_took_over_the_number_is_not_signalled(home):
    seen = started(home)
    outcome = bare.stop(world_of(home), replace(seen, start_time=seen.start_time - 1))
    assert not outcome.ok and "is another process now; nothing was signalled" in said(outcome)
    assert look_at_gateway(home).alive


def test_a_forged_pid_file_neither_stops_nor_starts_anything_else(home):
    (home / "gateway.pid").write_text(
        json.dumps({"pid": os.getpid(), "argv": ["/bin/rm", "-rf", "/"], "start_time": 1})
    )
    assert look_at_gateway(home).alive is False
    world = measure_machine(home, home.parent / "state", Settings(), ask=no_tools)
    assert not world.supervisor.may_act and world.supervisor.argv == ()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "[]",
        '{"pid": "x"}',
        '{"pid": -1}',
        '{"pid": 99999999999999}',
        '{"pid": 1, "argv": 7}',
        "{" * 50_000,
    ],
)
def test_a_broken_pid_file_is_no_gateway(home, content):
    (home / "gateway.pid").write_text(content)
    assert look_at_gateway(home).alive is False


def test_a_pid_file_that_is_a_link_or_a_pipe_is_not_followed(home):
    os.symlink("/proc/self/stat", home / "gateway.pid")
    os.mkfifo(home / "gateway_state.json")
    assert look_at_gateway(home).alive is False


def test_a_gateway_that_dies_at_once_is_told(home):
    started(home)
    world = world_of(home)
    assert gateway.run(gateway.Args("stop"), world).ok
    (home / "dies").touch()
    outcome = gateway.run(gateway.Args("start"), fast(world, 60))
    assert not outcome.ok and "no new gateway process" in said(outcome)


def test_an_approved_restart_of_a_real_process_from_question_to_proof(home, monkeypatch):
    monkeypatch.setattr(verify, "SETTLED", timedelta(0))
    seen = started(home)
    world = world_of(home)
    stuck = incident(at=world.clock())
    machine = Machine(home, wrong=[stuck], cured_by=lambda _: look_at_gateway(home).pid not in (0, seen.pid))
    with Store.open(home.parent / "state" / "watchdog.db") as store:
        known = replace(world, starts=())  # its grace period would hold the plan
        plan = ask(machine, store, known, world.clock())[0]
        assert f"restart the gateway (process {seen.pid})" in in_english(plan.words[0])
        code = new_code(store, plan.id, COMMAND_LINE, world.clock())
        assert answer(store, GivenAnswer(code, True, "ann", COMMAND_LINE), world.clock()).ok
        outcomes = carry_out(plan.id, machine.job(store, known))
    assert [one.ok for one in outcomes] == [True, True, True], outcomes


def test_when_the_process_changed_since_the_question_nothing_is_done(home):
    started(home)
    world = world_of(home)
    machine = Machine(home, wrong=[incident(at=world.clock())])
    with Store.open(home.parent / "state" / "watchdog.db") as store:
        known = replace(world, starts=())
        plan = ask(machine, store, known, world.clock())[0]
        answer(
            store,
            GivenAnswer(new_code(store, plan.id, COMMAND_LINE, world.clock()), True, "ann", COMMAND_LINE),
            world.clock(),
        )
        assert gateway.run(gateway.Args("restart"), world).ok  # somebody else was quicker
        before = look_at_gateway(home)
        fresh = world_of(home)
        outcome = carry_out(plan.id, machine.job(store, replace(fresh, starts=())))[-1]
    assert "the situation changed" in said(outcome) and look_at_gateway(home).pid == before.pid


def test_starts_by_anyone_are_seen_in_the_process_and_in_the_log(home):
    seen = started(home)
    (home / "logs").mkdir()
    stamp = datetime.now().replace(microsecond=0) - timedelta(hours=3)
    (home / "logs" / "gateway.log").write_text(
        f"{stamp:%Y-%m-%d %H:%M:%S},000 INFO gateway.run: Starting Hermes Gateway...\n"
        f"{stamp:%Y-%m-%d %H:%M:%S},500 INFO gateway.run: inbound message: platform=telegram user=x chat=1 msg='Starting Hermes Gateway'\n"
    )
    assert world_of(home).starts == (stamp.astimezone(), seen.started_at)


def test_inside_the_gateway_the_watchdog_says_so(monkeypatch):
    assert inside_gateway(0) is None
    assert "child of the gateway" in in_english(inside_gateway(os.getppid()))
    monkeypatch.setenv("_HERMES_GATEWAY", "1")
    assert "_HERMES_GATEWAY=1" in in_english(inside_gateway(0))


def test_an_approved_heal_of_a_copied_home_does_not_touch_the_originals_gateway(home, tmp_path):
    seen = started(home)
    with sqlite3.connect(home / "state.db") as db:
        db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT)")
        db.execute("INSERT INTO messages VALUES (1, 'kept')")
    db.close()
    copy = tmp_path / "copy"
    shutil.copytree(home, copy, symlinks=True)
    with (copy / "state.db").open("r+b") as file:
        file.write(b"SQLit\x17")
    world = replace(world_of(copy), starts=())
    assert world.gateway.alive is False
    assert f"gateway.pid names process {seen.pid}, the gateway of another home" in in_english(
        world.supervisor.warnings[0]
    )
    broken = incident(
        "database-broken", "state.db", "heal-database", world.clock(), facts={"database": "state.db"}
    )
    machine = Machine(copy, wrong=[broken], cured_by=lambda _: (copy / "state.db").read_bytes()[5:6] == b"e")
    with Store.open(tmp_path / "state-of-copy" / "watchdog.db") as store:
        plan = ask(machine, store, world, world.clock())[0]
        code = new_code(store, plan.id, COMMAND_LINE, world.clock())
        assert answer(store, GivenAnswer(code, True, "ann", COMMAND_LINE), world.clock()).ok
        outcomes = carry_out(plan.id, machine.job(store, skipping(world)))
    try:
        assert "it was not running" in said(outcomes[0]) and outcomes[1].ok, outcomes
        assert look_at_gateway(home).pid == seen.pid
        assert not bare.stop(world, look_at_gateway(home)).ok
        assert look_at_gateway(home).alive
    finally:
        if (second := look_at_gateway(copy)).alive:
            os.kill(second.pid, signal.SIGKILL)


@pytest.mark.parametrize("do", ["stop", "start", "restart"])
def test_a_gateway_whose_lock_cannot_be_seen_is_neither_signalled_nor_started(home, tmp_path, do):
    seen = started(home)
    other = tmp_path / "other"
    shutil.copytree(home, other, copy_function=os.link)  # its lock is the same file: whose lock is held?
    world = replace(world_of(home), home=other)
    outcome = gateway.run(gateway.Args(do), world)
    assert not outcome.ok and "nothing was signalled or started" in said(outcome)
    assert look_at_gateway(home).pid == seen.pid and "started" not in world.kept


@pytest.mark.skipif(os.getuid() != 0 or not os.path.exists("/usr/bin/python3"), reason="needs another user")
def test_a_checkout_inside_the_home_is_started_as_its_owner_and_never_as_root(home):
    checkout = home / "hermes-agent"
    (checkout / "hermes_cli").mkdir(parents=True)
    (checkout / "venv" / "bin").mkdir(parents=True)
    os.symlink("/usr/bin/python3", checkout / "venv" / "bin" / "python")
    (checkout / "hermes_cli" / "__init__.py").touch()
    shutil.copy(SCRIPT, checkout / "hermes_cli" / "main.py")
    (home / "gateway.lock").touch()
    main = str(checkout / "hermes_cli" / "main.py")
    (home / "gateway.pid").write_text(json.dumps({"pid": 0, "argv": [main, "gateway", "run"]}))
    let_others_in(home)
    for path in (home, *home.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    world = world_of(home)
    assert world.supervisor.may_act and world.supervisor.uid == 65534
    assert gateway.run(gateway.Args("start"), world).ok
    seen = look_at_gateway(home)
    assert seen.alive and os.stat(f"/proc/{seen.pid}").st_uid == 65534
    assert os.readlink(f"/proc/{seen.pid}/cwd") == str(checkout)


def test_a_home_that_was_given_to_another_user_since_the_yes_starts_nothing(home):
    approved = Supervisor(PROCESS, argv=("/opt/hermes", "gateway", "run"), uid=home.stat().st_uid + 1)
    world = RealMachine(home, home.parent / "state", approved)
    outcome = gateway.run(gateway.Args("start"), world)
    assert not outcome.ok and "belongs to another user than when it was approved" in said(outcome)
    assert look_at_gateway(home).alive is False

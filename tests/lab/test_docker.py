"""Hermes in a container, on a real engine: found, named, restarted and healed from the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from . import parts, person
from .conftest import FAILED, needs
from .containers import NAME, ContainerGateway, ContainerMachine
from .test_operators_story import STATE, TLS_RECORD, rows
from .test_power import has_all, healthy
from .waiting import until
from .watchdog import Watchdog
from .world import World

EATS = """import os, threading, time
def eat():
    while not os.path.exists("/opt/data/eat"):
        time.sleep(0.2)
    kept = []
    while True:
        kept.append(bytearray(b"x") * 20_000_000)
if os.environ.get("HERMES_HOME"):
    threading.Thread(target=eat, daemon=True).start()
"""


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Callable[..., SimpleNamespace]]:
    """box('docker', s6=…, options=(…,), hurry=(…,)) → world, machine, gateway (not started), watchdog."""
    made: list[tuple[World, ContainerMachine]] = []

    def make(engine: str = "docker", hurry: tuple[str, ...] = (), **how) -> SimpleNamespace:
        needs(
            "docker.io",
            "runc",
            *(("podman",) if engine == "podman" else ()),
            *(("s6",) if how.get("s6") else ()),
        )
        world = World()
        machine = ContainerMachine(world, engine)
        made.append((world, machine))
        machine.boot()
        gateway = ContainerGateway(machine, "0.19.0", **how)
        watchdog = Watchdog(gateway, person.SETTINGS, hurry)
        return SimpleNamespace(world=world, machine=machine, gateway=gateway, watchdog=watchdog)

    yield make
    for world, machine in made:
        machine.kill()
        if request.node.stash.get(FAILED, False):
            kept = parts.CACHE / "failed" / request.node.name
            shutil.rmtree(kept, ignore_errors=True)
            ignored = shutil.ignore_patterns("*.sock", "dk", "dkrun", "podman", "journal")
            shutil.copytree(world.folder, kept, symlinks=True, ignore=ignored, ignore_dangling_symlinks=True)
        world.end()


def outside(it: SimpleNamespace) -> str:
    return f"in container {NAME} (process {it.gateway.pid} outside)"


def test_a_healthy_gateway_is_named_with_its_container_and_a_planned_stop_is_silence(box):
    it = box()
    it.gateway.start()
    it.gateway.answers("hello")
    assert it.gateway.pid > 1 == it.gateway.state()["pid"], "inside it is process 1"
    for command in ("status", "doctor"):
        shown = it.watchdog(command).text
        assert outside(it) in shown, shown
    person.is_quiet(it)
    it.machine.tool("stop", "-t", "30", NAME)
    person.is_quiet(it, checks=3)
    assert person.messages(it) == []


def test_a_killed_container_is_started_by_approval_and_a_frozen_gateway_is_seen(box):
    it = box()
    it.gateway.start()
    it.gateway.answers("hello")
    person.is_quiet(it)
    it.machine.tool("kill", NAME)
    question = person.asked(it, "gateway-down")
    assert f"start the gateway (container {NAME}): docker start {it.gateway.id[:12]}" in question.text
    person.approves(it, question)
    it.gateway.wait_until_running(starts=2)
    it.gateway.answers("are you back?")
    assert outside(it) in person.hears_the_end(it, "Gateway started")
    person.is_quiet(it)

    it.gateway.freeze(timedelta(minutes=6))
    then = datetime.now() + timedelta(minutes=6)
    report = it.watchdog.json("check", "--dry-run", "--now", f"{then:%Y-%m-%d %H:%M:%S}")
    assert person.open_rules(report) == ["gateway-wedged"], report
    assert f"docker restart -t 15 {it.gateway.id[:12]}" in str(report["plans"]), report["plans"]


@pytest.mark.parametrize(
    ("engine", "s6"), [("docker", False), ("docker", True), ("podman", False)], ids=["docker", "s6", "podman"]
)
def test_a_hung_chat_is_cured_by_an_approved_restart_of_what_runs_the_gateway(box, engine, s6):
    it = box(engine, s6=s6, hurry=("session-stuck",))
    it.gateway.start()
    it.gateway.answers("hello")
    assert f"container {NAME} (process {it.gateway.pid} outside)" in it.watchdog("status").text
    it.world.do("llm", "behave", match="never answer", do="hang")
    it.gateway.tell("please never answer")
    question = person.asked(it, "session-stuck")
    short_id, before = it.gateway.id[:12], it.gateway.pid
    if s6:
        assert f"docker exec {short_id} /usr/bin/s6-svc -r /run/service/gateway-default" in question.text
        assert "also in this container, and left alone: gateway-work" in question.text
        neighbour = it.machine.tool(
            "exec", NAME, "s6-svstat", "-o", "pid", "/run/service/gateway-work"
        ).stdout
    else:
        assert f"{engine} restart -t {15 if engine == 'docker' else 20} {short_id}" in question.text
    it.world.do("llm", "calm")
    person.approves(it, question)
    assert it.gateway.pid not in (0, before)
    it.gateway.answers("are you back?")
    assert outside(it) in person.hears_the_end(it, "Gateway restarted")
    if s6:
        again = it.machine.tool("exec", NAME, "s6-svstat", "-o", "pid", "/run/service/gateway-work").stdout
        assert again == neighbour, "the other profile was left alone"
    person.is_quiet(it)


def test_a_broken_database_is_healed_with_the_container_stopped(box):
    it = box()
    it.gateway.start()
    for number in range(3):
        it.gateway.answers(f"Question {number}")
    state = it.gateway.home / "state.db"
    it.machine.tool("stop", "-t", "30", NAME)  # so that all of it is in the file
    before = rows(state, STATE)
    with state.open("r+b") as file:
        file.write(TLS_RECORD)
    it.machine.tool("start", NAME)
    it.gateway.wait_until_running(starts=2)
    question = person.asked(it, "database-broken")
    assert f"docker stop -t 15 {it.gateway.id[:12]}" in question.text and "heal state.db" in question.text
    person.approves(it, question)
    assert healthy(state) and has_all(state, STATE, before)
    it.gateway.wait_until_running(starts=3)
    it.gateway.answers("are you back?")
    person.hears_the_end(it, "problem gone")
    person.is_quiet(it)


def test_a_container_that_ran_out_of_memory_says_so_before_it_is_started_again(box):
    it = box(options=("--memory", "400m", "--memory-swap", "400m"))
    (it.gateway.extra / "sitecustomize.py").write_text(EATS)
    it.gateway.start()
    it.gateway.answers("hello")
    person.is_quiet(it)
    (it.gateway.home / "eat").touch()
    until(lambda: it.gateway.state_of_container() == "exited", "the kernel ended it")
    (it.gateway.home / "eat").unlink()
    question = person.asked(it, "gateway-down")
    assert "ended by the kernel for lack of memory" in question.text, question.text
    person.approves(it, question)
    it.gateway.wait_until_running(starts=2)
    it.gateway.answers("are you back?")


def test_an_engine_that_is_down_is_told_and_nothing_is_started_in_its_stead(box):
    it = box()
    it.gateway.start()
    it.gateway.answers("hello")
    person.is_quiet(it)
    it.machine.kill_engine()
    it.gateway.answers("still there?")
    person.is_quiet(it)
    status = it.watchdog("status").text
    assert f"in container {it.gateway.id[:12]} (process {it.gateway.pid} outside)" in status, status
    it.gateway.kill()
    until(lambda: it.gateway.pid == 0, "the gateway is gone")
    it.watchdog.until_found("gateway-down")
    for _ in range(3):
        report = it.watchdog.json("check")
    assert person.open_rules(report) == ["gateway-down"], report
    assert "Cannot connect to the Docker daemon" in str(report["plans"]), report["plans"]
    assert not any("approve " in text for text in person.messages(it)), person.messages(it)
    assert it.gateway.pid == 0 and it.gateway.starts() == 1
    os.unlink(it.machine.folder / "dockerd.pid")
    it.machine.start_engine()
    question = person.asked(it, "gateway-down")
    assert f"docker start {it.gateway.id[:12]}" in question.text

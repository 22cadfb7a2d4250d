"""Hermes in a container, on a real engine: found, named, restarted and healed from the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest

from . import parts, person
from .conftest import keep_failed, lacks, needs
from .containers import ENGINE, IMAGE, NAME, ContainerGateway, ContainerMachine, NoEngine
from .machine import Done
from .test_operators_story import STATE, TLS_RECORD, rows
from .test_power import has_all, healthy
from .waiting import until
from .watchdog import Watchdog, later
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
            *(("podman",) if "docker" not in engine else ()),
            *(("uidmap",) if engine == "rootless" else ()),
            *(("s6",) if how.get("s6") else ()),
        )
        world = World()
        machine = ContainerMachine(world, engine)
        made.append((world, machine))
        try:
            machine.boot()
        except NoEngine as why:
            lacks(str(why))
        gateway = ContainerGateway(machine, "0.19.0", **how)
        watchdog = Watchdog(gateway, person.SETTINGS, hurry)
        return SimpleNamespace(world=world, machine=machine, gateway=gateway, watchdog=watchdog)

    yield make
    for world, machine in made:
        machine.kill()
        keep_failed(world, request.node)
        world.end()


def outside(it: SimpleNamespace) -> str:
    return f"in container {NAME} (process {it.gateway.pid} outside)"


def test_a_healthy_gateway_is_named_with_its_container_and_a_planned_stop_is_silence(box):
    it = box()
    it.gateway.start_and_answer()
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
    it.gateway.start_and_answer()
    person.is_quiet(it)
    it.machine.tool("kill", NAME)
    question = person.asked(it, "gateway-down")
    assert f"start the gateway (container {NAME})" in question.text
    assert f"docker start {it.gateway.id[:12]}" in question.text
    person.approves(it, question)
    it.gateway.wait_until_running(starts=2)
    it.gateway.answers("are you back?")
    assert outside(it) in person.hears_the_end(it, "Gateway started")
    person.is_quiet(it)

    it.gateway.freeze(timedelta(minutes=6))
    report = it.watchdog.json("check", "--dry-run", *later(minutes=6))
    assert person.open_rules(report) == ["gateway-wedged"], report
    assert f"docker restart -t 15 {it.gateway.id[:12]}" in str(report["plans"]), report["plans"]


@pytest.mark.parametrize(
    ("engine", "s6"),
    [
        pytest.param("docker", False, id="docker"),
        pytest.param("docker", True, id="s6"),
        pytest.param("podman", False, id="podman", marks=pytest.mark.thorough),
        pytest.param("podman-socket", False, id="podman-socket"),
    ],
)
def test_a_hung_chat_is_cured_by_an_approved_restart_of_what_runs_the_gateway(box, engine, s6):
    it = box(engine, s6=s6, hurry=("session-stuck",))
    it.gateway.start_and_answer()
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
        command = {"podman-socket": "docker --host unix:///run/podman.sock"}.get(engine, engine)
        assert f"{command} restart -t {15 if engine == 'docker' else 20} {short_id}" in question.text
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


@pytest.mark.thorough
def test_a_container_that_ran_out_of_memory_says_so_before_it_is_started_again(box):
    it = box(options=("--memory", "400m", "--memory-swap", "400m"))
    (it.gateway.extra / "sitecustomize.py").write_text(EATS)
    it.gateway.start_and_answer()
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
    it.gateway.start_and_answer()
    person.is_quiet(it)
    it.machine.kill_engine()
    it.gateway.answers("still there?")
    person.is_quiet(it)
    status = it.watchdog("status").text
    assert outside(it) in status, status
    it.gateway.kill()
    until(lambda: it.gateway.pid == 0, "the gateway is gone")
    it.watchdog.until_found("gateway-down")
    for _ in range(3):
        report = it.watchdog.json("check")
    assert person.open_rules(report) == ["gateway-down"], report
    waits = f"last seen in container {NAME} ({it.gateway.id[:12]}), which cannot be started from here: docker cannot be asked"
    assert waits in str(report["plans"]), report["plans"]
    assert not any("approve " in text for text in person.messages(it)), person.messages(it)
    assert it.gateway.pid == 0 and it.gateway.starts() == 1
    it.machine.start_engine()
    question = person.asked(it, "gateway-down")
    assert f"docker start {it.gateway.id[:12]}" in question.text


@pytest.mark.thorough
def test_other_containers_odd_names_pauses_and_a_hung_engine_lead_to_a_sentence_and_to_nothing_else(box):
    it = box()
    it.gateway.start_and_answer()
    person.is_quiet(it)
    tool, short_id = it.machine.tool, it.gateway.id[:12]
    others = ("--network", "host", "-v", "/usr:/usr:ro", IMAGE, "/bin/sleep", "10000")

    with it.machine.engine_halted():
        assert f"in container {NAME}" in it.watchdog("status").text
        assert "docker did not answer within 10 seconds" in it.watchdog("doctor").text
    too_new = it.watchdog("doctor", env={"DOCKER_API_VERSION": "1.99"}).text
    assert "client version 1.99 is too new" in too_new, too_new

    tool("pause", NAME)
    paused = it.watchdog("doctor").text
    assert f"container {NAME} is paused" in paused and f"docker unpause {short_id}" in paused, paused
    tool("unpause", NAME)

    tool("run", "-d", "--name", "node-exporter", "-v", "/:/rootfs:ro", *others)
    tool("create", "--name", short_id, *others)
    tool("kill", NAME)
    question = person.asked(it, "gateway-down")
    assert f"container {NAME}" in question.text and f"docker start {it.gateway.id}" in question.text, (
        question.text
    )
    tool("rm", NAME)
    assert it.watchdog("approve", question.code).returncode != 0
    report = it.watchdog.json("check")
    assert "none that exists now has this folder as a writable volume" in str(report["plans"]), report[
        "plans"
    ]
    assert "node-exporter" not in str(report["plans"])
    assert (
        tool("inspect", "--format", "{{.RestartCount}}{{.State.Running}}", "node-exporter").stdout.strip()
        == "0true"
    )

    it.gateway.id = it.gateway.create()  # made anew: the same name, another id
    it.gateway.wait_until_running(starts=2)
    it.watchdog("check")
    assert "Resolved: Gateway is down" in person.messages(it)[-1]
    person.is_quiet(it)
    assert outside(it) in it.watchdog("status").text


@pytest.mark.thorough
def test_an_engine_that_dies_in_the_middle_of_a_restart_leaves_a_gateway_that_is_told_to_be_down(box):
    it = box(hurry=("session-stuck",))
    it.gateway.start_and_answer()
    it.world.do("llm", "behave", match="never answer", do="hang")
    it.gateway.tell("please never answer")
    question = person.asked(it, "session-stuck")
    approving = it.watchdog.start("approve", question.code)
    it.gateway.wait_for("SIGTERM")
    it.machine.kill_engine()
    approving.communicate(timeout=240)
    assert approving.returncode == 1
    assert any("exit code 1 from: docker restart" in text for text in person.messages(it))
    until(lambda: it.gateway.pid == 0, "the gateway ended all the same")
    it.watchdog.until_found("gateway-down")
    it.machine.start_engine()
    for _ in range(2):  # the second confirms it
        report = it.watchdog.json("check")
    assert f"docker start {it.gateway.id[:12]}" in str(report["plans"]), report["plans"]
    assert it.gateway.starts() == 1, "nothing was started without being asked"


@pytest.mark.thorough
def test_a_linked_volume_a_second_container_on_it_and_a_new_name_leave_no_doubt_which_is_meant(box):
    it = box()
    it.gateway.volume = it.machine.folder / "link"
    it.gateway.volume.symlink_to(it.gateway.home)
    it.gateway.start_and_answer()
    assert outside(it) in it.watchdog("doctor", "--home", str(it.gateway.volume)).text
    shared = ("-v", f"{it.gateway.home}:/data", "-v", "/usr:/usr:ro", IMAGE, "/bin/sleep", "10000")
    it.machine.tool("run", "-d", "--name", "dashboard", "--network", "host", *shared)
    person.is_quiet(it)
    it.machine.tool("kill", NAME)
    question = person.asked(it, "gateway-down")
    assert "also a volume of other containers, which are left alone: dashboard" in question.text, (
        question.text
    )
    it.machine.tool("rename", NAME, "hermes_old.1-x")
    assert it.watchdog("approve", question.code).returncode != 0
    assert it.gateway.pid == 0, "asked about one name, and told another: nothing is done"
    until(lambda: "container hermes_old.1-x" in it.watchdog("check").text, "asked anew")
    question = person.asked(it, "gateway-down")
    person.approves(it, question)
    assert "in container hermes_old.1-x (process" in person.hears_the_end(it, "Gateway started")
    assert it.machine.tool("inspect", "--format", "{{.RestartCount}}", "dashboard").stdout.strip() == "0"


@pytest.mark.thorough
def test_a_user_who_may_not_use_the_socket_and_a_command_that_hangs_are_told_which_container_it_is(box):
    it = box()
    it.gateway.start()
    short_id, mine = it.gateway.id[:12], it.machine.folder / "bin"
    it.machine.run(["chown", "1234:1234", "/run/docker.sock"], check=True)
    without_rights = ["/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", parts.COMMAND, "doctor"]
    shown = it.machine.run(without_rights, within=240).text
    assert f"in container {short_id} (process {it.gateway.pid} outside)" in shown, shown
    assert "root may not use the socket of docker" in shown and f"docker restart {short_id}" in shown, shown

    mine.mkdir()
    (mine / "docker").write_text("#!/bin/sh\nexec sleep 600\n")
    (mine / "docker").chmod(0o755)
    shown = it.watchdog("doctor", env={"PATH": f"{mine}:/usr/bin:/bin"}).text
    assert "docker did not answer within 10 seconds" in shown and f"docker restart {short_id}" in shown, shown


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("engine", "user"), [("docker-remap", 10000), ("rootless", 0)], ids=["docker-remap", "rootless"]
)
def test_in_a_user_namespace_the_gateway_is_found_started_and_healed_by_its_numbers_outside(
    box, engine, user
):
    """Root in the container is somebody else outside, and so is every other user of it."""
    it = box(engine, user=user)
    outer, tool = it.machine.outside(user), "docker" if engine == "docker-remap" else "podman"
    it.gateway.start_and_answer()
    owner = it.machine.run(["stat", "-c", "%u", f"/proc/{it.gateway.pid}"]).stdout.strip()
    assert owner == str(outer) != "0"
    for command in ("status", "doctor"):
        assert outside(it) in it.watchdog(command).text
    person.is_quiet(it)
    it.machine.tool("kill", NAME)
    question = person.asked(it, "gateway-down")
    assert f"{tool} start {it.gateway.id[:12]}" in question.text, question.text
    person.approves(it, question)
    it.gateway.wait_until_running(starts=2)

    state = it.gateway.home / "state.db"
    it.machine.tool("stop", "-t", "30", NAME)
    before = rows(state, STATE)
    with state.open("r+b") as file:
        file.write(TLS_RECORD)
    it.machine.tool("start", NAME)
    it.gateway.wait_until_running(starts=3)
    until(lambda: "heal state.db" in it.watchdog("check").text, "asked anew")
    person.approves(it, person.asked(it, "database-broken"))
    assert healthy(state) and has_all(state, STATE, before) and state.stat().st_uid == outer
    it.gateway.wait_until_running(starts=4)
    it.gateway.answers("are you back?")
    person.is_quiet(it)


@pytest.mark.thorough
def test_a_home_of_a_number_of_ones_user_namespace_is_watched_by_podman_unshare(box):
    it = box("rootless", user=10000)
    it.gateway.start_and_answer()
    refused = it.watchdog("check").text
    assert "may not be read; run this as that user: podman unshare hermes-watchdog" in refused, refused
    it.watchdog.prefix = ("podman", "unshare")
    for command in ("status", "doctor"):
        assert outside(it) in it.watchdog(command).text
    person.is_quiet(it)
    it.gateway.freeze(timedelta(minutes=6))
    report = it.watchdog.json("check", "--dry-run", *later(minutes=6))
    assert person.open_rules(report) == ["gateway-wedged"], report
    assert f"podman restart -t 20 {it.gateway.id[:12]}" in str(report["plans"]), report["plans"]


# -- the image beside it ---------------------------------------------------------------------------------------------------

SIDECAR = "hermes-watchdog"
IMAGE_FILES = ("contrib/docker", "requirements", ".dockerignore")


class Sidecar(Watchdog):
    """The image of contrib/docker, built and started by Docker Compose with our compose.yaml as it is."""

    def __init__(self, gateway: ContainerGateway, hurry: tuple[str, ...]) -> None:
        self.gateway, self.machine = gateway, gateway.machine
        source = self.machine.folder / "source"
        for name in (*parts.SOURCES, *IMAGE_FILES):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            there = parts.CHECKOUT / name
            (shutil.copytree if there.is_dir() else shutil.copy)(there, source / name)
        self.folder = source / "contrib/docker"
        self.config = self.folder / "config"
        self._configure(person.SETTINGS, hurry)
        (self.folder / "state").mkdir()
        for path in (self.config, *self.config.rglob("*"), self.folder / "state"):
            os.chown(path, 10000, 10000)
        (self.folder / ".env").write_text(f"HERMES_HOME={gateway.home}\n")
        # The lab's engine has no network of its own.
        (self.folder / "compose.override.yaml").write_text(
            f"services: {{{SIDECAR}: {{network_mode: host, build: {{network: host}}}}}}\n"
        )

    def __call__(self, *words: str, within: float = 240, env: dict[str, str] | None = None) -> Done:
        return self.machine.tool("exec", SIDECAR, "hermes-watchdog", *words, check=False, within=within)

    def up(self, **variables: str) -> None:
        base = self.machine.folder / "base"
        if (
            not base.exists()
        ):  # what stands in for the image that the Dockerfile names, and gives pip its wheels
            base.mkdir()
            shutil.copytree(parts.BASE_IMAGE / "wheels", base / "wheels")
            (base / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
            (base / "Dockerfile").write_text(
                "FROM lab-debian\nCOPY wheels /wheels\nCOPY pip.conf /etc/pip.conf\n"
            )
            self.machine.tool("import", str(parts.BASE_IMAGE / "rootfs.tar"), "lab-debian", within=240)
            self.machine.tool("build", "-q", "-t", "python:3.12-slim", str(base), within=240)
        command = f'cd "$0" && exec {parts.COMPOSE} up -d --build'
        self.machine.run(["sh", "-c", command, self.folder], {**ENGINE, **variables}, check=True, within=600)


@pytest.mark.thorough
@pytest.mark.takes_at_most(900)
def test_the_image_beside_the_gateway_is_not_root_has_no_socket_restarts_through_s6_and_heals(box):
    needs("base-image", "compose")
    it = box(s6=True, user=10000)
    it.gateway.start()
    for number in range(3):
        it.gateway.answers(f"Question {number}")
    it.watchdog = Sidecar(it.gateway, hurry=("session-stuck",))
    it.watchdog.up()
    tool, short_id, before = it.machine.tool, it.gateway.id[:12], it.gateway.pid
    assert tool("exec", SIDECAR, "id", "-u").stdout.strip() == "10000"
    assert "docker.sock" not in tool("exec", SIDECAR, "ls", "/run", "/var/run").text
    doctor = it.watchdog("doctor").text
    assert f"running in container {short_id} (process {before} outside), s6 service" in doctor, doctor
    until(lambda: "last check" in it.watchdog("status").text, "the daemon checks")
    assert tool("exec", SIDECAR, "python3", "/opt/hermes-watchdog/healthy.py").stdout.strip() == "well"

    it.world.do("llm", "behave", match="never answer", do="hang")
    it.gateway.tell("please never answer")
    question = person.asked(it, "session-stuck")
    assert f"s6 service gateway-default in container {short_id}" in question.text, question.text
    assert "and left alone: gateway-work" in question.text, question.text
    assert f"docker exec -it {SIDECAR} hermes-watchdog approve {question.code}" in question.text, (
        question.text
    )
    it.world.do("llm", "calm")
    person.approves(it, question)
    assert it.gateway.pid not in (0, before)
    it.gateway.answers("are you back?")

    state = it.gateway.home / "state.db"
    tool("stop", "-t", "30", NAME)
    rows_before = rows(state, STATE)
    with state.open("r+b") as file:
        file.write(TLS_RECORD)
    healed = it.watchdog("db", "heal", "--yes", "/opt/data/state.db")
    assert healed.returncode == 0 and healthy(state) and has_all(state, STATE, rows_before), healed.text
    tool("start", NAME)
    it.gateway.wait_until_running(starts=3)
    it.gateway.answers("and now?")

    it.watchdog.up(PID_MODE=f"container:{NAME}")  # sees Hermes alone
    inside = it.gateway.state()["pid"]
    doctor = it.watchdog("doctor").text
    assert f"running in container {short_id} (process {inside} inside), s6 service" in doctor, doctor
    assert "restart      allowed" in doctor, doctor

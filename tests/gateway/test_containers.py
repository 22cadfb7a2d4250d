"""A gateway in a container: recognised by the kernel's word, managed by exact commands, and never guessed at."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from watchdog.gateway.containers import surroundings
from watchdog.gateway.host_facts import Container, HostFacts, Mount, Service, Surroundings, Unit
from watchdog.gateway.last_life import FILE, in_cgroup, in_other_namespace
from watchdog.gateway.machine import GatewayProcess, Machine, look_at_container
from watchdog.gateway.reasons import MayNot, Warn
from watchdog.gateway.recognise import recognise
from watchdog.gateway.supervisor import DOCKER, PODMAN, PROCESS, S6, SYSTEM, UNKNOWN, Supervisor
from watchdog.model import Reason
from watchdog.notify.translate import in_english
from watchdog.steps import gateway as step
from watchdog.system.commands import NOT_ALLOWED, TOO_LONG, Ran

HOME = "/srv/hermes"
ID, OTHER = "ab" * 32, "cd" * 32
ARGV = ("/opt/hermes/.venv/bin/hermes", "gateway", "run")
BOX = Container(ID, "hermes-gateway", "docker", (Mount(HOME, "/opt/data"),))
ALIVE = HostFacts(
    HOME, 0, "root", "hermes", 1000, pid=4711, pid_uid=1000, cgroup=f"0::/docker/{ID}\n", argv=ARGV
)
DEAD = replace(ALIVE, pid=0, cgroup="")
SERVICE = Service("gateway-default", "/run/service/gateway-default", "/command")


def around(**more: object) -> Surroundings:
    return Surroundings(**{"signs": True, "containers": (BOX,), **more})


def alive(**more: object) -> Supervisor:
    return recognise(replace(ALIVE, around=around(id=ID, tool="docker", **more)))


def dead(**more: object) -> Supervisor:
    return recognise(replace(DEAD, around=around(**more)))


@pytest.fixture(autouse=True)
def no_docker_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)


# -- which container -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (f"/docker/{ID}", "docker"),
        (f"/system.slice/docker-{ID}.scope", "docker"),
        (f"/../../docker/{ID}", "docker"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman"),
        (f"/libpod_parent/libpod-{ID}", "podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "podman"),
    ],
)
def test_the_cgroup_of_the_process_names_its_container(path: str, tool: str) -> None:
    assert in_cgroup(f"12:pids:{path}\n0::{path}\n") == (tool, ID)


@pytest.mark.parametrize("path", ["/", "/system.slice/ssh.service", f"/docker/{ID[:40]}", ""])
def test_a_cgroup_of_no_container_names_none(path: str) -> None:
    assert in_cgroup(f"0::{path}\n") == ("", "")


def test_our_own_container_is_none_for_us() -> None:
    assert in_cgroup(f"0::/docker/{ID}\n", f"0::/docker/{ID}\n") == ("", "")


def test_a_living_gateway_is_restarted_by_the_id_which_no_other_container_gets() -> None:
    found = alive()
    assert (found.kind, found.may_act, in_english(found.name)) == (DOCKER, True, "container hermes-gateway")
    assert found.restart == ("docker", "restart", "-t", "40", "abababababab")
    assert found.stop == ("docker", "stop", "-t", "40", "abababababab")


def test_podman_is_managed_by_podman() -> None:
    found = alive(containers=(replace(BOX, tool="podman"),))
    assert found.kind == PODMAN and found.restart[:2] == ("podman", "restart")


def test_a_stop_waits_as_long_as_the_container_or_the_drain_asks() -> None:
    slow = replace(BOX, stop_timeout=timedelta(seconds=200))
    assert alive(containers=(slow,)).stop[3] == "210"
    drained = recognise(replace(ALIVE, drain=timedelta(seconds=60), around=around(id=ID)))
    assert drained.restart[3] == "70" and drained.warnings == ()


def test_the_engine_that_the_environment_names_stands_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert alive().restart[:4] == ("docker", "--host", "unix:///run/user/1000/docker.sock", "restart")


def test_a_dead_gateway_is_found_by_the_volume_of_its_container() -> None:
    found = dead(
        containers=(replace(BOX, running=False), Container(OTHER, "db", "docker", (Mount("/srv/db"),)))
    )
    assert found.start == ("docker", "start", "abababababab")


def test_a_container_that_runs_without_its_gateway_is_restarted_because_a_start_would_do_nothing() -> None:
    assert dead().start == ("docker", "restart", "-t", "40", "abababababab")


def test_the_container_that_the_gateway_was_last_seen_in_wins_over_others_with_the_same_volume() -> None:
    other = replace(BOX, id=OTHER, name="copy", runs_gateway=True)
    found = dead(containers=(replace(BOX, running=False), other), last_id=ID)
    assert found.container_id == ID and "copy" in in_english(found.notes[0])


def test_a_dashboard_with_the_same_volume_is_not_taken_for_the_gateway() -> None:
    board = replace(BOX, id=OTHER, name="hermes-dashboard")
    found = dead(containers=(board, replace(BOX, running=False, runs_gateway=True)))
    assert found.container == "hermes-gateway"
    assert in_english(found.notes[0]).endswith("left alone: hermes-dashboard")


def test_two_containers_on_one_volume_are_not_guessed_between_and_the_settings_can_choose() -> None:
    both = (replace(BOX, running=False), replace(BOX, id=OTHER, name="other", running=False))
    found = dead(containers=both)
    assert found.kind == UNKNOWN and not found.may_act and found.start == ()
    assert "container hermes-gateway, container other" in in_english(found.why_not)
    chosen = recognise(replace(DEAD, chosen="other", around=around(containers=both)))
    assert chosen.container_id == OTHER and chosen.may_act


def test_what_was_ended_for_lack_of_memory_says_so_before_it_is_started_again() -> None:
    found = dead(containers=(replace(BOX, running=False, out_of_memory=True),))
    assert [warning.key for warning in found.warnings] == [Warn.OUT_OF_MEMORY]


def test_a_paused_container_is_left_to_the_one_who_paused_it() -> None:
    found = alive(containers=(replace(BOX, paused=True),))
    assert not found.may_act and "docker unpause abababababab" in in_english(found.why_not)


def test_a_plan_says_what_else_is_in_the_container() -> None:
    found = alive(neighbours=("nginx", "hermes dashboard"))
    assert in_english(found.notes[0]) == (
        "also in container hermes-gateway, and stopped with it: nginx, hermes dashboard"
    )


# -- what cannot be seen is not touched ------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [MayNot.ENGINE_SILENT, MayNot.ENGINE_FAILS, MayNot.ENGINE_REFUSES])
def test_an_engine_that_gives_no_answer_is_told_and_nothing_of_the_container_is_started_here(
    trouble: MayNot,
) -> None:
    why = Reason(trouble, {"tool": "docker", "words": "x", "limit": 10, "user": "ann"})
    for facts in (ALIVE, DEAD):
        found = recognise(
            replace(facts, around=around(id=ID if facts.pid else "", containers=(), troubles=(why,)))
        )
        assert not found.may_act and found.argv == () and found.restart == ()
        assert in_english(why) in in_english(found.why_not)


def test_a_container_that_is_gone_leaves_nothing_to_start() -> None:
    found = dead(containers=(), last_id=ID)
    assert found.kind == UNKNOWN and found.why_not and found.why_not.key == MayNot.CONTAINER_UNKNOWN


def test_without_an_engine_the_start_of_the_container_it_was_last_in_is_told() -> None:
    missing = Reason(MayNot.ENGINE_MISSING, {"tool": "docker"})
    found = dead(containers=(), last_id=ID, troubles=(missing,))
    assert not found.may_act and "On its host: docker start abababababab" in in_english(found.why_not)


def test_without_an_engine_the_command_for_the_host_is_told() -> None:
    found = alive(containers=())
    assert not found.may_act and "On its host: docker restart abababababab" in in_english(found.why_not)


def test_an_engine_that_is_down_does_not_take_the_name_of_the_container_away() -> None:
    down = Reason(MayNot.ENGINE_FAILS, {"tool": "docker", "words": "Cannot connect"})
    hidden = alive(containers=(), troubles=(down,), last_name="hermes-gateway")
    assert in_english(hidden.place(4711)) == "in container hermes-gateway (process 4711 outside)"
    assert "runs in container hermes-gateway (abababababab), which" in in_english(hidden.why_not)
    gone = dead(containers=(), troubles=(down,), last_id=ID, last_name="hermes-gateway")
    assert "last seen in container hermes-gateway (abababababab), which" in in_english(gone.why_not)


@pytest.mark.parametrize(
    ("kept", "name"), [("hermes.1_x-y", "hermes.1_x-y"), ("$(reboot)", ""), (7, ""), (None, "")]
)
def test_a_name_that_was_kept_is_shown_only_when_docker_would_allow_it(
    home: Path, kept: object, name: str
) -> None:
    last_seen_in(ID, home)
    (home / "state" / FILE).write_text(json.dumps({"container": ID, "container_name": kept}))
    ask, _ = engine({"ps": Ran(1, "Cannot connect")})
    assert look(home, ask).last_name == name


def test_the_lock_held_in_a_container_without_this_volume_is_not_believed() -> None:
    stranger = replace(BOX, name="postgres", mounts=(Mount("/srv/db"),))
    found = alive(containers=(stranger,))
    assert not found.may_act and found.why_not and found.why_not.key == MayNot.CONTAINER_OTHER
    assert alive(containers=(stranger,), contained=True).may_act  # there the host's paths mean nothing


# -- s6 --------------------------------------------------------------------------------------------------------------------


def test_a_service_of_s6_is_restarted_and_not_the_container_with_every_profile_in_it() -> None:
    found = alive(service=SERVICE, neighbours=("gateway-work",))
    inside = ("docker", "exec", "abababababab", "/command/s6-svc")
    assert found.kind == S6
    assert found.restart == (*inside, "-r", "/run/service/gateway-default")
    assert found.stop == (*inside, "-d", "/run/service/gateway-default")
    assert found.start == (*inside, "-u", "/run/service/gateway-default")
    assert in_english(found.name) == "s6 service gateway-default in container hermes-gateway"
    assert in_english(found.notes[0]) == "also in this container, and left alone: gateway-work"


def test_the_service_of_a_container_that_stopped_is_started_with_the_container() -> None:
    stopped = replace(BOX, running=False)
    assert dead(service=SERVICE, containers=(stopped,)).start == ("docker", "start", "abababababab")


def test_inside_the_container_s6_is_spoken_to_directly() -> None:
    found = recognise(replace(ALIVE, cgroup="0::/\n", around=Surroundings(service=SERVICE)))
    assert found.kind == S6 and found.restart == ("/command/s6-svc", "-r", "/run/service/gateway-default")


def test_beside_the_container_only_a_restart_is_possible_by_a_signal() -> None:
    found = alive(service=SERVICE, containers=())
    assert found.by_signal and found.refusal(["restart"]) is None and found.uid == 1000
    refused = found.refusal(["stop", "start"])
    assert refused is not None and "docker stop abababababab" in in_english(refused)
    elsewhere = recognise(replace(ALIVE, uid=1001, around=around(id=ID, containers=(), service=SERVICE)))
    assert not elsewhere.may_act


class Play:
    """A machine whose gateway does what the commands that are run make it do."""

    def __init__(self, folder: Path, supervisor: Supervisor, effects: dict[str, int | None]):
        self.ran: list[tuple[str, ...]] = []
        self.effects, self.pid = effects, 100
        self.machine = Machine(
            folder, folder, supervisor, self.gateway(), run=self.run, look=self.gateway, sleep=lambda _: None
        )

    def gateway(self) -> GatewayProcess:
        return GatewayProcess(self.pid > 0, self.pid, self.pid)

    def run(self, argv: Sequence[str], timeout: float, env: object = None) -> Ran:
        self.ran.append(tuple(argv))
        effect = self.effects.get(argv[-2])
        self.pid = self.pid if effect is None else effect
        return Ran(0, "")


def test_a_service_that_ignores_sigterm_is_killed_as_the_plan_says(tmp_path: Path) -> None:
    supervisor = alive(service=SERVICE)
    play = Play(tmp_path, supervisor, {"-r": None, "-k": 200})
    words = in_english(step.describe(step.Args("restart"), play.machine))
    assert (
        "if it is still there after 2 minutes" in words and "s6-svc -k /run/service/gateway-default" in words
    )
    outcome = step.run(step.Args("restart"), play.machine)
    assert outcome.ok and [argv[-2] for argv in play.ran] == ["-r", "-k"]
    assert "running in container hermes-gateway (process 200 outside)" in in_english(outcome.reason)


def test_a_service_that_ends_by_sigterm_is_not_killed(tmp_path: Path) -> None:
    play = Play(tmp_path, alive(service=SERVICE), {"-d": 0})
    assert step.run(step.Args("stop"), play.machine).ok and [argv[-2] for argv in play.ran] == ["-d"]


def test_a_restart_that_the_engine_refuses_has_failed_and_nothing_else_is_tried(tmp_path: Path) -> None:
    play = Play(tmp_path, alive(), {})
    machine = replace(
        play.machine, run=lambda argv, timeout, env=None: Ran(1, "No such container: abababababab")
    )
    outcome = step.run(step.Args("restart"), machine)
    assert not outcome.ok and "exit code 1 from: docker restart" in in_english(outcome.reason)


# -- asking ----------------------------------------------------------------------------------------------------------------


def told(box_id: str = ID, name: str = "/hermes-gateway", source: str = HOME, **more: object) -> str:
    known = {"id": box_id, "name": name, "running": False, "paused": False, "oom": False, "stop": None}
    mount = {"Type": "bind", "Source": source, "Destination": "/opt/data", "RW": True}
    rest = {"path": "/init", "args": ["gateway", "run"], "mounts": [mount], "rm": False, "labels": None}
    return json.dumps({**known, **rest, **more})


def engine(answers: dict[str, Ran]) -> tuple[Callable[..., Ran], list[tuple[str, ...]]]:
    asked: list[tuple[str, ...]] = []

    def ask(argv: Sequence[str], timeout: float, env: object = None) -> Ran:
        asked.append(tuple(argv))
        verb = next((word for word in argv if word in ("ps", "inspect")), "")
        return answers.get(verb, Ran(1, "unexpected"))

    return ask, asked


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose gateway ran in a container and does not live; docker is installed, podman is not."""
    folder = tmp_path / "home"
    folder.mkdir()
    record = {"pid": 7, "argv": list(ARGV), "hermes_home": "/opt/data", "start_time": 1}
    (folder / "gateway.pid").write_text(json.dumps(record))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text("#!/bin/sh\n")
    (programs / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    return folder


def look(home: Path, ask: Callable[..., Ran], chosen: bool = False) -> Surroundings:
    return surroundings(home, home / "state", 0, chosen, ask)


def test_an_ordinary_home_asks_no_engine(home: Path) -> None:
    ask, asked = engine({})
    for record in ({"pid": 7, "argv": [sys.executable]}, {}):
        (home / "gateway.pid").write_text(json.dumps(record))
        assert look(home, ask) == Surroundings() and asked == []


def test_a_home_that_shows_a_container_is_looked_for_among_the_mounts_through_links(home: Path) -> None:
    link = home.with_name("link")
    link.symlink_to(home)
    ask, asked = engine(
        {"ps": Ran(0, f"{ID}\n{OTHER}\n"), "inspect": Ran(0, told(source=str(link)) + "\nnonsense\n")}
    )
    found = look(home, ask)
    assert [box.name for box in found.containers] == ["hermes-gateway"] and found.troubles == ()
    assert found.containers[0].has(str(home), "/opt/data") and found.containers[0].runs_gateway
    assert [argv[1] for argv in asked] == ["ps", "inspect"]


def last_seen_in(container_id: str, home: Path) -> None:
    (home / "state").mkdir()
    (home / "state" / FILE).write_text(json.dumps({"life": [1, 2], "container": container_id, "names": []}))


def test_the_container_that_was_seen_before_is_taken_and_one_with_the_same_volume_is_named(
    home: Path,
) -> None:
    last_seen_in(ID, home)
    both = f"{told(OTHER, '/dashboard', str(home))}\n{told(source=str(home))}"
    ask, asked = engine({"ps": Ran(0, f"{OTHER}\n{ID}\n"), "inspect": Ran(0, both)})
    found = recognise(replace(DEAD, home=str(home), around=look(home, ask)))
    assert found.container_id == ID and asked[-1][-2:] == (ID, OTHER)
    assert [in_english(note) for note in found.notes] == [
        "this home is also a volume of other containers, which are left alone: dashboard"
    ]


def test_a_container_that_was_made_anew_is_found_by_its_volume_and_the_plan_says_so(home: Path) -> None:
    last_seen_in(OTHER, home)
    ask, _ = engine({"ps": Ran(0, ID), "inspect": Ran(0, told(source=str(home)))})
    found = recognise(replace(DEAD, home=str(home), around=look(home, ask)))
    assert found.container_id == ID and "last seen in (cdcdcdcdcdcd) no longer exists" in in_english(
        found.notes[0]
    )


@pytest.mark.parametrize(
    ("answer", "key", "words"),
    [
        (Ran(TOO_LONG, ""), MayNot.ENGINE_SILENT, "did not answer within 10 seconds"),
        (
            Ran(1, "WARNING: x\npermission denied while trying to connect to the Docker daemon socket"),
            MayNot.ENGINE_REFUSES,
            "may not use the socket of docker",
        ),
        (
            Ran(
                1,
                "Error response from daemon: client version 1.99 is too new. Maximum supported API version is 1.41",
            ),
            MayNot.ENGINE_FAILS,
            "client version 1.99 is too new",
        ),
        (
            Ran(1, "Cannot connect to the Docker daemon. Is it running?"),
            MayNot.ENGINE_FAILS,
            "Cannot connect",
        ),
        (Ran(NOT_ALLOWED, "docker: Permission denied"), MayNot.ENGINE_REFUSES, "may not use the socket"),
        (Ran(1, "\x1b]0;evil\x07 $(reboot)"), MayNot.ENGINE_FAILS, "$(reboot)"),
    ],
)
def test_an_engine_that_cannot_be_asked_is_told_in_a_sentence_and_asked_once(
    home: Path, answer: Ran, key: MayNot, words: str
) -> None:
    ask, asked = engine({"ps": answer, "inspect": answer})
    (trouble,) = look(home, ask).troubles
    assert trouble.key == key and words in in_english(trouble) and "\x1b" not in in_english(trouble)
    assert len(asked) == 1


def test_no_engine_at_all_is_told_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    ask, asked = engine({})
    (trouble,) = look(home, ask).troubles
    assert trouble.key == MayNot.ENGINE_MISSING and asked == []


@pytest.mark.parametrize(
    "name", ["/--rm", "/a b", "/x;reboot", "/$(id)", "/" + "a" * 200, "/übel", "/\x1b[2J"]
)
def test_a_name_with_tricks_in_it_is_not_shown_and_the_command_has_the_id(home: Path, name: str) -> None:
    ask, _ = engine({"ps": Ran(0, ID), "inspect": Ran(0, told(name=name, source=HOME))})
    (box,) = look(home, ask).containers
    found = dead(containers=(box,))
    assert found.container == "abababababab" and found.start == ("docker", "start", "abababababab")


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "null", told("ab"), told("--all" + "a" * 59), told().replace("mounts", "x"), "[" * 5000],
)
def test_an_answer_that_is_no_container_is_none(home: Path, line: str) -> None:
    ask, _ = engine({"ps": Ran(0, ID), "inspect": Ran(0, line)})
    assert look(home, ask).containers == ()


def test_podman_is_not_asked_where_it_was_never_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for the first time, it makes its folders in the user's home; looking must leave no trace."""
    (Path(os.environ["PATH"]) / "docker").rename(Path(os.environ["PATH"]) / "podman")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.delenv("CONTAINERS_STORAGE_CONF", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    ask, asked = engine({"ps": Ran(0, "")})
    look(home, ask)
    assert asked == []
    (home / "data" / "containers" / "storage").mkdir(parents=True)
    look(home, ask)
    assert [argv[:2] for argv in asked] == [("podman", "ps")]

    # `podman unshare`: we seem to be root, and the containers are those of the user who called it
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(home / str(uid))))
    monkeypatch.setenv("_CONTAINERS_ROOTLESS_UID", "1001")
    look(home, ask)
    assert len(asked) == 1
    (home / "1001/.local/share/containers/storage").mkdir(parents=True)
    look(home, ask)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("answer", "running"), [("true 4194301", True), ("false 0", False), ("", None), ("no such object", None)]
)
def test_where_the_lock_cannot_be_seen_the_engine_knows_whether_the_container_runs(
    answer: str, running: bool | None
) -> None:
    asked: list[Sequence[str]] = []
    restart = ("docker", "--host", "unix:///x", "restart", "-t", "40", ID[:12])
    seen = look_at_container(
        restart,
        GatewayProcess(turns=1),
        lambda argv, timeout, env=None: (asked.append(argv), Ran(0, answer))[1],
    )
    assert seen.alive is running and seen.turns == 1
    assert asked[0][:4] == ("docker", "--host", "unix:///x", "inspect") and asked[0][-1] == ID[:12]


@pytest.mark.parametrize("name", ["gateway-work", "dashboard", "gateway-X"])
def test_the_process_above_the_gateway_names_its_service(tmp_path: Path, name: str) -> None:
    """A parent with the argument list and the folder of s6-supervise."""
    folder = tmp_path / name
    folder.mkdir()
    script = "import os,sys;c=os.fork();c or os.execvp('sleep',['sleep','60']);print(c,flush=True);os.wait()"
    (folder / name).write_text(script)
    python = os.path.realpath(sys.executable)
    with subprocess.Popen(
        ["s6-supervise", name],
        executable=python,
        cwd=folder,
        env={"PYTHONHOME": sys.base_prefix, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            found = surroundings(tmp_path, tmp_path, child, False, engine({})[0]).service
        finally:
            os.kill(child, 9)
    wanted = Service(name, str(folder), os.path.dirname(python))
    assert found == (wanted if name == "gateway-work" else None)


def test_a_host_process_with_the_inner_number_is_never_the_gateway(home: Path) -> None:
    """gateway.pid holds the number inside; here it is that of a living process which is something else."""
    from watchdog.gateway.machine import look_at_gateway

    (home / "gateway.lock").touch()
    (home / "gateway.pid").write_text(
        json.dumps({"pid": os.getpid(), "argv": list(ARGV), "hermes_home": "/opt/data"})
    )
    seen = look_at_gateway(home)
    assert not seen.alive and seen.pid == 0
    ask, _ = engine({"ps": Ran(0, ID), "inspect": Ran(0, told(source=str(home)))})
    found = recognise(replace(DEAD, home=str(home), around=look(home, ask)))
    assert found.kind == DOCKER and found.kind != PROCESS and found.argv == ()


# -- which container is not meant ------------------------------------------------------------------------------------------


def test_a_container_that_sees_the_whole_disk_is_not_taken_for_the_one_that_is_gone() -> None:
    """node-exporter and the like mount / read-only, and other programs a folder above the home."""
    exporter = Container(OTHER, "node-exporter", "docker", (Mount("/", "/rootfs", writable=False),))
    backup = Container(OTHER, "backup", "docker", (Mount("/srv", "/srv"),))
    for stranger in (exporter, backup):
        found = dead(containers=(stranger,), last_id=ID, inner_home="/opt/data")
        assert found.kind == UNKNOWN and found.start == () and found.why_not
        assert found.why_not.key == MayNot.CONTAINER_UNKNOWN and "at /opt/data" in in_english(found.why_not)


def test_a_profile_below_the_volume_is_found_by_its_path_inside() -> None:
    profile = replace(DEAD, home=f"{HOME}/profiles/work")
    for inner, kind in (("/opt/data/profiles/work", DOCKER), ("/opt/data/profiles/other", UNKNOWN)):
        assert recognise(replace(profile, around=around(inner_home=inner))).kind == kind


def test_another_container_named_like_the_short_id_is_not_reached_by_a_command(home: Path) -> None:
    named = told(OTHER, name=f"/{ID[:12]}", source="/srv/db")
    ask, _ = engine({"ps": Ran(0, f"{ID}\n{OTHER}"), "inspect": Ran(0, f"{told(source=str(home))}\n{named}")})
    found = recognise(replace(DEAD, home=str(home), around=look(home, ask)))
    assert found.container == "hermes-gateway" and found.start == ("docker", "start", ID)


def test_a_container_that_a_stop_deletes_is_restarted_and_never_stopped() -> None:
    found = alive(containers=(replace(BOX, auto_remove=True),))
    assert found.refusal(["restart"]) is None
    refused = found.refusal(["stop", "start"])
    assert refused is not None and "hermes-gateway was made with --rm" in in_english(refused)


def test_a_container_that_a_unit_starts_again_by_itself_is_left_to_the_unit(home: Path) -> None:
    line = told(source=str(home), labels={"PODMAN_SYSTEMD_UNIT": "hermes.service"})
    ask, _ = engine({"ps": Ran(0, ID), "inspect": Ran(0, line)})
    found = recognise(replace(DEAD, home=str(home), around=look(home, ask)))
    assert not found.may_act and "started and stopped by hermes.service" in in_english(found.why_not)
    unit = Unit("hermes.service", SYSTEM, 99, "podman start hermes", "", "root")
    known = recognise(replace(DEAD, home=str(home), around=look(home, ask), units=(unit,)))
    assert known.stop == ("/usr/bin/systemctl", "stop", "hermes.service") and known.container_id == ID


def test_a_container_of_an_unknown_engine_is_watched_and_nothing_of_it_is_started_here() -> None:
    strange = replace(ALIVE, cgroup="0::/kubepods/burstable/pod1/cri-containerd-x.scope\n")
    found = recognise(replace(strange, around=Surroundings(other_namespace=True)))
    assert (
        not found.may_act
        and found.argv == ()
        and "engine that the watchdog does not know" in in_english(found.why_not)
    )


def test_a_unit_of_the_host_is_not_taken_for_one_of_the_same_name_in_a_container() -> None:
    command = "{ argv[]=python -m hermes_cli.main gateway run }"
    unit = Unit("hermes-gateway.service", SYSTEM, 99, command, HOME, "hermes")
    inside = replace(ALIVE, units=(unit,), around=Surroundings(other_namespace=True))
    lxc = replace(inside, cgroup="0::/lxc.payload.web/system.slice/hermes-gateway.service\n")
    assert not recognise(lxc).may_act
    quadlet = replace(inside, cgroup=f"0::/system.slice/{unit.name}/libpod-payload-{ID}\n")
    assert recognise(quadlet).restart == ("/usr/bin/systemctl", "restart", "hermes-gateway.service")


def test_this_process_is_in_no_other_namespace() -> None:
    assert not in_other_namespace(os.getpid())


def test_a_container_that_its_engine_does_not_know_belongs_to_another_engine() -> None:
    found = alive(containers=())
    assert "docker answers and does not know this container" in in_english(found.why_not)
    assert "On its host: docker restart abababababab" in in_english(found.why_not)


def test_the_other_command_is_asked_where_the_likely_engine_does_not_know_the_container(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman's socket, served to the docker command, while podman itself looks at another storage."""
    (Path(os.environ["PATH"]) / "podman").symlink_to("docker")
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", "/x")
    asked: list[str] = []

    def ask(argv: Sequence[str], timeout: float, env: object = None) -> Ran:
        asked.append(argv[0])
        if argv[0] == "podman":
            return Ran(0, "")
        return Ran(0, ID if "ps" in argv else told(source=str(home)))

    last_seen_in(ID, home)
    found = look(home, ask)
    assert [box.tool for box in found.containers] == ["docker"] and found.troubles == ()


def test_in_a_container_with_the_socket_the_home_is_looked_for_by_its_path_on_the_host() -> None:
    seen = around(containers=(BOX, replace(BOX, id=OTHER, mounts=(Mount("/opt/data", "/opt/data"),))))
    seen = replace(seen, contained=True, host_home=HOME, inner_home="/opt/data")
    assert recognise(replace(DEAD, home="/opt/data", around=seen)).container_id == ID


def test_in_the_pid_namespace_of_the_container_the_number_is_the_one_inside() -> None:
    beside = alive(service=SERVICE, containers=(), shares_pids=True, contained=True)
    place = beside.place(12)
    assert in_english(place) == "in container abababababab (process 12 inside), s6 service gateway-default"


def test_a_process_that_is_just_ending_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    """Seen with SIGKILL under load: the lock was still listed, the start time could no longer be read."""
    ending, new = GatewayProcess(True, 100, 0), GatewayProcess(True, 200, 9)
    seen = [GatewayProcess(True, 100, 100), ending, new, new]
    play = Play(tmp_path, alive(), {})
    machine = replace(play.machine, look=lambda: seen.pop(0))
    assert "process 200 outside" in in_english(step.run(step.Args("restart"), machine).reason)


def test_a_restart_that_the_engine_never_ends_says_how_long_was_waited(tmp_path: Path) -> None:
    play = Play(tmp_path, alive(), {})
    machine = replace(play.machine, run=lambda argv, timeout, env=None: Ran(TOO_LONG, ""))
    outcome = step.run(step.Args("restart"), machine)
    assert not outcome.ok and in_english(outcome.reason) == "not done after 2 minutes; it was ended"

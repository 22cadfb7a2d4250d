"""The container around a gateway: found by its cgroup while it runs, by its mounts when it does not.

gateway.pid holds the number and the path that are true inside, so neither is used as one of the host. An engine
is asked only where the home shows signs of a container. Names and answers are hostile text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchdog.gateway.container_processes import (
    every_process,
    neighbours,
    processes_in,
    service_for,
    service_of,
)
from watchdog.gateway.host_facts import Container, Mount, Surroundings
from watchdog.gateway.last_life import (
    CONTAINER_NAME,
    container_of,
    in_cgroup,
    in_other_namespace,
    last_container,
)
from watchdog.gateway.reasons import MayNot
from watchdog.model import Reason
from watchdog.system import commands
from watchdog.system.commands import NOT_THERE, QUICK, TOO_LONG, Runner
from watchdog.system.files import read_object, read_text
from watchdog.system.users import folder_of, name_of
from watchdog.text import harmless
from watchdog.values import replace

TOOLS = ("docker", "podman")
_MOST = 200  # containers
_ID = re.compile(r"[0-9a-f]{64}")
_NO_SUCH = re.compile(r"(?i)no such (?:object|container)")
_VOLUMES = re.compile(r"/volumes/[^/]+/_data(?:/|$)")  # docker's, podman's, a NAS's at other places
_OWN_FOLDER = re.compile(r"containers/([0-9a-f]{64})/\S*hostname ")
_MARKS = ("/.dockerenv", "/run/.containerenv")  # docker and podman put them into every container
# Whatever made the container and starts it again by itself, by the label that it leaves.
_MANAGERS = ("PODMAN_SYSTEMD_UNIT", "com.docker.swarm.service.name")
# Seen: docker leaves StopTimeout out where it is not set, and naming it is then an error; podman 4 knows no .Id.
_FIELDS = {
    "docker": {"id": ".Id", "stop": '(index .Config "StopTimeout")'},
    "podman": {"id": ".ID", "stop": ".Config.StopTimeout"},
}
_WANTED = (
    '{"id":{{json %(id)s}},"name":{{json .Name}},"running":{{json .State.Running}},"paused":{{json .State.Paused}},'
    '"oom":{{json .State.OOMKilled}},"stop":{{json %(stop)s}},"path":{{json .Path}},"args":{{json .Args}},'
    '"mounts":{{json .Mounts}},"rm":{{json .HostConfig.AutoRemove}},"labels":{{json .Config.Labels}}}'
)


def surroundings(home: Path, state: Path, pid: int, chosen: bool, ask: Runner) -> Surroundings:
    """Everything about the container of this home's gateway.

    `pid` is that of the living gateway, or 0; `chosen`: the settings name something that is no unit.
    """
    if pid:
        tool, container_id = container_of(pid)
        if not container_id:
            service = service_of(pid)
            others = neighbours(every_process(), pid, service) if service else ()
            return Surroundings(service=service, neighbours=others, other_namespace=in_other_namespace(pid))
        seen = _around_living(pid, container_id, _Engines(ask, tool))
        last_id, name = last_container(state)
        return replace(seen, last_name=name) if last_id == container_id else seen
    last_id, name = last_container(state)
    if not (chosen or last_id or _signs(home)):
        return Surroundings()
    return replace(_around_dead(home, last_id, _Engines(ask, "")), last_name=name)


def _around_living(pid: int, container_id: str, engines: _Engines) -> Surroundings:
    found, service = engines.containers(container_id), service_of(pid)
    return Surroundings(
        id=container_id,
        tool=engines.hint,
        signs=True,
        containers=found,
        troubles=tuple(engines.troubles),
        service=service,
        neighbours=neighbours(processes_in(container_id), pid, service),
        contained=_contained(),
        shares_pids=_contained() and not in_other_namespace(pid),
    )


def _around_dead(home: Path, last_id: str, engines: _Engines) -> Surroundings:
    found, own_id = engines.containers(last_id), _own_id()
    own = [box for box in found if box.id == own_id]
    seen = Surroundings(
        signs=True,
        last_id=last_id,
        containers=tuple(box for box in found if box not in own),
        troubles=tuple(engines.troubles),
        contained=_contained(),
        host_home=_host_home(os.path.realpath(home), own[0].mounts) if own else "",
        inner_home=_inner_home(home),
    )
    boxes = seen.candidates(os.path.realpath(home))
    inside = processes_in(boxes[0].id) if len(boxes) == 1 else []
    service = service_for(home, inside)
    return replace(seen, service=service, neighbours=neighbours(inside, 0, service))


def _contained() -> bool:
    return any(os.path.exists(mark) for mark in _MARKS)


def _own_id() -> str:
    """The id of the container that we are in: engines mount its /etc/hostname from a folder of that name."""
    found = _OWN_FOLDER.search(read_text("/proc/self/mountinfo")) if _contained() else None
    return found[1] if found else ""


def _host_home(home: str, mounts: tuple[Mount, ...]) -> str:
    """What the host calls a folder of the container that has these mounts."""
    paths = (Mount(mount.inside, mount.source).path_of(home) for mount in mounts if mount.inside)
    return next(filter(None, paths), "")


def _signs(home: Path) -> bool:
    """Whether the files of this home say that its gateway runs somewhere else than here."""
    if _VOLUMES.search(os.path.realpath(home)):
        return True
    inner = _inner_home(home)
    if inner and os.path.realpath(inner) != os.path.realpath(home):
        return True
    for record in _records(home):
        argv = record.get("argv")
        if isinstance(argv, list) and argv and isinstance(argv[0], str) and argv[0].startswith("/"):
            return not os.path.exists(argv[0])
    return False


def _inner_home(home: Path) -> str:
    """What the gateway calls its home; '' where its release does not say."""
    homes = (record.get("hermes_home") for record in _records(home))
    return next((os.path.normpath(path) for path in homes if isinstance(path, str) and path[:1] == "/"), "")


def _records(home: Path) -> list[dict[str, Any]]:
    found = []
    for name in ("gateway.pid", "gateway_state.json"):
        try:
            found.append(read_object(home / name, follow=False))
        except OSError:
            continue
    return found


def engine_command(tool: str) -> tuple[str, ...]:
    """The engine's command, with the address that the environment gives: a plan must say which engine."""
    host = os.environ.get("DOCKER_HOST", "") if tool == "docker" else ""
    return (tool, "--host", host) if host else (tool,)


def mounted_folders(ask: Runner = commands.ask) -> tuple[str, ...]:
    """The folders of this host that containers mount, of every engine that answers."""
    boxes = _Engines(ask, "").containers("")
    return tuple(dict.fromkeys(mount.source for box in boxes for mount in box.mounts))


def killed_for_memory(group: str, ask: Runner = commands.ask) -> bool:
    """Whether the engine says that the kernel ended the container of this control group for lack of memory."""
    tool, container = in_cgroup(f"0::{group}")
    if not container:
        return False
    answer = ask((*engine_command(tool), "inspect", "--format", "{{.State.OOMKilled}}", container), QUICK)
    return answer.code == 0 and answer.output.strip() == "true"


class _Engines:
    """docker and podman, the likely one first; one that gives no answer is asked once, and why is kept."""

    def __init__(self, ask: Runner, hint: str):
        self.ask, self.hint, self.troubles = ask, hint, list[Reason]()
        here = [tool for tool in TOOLS if shutil.which(tool) and _was_used(tool)]
        self.tools = sorted(here, key=lambda tool: tool != hint)
        if not here or (hint and hint not in here):
            self.troubles.append(Reason(MayNot.ENGINE_MISSING, {"tool": hint or "docker"}))

    def containers(self, wanted: str) -> tuple[Container, ...]:
        """Every container, running or not; where there are very many, `wanted` is among those that are told.

        All of them, because another may have the same volume, or the short id of this one as its name.
        """
        found: dict[str, Container] = {}
        for tool in list(self.tools):
            # The docker command serves podman's socket, too, so that both may know the same container.
            words = self._asked(tool, "ps", "--all", "--quiet", "--no-trunc").split()
            ids = [word for word in words if _ID.fullmatch(word) and word not in found]
            if not ids:
                continue
            ids.sort(key=lambda each: each != wanted)
            form = _WANTED % _FIELDS[tool]
            answer = self._asked(tool, "inspect", "--type", "container", "--format", form, *ids[:_MOST])
            for line in answer.splitlines():
                if (box := _container(line, tool)) is not None:
                    found.setdefault(box.id, box)
        taken = {box.name for box in found.values()}
        return tuple(replace(box, name_taken=box.short_id in taken) for box in found.values())

    def _asked(self, tool: str, *words: str) -> str:
        """The answer; an engine that gives none is not asked again."""
        answer = self.ask((*engine_command(tool), *words), QUICK)
        if answer.code == 0 or _NO_SUCH.search(answer.output):
            return answer.output
        self.tools.remove(tool)
        self.troubles.append(_trouble(tool, answer.code, answer.output))
        return ""


def _trouble(tool: str, code: int, output: str) -> Reason:
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("WARNING")]
    fields = {"tool": tool, "words": harmless(lines[-1] if lines else f"exit code {code}", 200)}
    if code == NOT_THERE:
        return Reason(MayNot.ENGINE_MISSING, fields)
    if code == TOO_LONG:
        return Reason(MayNot.ENGINE_SILENT, {"tool": tool, "limit": QUICK})
    if "permission denied" in output.lower():
        return Reason(MayNot.ENGINE_REFUSES, {**fields, "user": name_of(os.getuid())})
    return Reason(MayNot.ENGINE_FAILS, fields)


def _was_used(tool: str) -> bool:
    """Whether podman has containers of this user: asked where it has none, it would make its folders."""
    if tool != "podman":
        return True
    own = os.environ.get("XDG_DATA_HOME") or os.path.join(folder_of(os.getuid()), ".local", "share")
    if user := os.environ.get("_CONTAINERS_ROOTLESS_UID", ""):  # below `podman unshare` we seem to be root
        own = os.path.join(folder_of(int(user)) if user.isdigit() else own, ".local", "share")
    root = os.getuid() == 0 and not user
    place = "/var/lib/containers/storage" if root else os.path.join(own, "containers", "storage")
    return os.path.isdir(place) or bool(os.environ.get("CONTAINERS_STORAGE_CONF"))


def _container(line: str, tool: str) -> Container | None:
    """One line of an answer; None for anything that we would not put into a command."""
    try:
        known: dict[str, Any] = json.loads(line)
        name, stop = str(known["name"]).lstrip("/"), known["stop"]
        words = [str(known["path"]), *map(str, known["args"] or ())]
        mounts = tuple(_mount(mount) for mount in known["mounts"] or () if mount.get("Source"))
        managers = [str((known["labels"] or {}).get(label) or "") for label in _MANAGERS]
        if not _ID.fullmatch(str(known["id"])):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Container(
        known["id"],
        name if CONTAINER_NAME.fullmatch(name) else "",
        tool,
        mounts,
        known["running"] is True,
        known["paused"] is True,
        known["oom"] is True,
        timedelta(seconds=stop) if type(stop) is int and 0 < stop < 86_400 else None,
        "gateway" in words and "run" in words,
        known["rm"] is True,
        harmless(next(filter(None, managers), ""), 80),
    )


def _mount(mount: dict[str, Any]) -> Mount:
    inside = str(mount.get("Destination") or "")
    return Mount(
        os.path.realpath(str(mount["Source"])),
        os.path.normpath(inside) if inside else "",
        mount.get("RW") is not False,
    )

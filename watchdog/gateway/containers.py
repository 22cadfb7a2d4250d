"""The container around a gateway: found by the kernel's word where it lives, by its mounts where it does not.

gateway.pid holds the number and the path that are true inside, so neither is used here. An engine is asked only
where the home shows signs of a container. Names and answers are text of others.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchdog.gateway.command import gateway_command
from watchdog.gateway.facts import Container, Service, Surroundings
from watchdog.gateway.last_life import last_container
from watchdog.gateway.reasons import MayNot
from watchdog.model import Reason
from watchdog.system.commands import NOT_THERE, TOO_LONG, Runner
from watchdog.system.files import read_object, read_text
from watchdog.system.procfs import command_of
from watchdog.system.users import folder_of, name_of
from watchdog.text import harmless
from watchdog.values import dataclass

TOOLS = ("docker", "podman")
LIMIT = 10  # seconds; an answer takes a tenth of one, a hung engine must not hold a check
_MOST = 200  # containers
_NEIGHBOURS = 6
_IN_CGROUP = re.compile(r"(?:^|/)(?:(docker|libpod|crio)-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_ID = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_SERVICE = re.compile(r"gateway-[a-z0-9][a-z0-9_-]{0,63}")
_FOLDER = re.compile(r"(?:/[A-Za-z0-9_.-]+)+")
_NO_SUCH = re.compile(r"(?i)no such (?:object|container)")
_VOLUMES = re.compile(r"/(?:docker|containers/storage)/volumes/[^/]+/_data(?:/|$)")
_MARKS = ("/.dockerenv", "/run/.containerenv")  # docker and podman put them into every container
_S6_OVERLAY = "/command"  # where s6-overlay, which the official image uses, keeps its programs
_ITS_OWN = re.compile(r"s6-|s6rc|docker-init|tini|catatonit|dumb-init|conmon|init$|sh$")
# Seen: docker leaves StopTimeout out where it is not set, and naming it is then an error; podman 4 knows no .Id.
_FIELDS = {
    "docker": {"id": ".Id", "stop": '(index .Config "StopTimeout")'},
    "podman": {"id": ".ID", "stop": ".Config.StopTimeout"},
}
_WANTED = (
    '{"id":{{json %(id)s}},"name":{{json .Name}},"running":{{json .State.Running}},"paused":{{json .State.Paused}},'
    '"oom":{{json .State.OOMKilled}},"stop":{{json %(stop)s}},"path":{{json .Path}},'
    '"args":{{json .Args}},"mounts":{{json .Mounts}}}'
)


def surroundings(home: Path, state: Path, pid: int, chosen: bool, ask: Runner) -> Surroundings:
    """Everything about the container of this home's gateway.

    `pid` is that of the living gateway, or 0; `chosen`: the settings name something that is no unit.
    """
    if pid:
        tool, container_id = of_process(pid)
        if not container_id:
            return Surroundings(service=_service_of(pid))
        return _around(home, pid, (tool, container_id), _Engines(ask, tool))
    last_id = last_container(state)
    if not (chosen or last_id or _signs(home)):
        return Surroundings()
    return _around(home, 0, ("", last_id), _Engines(ask, ""))


def _around(home: Path, pid: int, known: tuple[str, str], engines: _Engines) -> Surroundings:
    tool, container_id = known
    found = engines.inspect((container_id,)) if container_id else ()
    if not pid and not found:  # made anew since we saw it, or never seen
        found = engines.inspect(engines.every_id())
    box = container_id if any(each.id == container_id for each in found) else ""
    if not box and len(mounting := [each for each in found if mounts(each, home)]) == 1:
        box = mounting[0].id
    inside = _processes_in(box or container_id) if box or pid else []
    service = _service_of(pid) if pid else _service_for(home, inside)
    return Surroundings(
        id=container_id if pid else "",
        tool=tool,
        signs=True,
        last_id="" if pid else container_id,
        containers=found,
        troubles=tuple(engines.troubles),
        service=service,
        neighbours=_neighbours(inside, pid, service),
        contained=any(os.path.exists(mark) for mark in _MARKS),
    )


def of_process(pid: int) -> tuple[str, str]:
    """(docker or podman, the id) of the container that a process is in; two empty texts for none, or for ours."""
    if not pid:
        return "", ""
    cgroup, ours = read_text(f"/proc/{pid}/cgroup"), read_text("/proc/self/cgroup")
    return in_cgroup(cgroup, ours)


def in_cgroup(cgroup: str, ours: str = "") -> tuple[str, str]:
    own = {line.split(":", 2)[-1] for line in ours.splitlines()}
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if (found := _IN_CGROUP.search(path)) and path not in own:
            return ("podman" if found[1] == "libpod" or "libpod" in path else "docker"), found[2]
    return "", ""


def mounts(box: Container, home: str | Path) -> bool:
    """Whether the container has this folder of the host, or one above it, as a volume."""
    real = os.path.realpath(home)
    return any(real == source or real.startswith(source.rstrip("/") + "/") for source in box.sources)


def _signs(home: Path) -> bool:
    """Whether the files of this home say that its gateway runs somewhere else than here."""
    if _VOLUMES.search(os.path.realpath(home)):
        return True
    for name in ("gateway.pid", "gateway_state.json"):
        try:
            record = read_object(home / name, follow=False)
        except OSError:
            continue
        inner, argv = record.get("hermes_home"), record.get("argv")
        if (
            isinstance(inner, str)
            and inner.startswith("/")
            and os.path.realpath(inner) != os.path.realpath(home)
        ):
            return True
        if isinstance(argv, list) and argv and isinstance(argv[0], str) and argv[0].startswith("/"):
            return not os.path.exists(argv[0])
    return False


def engine_command(tool: str) -> tuple[str, ...]:
    """The engine's command, with the address that the environment gives: a plan must say which engine."""
    host = os.environ.get("DOCKER_HOST", "") if tool == "docker" else ""
    return (tool, "--host", host) if host else (tool,)


class _Engines:
    """docker and podman, asked once each; what went wrong is kept."""

    def __init__(self, ask: Runner, hint: str):
        self.ask, self.troubles = ask, list[Reason]()
        self.tools = [tool for tool in TOOLS if shutil.which(tool) and _was_used(tool)]
        if hint in self.tools:  # else another: the docker command serves podman's socket, too
            self.tools = [hint]
        if not self.tools:
            self.troubles.append(Reason(MayNot.ENGINE_MISSING, {"tool": hint or "docker"}))

    def every_id(self) -> tuple[str, ...]:
        found: list[str] = []
        for tool in list(self.tools):
            answer = self._asked(tool, "ps", "--all", "--quiet", "--no-trunc")
            found += [line for line in answer.split() if _ID.fullmatch(line)]
        return tuple(dict.fromkeys(found))[:_MOST]

    def inspect(self, ids: tuple[str, ...]) -> tuple[Container, ...]:
        if not ids:
            return ()
        found: dict[str, Container] = {}
        for tool in list(self.tools):
            for line in self._asked(
                tool, "inspect", "--type", "container", "--format", _WANTED % _FIELDS[tool], *ids
            ).splitlines():
                if (box := _container(line, tool)) is not None:
                    found.setdefault(box.id, box)
        return tuple(found.values())

    def _asked(self, tool: str, *words: str) -> str:
        """The answer; an engine that gives none is not asked again."""
        answer = self.ask((*engine_command(tool), *words), LIMIT)
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
        return Reason(MayNot.ENGINE_SILENT, {"tool": tool, "limit": LIMIT})
    if "permission denied" in output.lower():
        return Reason(MayNot.ENGINE_REFUSES, {**fields, "user": name_of(os.getuid())})
    return Reason(MayNot.ENGINE_FAILS, fields)


def _was_used(tool: str) -> bool:
    """Whether podman has containers of this user: asked where it has none, it would make its folders."""
    if tool != "podman":
        return True
    own = os.environ.get("XDG_DATA_HOME") or os.path.join(folder_of(os.getuid()), ".local", "share")
    place = "/var/lib/containers/storage" if os.getuid() == 0 else os.path.join(own, "containers", "storage")
    return os.path.isdir(place) or bool(os.environ.get("CONTAINERS_STORAGE_CONF"))


def _container(line: str, tool: str) -> Container | None:
    """One line of an answer; None for anything that we would not put into a command."""
    try:
        told: dict[str, Any] = json.loads(line)
        name, stop = str(told["name"]).lstrip("/"), told["stop"]
        words = [str(told["path"]), *map(str, told["args"] or ())]
        sources = [str(mount["Source"]) for mount in told["mounts"] or () if mount.get("Source")]
        if not _ID.fullmatch(str(told["id"])):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Container(
        told["id"],
        name if _NAME.fullmatch(name) else "",
        tool,
        tuple(os.path.realpath(source) for source in sources),
        told["running"] is True,
        told["paused"] is True,
        told["oom"] is True,
        timedelta(seconds=stop) if type(stop) is int and 0 < stop < 86_400 else None,
        "gateway" in words and "run" in words,
    )


# -- s6 and the neighbours -------------------------------------------------------------------------------------------------


def _service_of(pid: int) -> Service | None:
    """The service of s6 whose process this is: its parent says so."""
    parent = _parent(pid) if pid else 0
    return _service(parent, command_of(parent)) if parent > 0 else None


def _service_for(home: Path, inside: list[_Running]) -> Service | None:
    """The service of this home's profile among the processes of a container, when its gateway does not live."""
    profile = home.name if home.parent.name == "profiles" else "default"
    for process in inside:
        service = _service(process.pid, process.argv)
        if service is not None and service.name == f"gateway-{profile}":
            return service
    return None


def _service(pid: int, argv: tuple[str, ...]) -> Service | None:
    if len(argv) != 2 or os.path.basename(argv[0]) != "s6-supervise" or not _SERVICE.fullmatch(argv[1]):
        return None
    folder, program = _link(f"/proc/{pid}/cwd"), _link(f"/proc/{pid}/exe")
    if not _FOLDER.fullmatch(folder) or os.path.basename(folder) != argv[1]:
        folder = f"/run/service/{argv[1]}"
    tools = os.path.dirname(program) if _FOLDER.fullmatch(program) else _S6_OVERLAY
    return Service(argv[1], folder, tools)


@dataclass(frozen=True)
class _Running:
    pid: int
    parent: int
    argv: tuple[str, ...]


def _processes_in(container_id: str) -> list[_Running]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    inside = [pid for pid in pids if in_cgroup(read_text(f"/proc/{pid}/cgroup"))[1] == container_id]
    return [_Running(pid, _parent(pid), command_of(pid)) for pid in inside]


def _neighbours(inside: list[_Running], pid: int, service: Service | None) -> tuple[str, ...]:
    """What else runs in the container: other services of s6, or other programs; not the gateway's own children."""
    services = [process.argv[1] for process in inside if _service(process.pid, process.argv)]
    if service is not None:
        names = [name for name in services if name != service.name]
    else:
        family = {pid}
        for _ in inside:  # as often as generations may be
            family |= {process.pid for process in inside if process.parent in family}
        others = [p for p in inside if p.pid not in family and p.argv and not _holds(p, pid, inside)]
        names = [
            _title(process.argv)
            for process in others
            if not _ITS_OWN.search(os.path.basename(process.argv[0]))
        ]
    unique = list(dict.fromkeys(names))
    more = [f"+{len(unique) - _NEIGHBOURS}"] if len(unique) > _NEIGHBOURS else []
    return tuple(unique[:_NEIGHBOURS] + more)


def _holds(process: _Running, pid: int, inside: list[_Running]) -> bool:
    """Whether the gateway runs below this process: a wrapper, not a neighbour."""
    parents = {each.pid: each.parent for each in inside}
    seen = 0
    while pid in parents and seen < 100:
        pid, seen = parents[pid], seen + 1
        if pid == process.pid:
            return True
    return False


def _title(argv: tuple[str, ...]) -> str:
    """A program in a few words, without what its arguments may hold."""
    words = list(argv)
    if re.fullmatch(r"python[\d.]*", os.path.basename(words[0])) and len(words) > 1:
        words = words[2:] if words[1] == "-m" else words[1:]
    shown = os.path.basename(words[0]) if words else argv[0]
    if gateway_command(argv):
        return "hermes gateway run"
    if len(words) > 1 and re.fullmatch(r"[a-z][a-z-]{1,20}", words[1]):
        shown += f" {words[1]}"
    return harmless(shown, 40)


def _parent(pid: int) -> int:
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

"""What runs inside a container: the s6 service of a gateway, and what else would stop with it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from watchdog.gateway.command import gateway_command
from watchdog.gateway.host_facts import Service
from watchdog.gateway.last_life import in_cgroup
from watchdog.system.files import read_text
from watchdog.system.procfs import command_of, parent_of
from watchdog.text import harmless
from watchdog.values import dataclass

_NEIGHBOURS = 6
_SERVICE = re.compile(r"gateway-[a-z0-9][a-z0-9_-]{0,63}")
_FOLDER = re.compile(r"(?:/[A-Za-z0-9_.-]+)+")
_S6_OVERLAY = "/command"  # where s6-overlay, which the official image uses, keeps its programs
_ITS_OWN = re.compile(r"s6-|s6rc|docker-init|tini|catatonit|dumb-init|conmon|init$|sh$")


@dataclass(frozen=True)
class Running:
    """A process in a container, by its number here."""

    pid: int
    parent: int
    argv: tuple[str, ...]


def service_of(pid: int) -> Service | None:
    """The service of s6 whose process this is: its parent says so."""
    parent = parent_of(pid) if pid else 0
    return _service(parent, command_of(parent)) if parent > 0 else None


def service_for(home: Path, inside: list[Running]) -> Service | None:
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


def processes_in(container_id: str) -> list[Running]:
    return [
        process
        for process in every_process()
        if in_cgroup(read_text(f"/proc/{process.pid}/cgroup"))[1] == container_id
    ]


def every_process() -> list[Running]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [Running(pid, parent_of(pid), command_of(pid)) for pid in pids]


def neighbours(inside: list[Running], pid: int, service: Service | None) -> tuple[str, ...]:
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


def _holds(process: Running, pid: int, inside: list[Running]) -> bool:
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


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

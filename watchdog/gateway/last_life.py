"""What a living gateway shows that a dead one does not: the container it is in, the names of its variables.

A gateway that we stop gets its own environment back. Of one that died it is not known any more; then at least
a variable that it had and will lack can be named. Values are never kept: there are secrets in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from watchdog.later import regex
from watchdog.system.files import read_object, read_text, replace_file
from watchdog.system.procfs import environment_of, lock_holder, start_time_of
from watchdog.values import StrPath

FILE = "gateway-environment.json"
_CONTAINER = regex(r"[0-9a-f]{64}")
_FOLDER = regex(r" (/\S*/containers/[0-9a-f]{64})/hostname ")
CONTAINER_NAME = regex(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SET = regex(r"(?m)^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]{0,63})\s*=")
# Of a terminal, a session or a service manager: no gateway misses them.
_OF_A_SESSION = regex(
    r"_|PWD|OLDPWD|SHLVL|TERM|COLORTERM|LS_COLORS|DISPLAY|MAIL|HOME|USER|LOGNAME|SHELL|HERMES_HOME|_HERMES_GATEWAY|"
    r"(?:XDG|DBUS|SSH|SUDO|LC|LESS|TMUX|NOTIFY|LISTEN|INVOCATION|JOURNAL|SYSTEMD|MEMORY_PRESSURE|WATCHDOG)_\w+"
)


def remember(home: StrPath, state: StrPath) -> None:
    """Keep what the gateway that runs now shows, unless it is kept already; nothing to tell when that fails."""
    pid = lock_holder(os.path.join(home, "gateway.lock")) or 0
    life = [pid, start_time_of(pid) or 0]
    try:
        known = read_object(os.path.join(state, FILE), follow=False)
        if not all(life) or (known.get("life") == life and "container" in known):
            return
        names = sorted(name for name in environment_of(pid) if _NAME.fullmatch(name))
        container_id = container_of(pid)[1]
        container = {"container": container_id, "container_name": _name_on_disk(pid, container_id)}
        value = {"life": life, **container, "names": names}
        replace_file(os.path.join(state, FILE), json.dumps(value).encode())
    except OSError:
        return  # of another user, or no room: a start goes without this advice


def _name_on_disk(pid: int, container_id: str) -> str:
    """The name that docker keeps in the container's folder: an engine that is down tells none, and an id alone tells
    a person nothing. '' for podman, and where we may not look.
    """
    if not container_id:
        return ""
    found = _FOLDER.search(read_text(f"/proc/{pid}/mountinfo"))
    folder = (
        found[1]
        if found and found[1].endswith(container_id)
        else f"/var/lib/docker/containers/{container_id}"
    )
    try:
        name = read_object(f"{folder}/config.v2.json", follow=False).get("Name")
    except PermissionError:
        return ""
    return _container_name(name.lstrip("/")) if isinstance(name, str) else ""


def _container_name(name: object) -> str:
    return name if isinstance(name, str) and CONTAINER_NAME.fullmatch(name) else ""


def last_container(state: StrPath) -> tuple[str, str]:
    """The id and the name of the container that the gateway was last seen in; '' for what is not known."""
    try:
        known = read_object(os.path.join(state, FILE), follow=False)
    except OSError:
        return "", ""
    found = known.get("container")
    if not isinstance(found, str) or not _CONTAINER.fullmatch(found):
        return "", ""
    return found, _container_name(known.get("container_name"))


def missing(home: StrPath, state: StrPath, given: Iterable[str]) -> tuple[str, ...]:
    """The variables that the gateway had and this start lacks; Hermes reads .env of its home by itself."""
    try:
        names = read_object(os.path.join(state, FILE), follow=False).get("names")
    except PermissionError:
        return ()
    known = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    there = {*given, *_SET.findall(read_text(os.path.join(home, ".env")))}
    there |= {"LANG", "LANGUAGE"} if "LC_ALL" in there else set()  # which overrules them
    return tuple(sorted(n for n in known - there if _NAME.fullmatch(n) and not _OF_A_SESSION.fullmatch(n)))


_GROUP = regex(r"(?:^|/)(?:(docker|libpod|crio)-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_NUMBERS = regex(r"(?m)^NSpid:\s*(.*)$")


def container_of(pid: int) -> tuple[str, str]:
    """(docker or podman, the id) of the container that a process is in; two empty texts for none, or for ours."""
    return in_cgroup(read_text(f"/proc/{pid}/cgroup"), read_text("/proc/self/cgroup")) if pid else ("", "")


def in_cgroup(cgroup: str, ours: str = "") -> tuple[str, str]:
    """The same for the text of /proc/PID/cgroup."""
    own = {line.split(":", 2)[-1] for line in ours.splitlines()}
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if (found := _GROUP.search(path)) and path not in own:
            return ("podman" if "libpod" in path else "docker"), found[2]
    return "", ""


def in_other_namespace(pid: int) -> bool:
    """Whether a process has another number where it runs than here: some container, of whatever engine."""
    numbers = _NUMBERS.search(read_text(f"/proc/{pid}/status"))
    return numbers is not None and len(numbers[1].split()) > 1

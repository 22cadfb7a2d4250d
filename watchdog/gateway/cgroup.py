"""The container that a process is in, by the kernel's word: its control group."""

from __future__ import annotations

from watchdog.system.files import read_text
from watchdog.values import regex

_CONTAINER = regex(r"(?:^|/)(?:(docker|libpod|crio)-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_NUMBERS = regex(r"(?m)^NSpid:\s*(.*)$")


def container_of(pid: int) -> tuple[str, str]:
    """(docker or podman, the id) of the container that a process is in; two empty texts for none, or for ours."""
    return in_cgroup(read_text(f"/proc/{pid}/cgroup"), read_text("/proc/self/cgroup")) if pid else ("", "")


def in_cgroup(cgroup: str, ours: str = "") -> tuple[str, str]:
    """The same for the text of /proc/PID/cgroup."""
    own = {line.split(":", 2)[-1] for line in ours.splitlines()}
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if (found := _CONTAINER.search(path)) and path not in own:
            return ("podman" if "libpod" in path else "docker"), found[2]
    return "", ""


def in_other_namespace(pid: int) -> bool:
    """Whether a process has another number where it runs than here: some container, of whatever engine."""
    numbers = _NUMBERS.search(read_text(f"/proc/{pid}/status"))
    return numbers is not None and len(numbers[1].split()) > 1

"""How far the units that `install` writes are locked up: as far as the job allows.

What a unit may not do, a gateway that it starts may not do either: it would live in the same sandbox. So a
watchdog whose gateway belongs to no unit gets none, and one that is locked up starts no such gateway.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from watchdog.config.settings import Settings
from watchdog.gateway.probe import SANDBOX
from watchdog.gateway.supervisor import PROCESS, UNKNOWN, Supervisor


class Sandbox(StrEnum):
    FULL = "full"  # a system unit of root
    LIGHT = "light"  # a unit of a user's own manager, which has no mount namespaces to give
    NONE_FOR_SUDO = "none-for-sudo"  # sudo needs to gain privileges
    NONE_FOR_PROCESS = "none-for-process"  # a gateway that we start ourselves would inherit it


_REMARK = {
    Sandbox.NONE_FOR_SUDO: "# Not locked up: it restarts the gateway through sudo, which NoNewPrivileges= forbids.",
    Sandbox.NONE_FOR_PROCESS: (
        "# Not locked up: no unit or container runs this gateway, so it is started from here, and would inherit\n"
        "# every restriction. After 'hermes gateway install', install the watchdog again."
    ),
}
# Each works without a mount namespace, so also in a unit of a user's own.
_LIGHT = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""
# Of root's rights those that it uses: to read and repair what belongs to the gateway's user and give it back,
# to become that user, to look at the gateway's process and end it, to see whether gateway.lock is open.
_FULL = """\
ProtectSystem=strict
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER CAP_SETUID CAP_SETGID CAP_KILL \
CAP_SYS_PTRACE CAP_LEASE
"""


def sandbox_for(supervisor: Supervisor, root: bool) -> Sandbox:
    """How far a unit may be locked up that looks after a gateway of this supervisor."""
    if supervisor.kind in (PROCESS, UNKNOWN):
        return Sandbox.NONE_FOR_PROCESS
    if supervisor.restart[:1] == ("sudo",) or supervisor.sudoers_line:
        return Sandbox.NONE_FOR_SUDO
    return Sandbox.FULL if root else Sandbox.LIGHT


def written_elsewhere(settings: Settings) -> tuple[Path, ...]:
    """The folders besides home and state that a check writes in: of the status page, and for node_exporter."""
    folders = {os.path.dirname(settings.page), settings.fleet.textfile if settings.fleet else ""}
    return tuple(sorted(Path(folder).expanduser() for folder in folders if os.path.isdir(folder)))


def lines(sandbox: Sandbox, writes: tuple[Path, ...]) -> str:
    """The lines of a [Service] section; `writes` are the folders in which it must be able to write."""
    if sandbox in _REMARK:
        return f"{_REMARK[sandbox]}\n"
    made = f"Environment={SANDBOX}={sandbox}\n{_LIGHT}"
    if sandbox is Sandbox.FULL:
        made += _FULL
        made += "".join(f"ReadWritePaths={_path(folder)}\n" for folder in writes)
        if not any(_is_temporary(folder) for folder in writes):
            made += "PrivateTmp=yes\n"
    return made


def _is_temporary(folder: Path) -> bool:
    return any(os.path.realpath(folder).startswith(f"{top}/") for top in ("/tmp", "/var/tmp"))


def _path(folder: Path) -> str:
    """A path in systemd's quoting; one that does not exist is no reason not to start."""
    text = str(folder).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"-{text}"' if any(sign in text for sign in " \"'\\\t") else f"-{text}"

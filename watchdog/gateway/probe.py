"""Measure what runs the gateway: /proc, systemctl show, and the container engines (containers.py).

Decides nothing, changes nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from watchdog.gateway import permission, systemd
from watchdog.gateway import units as unit_files
from watchdog.gateway.command import gateway_command
from watchdog.gateway.containers import surroundings
from watchdog.gateway.decide import decide, user_systemctl
from watchdog.gateway.facts import HostFacts, Unit
from watchdog.gateway.reasons import MayNot
from watchdog.gateway.release import drain_of
from watchdog.gateway.supervisor import SYSTEM, USER, Supervisor
from watchdog.model import Reason
from watchdog.system.commands import Runner
from watchdog.system.files import read_text
from watchdog.system.privileges import hands
from watchdog.system.procfs import parent_of
from watchdog.system.users import folder_of, name_of
from watchdog.values import dataclass

SANDBOX = "HERMES_WATCHDOG_SANDBOX"  # set in a unit of ours that is locked up


@dataclass(frozen=True)
class Asked:
    """Whose supervisor is looked for."""

    home: Path
    state: Path  # the watchdog's own folder
    pid: int = 0  # of the living gateway
    argv: tuple[str, ...] = ()
    unit: str = ""  # unit or container that the settings name


def find_supervisor(asked: Asked, ask: Runner) -> Supervisor:
    """Look at the machine, decide, and ask (without doing anything) whether we would be allowed to act."""
    facts = measure(asked, ask)
    return permission.checked(decide(facts), facts.user, ask)


def measure(asked: Asked, ask: Runner) -> HostFacts:
    home, pid, argv, unit = asked.home, asked.pid, asked.argv, asked.unit
    uid = os.getuid()
    owner_uid = home.stat().st_uid if home.exists() else uid
    cgroup = read_text(f"/proc/{pid}/cgroup") if pid else ""
    systemctl = shutil.which("systemctl") or ""
    program = gateway_command(argv)
    units = _units(systemctl, unit, cgroup, owner_uid, ask) if systemctl else ()
    no_unit = bool(unit) and not any(known.name in (unit, f"{unit}.service") for known in units)
    return HostFacts(
        home=os.path.realpath(home),
        uid=uid,
        user=name_of(uid),
        owner=name_of(owner_uid),
        owner_uid=owner_uid,
        pid=pid,
        pid_uid=_uid_of(pid),
        cgroup=cgroup,
        units=units,
        around=surroundings(home, asked.state, pid, no_unit, ask),
        bus=os.path.exists(f"/run/user/{owner_uid}/bus"),
        systemctl=systemctl or "/usr/bin/systemctl",
        argv=program,
        drain=drain_of(home, argv),
        chosen=unit,
        inside=inside_gateway(pid),
        told_by=_owner(home / "gateway.pid"),
        others=bool(hands(home)),
        sandboxed=bool(os.environ.get(SANDBOX)),
        program_of_others=bool(program) and bool(hands(os.path.dirname(program[0]))),
    )


def _units(systemctl: str, chosen: str, cgroup: str, owner_uid: int, ask: Runner) -> tuple[Unit, ...]:
    """The units that may run a gateway: chosen, named by the cgroup of its process, or naming Hermes in their
    file; a gateway that is down has no cgroup.
    """
    uid = os.getuid()
    named = {chosen if chosen.endswith(".service") else f"{chosen}.service"} if chosen else set()
    named |= set(re.findall(r"[A-Za-z0-9:_.@\\-]+\.service", cgroup))
    found = systemd.show(SYSTEM, (systemctl,), named | unit_files.names_of_hermes(unit_files.SYSTEM), ask)
    if os.path.exists(f"/run/user/{owner_uid}/bus") and uid in (0, owner_uid):
        own = os.path.join(folder_of(owner_uid), unit_files.OWN_USER)
        command = user_systemctl(systemctl, owner_uid, "" if uid == owner_uid else name_of(owner_uid))
        found += systemd.show(USER, command, named | unit_files.names_of_hermes((own, unit_files.USER)), ask)
    return tuple(found)


def inside_gateway(pid: int) -> Reason | None:
    """Why we seem to be a child of the gateway that we would stop."""
    if os.environ.get("_HERMES_GATEWAY") == "1":
        return Reason(MayNot.STARTED_BY_GATEWAY)
    above, seen = os.getpid(), 0
    while pid and above > 1 and seen < 100:
        if above == pid:
            return Reason(MayNot.CHILD_OF_GATEWAY, {"pid": pid})
        above, seen = parent_of(above), seen + 1
    return None


def _uid_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid if pid else -1
    except OSError:
        return -1


def _owner(path: Path) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None

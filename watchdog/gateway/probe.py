"""Measure what runs the gateway: /proc, systemd's units (loaded_units.py), the container engines (containers.py). Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from watchdog.gateway.command import gateway_command
from watchdog.gateway.containers import surroundings
from watchdog.gateway.host_facts import HostFacts
from watchdog.gateway.loaded_units import loaded_units
from watchdog.gateway.permission import with_permission
from watchdog.gateway.reasons import MayNot
from watchdog.gateway.recognise import recognise
from watchdog.gateway.release import drain_of
from watchdog.gateway.supervisor import Supervisor
from watchdog.model import Reason
from watchdog.system.commands import Runner
from watchdog.system.files import read_text
from watchdog.system.privileges import hands
from watchdog.system.procfs import parent_of
from watchdog.system.users import name_of
from watchdog.values import dataclass, field

SANDBOX = "HERMES_WATCHDOG_SANDBOX"  # set in a unit of ours that is locked up


@dataclass(frozen=True)
class Asked:
    """Whose supervisor is looked for."""

    home: Path
    state: Path  # the watchdog's own folder
    pid: int = 0  # of the living gateway
    argv: tuple[str, ...] = ()
    unit: str = ""  # unit or container that the settings name
    uid: int = field(default_factory=os.getuid)  # who asks


def find_supervisor(asked: Asked, ask: Runner) -> Supervisor:
    """Look at the machine, decide, and ask (without doing anything) whether we would be allowed to act."""
    facts = measure(asked, ask)
    return with_permission(recognise(facts), facts.user, ask)


def measure(asked: Asked, ask: Runner) -> HostFacts:
    home, pid, unit, uid = asked.home, asked.pid, asked.unit, asked.uid
    owner_uid = home.stat().st_uid if home.exists() else uid
    cgroup = read_text(f"/proc/{pid}/cgroup") if pid else ""
    systemctl = shutil.which("systemctl") or ""
    program = gateway_command(asked.argv)
    process_owner = _owner(f"/proc/{pid}") if pid else None
    named = set(re.findall(r"[A-Za-z0-9:_.@\\-]+\.service", cgroup))
    named |= {unit if unit.endswith(".service") else f"{unit}.service"} if unit else set()
    units = loaded_units(systemctl, named, (uid, owner_uid), ask) if systemctl else ()
    no_unit = bool(unit) and not any(known.name in (unit, f"{unit}.service") for known in units)
    return HostFacts(
        home=os.path.realpath(home),
        uid=uid,
        user=name_of(uid),
        owner=name_of(owner_uid),
        owner_uid=owner_uid,
        pid=pid,
        pid_uid=-1 if process_owner is None else process_owner,
        cgroup=cgroup,
        units=units,
        around=surroundings(home, asked.state, pid, no_unit, ask),
        bus=os.path.exists(f"/run/user/{owner_uid}/bus"),
        systemctl=systemctl or "/usr/bin/systemctl",
        argv=program,
        drain=drain_of(home, asked.argv),
        chosen=unit,
        inside=inside_gateway(pid),
        told_by=_owner(home / "gateway.pid"),
        others=bool(hands(home)),
        sandboxed=bool(os.environ.get(SANDBOX)),
        program_of_others=bool(program) and bool(hands(os.path.dirname(program[0]))),
    )


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


def _owner(path: str | Path) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None

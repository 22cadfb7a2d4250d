"""Measure what runs the gateway: /proc, systemctl show, the container engines (containers.py), and whether the
host would let us manage it. Decides nothing, changes nothing.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
from datetime import timedelta
from pathlib import Path

from watchdog.gateway import units as unit_files
from watchdog.gateway.command import gateway_command
from watchdog.gateway.containers import surroundings
from watchdog.gateway.decide import decide, user_systemctl
from watchdog.gateway.facts import HostFacts, Unit
from watchdog.gateway.reasons import MayNot
from watchdog.gateway.release import drain_of
from watchdog.gateway.supervisor import SYSTEM, USER, Supervisor, SupervisorKind
from watchdog.model import Reason
from watchdog.system.commands import NOT_THERE, Runner
from watchdog.system.files import read_text
from watchdog.system.privileges import hands
from watchdog.system.procfs import parent_of
from watchdog.system.users import folder_of, name_of
from watchdog.values import dataclass, replace

SANDBOX = "HERMES_WATCHDOG_SANDBOX"  # set in a unit of ours that is locked up
_SHOWN = "Id,LoadState,MainPID,ExecStart,Environment,User,TimeoutStopUSec,ExecMainStatus"
_QUICK = 10  # seconds


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
    return _checked(decide(facts), facts.user, ask)


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
    """The units that may run a gateway: chosen, in its cgroup, or with Hermes in their file."""
    uid = os.getuid()
    named = {chosen if chosen.endswith(".service") else f"{chosen}.service"} if chosen else set()
    named |= set(re.findall(r"[A-Za-z0-9:_.@\\-]+\.service", cgroup))
    found = _show(SYSTEM, (systemctl,), named | unit_files.names_of_hermes(unit_files.SYSTEM), ask)
    if os.path.exists(f"/run/user/{owner_uid}/bus") and uid in (0, owner_uid):
        own = os.path.join(folder_of(owner_uid), unit_files.OWN_USER)
        command = user_systemctl(systemctl, owner_uid, "" if uid == owner_uid else name_of(owner_uid))
        found += _show(USER, command, named | unit_files.names_of_hermes((own, unit_files.USER)), ask)
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


# -- systemd ---------------------------------------------------------------------------------------------------------------


def _show(scope: SupervisorKind, systemctl: tuple[str, ...], named: set[str], ask: Runner) -> list[Unit]:
    """The units of these names, and every one that is called hermes…, as systemd has them loaded."""
    listed = ask(
        (*systemctl, "list-unit-files", "--no-legend", "--no-pager", "--plain", "hermes*.service"), _QUICK
    )
    names = named | {
        line.split()[0] for line in listed.output.splitlines() if listed.code == 0 and line.split()
    }
    names = {
        name
        for name in names
        if name.endswith(".service") and "@." not in name and not name.startswith("user@")
    }
    if not names:
        return []
    shown = ask((*systemctl, "show", "--no-pager", f"--property={_SHOWN}", *sorted(names)), _QUICK)
    return units_from(shown.output, scope) if shown.code == 0 else []


def units_from(shown: str, scope: SupervisorKind) -> list[Unit]:
    """`systemctl show` of several units: blocks of NAME=value."""
    units = []
    for block in shown.split("\n\n"):
        properties = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if properties.get("LoadState") != "loaded":
            continue
        user = properties.get("User", "")
        homes = [
            word[12:] for word in _words(properties.get("Environment", "")) if word.startswith("HERMES_HOME=")
        ]
        profile = unit_files.PROFILE.search(properties.get("ExecStart", ""))
        home = (
            homes[-1]
            if homes
            else _default_home(user if scope == SYSTEM else "", profile[1] if profile else "")
        )
        units.append(
            Unit(
                properties.get("Id", ""),
                scope,
                _int(properties.get("MainPID", "")),
                properties.get("ExecStart", ""),
                os.path.realpath(home) if home else "",
                user,
                systemd_span(properties.get("TimeoutStopUSec", "")),
                _int(properties.get("ExecMainStatus", "")),
            )
        )
    return units


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _default_home(user: str, profile: str) -> str:
    try:
        folder = pwd.getpwnam(user).pw_dir if user else os.path.expanduser("~")
    except KeyError:
        return ""
    return os.path.join(folder, ".hermes", *(("profiles", profile) if profile else ()))


def systemd_span(text: str) -> timedelta | None:
    """'3min 30s', '1min 30s', '500ms'; None for infinity or nothing."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([\d.]+)\s*(us|ms|min|s|h|d|w)\b", text)
    return timedelta(seconds=sum(float(number) * units[unit] for number, unit in parts)) if parts else None


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0


# -- permission ------------------------------------------------------------------------------------------------------------


def _checked(found: Supervisor, user: str, ask: Runner) -> Supervisor:
    """The same supervisor, by way of polkit where that allows it, or knowing that we may not act."""
    refused = _refused(found, ask) if found.may_act else None
    return (_by_polkit(found, ask) if refused else None) or with_permission(found, user, refused)


def sudoers(user: str, supervisor: Supervisor) -> str:
    """The exact line that lets this user do exactly this, and nothing with a wildcard."""
    commands = [
        command[2:]
        for command in (supervisor.stop, supervisor.start, supervisor.restart)
        if command[:2] == ("sudo", "-n")
    ]
    written = ", ".join(
        " ".join(re.sub(r"([,:=\\])", r"\\\1", word) for word in command) for command in commands
    )
    return f"{user} ALL=(root) NOPASSWD: {written}" if written else ""


def with_permission(found: Supervisor, user: str, refused: Reason | None) -> Supervisor:
    """The same supervisor, knowing that the host will not let us: told before anyone is asked."""
    if refused is None or not found.may_act:
        return found
    line = "" if refused.key == MayNot.SUDO_MISSING else sudoers(user, found)
    why = Reason(MayNot.REFUSED, {"user": user, "name": found.name, "why": refused})
    return replace(found, may_act=False, sudoers_line=line, why_not=why)


def _refused(found: Supervisor, ask: Runner) -> Reason | None:
    """Why the host would not let us, without trying it in earnest; None when it would."""
    if found.restart[:2] != ("sudo", "-n"):
        return None
    listed = ask(("sudo", "-n", "-l"), _QUICK)
    if listed.code == NOT_THERE:
        return Reason(MayNot.SUDO_MISSING)
    for command in (found.stop, found.start, found.restart):
        if listed.code != 0 or not lets(listed.output, " ".join(command[2:])):
            return Reason(MayNot.SUDO_REFUSES, {"command": " ".join(command[2:])})
    return None


def lets(listing: str, command: str) -> bool:
    """Whether `sudo -l` lists it without a password; `sudo -l COMMAND` says yes with a password, too."""
    free = False
    for line in listing.replace("\\\n", "").splitlines():
        rule = re.match(r"\s+\(([^)]*)\)\s*(.*)", line)
        if rule is None or not {"root", "ALL"} & set(re.split(r"[\s,:]+", rule[1])):
            continue
        asks = True
        for part in re.split(r"(?<!\\),\s*", rule[2]):
            tagged = re.match(r"((?:[A-Z_]+:\s*)*)(.*)", part)
            assert tagged is not None
            tags = tagged[1].replace(" ", "").split(":")
            asks = False if "NOPASSWD" in tags else True if "PASSWD" in tags else asks
            named = re.sub(r"\\(.)", r"\1", tagged[2].strip())
            if named in ("ALL", command, command.split(" ")[0]):
                free = not asks  # the last rule that fits counts
            elif named == f"!{command}":
                free = False
    return free


def _by_polkit(found: Supervisor, ask: Runner) -> Supervisor | None:
    """The same commands without sudo, when polkit lets this process manage units without asking anyone."""
    answer = ask(
        ("pkcheck", "--action-id", "org.freedesktop.systemd1.manage-units", "--process", str(os.getpid())),
        _QUICK,
    )
    if answer.code != 0 or found.restart[:2] != ("sudo", "-n"):
        return None
    return replace(found, stop=found.stop[2:], start=found.start[2:], restart=found.restart[2:])

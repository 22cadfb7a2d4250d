"""The units of systemd that may run a gateway, as systemd has them loaded."""

from __future__ import annotations

import os
import re
import shlex
from datetime import timedelta

from watchdog.gateway.host_facts import Unit
from watchdog.gateway.supervisor import SYSTEM, USER, SupervisorKind
from watchdog.gateway.unit_files import (
    OWN_USER,
    PROFILE,
    SYSTEM_FOLDERS,
    USER_FOLDER,
    login_folder,
    names_of_hermes,
)
from watchdog.system.commands import QUICK, Runner
from watchdog.system.users import folder_of, name_of

_SHOWN = "Id,LoadState,MainPID,ExecStart,Environment,User,TimeoutStopUSec,ExecMainStatus"


def loaded_units(systemctl: str, named: set[str], users: tuple[int, int], ask: Runner) -> tuple[Unit, ...]:
    """The units that may run a gateway: those in `named`, and with Hermes in their file.

    `users`: ours, and the one whom the home belongs to.
    """
    uid, owner = users
    found = _show(SYSTEM, (systemctl,), named | names_of_hermes(SYSTEM_FOLDERS), ask)
    if os.path.exists(f"/run/user/{owner}/bus") and uid in (0, owner):
        own = os.path.join(folder_of(owner), OWN_USER)
        command = user_systemctl(systemctl, owner, "" if uid == owner else name_of(owner))
        found += _show(USER, command, named | names_of_hermes((own, USER_FOLDER)), ask)
    return tuple(found)


def user_systemctl(systemctl: str, uid: int, runuser: str = "") -> tuple[str, ...]:
    """systemctl for the user manager of `uid`; through runuser when we are root and that user is not.

    cron gives neither variable; without them systemctl --user finds no bus.
    """
    folder = f"/run/user/{uid}"
    address = f"DBUS_SESSION_BUS_ADDRESS=unix:path={folder}/bus"
    command = ("env", f"XDG_RUNTIME_DIR={folder}", address, systemctl, "--user")
    return ("runuser", "-u", runuser, "--", *command) if runuser else command


def _show(scope: SupervisorKind, systemctl: tuple[str, ...], named: set[str], ask: Runner) -> list[Unit]:
    """The units of these names, and every one that is called hermes…, as systemd has them loaded."""
    listed = ask(
        (*systemctl, "list-unit-files", "--no-legend", "--no-pager", "--plain", "hermes*.service"), QUICK
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
    shown = ask((*systemctl, "show", "--no-pager", f"--property={_SHOWN}", *sorted(names)), QUICK)
    return units_from(shown.output, scope) if shown.code == 0 else []


def units_from(shown: str, scope: SupervisorKind) -> list[Unit]:
    """`systemctl show` of several units: blocks of NAME=value."""
    units = []
    for block in shown.split("\n\n"):
        properties = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if properties.get("LoadState") != "loaded":
            continue
        user = properties.get("User", "")
        words = _words(properties.get("Environment", ""))
        homes = [word.removeprefix("HERMES_HOME=") for word in words if word.startswith("HERMES_HOME=")]
        profile = PROFILE.search(properties.get("ExecStart", ""))
        usual = _default_home(user if scope == SYSTEM else "", profile[1] if profile else "")
        home = homes[-1] if homes else usual
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
    folder = login_folder(user) if user else os.path.expanduser("~")
    return os.path.join(folder, ".hermes", *(("profiles", profile) if profile else ())) if folder else ""


def systemd_span(text: str) -> timedelta | None:
    """'3min 30s', '1min 30s', '500ms'; None for infinity or nothing."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([\d.]+)\s*(us|ms|min|s|h|d|w)\b", text)
    return timedelta(seconds=sum(float(number) * units[unit] for number, unit in parts)) if parts else None


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0

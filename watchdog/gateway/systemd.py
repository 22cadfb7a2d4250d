"""What `systemctl show` tells of units."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from datetime import timedelta

from watchdog.gateway.facts import Unit
from watchdog.gateway.supervisor import SYSTEM, SupervisorKind
from watchdog.gateway.units import PROFILE
from watchdog.system.commands import Runner

_SHOWN = "Id,LoadState,MainPID,ExecStart,Environment,User,TimeoutStopUSec,Restart,ActiveState,ExecMainStatus,NRestarts"
_QUICK = 10  # seconds


def show(scope: SupervisorKind, systemctl: tuple[str, ...], named: set[str], ask: Runner) -> list[Unit]:
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
        profile = PROFILE.search(properties.get("ExecStart", ""))
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
                properties.get("Restart", ""),
                properties.get("ActiveState", ""),
                _int(properties.get("ExecMainStatus", "")),
                _int(properties.get("NRestarts", "")),
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

"""Which units of systemd may be a gateway's: by their files, as asking systemd costs a process each time, and as
systemd has them loaded.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import timedelta

from watchdog.gateway.facts import Unit
from watchdog.gateway.supervisor import SYSTEM, USER, SupervisorKind
from watchdog.later import regex
from watchdog.system.commands import QUICK, Runner
from watchdog.system.files import read_small
from watchdog.system.users import folder_of, name_of
from watchdog.values import StrPath

SYSTEM_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system")
PACKAGED = "/usr/lib/systemd/system"
USER_FOLDER = "/etc/systemd/user"
OWN_USER = ".config/systemd/user"  # below a person's home folder
_GATEWAY = regex(r"(?i)hermes.*gateway")
# As words, not as a part of a path: a Hermes may live in a folder of that name.
_OURS = regex(r" -m watchdog |/hermes-watchdog[ ;]")
_HERMES = regex(r"(?:/hermes| -m hermes_cli\.main) ")
_COMMAND = regex(r"(?m)^ExecStart[ \t]*=[ \t]*(.*)$")
_HOME = regex(r"HERMES_HOME=[\"']?([^\"'\s]+)")
_PROFILE = regex(r" (?:--profile|-p)[ =]([a-z0-9][a-z0-9_-]{0,63})\b")
_USER = regex(r"(?m)^User[ \t]*=[ \t]*(\S+)")
_SHOWN = "Id,LoadState,MainPID,ExecStart,Environment,User,TimeoutStopUSec,ExecMainStatus"
_ONCE = regex(r"(?m)^Type[ \t]*=[ \t]*oneshot\b")


def speaking_of_hermes(folders: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[str, str]]:
    """(name, text) of the units that name Hermes; a unit may have any name."""
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".service"):
                try:
                    raw = read_small(f"{os.fspath(folder)}/{name}")
                except OSError:
                    raw = b""
                if "hermes" in name.lower() or b"hermes" in raw.lower():
                    yield name, raw.decode("utf-8", "replace")


def names_of_hermes(folders: Iterable[str | os.PathLike[str]]) -> set[str]:
    return {name for name, _ in speaking_of_hermes(folders)}


def runs_gateway(command: str) -> bool:
    return _GATEWAY.search(command) is not None and not is_ours(command)


def is_ours(command: str) -> bool:
    """Whether it starts the watchdog itself."""
    return _OURS.search(f"{command} ") is not None


def units_of(home: StrPath, chosen: str = "") -> list[tuple[str, bool]]:
    """(unit, whether it is a user unit) of the services that run this home's gateway, or the one that was chosen.

    Where none says so by its command (it calls a script), those that name the home and are nothing else that
    is known.
    """
    if chosen and chosen != "auto":
        name = chosen.removeprefix("user:")
        return [(name if "." in name else f"{name}.service", chosen.startswith("user:"))]
    system = [*filter(None, os.environ.get("SYSTEMD_UNIT_PATH", "").split(":")), *SYSTEM_FOLDERS, PACKAGED]
    places = [(folder, False) for folder in system]
    places += [
        (os.path.join(base, OWN_USER), True) for base in (os.path.dirname(home), os.path.expanduser("~"))
    ] + [(USER_FOLDER, True)]
    sure: list[tuple[str, bool]] = []
    others: list[tuple[str, bool]] = []
    for folder, user in dict.fromkeys(places):
        for name, text in speaking_of_hermes((folder,)):
            command = " ".join(_COMMAND.findall(text.replace("\\\n", " ")))
            by_command = runs_gateway(command)
            if not _is_for(home, text, command, by_command or name.startswith("hermes")):
                continue
            if by_command:
                sure.append((name, user))
            elif not (is_ours(command) or _HERMES.search(f"{command} ") or _ONCE.search(text)):
                others.append((name, user))
    return list(dict.fromkeys(sure or others))


def _is_for(home: StrPath, text: str, command: str, gateway: bool) -> bool:
    if homes := _HOME.findall(text):
        return os.path.realpath(home) in map(os.path.realpath, homes)
    profile, users = _PROFILE.search(command), _USER.findall(text)
    usual = f"/.hermes/profiles/{profile[1]}" if profile else "/.hermes"
    if not gateway or not str(home).endswith(usual):
        return False
    return not users or _login_folder(users[-1]) in ("", os.path.realpath(str(home).removesuffix(usual)))


def _login_folder(user: str) -> str:
    try:
        return os.path.realpath(pwd.getpwnam(user).pw_dir)
    except KeyError:
        return ""


# As systemd has them loaded.


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
        profile = _PROFILE.search(properties.get("ExecStart", ""))
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
    folder = _login_folder(user) if user else os.path.expanduser("~")
    return os.path.join(folder, ".hermes", *(("profiles", profile) if profile else ())) if folder else ""


def systemd_span(text: str) -> timedelta | None:
    """'3min 30s', '1min 30s', '500ms'; None for infinity or nothing."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([\d.]+)\s*(us|ms|min|s|h|d|w)\b", text)
    return timedelta(seconds=sum(float(number) * units[unit] for number, unit in parts)) if parts else None


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0

"""Which unit files may be a gateway's. Read as files: asking systemd costs a process each time."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator

from watchdog.later import regex
from watchdog.system.files import read_small
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
PROFILE = regex(r" (?:--profile|-p)[ =]([a-z0-9][a-z0-9_-]{0,63})\b")
_USER = regex(r"(?m)^User[ \t]*=[ \t]*(\S+)")
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
    profile, users = PROFILE.search(command), _USER.findall(text)
    usual = f"/.hermes/profiles/{profile[1]}" if profile else "/.hermes"
    if not gateway or not str(home).endswith(usual):
        return False
    return not users or login_folder(users[-1]) in ("", os.path.realpath(str(home).removesuffix(usual)))


def login_folder(user: str) -> str:
    try:
        return os.path.realpath(pwd.getpwnam(user).pw_dir)
    except KeyError:
        return ""

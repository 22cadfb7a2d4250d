"""Whether the host lets us manage the gateway: asked without doing anything, and the line that would allow it."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from watchdog.gateway.reasons import MayNot
from watchdog.gateway.supervisor import Supervisor
from watchdog.model import Reason
from watchdog.system.commands import NOT_THERE, Runner

_QUICK = 10  # seconds


def checked(found: Supervisor, user: str, ask: Runner) -> Supervisor:
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
    """Whether `sudo -l` says that root's command needs no password. `sudo -l COMMAND` would not do: it says
    yes with a password, too.
    """
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

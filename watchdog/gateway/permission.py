"""Whether the host lets us act on the gateway's supervisor: asked of sudo and polkit before any person is asked."""

from __future__ import annotations

import os
import re

from watchdog.gateway.reasons import MayNot
from watchdog.gateway.supervisor import Supervisor
from watchdog.model import Reason
from watchdog.system.commands import NOT_THERE, QUICK, Runner
from watchdog.values import replace

SUDO = ("sudo", "-n")


def with_permission(found: Supervisor, user: str, ask: Runner) -> Supervisor:
    """The same supervisor, without sudo where polkit allows that, or knowing that we may not act."""
    if not found.may_act or found.restart[:2] != SUDO or (refused := _refused(found, ask)) is None:
        return found
    if _polkit_allows(ask):
        return replace(found, stop=found.stop[2:], start=found.start[2:], restart=found.restart[2:])
    line = "" if refused.key == MayNot.SUDO_MISSING else sudoers(user, found)
    why = Reason(MayNot.REFUSED, {"user": user, "name": found.name, "why": refused})
    return replace(found, may_act=False, sudoers_line=line, why_not=why)


def _refused(found: Supervisor, ask: Runner) -> Reason | None:
    """Why sudo would not let us, without trying it in earnest; None when it would."""
    listed = ask((*SUDO, "-l"), QUICK)
    if listed.code == NOT_THERE:
        return Reason(MayNot.SUDO_MISSING)
    for command in _commands(found):
        if listed.code != 0 or not lets(listed.output, command):
            return Reason(MayNot.SUDO_REFUSES, {"command": command})
    return None


def _commands(found: Supervisor) -> list[str]:
    """What sudo is to run."""
    return [" ".join(command[2:]) for command in (found.stop, found.start, found.restart)]


def sudoers(user: str, found: Supervisor) -> str:
    """The exact line that lets this user do exactly this, and nothing with a wildcard."""
    written = ", ".join(re.sub(r"([,:=\\])", r"\\\1", command) for command in _commands(found))
    return f"{user} ALL=(root) NOPASSWD: {written}"


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


def _polkit_allows(ask: Runner) -> bool:
    """Whether polkit lets this process manage units without asking anyone."""
    action = "org.freedesktop.systemd1.manage-units"
    return ask(("pkcheck", "--action-id", action, "--process", str(os.getpid())), QUICK).code == 0

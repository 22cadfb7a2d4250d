"""What a message depends on besides its news: the time, the reader's words, how a person calls this watchdog."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchdog.config.settings import NotifySettings
from watchdog.errors import PROGRAM
from watchdog.model import Reason, Rule, plain
from watchdog.notify.sanitize import CODE, fit_field
from watchdog.notify.translate import Words, sentence

OWN_COMMAND = "HERMES_WATCHDOG_COMMAND"  # set by contrib/docker/compose.yaml


@dataclass(frozen=True)
class Command:
    """How a person calls this watchdog for this home: a program that is found, and the options it needs."""

    program: str = PROGRAM
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.program, *map(shlex.quote, self.options)])

    def line(self, *words: str) -> str:
        return CODE + " ".join([self.program, shlex.join([*words, *self.options])])


@dataclass(frozen=True)
class MessageContext:
    """What a message depends on besides its news."""

    now: datetime
    host: str
    words: Words  # with those of the rules and recipes
    rules: Mapping[str, Rule] = field(default_factory=dict)
    command: Command = field(default_factory=Command)
    quote_logs: bool = False
    per_hour: int = 6
    audit: str = ""  # the newest line of the audit, by the first characters of its hash

    def say(self, text: Reason | str, clean: Callable[[str, str], str] = fit_field) -> str:
        """A reason in the reader's words; text that has no key as it is, made fit to be sent."""
        reason = text if isinstance(text, Reason) else plain(text)
        return sentence(reason, self.words, self.now, clean)

    def text(self, key: str, **fields: object) -> str:
        """A text of ours with fields that are fit already."""
        return sentence(Reason(key, fields), self.words, self.now, lambda name, text: text)


def host_of(settings: NotifySettings) -> str:
    """What messages call this machine."""
    return settings.host or socket.gethostname().partition(".")[0]


def machine_and_home(host: str, home: str, command: Command) -> str:
    """The machine; with the profile, or the home, where a message could be about another one of the same machine."""
    if "--home" not in command.options:
        return host
    return f"{host}, {profile_of(home) or home}"


def profile_of(home: str) -> str:
    """The name of a profile; '' for any other home."""
    above, name = os.path.split(home)
    return name if os.path.basename(above) == "profiles" else ""


def own_command(home: str, state: str, config: str) -> Command:
    """How a person in a shell of their own calls this watchdog for this home: what is not the default is named.

    In a container the image says how to reach us from its host, where every variable of the container holds.
    """
    program, variables = os.environ.get(OWN_COMMAND) or PROGRAM, {}
    if OWN_COMMAND in os.environ:
        variables = dict(os.environ)
    elif shutil.which(program) is None:
        beside = os.path.join(os.path.dirname(sys.executable), program)
        program = beside if os.access(beside, os.X_OK) else f"{sys.executable} -m watchdog"
    folder = os.path.expanduser("~")
    options: list[str] = []
    for name, given, variable, default in (
        ("--home", home, "HERMES_HOME", ".hermes"),
        ("--state", os.path.dirname(state), "HERMES_WATCHDOG_STATE", ".local/state/hermes-watchdog"),
        ("--config", config, "HERMES_WATCHDOG_CONFIG", ".config/hermes-watchdog"),
    ):
        if given and given != (variables.get(variable) or os.path.join(folder, default)):
            options += [name, given]
    return Command(program, tuple(options))

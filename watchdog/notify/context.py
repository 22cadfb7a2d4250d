"""What a message depends on besides its news: the time, the reader's words, how a person calls this watchdog."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchdog.model import Reason, Rule, plain
from watchdog.notify.sanitize import CODE, fit_field
from watchdog.notify.translate import Words, sentence


@dataclass(frozen=True)
class Command:
    """How a person calls this watchdog for this home: a program that is found, and the options it needs."""

    program: str = "hermes-watchdog"
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

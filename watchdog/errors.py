"""What can go wrong, told apart by who must do something about it."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.values import dataclass

PROGRAM, WATCHDOG = "hermes-watchdog", "{watchdog}"


class WatchdogError(Exception):
    """Something could not be done; the text says where, what, and what to do.

    {watchdog} in the text stands for how a person calls this watchdog for their home, which only the edge knows.
    """

    def __str__(self) -> str:
        return self.calling(PROGRAM)

    def calling(self, command: str) -> str:
        """The text with commands that work as they stand."""
        text = super().__str__()
        return text.replace(WATCHDOG, command) if WATCHDOG in text else text  # a phrase stays one


@dataclass(frozen=True)
class Problem:
    """One mistake in one file."""

    path: str
    line: int
    says: str

    def __lt__(self, other: Problem) -> bool:
        return (self.path, self.line, self.says) < (other.path, other.line, other.says)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}" if self.line else f"{self.path}: {self.says}"


class ConfigError(WatchdogError):
    """The rules, recipes or settings are wrong; every mistake is in `problems`."""

    def __init__(self, problems: Sequence[Problem]):
        self.problems = tuple(
            sorted(dict.fromkeys(problems), key=lambda problem: (problem.path, problem.line))
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SlowPattern(WatchdogError):
    """A pattern of a rule took longer on one record than any sane pattern does."""


class FleetError(WatchdogError):
    """A service of the fleet did not do what it was asked; the text never holds a password."""

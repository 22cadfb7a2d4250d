"""What can go wrong, told apart by who must do something about it."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.values import dataclass


class WatchdogError(Exception):
    """Something could not be done; the text says where, what, and what to do."""


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

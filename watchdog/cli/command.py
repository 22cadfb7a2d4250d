"""How a command is written down: what runs it, its options, and its help, which is the docstring of what runs it.

A decorator only notes all this; parser.py makes an argparse parser of it, which what cron writes never needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from watchdog.config.settings import LANGUAGES
from watchdog.errors import WatchdogError
from watchdog.text import duration
from watchdog.values import Any, dataclass

Run = Callable[[Any], int]


@dataclass(frozen=True)
class Option:
    """An argument as argparse knows it."""

    name: str
    more: Mapping[str, Any]


@dataclass(frozen=True)
class OneOf:
    """Options of which one may be given, or must be."""

    options: tuple[Option, ...]
    required: bool = False


@dataclass(frozen=True)
class NotedCommand:
    """A command, or a part of one."""

    run: Run | None
    options: tuple[Option | OneOf, ...]
    text: str  # examples and exit codes
    about: str  # its line in the list of parts
    json: bool
    where: bool  # whether it takes --home, --config and --state


COMMANDS: dict[str, NotedCommand] = {}  # "plans", "rules list": those whose module was loaded


def command(name: str, *options: Option | OneOf, text: str = "", about: str = "", **more: bool) -> Any:
    """Notes the decorated function as what runs this command; its docstring is the help unless `text` is given."""

    def noted(run: Run) -> Run:
        flags = {"json": True, "where": True, **more}
        COMMANDS[name] = NotedCommand(run, options, text or dedented(run.__doc__ or ""), about, **flags)
        return run

    return noted


def parts_of(name: str, text: str, description: str = "") -> None:
    """Notes a command that only has parts: `rules` of `rules list`."""
    COMMANDS[name] = NotedCommand(None, (), text, description, False, False)


def dedented(text: str) -> str:
    """A docstring as it is meant: without the indentation that all of its lines share."""
    lines = text.strip("\n").rstrip().split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[indent:] for line in lines)


def flag(name: str, about: str, **more: Any) -> Option:
    """An option without a value."""
    return Option(name, {"action": "store_true", "help": about} | more)


def option(name: str, stands_for: str, about: str, **more: Any) -> Option:
    """An argument, or an option with a value."""
    return Option(name, {"metavar": stands_for, "help": about, **more})


def choice(name: str, choices: Sequence[str], about: str, **more: Any) -> Option:
    """An argument, or an option, with one of some values."""
    return Option(name, {"choices": tuple(choices), "help": about, **more})


LANGUAGE = choice("--language", LANGUAGES, "en or zh (default: notify: language: of your settings)")
JSON = flag("--json", "print JSON for scripts instead of text for people")
WHERE = (
    option("--home", "DIR", "the Hermes home (default: $HERMES_HOME, else ~/.hermes)"),
    option(
        "--config",
        "DIR",
        "folder with your settings.yaml, detect/ and recipes/ "
        "(default: $HERMES_WATCHDOG_CONFIG, else ~/.config/hermes-watchdog)",
    ),
    option(
        "--state",
        "DIR",
        "folder for the watchdog's own memory (default: $HERMES_WATCHDOG_STATE, else ~/.local/state/hermes-watchdog)",
    ),
)
PROFILES = flag("--all-profiles", "for this home and each of its profiles")


def gateway_state(about: str, **more: Any) -> Option:
    """What the gateway's process is taken to be."""
    return choice("--gateway", ("running", "dead", "unknown"), about, **more)


def a_time(text: str) -> datetime:
    """A time on the command line; without a zone it is one of the logs' zone, which only the settings know."""
    if text == "now":
        return datetime.now(UTC)
    try:
        return datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        how = "write '2026-05-19 10:41:00' (in the logs' time zone) or 2026-05-19T10:41:00+02:00"
        raise WatchdogError(f"'{text}' is not a time; {how}") from None


def a_duration(text: str) -> timedelta:
    """A duration on the command line: 90s, 15m, 2h."""
    try:
        return duration(text)
    except ValueError as error:
        raise WatchdogError(str(error)) from None


def number_of(what: str) -> Callable[[str], int]:
    """Reads the number of a plan, an incident or a silence."""

    def read(text: str) -> int:
        number = text.rstrip(".,;。，；")  # copied with the end of its sentence
        if not number.isdecimal():
            raise WatchdogError(f"'{text}' is not the number of {what}; see: {{watchdog}} {what.split()[1]}s")
        return int(number)

    return read

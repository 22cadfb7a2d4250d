"""What all commands share: where the home, the settings and the store are; how results are printed."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from functools import cached_property

from watchdog.errors import WatchdogError
from watchdog.paths import Path
from watchdog.terminal import colours, paint
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    import argparse

    from watchdog.reading import Sources
    from watchdog.rulebook import Rulebook
    from watchdog.settings import Settings
    from watchdog.store import Store

__all__ = ["Context", "a_duration", "a_time", "add_common", "colours", "complain", "context", "in_zone", "paint", "print_json"]

WELL, WRONG, CONFIG, OURS = 0, 1, 2, 3


def add_common(parser: argparse.ArgumentParser, json: bool = True) -> None:
    """--home, --config, --state, --json."""
    group = parser.add_argument_group("where")
    group.add_argument("--home", metavar="DIR", help="the Hermes home (default: $HERMES_HOME, else ~/.hermes)")
    group.add_argument("--config", metavar="DIR", help="folder with settings.yaml, detect/ and recipes/ of your own "
                       "(default: $HERMES_WATCHDOG_CONFIG, else ~/.config/hermes-watchdog)")
    group.add_argument("--state", metavar="DIR", help="folder for the watchdog's own memory "
                       "(default: $HERMES_WATCHDOG_STATE, else ~/.local/state/hermes-watchdog)")
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON for scripts instead of text for people")


def add_command(commands: Any, name: str, says: str, examples: str, run: Any) -> argparse.ArgumentParser:
    """A command with its line of help, its examples and what it runs."""
    import argparse

    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=says,
        description=says[0].upper() + says[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(run=run)
    return made


@dataclass(frozen=True)
class Context:
    """What the arguments mean on this machine."""

    args: argparse.Namespace
    now: datetime

    @cached_property
    def home(self) -> Path:
        given = getattr(self.args, "home", None) or os.environ.get("HERMES_HOME")
        home = Path(os.path.abspath(os.path.expanduser(given))) if given else user_home() / ".hermes"
        try:
            str(home).encode()
        except UnicodeEncodeError:  # nor could it be told in a message, a unit file or a line for cron
            raise WatchdogError(f"{str(home)!r}: the name of this home is not UTF-8; give it another, or a link with a plain name") from None
        return home

    @cached_property
    def config(self) -> Path:
        given = getattr(self.args, "config", None) or os.environ.get("HERMES_WATCHDOG_CONFIG")
        if given:
            folder = Path(os.path.abspath(os.path.expanduser(given)))
            if getattr(self.args, "config", None) and not folder.is_dir():
                raise WatchdogError(f"--config {given}: no such folder")
            return folder
        base = os.environ.get("XDG_CONFIG_HOME")
        return (Path(base) if base else user_home() / ".config") / "hermes-watchdog"

    @cached_property
    def state(self) -> Path:
        """One folder per home, so that two profiles never mix."""
        from watchdog.text import sha256

        given = getattr(self.args, "state", None) or os.environ.get("HERMES_WATCHDOG_STATE")
        if given:
            base = Path(os.path.abspath(os.path.expanduser(given)))
        else:
            xdg = os.environ.get("XDG_STATE_HOME")
            base = (Path(xdg) if xdg else user_home() / ".local" / "state") / "hermes-watchdog"
        return base / f"{self.home.name.lstrip('.') or 'home'}-{sha256(str(self.home).encode()).hexdigest()[:8]}"

    @property
    def store_path(self) -> Path:
        return self.state / "watchdog.db"

    def store(self) -> Store:
        """The store for writing."""
        from watchdog.store import Store

        return Store.open(self.store_path)

    def look_at_store(self) -> Store | None:
        """The store for reading, leaving no trace; None when there is none."""
        from watchdog.store import Store

        return Store.look(self.store_path)

    @cached_property
    def settings(self) -> Settings:
        from watchdog.settings import load_settings

        return load_settings(self.config)

    @cached_property
    def book(self) -> Rulebook:
        from watchdog.compiled import load_cached

        # Only a check writes beside the store. With the program, as Python does with it, any command but a dry run.
        dry = getattr(self.args, "dry_run", None)
        return load_cached(self.config, self.state, write=dry is False, remember=not dry)

    def sources(self, stated: str = "") -> Sources:
        from watchdog.reading import Sources

        return Sources(self.home, zone=self.settings.zone, unit=self.settings.unit, state=self.state, stated=stated)


def user_home() -> Path:
    """The user's folder; from the user database when cron or systemd gave no HOME."""
    import pwd

    home = os.environ.get("HOME")
    if home:
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise WatchdogError("no HOME and no entry in the user database; give --home, --config and --state") from None


def context(args: argparse.Namespace, now: datetime | None = None) -> Context:
    return Context(args, now or datetime.now(UTC))


def a_time(text: str) -> datetime:
    """A time on the command line: ISO 8601, or local time as the logs write it; 'now' is now."""
    if text == "now":
        return datetime.now(UTC)
    try:
        at = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(
            f"'{text}' is not a time; write '2026-05-19 10:41:00' (local) or 2026-05-19T10:41:00+02:00"
        ) from None
    return at  # without a zone: the logs' zone, which only the settings know


def in_zone(at: datetime, ctx: Context) -> datetime:
    """A time without a zone is one of the logs'."""
    if at.tzinfo is None:
        zone = ctx.settings.zone
        at = at.astimezone() if zone is None else at.replace(tzinfo=zone)
    return at.astimezone(UTC)


def a_duration(text: str) -> timedelta:
    from watchdog.text import duration

    try:
        return duration(text)
    except ValueError as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None


def print_json(value: object) -> None:
    import json

    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    print()


def complain(says: object) -> None:
    """An error for people, on stderr."""
    print(f"hermes-watchdog: {says}", file=sys.stderr)

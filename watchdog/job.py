"""A job: one Hermes home to look after, and where everything that belongs to it is; a run: what one check works with."""

from __future__ import annotations

import os
import pwd
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial

from watchdog import config, gateway, notify, steps, store
from watchdog.config.cache import load_cached, load_cached_settings
from watchdog.config.rulebook import Kinds, Rulebook
from watchdog.config.settings import Settings
from watchdog.detect import KINDS
from watchdog.detect.evaluate import is_measured
from watchdog.errors import WatchdogError
from watchdog.model import Rule
from watchdog.sources.read import Sources, starts_in_log
from watchdog.store import Store
from watchdog.store.incidents import look_back
from watchdog.store.recovery import look_at_store, open_store
from watchdog.system.files import short_digest
from watchdog.values import TYPE_CHECKING, StrPath, dataclass, replace

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    from watchdog.gateway import Machine
    from watchdog.notify import Messenger

    Value = TypeVar("Value")

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Job:
    """One home with its settings, rules, sources and store; each is read when it is first asked for."""

    home_dir: str
    config_dir: str  # of the user's settings.yaml, detect/ and recipes/
    state_dir: str  # of the watchdog's own memory of this home
    now: datetime
    keeps_rules: bool = True  # whether the rules as read may be kept for the next command
    writes: bool = False  # whether files may be made in the state folder

    @property
    def home(self) -> Path:
        return as_path(self.home_dir)

    @property
    def config(self) -> Path:
        return as_path(self.config_dir)

    @property
    def state(self) -> Path:
        return as_path(self.state_dir)

    @property
    def store_path(self) -> Path:
        return as_path(self.store_file)

    @property
    def store_file(self) -> str:
        return os.path.join(self.state_dir, "watchdog.db")

    @cached_property
    def settings(self) -> Settings:
        return load_cached_settings(self.config_dir, self.state_dir, self.writes)

    @cached_property
    def book(self) -> Rulebook:
        load = partial(load_rules, self.config_dir)
        return load_cached(self.config_dir, self.state_dir, load, self.writes, self.keeps_rules)

    def sources(self, stated: str = "") -> Sources:
        """Where the events come from; `stated` is what the gateway's process was, for old logs."""
        return Sources(
            self.home_dir,
            zone=self.settings.zone,
            unit=self.settings.unit,
            state=self.state_dir,
            stated=stated,
            vocabulary=self.book.vocabulary,
        )

    def store(self) -> Store:
        """The store for writing."""
        return open_store(self.store_file, self.now)

    def look_at_store(self) -> Store | None:
        """The store for reading, which leaves no trace; None when there never was one."""
        return look_at_store(self.store_file)

    def recall(self, read: Callable[[Store], Value], default: Value) -> Value:
        """What the store tells; the default where there is none, or it cannot be read, which the next check tells."""
        with suppress(WatchdogError, sqlite3.Error, ValueError):
            if (seen := self.look_at_store()) is not None:
                with seen:
                    return read(seen)
        return default

    def run(
        self, store: Store | None, now: datetime, rules: Sequence[Rule] | None = None, stated: str = ""
    ) -> Run:
        """One run over this home; with all rules unless those that are due are given."""
        due = self.book.rules if rules is None else rules
        return Run(self.book, self.sources(stated), self.settings, store, now, due)


@dataclass(frozen=True)
class Run:
    """What one run of the line works with."""

    book: Rulebook
    sources: Sources
    settings: Settings
    store: Store | None  # None: nothing is remembered
    now: datetime
    rules: Sequence[Rule]  # those of the book that are due

    @property
    def home_dir(self) -> str:
        return os.fspath(self.sources.home)

    @property
    def state_dir(self) -> str:
        """The watchdog's own folder for this home."""
        assert self.sources.state is not None, "only saved logs have none, and nothing is done about those"
        return os.fspath(self.sources.state)

    @property
    def memory(self) -> Store:
        """The store, where something must be written or was written before."""
        assert self.store is not None, "a run that remembers nothing writes nothing"
        return self.store

    @property
    def start(self) -> datetime:
        """From when on a check must read."""
        return look_back(self.store, self.book.window, self.now, self._is_measured)

    def _is_measured(self, name: str) -> bool:
        rule = self.book.rule(name)
        return rule is not None and is_measured(rule)

    def sources_from(self, start: datetime | None) -> Sources:
        """The sources with what past checks left for them, and how long reading may take; `start` as for a check."""
        within = self.sources.read_within if start is None else self.settings.time_limit / 3
        measured = store.past_measurements(self.store, self.now)
        failed = store.failed_restarts(self.store, self.now)
        return replace(self.sources, measured=measured, failed_restarts=failed, read_within=within)

    def messenger(self) -> Messenger:
        """What telling and asking need for this home."""
        return notify.messenger(self.memory, self.settings, self.book, self.home_dir, self.now)

    def machine(self, turns: int | None = None, hung: int = 0) -> Machine:
        """The gateway, its supervisor and the machine; `turns` counts for 0.13, which tells none. Other releases count
        turns that hang, too, but perhaps not all of them: what the logs show at work stays a reply in progress.
        """
        starts = starts_in_log(self.sources, self.now - DAY, self.now)
        machine = gateway.measure_machine(
            as_path(self.home_dir), as_path(self.state_dir), self.settings, starts
        )
        counted = machine.gateway.turns
        if counted or turns is None:
            return replace(machine, hung=max(0, min(hung, (counted or 0) - (turns or 0))))
        return replace(machine, gateway=replace(machine.gateway, turns=turns))

    @property
    def not_due(self) -> frozenset[str]:
        """The rules of the book that are not asked this time."""
        if self.rules is self.book.rules:
            return frozenset()
        return frozenset(rule.id for rule in self.book.rules) - {rule.id for rule in self.rules}


def load_rules(*folders: StrPath, shipped: bool = True) -> Rulebook:
    """The shipped rules, then each folder's over them (same id replaces); ConfigError with all mistakes."""
    return config.load(*folders, kinds=rule_kinds(), shipped=shipped)


def rule_kinds() -> Kinds:
    """What rules and recipes may be made of; a quiet check has its rules in a cache and asks for none of this."""
    return Kinds(KINDS, steps.KINDS, config.every_problem)


def as_path(name: StrPath) -> Path:
    """The name as a path. A check itself works with names: loading pathlib costs it 0.6 interpreter starts."""
    from pathlib import Path

    return Path(name)


def find_home(given: str | None = None) -> str:
    """The Hermes home that is meant: as given, else $HERMES_HOME, else ~/.hermes."""
    given = given or os.environ.get("HERMES_HOME")
    home = _whole(given) if given else os.path.join(user_home(), ".hermes")
    try:
        home.encode()
    except UnicodeEncodeError:  # such a name fits in no message, unit file or crontab
        raise WatchdogError(
            f"{home!r}: the name of this home is not UTF-8; give it another, or a link with a plain name"
        ) from None
    return home


SIGNS = (
    "config.yaml",
    "logs",
    "gateway.log",
    "gateway.pid",
    "state.db",
)  # of a Hermes home, or of saved logs


def is_home(folder: StrPath) -> bool:
    """Whether a gateway was ever configured or started here."""
    return any(os.path.exists(os.path.join(folder, name)) for name in SIGNS)


def profiles(home: StrPath) -> list[str]:
    """This home and those of its profiles, each a home of its own below profiles/.

    Hermes takes letters, digits, _ and - for a profile's name; a folder whose name could paint on a terminal is none.
    """
    parent = os.path.join(home, "profiles")
    try:
        folders = [os.path.join(parent, name) for name in sorted(os.listdir(parent)) if name.isprintable()]
    except OSError:
        folders = []
    return [
        os.fspath(home),
        *(
            folder
            for folder in folders
            if os.path.isdir(os.path.join(folder, "logs"))
            or os.path.isfile(os.path.join(folder, "config.yaml"))
        ),
    ]


def find_config(given: str | None = None) -> str:
    """The folder of the user's own settings and rules."""
    if named := given or os.environ.get("HERMES_WATCHDOG_CONFIG"):
        folder = _whole(named)
        if given and not os.path.isdir(folder):
            raise WatchdogError(f"--config {given}: no such folder")
        return folder
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(user_home(), ".config")
    return os.path.join(base, "hermes-watchdog")


def find_state(home: StrPath, given: str | None = None) -> str:
    """The watchdog's folder for this home: one per home, so that two profiles never mix."""
    home = os.fspath(home)
    if given := given or os.environ.get("HERMES_WATCHDOG_STATE"):
        base = _whole(given)
    else:
        xdg = os.environ.get("XDG_STATE_HOME") or os.path.join(user_home(), ".local", "state")
        base = os.path.join(xdg, "hermes-watchdog")
    path = os.path.join(base, os.path.basename(home).lstrip(".") or "home")
    folder = f"{path}-{zlib.crc32(home.encode()):08x}"
    if os.path.isdir(folder) or not os.path.isdir(base):
        return folder
    named_before = f"{path}-{short_digest(home)}"  # by a version before this one
    return named_before if os.path.isdir(named_before) else folder


def _whole(given: str) -> str:
    return os.path.abspath(os.path.expanduser(given))


def find_job(
    home: str | None = None, config: str | None = None, state: str | None = None, now: datetime | None = None
) -> Job:
    """The job for these folders; what is not given is looked up in the environment or has its default."""
    folder = find_home(home)
    return Job(folder, find_config(config), find_state(folder, state), now or datetime.now(UTC))


def user_home() -> str:
    """The user's folder; from the user database when cron or systemd gave no HOME."""
    if home := os.environ.get("HOME"):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise WatchdogError(
            "no HOME and no entry in the user database; give --home, --config and --state"
        ) from None

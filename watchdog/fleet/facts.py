"""What one home tells the fleet about itself, and what it remembers of having told it."""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.gateway.machine import look_at_gateway
from watchdog.gateway.release import install_of
from watchdog.model import EVERY_CHECK, Incident
from watchdog.notify.context import own_command
from watchdog.sqlite.backups import kept
from watchdog.sqlite.files import backup_folder, databases
from watchdog.store import Store, messages, questions
from watchdog.store.incidents import all_incidents, last_blind, last_check
from watchdog.store.plans import Stored, in_state
from watchdog.text import duration, harmless

if TYPE_CHECKING:
    from watchdog.config.settings import Settings

MEMORY = "fleet"  # name of the row that holds the memory, among the cursors of the reply channels
GAPS = 5  # distances between checks that are measured; the middle one ignores a manual check and a power cut


@dataclass(frozen=True)
class Facts:
    """One home at one moment."""

    instance: str
    profile: str
    home: str
    now: datetime
    checked_at: datetime | None
    took: timedelta | None  # None: not known
    interval: timedelta
    incidents: tuple[Incident, ...]  # open ones
    unseen: int
    pending: tuple[Stored, ...]  # plans that wait for an answer
    armed: bool
    actions: Mapping[tuple[str, str], int]  # (recipe, outcome) -> how often, ever
    failed: int  # notifications that a target did not take, ever
    backups: Mapping[str, timedelta]  # database -> age of its newest good backup
    gateway_up: bool | None  # None: cannot be told
    hermes: str  # '' when not known
    command: str = "hermes-watchdog"  # how a person on that host calls the watchdog for this home


def gather(store: Store, home: Path, settings: Settings, state: Mapping[str, Any], now: datetime) -> Facts:
    fleet = settings.fleet
    gateway = look_at_gateway(home)
    took = state.get("took")
    instance = (fleet.instance if fleet else "") or settings.notify.host or socket.gethostname()
    return Facts(
        instance=harmless(instance, 100),
        profile=harmless((fleet.profile if fleet else "") or profile_of(home), 100),
        home=str(home),
        now=now,
        checked_at=last_check(store),
        took=timedelta(seconds=took) if isinstance(took, int | float) else None,
        interval=(fleet.interval if fleet else None) or measured_interval(store),
        incidents=tuple(each for each in all_incidents(store, only_open=True) if each.status == "open"),
        unseen=len(last_blind(store)),
        pending=tuple(each for each in in_state(store, "pending") if each.expires_at > now),
        armed=messages.disarmed(store) is None,
        actions=_actions(store),
        failed=count_of(state, "failed"),
        backups=_backups(home, Path(store.path).parent, now),
        gateway_up=gateway.alive,
        hermes=install.version if (install := install_of(gateway.argv)) else "",
        command=str(own_command(str(home), os.path.dirname(store.path), os.path.dirname(settings.where))),
    )


def profile_of(home: Path) -> str:
    """How a home is called beside others of its machine: `default`, a profile's name, or its folder's."""
    name = home.name.lstrip(".") or "home"
    return "default" if name == "hermes" and home.parent.name != "profiles" else name


def measured_interval(store: Store) -> timedelta:
    """How far apart checks are: the middle of the last ones, and never less than cron's usual pace.

    A person who runs three checks in a minute must not make an alert end before the next check.
    """
    rows = store.db.execute("SELECT at FROM checks ORDER BY id DESC LIMIT ?", (GAPS + 1,)).fetchall()
    times = [datetime.fromisoformat(row["at"]) for row in rows]
    gaps = sorted(abs(later - earlier) for later, earlier in itertools.pairwise(times))
    usual = duration(EVERY_CHECK)
    return max(usual, gaps[len(gaps) // 2]) if gaps else usual


def _actions(store: Store) -> dict[tuple[str, str], int]:
    rows = store.db.execute(
        "SELECT recipe, state, count(*) AS times FROM actions WHERE state <> 'begun' GROUP BY recipe, state"
    )
    return {(row["recipe"], row["state"]): row["times"] for row in rows}


def _backups(home: Path, state: Path, now: datetime) -> dict[str, timedelta]:
    ages = {}
    for path in databases(home):
        name = path.removeprefix(f"{home}/")
        if last := next(kept(backup_folder(state, path), os.path.basename(os.path.realpath(path))), None):
            ages[name] = now - datetime.fromisoformat(last.at)
    return ages


def load_memory(store: Store) -> dict[str, Any]:
    """What publishing remembers between two checks: alerts that were posted, services that failed.

    Lost or damaged, it is begun anew; the worst that follows is an alert that ends by its own time.
    """
    try:
        state = json.loads(questions.cursor(store, MEMORY) or "{}")
    except (ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def save_memory(store: Store, state: dict[str, Any], now: datetime) -> None:
    questions.move_cursor(store, MEMORY, json.dumps(state, sort_keys=True), now)


def count_of(state: Any, name: str) -> int:
    """A count of the memory; 0 for whatever is none."""
    value = state.get(name) if isinstance(state, dict) else None
    return value if isinstance(value, int) and value >= 0 else 0

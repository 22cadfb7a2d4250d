"""The health of the watchdog's own store: checked, set aside when it is damaged, exported."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.store import examine, recovery
from watchdog.store.store import StoreError, Trouble
from watchdog.system.lock import one_at_a_time

SECRET_COLUMNS = {"hash", "salt"}  # of codes: an export is for reading, not for trying codes


@dataclass(frozen=True)
class Health:
    """What is wrong with a store; nothing, when it is whole."""

    there: bool
    problems: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    foreign: bool = False  # not damaged, but not to be used: of a newer version, or no file

    @property
    def well(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Repair:
    problems: tuple[str, ...]
    repaired: bool = False
    aside: Path | None = None
    gone: bool = False  # there was none to set aside


def check(path: Path) -> Health:
    """SQLite's own checks, and whether this version can read the tables; nothing is written."""
    try:
        store = recovery.look_at_store(path)
        if store is None:
            return Health(there=False)
        store.close()
    except StoreError as error:
        there = recovery.is_there(path)
        return Health(there, (str(error),), foreign=there and error.trouble is not Trouble.DAMAGED)
    if found := examine.problems(path):
        return Health(True, tuple(found))
    with closing(examine.read_only(path)) as db:
        return Health(
            True,
            rows={
                table: db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in _tables(db)
            },
        )


def repair(job: Job, dry_run: bool = False) -> Repair:
    """Set a damaged store aside under another name and begin anew, disarmed. A whole store stays as it is.

    WatchdogError for one that is not damaged but cannot be used: of a newer version, or not a file.
    """
    health = check(job.store_path)
    if health.foreign:
        raise WatchdogError(health.problems[0])
    if health.well or dry_run:
        return Repair(health.problems, gone=not health.there)
    with one_at_a_time(job.state, job.now, "store repair"):
        if not health.there:
            recovery.open_store(job.store_path, job.now).close()
            return Repair(health.problems, True, gone=True)
        aside = recovery.replace_damaged(job.store_path, job.now)
    return Repair(health.problems, aside is not None, Path(aside) if aside else None)


def need_file(job: Job) -> None:
    """WatchdogError where there is no file to export from; a damaged one is one."""
    try:
        store = job.look_at_store()
    except StoreError as error:
        if error.trouble in (Trouble.DAMAGED, Trouble.NEWER):
            return
        raise
    if store is None:
        raise WatchdogError(f"{job.store_path} is not there yet; the first check makes it")
    store.close()


def export(path: Path, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of everything that can be read; what cannot is added to `problems`."""
    try:
        with closing(examine.read_only(path)) as db:
            for table in _tables(db):
                try:
                    for row in db.execute(f'SELECT * FROM "{table}"'):
                        yield table, {name: row[name] for name in row.keys() if name not in SECRET_COLUMNS}  # noqa: SIM118
                except sqlite3.Error as error:
                    problems.append(f"{table}: {error}")
    except sqlite3.Error as error:
        problems.append(f"{path}: {error}")


def _tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    # Names come from a file that may be damaged: only plain words are asked about.
    return [row[0] for row in found if row[0].isidentifier()]

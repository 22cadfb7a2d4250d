"""The Hermes home that a command is about: there, a folder, and ours to read; else a message that says what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchdog.cli.common import Context
from watchdog.errors import WatchdogError
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.store import Store


def need_home(home: Path) -> None:
    """WatchdogError unless the folder can be read."""
    try:
        status = os.stat(home)
    except PermissionError:
        raise WatchdogError(f"{home} cannot be reached: a folder on the way may not be entered; run this as the gateway's user") from None
    except OSError:
        raise WatchdogError(f"{home}: no such folder; give --home DIR or set HERMES_HOME") from None
    if not stat.S_ISDIR(status.st_mode):
        raise WatchdogError(f"{home} is not a folder; give --home DIR or set HERMES_HOME")
    if os.access(home, os.R_OK | os.X_OK, effective_ids=True):
        return
    if status.st_uid == os.geteuid():
        raise WatchdogError(f"{home} is yours and may not be read; run: chmod u+rx {home}")
    owner = _name(status.st_uid)
    raise WatchdogError(f"{home} belongs to {owner} and may not be read; run this as that user: sudo -u {owner} hermes-watchdog …")


def need_known(ctx: Context) -> None:
    """WatchdogError for a word about a home that is not there and never was: a slip of the pen must not look like a yes."""
    if not ctx.store_path.exists():
        need_home(ctx.home)


@contextmanager
def store_of(ctx: Context) -> Iterator[Store]:
    """The store for writing; what it refuses (a full disk, no rights) is a message and no fault of ours."""
    import sqlite3

    with ctx.store() as store:
        try:
            yield store
        except sqlite3.OperationalError as error:
            raise WatchdogError(
                f"cannot write the store {ctx.store_path}: {error}; free space there, or give another folder with --state DIR"
            ) from error


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

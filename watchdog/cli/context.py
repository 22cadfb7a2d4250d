"""What all commands share: the jobs they are about, the home and its store, and how results are printed."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from watchdog.errors import WatchdogError
from watchdog.job import SIGNS, Job, find_job, is_home, profiles
from watchdog.store.store import store_error
from watchdog.system import users
from watchdog.values import TYPE_CHECKING, StrPath, replace

if TYPE_CHECKING:
    import argparse

    from watchdog.store import Store

WELL, WRONG, CONFIG, OURS = 0, 1, 2, 3


def job_of(args: argparse.Namespace, now: datetime | None = None) -> Job:
    """What the arguments mean on this machine."""
    job = find_job(
        getattr(args, "home", None), getattr(args, "config", None), getattr(args, "state", None), now
    )
    # Only a check writes beside the store; any command but a dry run may keep the rules with the program.
    dry_run = getattr(args, "dry_run", None)
    return replace(job, keeps_rules=not dry_run, writes=dry_run is False)


def jobs_of(args: argparse.Namespace) -> Iterator[Job]:
    """The job of the home; with --all-profiles one for each of its profiles too, as of when its turn comes."""
    for home in profiles(job_of(args).home_dir) if args.all_profiles else [args.home]:
        args.home = home
        yield job_of(args)


def in_zone(at: datetime, job: Job) -> datetime:
    """The moment that was typed: without a zone it is one of the logs' zone (settings: timezone)."""
    if at.tzinfo is None:
        zone = job.settings.zone
        at = at.astimezone() if zone is None else at.replace(tzinfo=zone)
    return at.astimezone(UTC)


def need_home(home: StrPath, instead: str = "give --home DIR or set HERMES_HOME") -> None:
    """WatchdogError unless the folder can be read; the message says what to do."""
    try:
        status = os.stat(home)
    except PermissionError:
        raise WatchdogError(
            f"{home} cannot be reached: a folder on the way may not be entered; run this as the gateway's user"
        ) from None
    except OSError:
        raise WatchdogError(f"{home}: no such folder; {instead}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise WatchdogError(f"{home} is not a folder; {instead}")
    if os.access(home, os.R_OK | os.X_OK, effective_ids=True):
        return
    if status.st_uid == os.geteuid():
        raise WatchdogError(f"{home} is yours and may not be read; run: chmod u+rx {home}")
    owner, prefix = users.name_of(status.st_uid), users.command_as(status.st_uid)
    raise WatchdogError(
        f"{home} belongs to {owner} and may not be read; run this as that user: {prefix} hermes-watchdog …"
    )


def need_hermes(job: Job) -> None:
    """WatchdogError for a folder that no Hermes ever used: its silence means nothing."""
    need_home(job.home_dir)
    if not is_home(job.home_dir) and not os.path.exists(job.store_file):
        raise WatchdogError(
            f"{job.home_dir} is not a Hermes home: it has no {', '.join(SIGNS[:-1])} or {SIGNS[-1]}; "
            "give --home DIR or set HERMES_HOME"
        )


def need_known(job: Job) -> None:
    """WatchdogError for a home that is none and never was: a typing mistake must not look like a yes."""
    if not os.path.exists(job.store_file):
        need_hermes(job)


@contextmanager
def store_of(job: Job) -> Iterator[Store]:
    """The store for writing; what it refuses (a full disk, no rights) is a message and no fault of ours.

    A home that is not there and never was gets none.
    """
    need_known(job)
    with job.store() as store:
        try:
            yield store
        except sqlite3.Error as error:
            raise store_error(job.store_file, error) from error


def show(args: argparse.Namespace, value: object, lines: Callable[[], Iterable[str]]) -> None:
    """The value for scripts where --json asks for it; else the lines, made only then: words need readable rules."""
    if args.json:
        print_json(value)
    else:
        for line in lines():
            print(line)


def print_json(value: object) -> None:
    """JSON for scripts, on stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    print()


def typed_code(args: argparse.Namespace) -> str:
    """The code on the command line; with - from standard input, so that no process list shows it."""
    return sys.stdin.readline(200).strip() if args.code == "-" else str(args.code)


def complain(message: object) -> None:
    """An error for people, on stderr."""
    print(f"hermes-watchdog: {message}", file=sys.stderr)

"""One whole check of a home: alone, within its time limit, and with the dead-man ping."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from datetime import datetime

from watchdog import config, notify, service
from watchdog import store as store_package
from watchdog.gateway.last_life import remember
from watchdog.job import Job
from watchdog.model import EVERY_CHECK, Report, Rule
from watchdog.pipeline import full_check
from watchdog.sqlite import memory
from watchdog.store import Store
from watchdog.store.incidents import last_check, last_runs
from watchdog.store.recovery import has_failed, lost_since, replace_damaged
from watchdog.store.store import StoreError, Trouble, store_error
from watchdog.system.lock import Busy, TooLong, one_at_a_time, time_limit
from watchdog.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from watchdog.notify.deliver import Send

PAGE_LIMIT = 60.0  # seconds for making and writing the page, after the check has done its work


def check_once(job: Job, now: datetime, deliver: Send | None = None) -> Report:
    """Everything a check does; raises Busy when another one is at work, TooLong past the time limit.

    A check that fails tells so itself, with or without its store. A store that turns out to be damaged is
    replaced, and the check is made with the new one, which is disarmed.
    """
    try:
        try:
            report = _check(job, now)
        except (StoreError, sqlite3.Error) as error:
            failed = error if isinstance(error, StoreError) else store_error(job.store_file, error)
            if failed.trouble is not Trouble.DAMAGED or not replace_damaged(job.store_file, now):
                raise failed from error
            report = _check(job, now)
    except Busy:
        raise
    except Exception as error:
        service.tell_failure(job, error, now, deliver)
        raise
    if has_failed(job.store_file):
        service.tell_recovery(job, now, deliver)
    return report


def _check(job: Job, now: datetime) -> Report:
    with one_at_a_time(job.state_dir, now), job.store() as store:
        _ping(job, "start")
        try:
            with time_limit(job.settings.time_limit):
                before = last_check(store)
                report = full_check(job.run(store, now, _due(job, store, now)))
                if before is not None and before.date() != now.date():
                    _forget_old(job, store, now)
                memory.keep(job.state_dir)
                remember(job.home_dir, job.state_dir)
        except BaseException as error:
            if isinstance(error, Exception):
                _write_page(job, now, str(error))  # tell_failure() pings
            else:
                _ping(job, "fail")
            raise
        how = "fail" if job.settings.notify.ping and lost_since(store, before) else "ok"
        notes = tuple(filter(None, (_ping(job, how), _write_page(job, now))))
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def _due(job: Job, store: Store, now: datetime) -> tuple[Rule, ...]:
    """A check that a person starts answers now; only rules with a slower pace of their own wait."""
    slower = [rule for rule in job.book.rules if rule.every != EVERY_CHECK]
    if not slower:
        return job.book.rules
    ready = {rule.id for rule in config.due(slower, last_runs(store), now, job.settings.zone)}
    return tuple(rule for rule in job.book.rules if rule.every == EVERY_CHECK or rule.id in ready)


def _forget_old(job: Job, store: Store, now: datetime) -> None:
    """Once a day: what is older than the setting says goes. A folder that takes no file leaves it for tomorrow."""
    with suppress(OSError):
        store_package.forget_old(store, job.settings.keep_history, now)


def _ping(job: Job, what: str) -> str:
    if job.settings.notify.ping is None:
        return ""
    return notify.ping(job.settings.notify, what)


def _write_page(job: Job, now: datetime, error: str = "") -> str:
    if not job.settings.page:
        return ""
    with suppress(TooLong), time_limit(PAGE_LIMIT):
        return service.write_after_check(replace(job, now=now), error)
    return f"the page was not written: not done within {PAGE_LIMIT:g} s"

"""After a check: metrics to their file, alerts to every Alertmanager, a line to the mailbox; all within seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watchdog.errors import WatchdogError
from watchdog.fleet import memory as remembered
from watchdog.fleet.alertmanager import Post
from watchdog.fleet.alerts import compose
from watchdog.fleet.errors import FleetError
from watchdog.fleet.facts import Facts, gather
from watchdog.fleet.memory import count_of
from watchdog.notify.sanitize import fit
from watchdog.store import Store, messages
from watchdog.store.messages import TargetState
from watchdog.store.reasons import plain

if TYPE_CHECKING:
    from watchdog.config.notify_settings import Secret
    from watchdog.config.settings import Settings
    from watchdog.model import Report

METRICS = "metrics file"
MAILBOX = "mailbox of plans"
TOLD_AFTER = 2  # failures in a row, until people are told of it like of any target that takes no message


class Errand(Protocol):
    """Something to do in a thread of its own; `stop` ends it from outside when its time is over."""

    name: str

    def run(self) -> str: ...
    def stop(self) -> None: ...


def publish_all(report: Report, store: Store, settings: Settings, now: datetime) -> tuple[str, ...]:
    """See watchdog.fleet.publish."""
    try:
        return _publish(report, store, settings, now)
    except WatchdogError as error:
        return (f"fleet: {fit(str(error))}",)
    except Exception as error:  # whatever a service answers must not end a check that is recorded
        return (f"fleet: nothing was published ({type(error).__name__})",)


def _publish(report: Report, store: Store, settings: Settings, now: datetime) -> tuple[str, ...]:
    fleet = settings.fleet
    assert fleet is not None
    memory = remembered.recall(store)
    memory["took"] = max(0.0, (now - report.now).total_seconds())
    _count_failures(store, memory)
    facts = gather(store, Path(report.home), settings, memory, now)
    errands: list[Errand] = []
    if fleet.alertmanagers:
        alerts, posted = compose(facts, memory, mailbox=bool(fleet.postgres and fleet.approvers))
        memory |= posted
        limit = _seconds()
        errands += [Post(address.value, alerts, now, limit) for address in fleet.alertmanagers]
    if fleet.postgres is not None:
        errands.append(_Status(fleet.postgres, facts))
    # Before anything leaves: what is posted twice does no harm, what is forgotten would stay open until its time.
    remembered.keep(store, memory, now)
    failed, notes = run_all(errands, _seconds()) if errands else ({}, [])
    if fleet.textfile:
        from watchdog.fleet.metrics import write

        try:
            write(fleet.textfile, facts)
        except FleetError as error:
            failed[METRICS] = str(error)
    names = [*(errand.name for errand in errands), *([METRICS] if fleet.textfile else [])]
    _remember_failures(store, memory, names, failed, replace(facts, now=now))
    return (*(f"{name}: {fit(why)}" for name, why in failed.items()), *notes)


def run_all(errands: Sequence[Errand], seconds: float) -> tuple[dict[str, str], list[str]]:
    """(why each that failed did, lines of those that worked): all at once, and none waited for any longer."""
    failed: dict[str, str] = {}
    said: dict[str, str] = {}

    def work(errand: Errand) -> None:
        try:
            said[errand.name] = errand.run()
        except WatchdogError as error:
            failed[errand.name] = str(error)
        except Exception as error:
            failed[errand.name] = f"its answer could not be understood ({type(error).__name__})"

    threads = [threading.Thread(target=work, args=(errand,), daemon=True) for errand in errands]
    ends = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    for errand, thread in zip(errands, threads, strict=True):
        if thread.is_alive():
            failed.setdefault(errand.name, f"not done within {seconds:g} s")
            errand.stop()
    done = dict(failed)  # a thread that ends late changes nothing any more
    return done, [line for name, line in list(said.items()) if line and name not in done]


class _Status:
    """This home's line in the mailbox."""

    name = MAILBOX

    def __init__(self, address: Secret, facts: Facts):
        self.address, self.facts = address, facts

    def run(self) -> str:
        from watchdog.fleet import mailbox

        with mailbox.connected(self.address.reveal()) as connection:
            return mailbox.report(connection, self.facts)

    def stop(self) -> None:
        """psycopg ends by its own limits."""


def _count_failures(store: Store, memory: dict[str, Any]) -> None:
    """Add the failed deliveries since the last check to the count; the store keeps only those in a row."""
    before = memory.get("target_failures")
    before = before if isinstance(before, dict) else {}
    states = messages.targets(store)
    for name, state in states.items():
        known = count_of(before, name)
        new = state.failures - known if state.failures >= known else state.failures
        memory["failed"] = count_of(memory, "failed") + new
    memory["target_failures"] = {name: state.failures for name, state in states.items()}


def _remember_failures(
    store: Store, memory: dict[str, Any], names: Sequence[str], failed: dict[str, str], facts: Facts
) -> None:
    """From the second failure in a row on, people are told as of any target that takes no message."""
    before = memory.get("services")
    before = before if isinstance(before, dict) else {}
    memory["services"] = {name: count_of(before, name) + 1 for name in failed}
    for name in {*names, *before}:
        times = memory["services"].get(name, 0)
        if times >= TOLD_AFTER:
            messages.save_target(
                store, TargetState(name, times, facts.now + facts.interval, plain(failed[name]), facts.now)
            )
        elif count_of(before, name) >= TOLD_AFTER:
            messages.save_target(store, TargetState(name))
    remembered.keep(store, memory, facts.now)


def _seconds() -> float:
    from watchdog.config.fleet_settings import TIME_LIMIT

    return TIME_LIMIT.total_seconds()

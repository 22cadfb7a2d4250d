"""After a check: metrics to their file, alerts to every Alertmanager, a line to the mailbox; all within seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from watchdog.config.fleet_settings import TIME_LIMIT
from watchdog.errors import FleetError, WatchdogError
from watchdog.fleet import mailbox
from watchdog.fleet.alertmanager import Post, compose
from watchdog.fleet.facts import Facts, count_of, gather, load_memory, save_memory
from watchdog.fleet.metrics import write
from watchdog.fleet.postgres import connected
from watchdog.notify.sanitize import fit
from watchdog.store import Store, messages
from watchdog.store.messages import TargetState
from watchdog.store.rows import plain

if TYPE_CHECKING:
    from watchdog.config.settings import Secret, Settings
    from watchdog.model import Report

METRICS = "metrics file"
MAILBOX = "mailbox of plans"
SECONDS = TIME_LIMIT.total_seconds()
TOLD_AFTER = 2  # failures in a row, until people are notified as for any target that takes no message


class Errand(Protocol):
    """Something to do in a thread of its own; `stop` ends it from outside when it takes too long."""

    name: str

    def run(self) -> str: ...
    def stop(self) -> None: ...


def publish(report: Report, store: Store, settings: Settings, now: datetime) -> tuple[str, ...]:
    """Tell the fleet how this home stands after a check; lines for the report about what did not work.

    Called when the check is recorded and its messages are sent; `now` is that moment, `report.now` when the check
    began. It raises nothing for a service that fails, and takes about three seconds at most.
    """
    try:
        return _publish(report, store, settings, now)
    except WatchdogError as error:
        return (f"fleet: {fit(str(error))}",)
    except Exception as error:  # whatever a service answers must not end a check that is recorded
        return (f"fleet: nothing was published ({type(error).__name__})",)


def _publish(report: Report, store: Store, settings: Settings, now: datetime) -> tuple[str, ...]:
    fleet = settings.fleet
    assert fleet is not None
    state = load_memory(store)
    state["took"] = max(0.0, (now - report.now).total_seconds())
    _count_failures(store, state)
    facts = gather(store, Path(report.home), settings, state, now)
    errands: list[Errand] = []
    if fleet.alertmanagers:
        alerts, posted = compose(facts, state, mailbox=bool(fleet.postgres and fleet.approvers))
        state |= posted
        errands += [Post(address.value, alerts, now, SECONDS) for address in fleet.alertmanagers]
    if fleet.postgres is not None:
        errands.append(_Status(fleet.postgres, facts))
    # Before anything leaves: what is posted twice does no harm, what is forgotten would stay open until its time.
    save_memory(store, state, now)
    failed, notes = run_all(errands, SECONDS) if errands else ({}, [])
    if fleet.textfile:
        try:
            write(fleet.textfile, facts)
        except FleetError as error:
            failed[METRICS] = str(error)
    names = [*(errand.name for errand in errands), *([METRICS] if fleet.textfile else [])]
    _remember_failures(store, state, names, failed, facts)
    return (*(f"{name}: {fit(why)}" for name, why in failed.items()), *notes)


def run_all(errands: Sequence[Errand], seconds: float) -> tuple[dict[str, str], list[str]]:
    """(why each that failed did, lines of those that worked): all at once, and none waited for any longer."""
    failed: dict[str, str] = {}
    lines: dict[str, str] = {}

    def work(errand: Errand) -> None:
        try:
            lines[errand.name] = errand.run()
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
    return done, [line for name, line in list(lines.items()) if line and name not in done]


class _Status:
    """This home's line in the mailbox."""

    name = MAILBOX

    def __init__(self, address: Secret, facts: Facts):
        self.address, self.facts = address, facts

    def run(self) -> str:
        with connected(self.address.reveal()) as connection:
            return mailbox.report(connection, self.facts)

    def stop(self) -> None:
        """psycopg ends by its own limits."""


def _count_failures(store: Store, state: dict[str, Any]) -> None:
    """Add the failed deliveries since the last check to the count; the store keeps only those in a row."""
    before = state.get("target_failures")
    before = before if isinstance(before, dict) else {}
    targets = messages.targets(store)
    for name, target in targets.items():
        known = count_of(before, name)
        new = target.failures - known if target.failures >= known else target.failures
        state["failed"] = count_of(state, "failed") + new
    state["target_failures"] = {name: target.failures for name, target in targets.items()}


def _remember_failures(
    store: Store, state: dict[str, Any], names: Sequence[str], failed: dict[str, str], facts: Facts
) -> None:
    """From the second failure in a row on, people are notified as for any target that takes no message."""
    before = state.get("services")
    before = before if isinstance(before, dict) else {}
    state["services"] = {name: count_of(before, name) + 1 for name in failed}
    for name in {*names, *before}:
        times = state["services"].get(name, 0)
        if times >= TOLD_AFTER:
            messages.save_target(
                store, TargetState(name, times, facts.now + facts.interval, plain(failed[name]), facts.now)
            )
        elif count_of(before, name) >= TOLD_AFTER:
            messages.save_target(store, TargetState(name))
    save_memory(store, state, facts.now)

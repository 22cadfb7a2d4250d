"""What `status` shows, gathered from the store, the gateway, the schedule and the backups; nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.approval.questions import may_ask
from watchdog.config.schedule import next_due, next_fire
from watchdog.errors import WatchdogError
from watchdog.gateway.machine import GatewayProcess, Machine
from watchdog.gateway.state import Why
from watchdog.gateway.supervisor import UNKNOWN
from watchdog.job import Job
from watchdog.model import Plan, Reason
from watchdog.plan import make_plans
from watchdog.reports.check import by_severity
from watchdog.reports.language import words_of
from watchdog.reports.status import BackupAge, GatewaySeen, LastAnswer, Status
from watchdog.service import install
from watchdog.service.daemon_note import read_note
from watchdog.sources.process import blind
from watchdog.sources.read import records_of
from watchdog.sqlite import backups
from watchdog.sqlite.files import backup_folder, databases
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.incidents import all_incidents, last_blind, last_check, last_runs
from watchdog.store.messages import disarmed, maintenance, silences
from watchdog.system.lock import at_work

ANSWERS_SINCE = timedelta(days=2)
PATIENCE = timedelta(minutes=10)  # a check may be so late before anybody should wonder
LONGEST_PACE = timedelta(days=1)  # of a schedule whose times we cannot tell

Measure = Callable[[Job], Machine]
Crontab = Callable[[], str]


def machine_of(job: Job) -> Machine:
    """The machine of this job as it is now: its gateway, what runs it, its disk."""
    return job.run(None, job.now).machine()


def gather(
    job: Job,
    measure: Measure = machine_of,
    crontab: Crontab | None = None,
    cron_runs: Callable[[], bool | None] = install.cron_runs,
) -> Status:
    """Everything that status knows of one home. A store that cannot be read is part of the answer."""
    machine = measure(job)
    known: dict[str, Any] = {}
    try:
        store = job.look_at_store()
        if store is not None:
            with store:
                known = remembered(job, store, machine)
    except (WatchdogError, sqlite3.Error, ValueError) as error:
        known = {"store_error": words_of(error, job)}
    free = machine.free
    return Status(
        str(job.home),
        job.now,
        gateway=gateway_seen(machine),
        answer=last_answer(job),
        at_work=at_work(job.state, job.now),
        free=free,
        low_disk=free is not None and free < job.settings.limits.free_space,
        backups=tuple(newest_backup(job, Path(path)) for path in databases(job.home)),
        expects_backups=job.settings.backups,
        **known,
        **_at_work(schedule_of(job, known.get("last"), crontab), cron_runs),
    )


def schedule_status(job: Job, crontab: Crontab | None = None) -> Status:
    """Only what makes checks happen, when the last was made, and whether the watchdog may act."""
    store = job.look_at_store()
    last = off = None
    if store is not None:
        with store:
            last, off = last_check(store), disarmed(store)
    return Status(str(job.home), job.now, last=last, disarmed=off, **schedule_of(job, last, crontab))


def remembered(job: Job, store: Store, machine: Machine) -> dict[str, Any]:
    """What the store knows of now."""
    incidents = all_incidents(store, only_open=True)
    history = rows.history(store, job.now)
    return {
        "last": last_check(store),
        "blind": tuple(sorted(last_blind(store).items())),
        "open": tuple(sorted((known for known in incidents if known.status == "open"), key=by_severity)),
        "suspected": sum(incident.status == "suspected" for incident in incidents),
        "asked": tuple(plan for plan in rows.in_state(store, "pending") if plan.expires_at > job.now),
        "unasked": unasked_plans(job, store, lambda _: machine),
        "interrupted": history.unfinished,
        "disarmed": history.disarmed,
        "maintenance": maintenance(store, job.now),
        "silences": tuple(silence for silence in silences(store, job.now) if silence.what != "*"),
    }


def unasked_plans(job: Job, store: Store, measure: Measure = machine_of) -> tuple[Plan, ...]:
    """The plans that a check would propose now: with the hold that makes them wait, or without, to be asked."""
    wrong = [incident for incident in all_incidents(store, only_open=True) if incident.status == "open"]
    if not any(incident.recipe for incident in wrong):
        return ()
    plans = make_plans(wrong, job.book, rows.history(store, job.now), measure(job), job.now)
    open_digests = {stored.plan.digest for stored in rows.in_state(store, *rows.OPEN, *rows.UNFINISHED)}
    new = [plan for plan in plans if plan.steps and plan.digest not in open_digests]
    return tuple(plan for plan in new if plan.hold or may_ask(store, plan, job.now))


def known_gateway(machine: Machine) -> GatewayProcess:
    """The gateway as measured; where it cannot be seen from outside its container, as the engine knows it."""
    hidden = machine.gateway.alive is None and machine.supervisor.container
    return machine.now_gateway() if hidden else machine.gateway


def gateway_seen(machine: Machine) -> GatewaySeen:
    """The gateway as status shows it. Without any sign that one ever ran here, it cannot be seen: not down."""
    seen, supervisor = known_gateway(machine), machine.supervisor
    where = supervisor.name if supervisor.kind != UNKNOWN else None
    signs = ("gateway.pid", "gateway_state.json", "logs/gateway.log")
    if seen.alive is False and not any((Path(machine.home) / sign).exists() for sign in signs):
        return GatewaySeen(None, where=where, unseen=blind(Reason(Why.NEVER_STARTED)))
    if seen.alive is None:
        return GatewaySeen(None, where=where, unseen=blind(seen.why) if seen.why else "")
    place = supervisor.place(seen.pid)
    return GatewaySeen(seen.alive, seen.pid, seen.started_at, where, supervisor.container, place)


def last_answer(job: Job) -> LastAnswer | None:
    """The newest answer in the logs of the last days."""
    answers = records_of("answered", job.sources(), job.now - ANSWERS_SINCE, job.now)
    if not answers:
        return None
    at, fields = answers[-1]
    return LastAnswer(at, fields["platform"], fields["chat"])


def newest_backup(job: Job, path: Path) -> BackupAge:
    """The newest verified backup, the daily one or one of `db backup`."""
    name = str(path.relative_to(job.home)) if path.is_relative_to(job.home) else str(path)
    folders = (backup_folder(job.state, path), backups.folder_for(path))
    reports = [report for folder in folders if (report := next(backups.kept(folder, path.name), None))]
    if not reports:
        return BackupAge(name)
    newest = max(reports, key=lambda report: report.at)
    return BackupAge(name, datetime.fromisoformat(newest.at), sum(newest.rows.values()))


def _at_work(known: dict[str, Any], cron_runs: Callable[[], bool | None]) -> dict[str, Any]:
    """The schedule; without a next check where no cron daemon makes one."""
    by = known["schedule"]
    if by is None or by.key != "schedule.cron" or cron_runs() is not False:
        return known
    return {**known, "schedule": Reason("schedule.no-cron", {"by": by}), "next": None}


def schedule_of(job: Job, last: datetime | None, crontab: Crontab | None = None) -> dict[str, Any]:
    """What makes checks happen, when it next does, and whether it should have done so by now."""
    note = read_note(job.state)
    if note is not None:
        upcoming = next_due(job.book.rules, job.recall(last_runs, {}), job.now, job.settings.zone)
        return {
            "schedule": Reason("schedule.daemon", {"pid": note["pid"]}),
            "next": upcoming,
            "problem": note["config_problem"],
            "last_error": note["last_error"],
        }
    schedule, fields = entry_of(job, crontab)
    if not fields:
        late = last is not None and job.now - last > LONGEST_PACE
        return {"schedule": schedule, "late": late}
    late = last is not None and next_fire(fields, last) + PATIENCE < job.now
    return {"schedule": schedule, "next": next_fire(fields, job.now), "late": late}


def entry_of(job: Job, crontab: Crontab | None = None) -> tuple[Reason | None, str]:
    """(which entry makes checks happen, its five cron fields where it has them)."""
    for root in (False, True):
        path = install.unit_folder(root) / f"{install.unit_name(job.home)}.timer"
        if path.exists():
            return Reason("schedule.timer", {"name": path.name}), ""
    try:
        found = install.without_entry((crontab or install.read_crontab)(), job.home)[1].splitlines()
    except WatchdogError:
        return None, ""
    if len(found) < 2:
        return None, ""
    fields = " ".join(found[1].split()[:5])
    return Reason("schedule.cron", {"fields": fields}), fields

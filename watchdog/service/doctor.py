"""`hermes-watchdog doctor`: can the watchdog see, decide, act, remember and notify here? Each answer has a fix.

Looks only: nothing is written, restarted or sent. The sentences are in locale/*/doctor.yaml.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog import __version__
from watchdog.approval.channels.own_bot import refused
from watchdog.config.rules import unknown_auto
from watchdog.errors import ConfigError, WatchdogError
from watchdog.gateway.machine import Machine, measure_machine
from watchdog.gateway.reasons import MayNot
from watchdog.gateway.release import install_of
from watchdog.gateway.supervisor import PROCESS, SYSTEM, USER
from watchdog.gateway.supervisor import UNKNOWN as NOTHING
from watchdog.job import Job
from watchdog.model import LOGS, Reason, plain
from watchdog.model.reason import PLAIN
from watchdog.notify.context import own_command
from watchdog.notify.deliver import is_known_address
from watchdog.notify.translate import in_english
from watchdog.reports.language import command_of
from watchdog.reports.status import Status
from watchdog.service.install import cron_runs, interpreter, read_crontab
from watchdog.service.setup import find_homes
from watchdog.service.status import Crontab, known_gateway, schedule_status
from watchdog.sources.process import blind
from watchdog.sources.read import log_span
from watchdog.sqlite.files import databases as database_files
from watchdog.store.incidents import last_check
from watchdog.system.files import free_bytes, open_regular
from watchdog.system.lock import at_work
from watchdog.system.users import command_as, me, name_of
from watchdog.text import harmless

OK, BAD, UNKNOWN = "ok", "bad", "unknown"
ROOM = 20_000_000  # bytes that a year of incidents does not fill
AHEAD = timedelta(minutes=2)


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str  # doctor.label has what people call it, where that differs
    state: str
    reason: Reason
    fix: str = ""  # the command that helps

    @property
    def says(self) -> str:
        """The answer in English."""
        return "\n".join(self.lines(in_english))

    def lines(self, say: Callable[[Reason], str]) -> list[str]:
        """The answer as `say` puts it; a text of several lines, such as the mistakes in a file, stays that."""
        if self.reason.key == PLAIN:
            return [say(plain(line)) for line in str(self.reason.fields["text"]).splitlines()]
        return [say(self.reason)]


def answer(name: str, state: str, key: str, fix: str = "", /, **fields: Any) -> Check:
    """The check with the sentence `doctor.<key>`."""
    return Check(name, state, Reason(f"doctor.{key}", fields), fix)


def measured(job: Job) -> Machine:
    """The machine without what logs say of it: rules that cannot be read must not hide the gateway."""
    return measure_machine(job.home, job.state, job.settings)


def examine(
    job: Job, measure: Callable[[Job], Machine] = measured, crontab: Crontab = read_crontab
) -> list[Check]:
    """Every question, in the order in which a person would ask them."""
    found = [program(), locale()]
    found += home(job)
    usable = found[-1].state != BAD
    found += rules(job)
    if usable:
        found += logs(job)
        found += databases(job)
        found += guarded("gateway", lambda: gateway(job, measure(job)))
        found += guarded("clock", lambda: [time_of_day(job)])
    found += guarded("store", lambda: store(job))
    found += guarded("targets", lambda: targets(job))
    found += guarded("replies", lambda: replies(job))
    found += guarded("schedule", lambda: _of_status(job, crontab))
    return found


def _of_status(job: Job, crontab: Crontab) -> list[Check]:
    status = schedule_status(job, crontab)
    found = [schedule(job, status)]
    if status.disarmed:
        off = {"at": status.disarmed.at, "by": status.disarmed.by, "why": status.disarmed.why}
        found.append(answer("acting", BAD, "disarmed", f"{command_of(job)} arm", **off))
    return found


def guarded(name: str, ask: Callable[[], Any]) -> list[Check]:
    """One question that cannot be asked must not keep the others from it."""
    try:
        return list(ask())
    except ConfigError:
        return [answer(name, UNKNOWN, "not-asked")]
    except (WatchdogError, OSError) as error:
        return [Check(name, BAD, plain(str(error)))]


def as_owner(job: Job, *words: str) -> str:
    """The command that asks again as the user whose home it is."""
    command = own_command("", "", "").line(*words, "--home", str(job.home)).strip()
    return f"{command_as(job.home.stat().st_uid)} {command}"


def program() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    fields = {"version": __version__, "python": version, "interpreter": str(interpreter())}
    return answer("program", OK, "program", **fields)


def locale() -> Check:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    if encoding in ("utf-8", "utf8"):
        return Check("locale", OK, plain("UTF-8"))
    return answer("locale", BAD, "locale", "export LC_ALL=C.UTF-8", encoding=encoding or "?")


def home(job: Job) -> Iterator[Check]:
    folder = job.home
    if not folder.is_dir():
        near = find_homes(folder)
        how = f"{own_command('', '', '')} doctor --home {shlex.quote(str(near[0])) if near else 'DIR'}"
        yield answer("home", BAD, "home.none" if near else "home.never", how, home=str(folder))
        return
    owner = name_of(folder.stat().st_uid)
    if not os.access(folder, os.R_OK | os.X_OK):
        fields = {"home": str(folder), "owner": owner, "user": me()}
        yield answer("home", BAD, "home.unreadable", as_owner(job, "doctor"), **fields)
        return
    if folder.stat().st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        yield answer("home", OK, "home.of-other", home=str(folder), owner=owner)
        return
    key = "home.own" if os.access(folder, os.W_OK) else "home.read-only"
    yield answer("home", OK, key, home=str(folder), owner=owner)


def rules(job: Job) -> Iterator[Check]:
    book = None
    try:
        book = job.book
        counts = {"rules": len(book.rules), "recipes": len(book.recipes), "off": len(book.off)}
        yield answer("rules", OK, "rules-off" if book.off else "rules", **counts)
    except ConfigError as error:
        yield Check("rules", BAD, plain(str(error)), f"{command_of(job)} rules lint")
    try:
        where = job.settings.where
        if book is not None and (wrong := unknown_auto(job.settings.limits.auto, book.recipes, where)):
            raise ConfigError(wrong)
        path = str(job.config / "settings.yaml")
        yield Check("settings", OK, plain(where)) if where else answer("settings", OK, "defaults", path=path)
    except ConfigError as error:
        yield Check("settings", BAD, plain(str(error)), _edit(job))


def logs(job: Job) -> Iterator[Check]:
    folder = job.home / "logs"
    for name in LOGS:
        path = folder / name
        try:
            with open_regular(path) as file:
                file.read(1)
                status = os.fstat(file.fileno())
            written = datetime.fromtimestamp(status.st_mtime, job.now.tzinfo)
            yield answer(name, OK, "log.well", size=f"{status.st_size:,}", ago=_ago(written, job.now))
        except FileNotFoundError:
            if name not in ("gateway.log", "agent.log"):  # these are there from the first start on
                yield answer(name, OK, "log.not-yet")
            else:
                yield answer(name, BAD, "log.none", "hermes gateway run", path=str(path))
        except OSError as error:
            fix = as_owner(job, "check", "--dry-run")
            yield answer(name, BAD, "unreadable", fix, path=str(path), why=str(error.strerror))


def databases(job: Job) -> Iterator[Check]:
    """Only those that may not be read: whether the others are well, `check` knows."""
    for path in database_files(job.home):
        try:
            with open_regular(path) as file:
                file.read(1)
        except OSError as error:
            fix = as_owner(job, "check", "--dry-run")
            yield answer(
                os.path.basename(path), BAD, "unreadable", fix, path=str(path), why=str(error.strerror)
            )


def gateway(job: Job, machine: Machine) -> Iterator[Check]:
    """Its process, its release, what runs it, whether we may restart it, and its journal."""
    seen, who = known_gateway(machine), machine.supervisor
    if seen.alive:
        place = who.place(seen.pid) or Reason("doctor.gateway.pid", {"pid": seen.pid})
        key = "gateway.since" if seen.started_at else "gateway.running"
        yield answer("gateway", OK, key, place=place, at=seen.started_at or job.now)
    elif seen.alive is None:
        why = plain(blind(seen.why)) if seen.why else Reason("doctor.gateway.hidden")
        yield Check("gateway", BAD, why, as_owner(job, "doctor"))
    else:
        yield answer("gateway", OK, "gateway.down")
    install = install_of(seen.argv or who.argv, search=True)
    if install is not None:
        version, root = seen.version or install.version, str(install.root)
        yield answer("Hermes", OK, "hermes", version=version, root=root)
    else:
        yield answer("Hermes", UNKNOWN, "hermes-unknown")
    if who.kind == NOTHING:
        fix = "hermes gateway install" if who.why_not and who.why_not.key == MayNot.HOW_UNKNOWN else ""
        yield Check("unit", BAD, who.why_not or Reason("doctor.gateway.hidden"), fix)
    else:
        yield answer("unit", OK, "unit", name=who.name, found=who.found)
    fix = f"sudo visudo    # add: {who.sudoers_line}" if who.sudoers_line else ""
    if who.kind != NOTHING:
        yield Check("restart", OK if who.may_act else BAD, who.why_not or Reason("doctor.allowed"), fix)
    yield from (Check("unit", BAD, warning) for warning in who.warnings)
    yield from (Check("unit", OK, note) for note in who.notes)
    if who.kind in (SYSTEM, USER):
        yield journal(who.unit, who.kind == USER, machine)
    elif who.kind == PROCESS:
        yield answer("journal", OK, "journal.not-needed")


def journal(unit: str, user: bool, machine: Machine) -> Check:
    words = ("journalctl", *(("--user",) if user else ()), "-u", unit, "-n", "1", "--no-pager", "-o", "cat")
    ran = machine.ask(words, 10)
    fix = f"sudo usermod -aG systemd-journal {me()}    # then log in again"
    if ran.code != 0:
        return answer("journal", BAD, "journal.fails", fix, why=harmless(ran.output, 120))
    if "not seeing messages from other users" in ran.output or "No journal files were" in ran.output:
        return answer("journal", BAD, "journal.refused", fix)
    return answer("journal", OK, "journal.well", unit=unit)


def time_of_day(job: Job) -> Check:
    """A log that speaks of the future means a clock that jumped, or another zone than we think."""
    _, newest = log_span(job.sources())
    if newest is not None and newest > job.now + AHEAD:
        fix = f"{_edit(job)}    # timezone: UTC, Asia/Shanghai, …"
        return answer("clock", BAD, "clock.ahead", fix, newest=newest, now=job.now)
    seen = job.look_at_store()
    if seen is not None:
        with seen:
            last = last_check(seen)
        if last is not None and last > job.now + AHEAD:
            return answer("clock", BAD, "clock.back", "timedatectl", at=last)
    return answer("clock", OK, "clock.well", now=job.now, zone=job.settings.timezone)


def store(job: Job, room: Callable[[Path], int | None] = free_bytes) -> Iterator[Check]:
    there = job.state
    while not there.exists():
        there = there.parent
    free = room(there)
    space = "?" if free is None else f"{free // 1_000_000:,}"
    other = f"{command_of(job)} check --state DIR"
    if not os.access(there, os.W_OK | os.X_OK):
        yield answer("store", BAD, "store.refused", other, path=str(there), user=me())
    elif free is not None and free < ROOM:
        fix = f"df -h {shlex.quote(str(there))}"
        yield answer("store", BAD, "store.full", fix, path=str(job.state), space=space)
    else:
        seen = job.look_at_store()  # says so when a newer version of us wrote it
        if seen is not None:
            seen.close()
        path = str(job.store_path if seen else job.state)
        yield answer("store", OK, "store.well" if seen else "store.not-yet", path=path, space=space)
    if busy := at_work(job.state, job.now):
        yield answer("lock", OK, "lock", what=busy)


def targets(job: Job) -> Iterator[Check]:
    """Whether each target's secret is there, and what its last message met; nothing is sent."""
    known = job.settings.notify.targets
    if not known:
        yield answer("targets", BAD, "target.none", f"{command_of(job)} setup")
        return
    failing = {}
    if (seen := job.look_at_store()) is not None:
        with seen:
            rows = seen.db.execute("SELECT name, failures, says FROM targets WHERE failures > 0")
            failing = {row["name"]: (row["failures"], row["says"]) for row in rows}
    for target in known:
        name, test = f"target {target.name}", f"{command_of(job)} notify --test"
        try:
            known_scheme = all(map(is_known_address, target.url.lines()))
        except WatchdogError as error:
            yield Check(name, BAD, plain(str(error)))
            continue
        if not known_scheme:
            yield answer(name, BAD, "target.unknown", where=target.url.where)
        elif target.name in failing:
            count, says = failing[target.name]
            yield answer(name, BAD, "target.failing", test, count=count, why=says)
        else:
            yield answer(name, OK, "target.well", command=test)


def replies(job: Job) -> Iterator[Check]:
    """Whether an answer could arrive by each reply channel, without asking it."""
    for channel in job.settings.notify.replies.channels:
        name = f"replies {channel.kind}"
        for secret in (channel.token, *(approver.topic for approver in channel.approvers)):
            if secret is not None:
                secret.reveal()
        if why := refused(channel, job.home):
            yield Check(name, BAD, plain(why))
        elif channel.unmatched:
            key = "reply.telegram-id" if channel.kind == "telegram" else "reply.other-id"
            names = tuple(f"{approver.name} ({harmless(approver.id, 60)})" for approver in channel.unmatched)
            yield answer(name, BAD, key, names=names)
        else:
            yield answer(name, OK, "reply.well", names=tuple(approver.name for approver in channel.approvers))


def schedule(job: Job, status: Status, cron: Callable[[], bool | None] = cron_runs) -> Check:
    if status.schedule is None:
        return answer("schedule", BAD, "schedule.none", f"{command_of(job)} install --cron")
    by: dict[str, Any] = {"by": status.schedule}
    if status.schedule.key == "schedule.cron" and not (runs := cron()):
        if runs is None:
            return answer("schedule", UNKNOWN, "schedule.cron-unseen", **by)
        fix = "sudo systemctl enable --now cron    # or crond; or: crond"
        return answer("schedule", BAD, "schedule.no-cron", fix, **by)
    if status.last is None:
        return answer("schedule", OK, "schedule.no-check", **by)
    by["ago"] = _ago(status.last, job.now)
    if job.now - status.last > timedelta(days=1):
        return answer("schedule", BAD, "schedule.late", f"{command_of(job)} status", **by)
    return answer("schedule", OK, "schedule.well", **by)


def _ago(at: datetime, now: datetime) -> Reason:
    span = now - at
    return Reason("unit.ago", {"span": span}) if span >= timedelta(seconds=1) else Reason("unit.now")


def _edit(job: Job) -> str:
    return f"edit {shlex.quote(str(job.config / 'settings.yaml'))}"

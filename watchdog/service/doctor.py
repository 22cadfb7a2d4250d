"""`hermes-watchdog doctor`: can the watchdog see, decide, act, remember and tell here? Each answer with the
command that helps.

Looks only: nothing is written, restarted or sent.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog import __version__
from watchdog.approval.questions import refused
from watchdog.config.rules import unknown_auto
from watchdog.errors import ConfigError, WatchdogError
from watchdog.gateway.machine import Machine, measure_machine
from watchdog.gateway.release import install_of
from watchdog.gateway.supervisor import PROCESS, SYSTEM, USER
from watchdog.gateway.supervisor import UNKNOWN as NOTHING
from watchdog.job import Job
from watchdog.model import LOGS
from watchdog.notify.deliver import is_known_address
from watchdog.notify.run import own_command
from watchdog.notify.translate import in_english
from watchdog.reports.status import Status
from watchdog.service.install import interpreter
from watchdog.service.status import schedule_status
from watchdog.sources.process import blind
from watchdog.sources.read import log_span
from watchdog.sqlite.files import databases as database_files
from watchdog.store.incidents import last_check
from watchdog.system.files import free_bytes, open_regular
from watchdog.system.lock import at_work
from watchdog.system.users import me, name_of
from watchdog.text import ago, clock, harmless

OK, BAD, UNKNOWN = "ok", "bad", "unknown"
ROOM = 20_000_000  # bytes that a year of incidents does not fill
AHEAD = timedelta(minutes=2)


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str
    state: str
    says: str
    fix: str = ""  # the command that helps


def examine(job: Job, measure: Callable[[Job], Machine] | None = None) -> list[Check]:
    """Every question, in the order in which a person would ask them."""
    found = [program(), locale()]
    found += home(job)
    usable = found[-1].state != BAD
    found += rules(job)
    if usable:
        found += logs(job)
        found += databases(job)
        found += guarded("gateway", lambda: gateway(job, (measure or measured)(job)))
        found += guarded("clock", lambda: [time_of_day(job)])
    found += guarded("store", lambda: store(job))
    found += guarded("targets", lambda: targets(job))
    found += guarded("replies", lambda: replies(job))
    found += guarded("schedule", lambda: _of_status(job))
    return found


def _of_status(job: Job) -> list[Check]:
    status = schedule_status(job)
    found = [schedule(job, status)]
    if status.disarmed:
        since = (
            f"since {clock(status.disarmed.at)} by {status.disarmed.by}: {in_english(status.disarmed.why)}"
        )
        found.append(Check("acting", BAD, f"disarmed {since}", f"{command_of(job)} arm"))
    return found


def guarded(name: str, ask: Callable[[], Any]) -> list[Check]:
    """One question that cannot be asked must not keep the others from it."""
    try:
        return list(ask())
    except ConfigError:
        return [Check(name, UNKNOWN, "not asked, because the settings cannot be read")]
    except (WatchdogError, OSError) as error:
        return [Check(name, BAD, str(error))]


def command_of(job: Job) -> str:
    """How a person calls this watchdog for this home."""
    return str(own_command(str(job.home), str(job.state), str(job.config)))


def as_owner(job: Job, *words: str) -> str:
    """The command that asks again as the user whose home it is."""
    command = own_command("", "", "").line(*words, "--home", str(job.home)).strip()
    return f"sudo -u {shlex.quote(name_of(job.home.stat().st_uid))} {command}"


def program() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("program", OK, f"hermes-watchdog {__version__}, Python {version} ({interpreter()})")


def locale() -> Check:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    if encoding in ("utf-8", "utf8"):
        return Check("locale", OK, "UTF-8")
    return Check("locale", BAD, f"the terminal takes {encoding or 'no known encoding'}: Chinese and arrows show as '?'",
                 "export LC_ALL=C.UTF-8")  # fmt: skip


def home(job: Job) -> Iterator[Check]:
    folder = job.home
    if not folder.is_dir():
        near = [
            str(place)
            for place in (Path.home() / ".hermes", Path("/root/.hermes"), Path("/opt/hermes"))
            if _is_dir(place)
        ]
        how = f"{own_command('', '', '')} doctor --home {shlex.quote(near[0]) if near else 'DIR'}"
        yield Check(
            "home",
            BAD,
            f"no Hermes at {folder}" + ("" if near else "; was Hermes ever started by this user?"),
            how,
        )
        return
    owner = name_of(folder.stat().st_uid)
    if not os.access(folder, os.R_OK | os.X_OK):
        why = f"{folder} belongs to {owner} and may not be read by {me()}"
        yield Check("home", BAD, why, as_owner(job, "doctor"))
        return
    if folder.stat().st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        yield Check("home", OK, f"{folder} of {owner}; readable, but repairs need the rights of {owner}")
        return
    note = "" if os.access(folder, os.W_OK) else "; it cannot be written, so databases in it cannot be healed"
    yield Check("home", OK, f"{folder} (owner {owner}){note}")


def rules(job: Job) -> Iterator[Check]:
    book = None
    try:
        book = job.book
        off = f", {len(book.off)} switched off" if book.off else ""
        yield Check("rules", OK, f"{len(book.rules)} rules, {len(book.recipes)} recipes{off}")
    except ConfigError as error:
        yield Check("rules", BAD, str(error), f"{command_of(job)} rules lint")
    try:
        where = job.settings.where
        if book is not None and (wrong := unknown_auto(job.settings.limits.auto, book.recipes, where)):
            raise ConfigError(wrong)
        yield Check(
            "settings", OK, where or f"none of your own ({job.config / 'settings.yaml'}); using defaults"
        )
    except ConfigError as error:
        yield Check("settings", BAD, str(error), f"edit {shlex.quote(str(job.config / 'settings.yaml'))}")


def logs(job: Job) -> Iterator[Check]:
    folder = job.home / "logs"
    for name in LOGS:
        path = folder / name
        try:
            with open_regular(path) as file:
                file.read(1)
                status = os.fstat(file.fileno())
            written = datetime.fromtimestamp(status.st_mtime, job.now.tzinfo)
            yield Check(name, OK, f"{status.st_size:,} bytes, last written {ago(written, job.now)}")
        except FileNotFoundError:
            if name == "errors.log":
                yield Check(name, OK, "not there yet; Hermes makes it with the first warning")
            else:
                yield Check(
                    name,
                    BAD,
                    f"no such file ({path}); is this the home of a gateway that ever ran?",
                    "hermes gateway run",
                )
        except OSError as error:
            fix = as_owner(job, "check", "--dry-run")
            yield Check(name, BAD, f"{path}: {error.strerror}; rules on it are not checked", fix)


def databases(job: Job) -> Iterator[Check]:
    """Only those that may not be read: whether the others are well, `check` knows."""
    for path in database_files(job.home):
        try:
            with open_regular(path) as file:
                file.read(1)
        except OSError as error:
            says = f"{path}: {error.strerror}; its rules are not checked"
            fix = as_owner(job, "check", "--dry-run")
            yield Check(os.path.basename(path), BAD, says, fix)


def measured(job: Job) -> Machine:
    return measure_machine(job.home, job.state, job.settings)


def gateway(job: Job, machine: Machine) -> Iterator[Check]:
    """Its process, its release, what runs it, whether we may restart it, and its journal."""
    seen, who = machine.gateway, machine.supervisor
    if seen.alive is None and who.container:
        seen = machine.now_gateway()  # the engine knows what cannot be seen from outside
    if seen.alive:
        since = f", since {clock(seen.started_at)}" if seen.started_at else ""
        place = who.place(seen.pid)
        shown = in_english(place) if place else f"as pid {seen.pid}"
        yield Check("gateway", OK, f"running {shown}{since}")
    elif seen.alive is None:
        why = blind(seen.why) if seen.why else "its process cannot be seen"
        yield Check("gateway", BAD, why, as_owner(job, "doctor"))
    else:
        yield Check("gateway", OK, "not running; whether it should be, 'check' knows")
    install = install_of(seen.argv or who.argv, search=True)
    if install is not None:
        yield Check("Hermes", OK, f"Hermes {seen.version or install.version} ({install.root})")
    else:
        why = "no installation found beside the gateway's command or in PATH"
        yield Check("Hermes", UNKNOWN, f"which release cannot be told: {why}")
    if who.kind == NOTHING:
        fix = "" if who.container else "hermes gateway install"
        yield Check("unit", BAD, in_english(who.why_not), fix)
    else:
        yield Check("unit", OK, f"{in_english(who.name)} ({in_english(who.found)})")
    fix = f"sudo visudo    # add: {who.sudoers_line}" if who.sudoers_line else ""
    if who.kind != NOTHING:
        yield Check("restart", OK if who.may_act else BAD, in_english(who.why_not) or "allowed", fix)
    for warning in who.warnings:
        yield Check("unit", BAD, in_english(warning))
    for note in who.notes:
        yield Check("unit", OK, in_english(note))
    if who.kind in (SYSTEM, USER):
        yield journal(who.unit, who.kind == USER, machine)
    elif who.kind == PROCESS:
        yield Check("journal", OK, "not needed: no unit runs this gateway")


def journal(unit: str, user: bool, machine: Machine) -> Check:
    words = ("journalctl", *(("--user",) if user else ()), "-u", unit, "-n", "1", "--no-pager", "-o", "cat")
    answer = machine.ask(words, 10)
    fix = f"sudo usermod -aG systemd-journal {me()}    # then log in again"
    if answer.code != 0:
        return Check(
            "journal",
            BAD,
            f"cannot be read: {harmless(answer.output, 120)}; crash-loop is not checked from it",
            fix,
        )
    if "not seeing messages from other users" in answer.output or "No journal files were" in answer.output:
        return Check(
            "journal", BAD, "the journal of this unit may not be read; crash-loop is not checked from it", fix
        )
    return Check("journal", OK, f"readable (unit {unit})")


def time_of_day(job: Job) -> Check:
    """A log that speaks of the future means a clock that jumped, or another zone than we think."""
    _, newest = log_span(job.sources())
    if newest is not None and newest > job.now + AHEAD:
        return Check(
            "clock",
            BAD,
            f"the newest log line is of {clock(newest)}, now is {clock(job.now)}: is 'timezone' right?",
            f"edit {shlex.quote(str(job.config / 'settings.yaml'))}    # timezone: UTC, Asia/Shanghai, …",
        )
    seen = job.look_at_store()
    if seen is not None:
        with seen:
            last = last_check(seen)
        if last is not None and last > job.now + AHEAD:
            return Check(
                "clock",
                BAD,
                f"the last check was at {clock(last)}, which is yet to come; the clock was set back",
                "timedatectl",
            )
    return Check("clock", OK, f"{clock(job.now)}, log times read as {job.settings.timezone}")


def store(job: Job) -> Iterator[Check]:
    there = job.state
    while not there.exists():
        there = there.parent
    free = free_bytes(there)
    room = f"{free // 1_000_000:,} MB free" if free is not None else "free space unknown"
    other = f"{command_of(job)} check --state DIR"
    if not os.access(there, os.W_OK | os.X_OK):
        yield Check("store", BAD, f"{there} may not be written by {me()}", other)
    elif free is not None and free < ROOM:
        yield Check(
            "store",
            BAD,
            f"{job.state}: only {room}; what is found could not be remembered",
            f"df -h {shlex.quote(str(there))}",
        )
    else:
        seen = job.look_at_store()  # says so when a newer version of us wrote it
        if seen is not None:
            seen.close()
        yield Check(
            "store",
            OK,
            f"{job.store_path if seen else job.state}, {room}{'' if seen else '; made at the first check'}",
        )
    if busy := at_work(job.state, job.now):
        yield Check("lock", OK, f"{busy} is at work now")


def targets(job: Job) -> Iterator[Check]:
    """Whether each target can be spoken to, without sending: its secret is there, and what its last message
    met.
    """
    known = job.settings.notify.targets
    if not known:
        yield Check(
            "targets",
            BAD,
            "no notification target in settings.yaml",
            f"{command_of(job)} setup",
        )
        return
    failing = {}
    if (seen := job.look_at_store()) is not None:
        with seen:
            rows = seen.db.execute("SELECT name, failures, says FROM targets WHERE failures > 0")
            failing = {row["name"]: (row["failures"], row["says"]) for row in rows}
    for target in known:
        try:
            known_scheme = all(map(is_known_address, target.url.lines()))
        except WatchdogError as error:
            yield Check(f"target {target.name}", BAD, str(error))
            continue
        if not known_scheme:
            why = f"{target.url.where}: this is not an address that Apprise knows"
            yield Check(f"target {target.name}", BAD, why, "https://appriseit.com/services/ lists them")
            continue
        if target.name in failing:
            count, says = failing[target.name]
            yield Check(
                f"target {target.name}",
                BAD,
                f"did not take the last {count} messages: {says}",
                f"{command_of(job)} notify --test",
            )
        else:
            yield Check(
                f"target {target.name}",
                OK,
                f"its address is known; to send a real message: {command_of(job)} notify --test",
            )


def replies(job: Job) -> Iterator[Check]:
    """Whether an answer could arrive by each reply channel, without asking it."""
    for channel in job.settings.notify.replies.channels:
        name = f"replies {channel.kind}"
        for secret in (channel.token, *(approver.topic for approver in channel.approvers)):
            if secret is not None:
                secret.reveal()
        if why := refused(channel, job.home):
            yield Check(name, BAD, why)
        elif channel.unmatched:
            wanted = "the number that Telegram gives a user" if channel.kind == "telegram" else "@name:server"
            names = ", ".join(f"{each.name} ({harmless(each.id, 60)})" for each in channel.unmatched)
            yield Check(name, BAD, f"no answer can match the approver {names}; write {wanted} as id")
        else:
            yield Check(name, OK, "answers by " + ", ".join(each.name for each in channel.approvers))


CRON_DAEMONS = {"cron", "crond", "fcron", "supercronic", "bcron-sched", "dcron", "cronie"}


def cron_runs() -> bool | None:
    """Whether a cron daemon is at work here; None where that cannot be seen."""
    names = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
    if names & CRON_DAEMONS:
        return True
    hidden = not os.path.exists("/proc/1/comm")  # hidepid: processes of others are not shown
    by_systemd = os.path.exists("/usr/lib/systemd/system-generators/systemd-crontab-generator")
    return None if hidden or by_systemd else False


def schedule(job: Job, told: Status, cron: Callable[[], bool | None] = cron_runs) -> Check:
    if told.schedule is not None and told.schedule.key == "schedule.cron" and not (runs := cron()):
        if runs is None:
            why = f"{told.runs_by}; whether a cron daemon runs cannot be seen from here"
            return Check("schedule", UNKNOWN, why)
        why = f"{told.runs_by}, but no cron daemon runs here: no check is made"
        return Check("schedule", BAD, why, "sudo systemctl enable --now cron    # or crond; or: crond")
    if told.runs_by and told.last and job.now - told.last > timedelta(days=1):
        return Check(
            "schedule",
            BAD,
            f"{told.runs_by}, but the last check was {ago(told.last, job.now)}",
            f"{command_of(job)} status",
        )
    if told.runs_by:
        return Check(
            "schedule",
            OK,
            told.runs_by + (f"; last check {ago(told.last, job.now)}" if told.last else "; no check yet"),
        )
    return Check("schedule", BAD, "no schedule installed for this home", f"{command_of(job)} install --cron")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False

"""`hermes-watchdog doctor`: can the watchdog see, decide, act, remember and tell here? Each answer with the command that helps.

Looks only: nothing is written, restarted or sent.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.errors import ConfigError, WatchdogError
from watchdog.text import ago, clock, harmless

if TYPE_CHECKING:
    from watchdog.cli.common import Context
    from watchdog.world import World

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


def examine(ctx: Context, measure: Callable[[Context], World] | None = None) -> list[Check]:
    """Every question, in the order in which a person would ask them."""
    found = [program(), locale()]
    found += home(ctx)
    usable = found[-1].state != BAD
    found += rules(ctx)
    if usable:
        found += logs(ctx)
        found += guarded("gateway", lambda: gateway(ctx, (measure or measured)(ctx)))
        found += guarded("clock", lambda: [time_of_day(ctx)])
    found += guarded("store", lambda: store(ctx))
    found += guarded("targets", lambda: targets(ctx))
    found += guarded("schedule", lambda: [schedule(ctx)])
    return found


def guarded(name: str, ask: Callable[[], Any]) -> list[Check]:
    """One question that cannot be asked must not keep the others from it."""
    try:
        return list(ask())
    except ConfigError:
        return [Check(name, UNKNOWN, "not asked, because the settings cannot be read")]
    except (WatchdogError, OSError) as error:
        return [Check(name, BAD, str(error))]


def program() -> Check:
    from watchdog import __version__
    from watchdog.install import interpreter

    version = ".".join(map(str, sys.version_info[:3]))
    return Check("program", OK, f"hermes-watchdog {__version__}, Python {version} ({interpreter()})")


def locale() -> Check:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    if encoding in ("utf-8", "utf8"):
        return Check("locale", OK, "UTF-8")
    return Check("locale", BAD, f"the terminal takes {encoding or 'no known encoding'}: Chinese and arrows show as '?'",
                 "export LC_ALL=C.UTF-8")  # fmt: skip


def home(ctx: Context) -> Iterator[Check]:
    folder = ctx.home
    if not folder.is_dir():
        near = [str(one) for one in (Path.home() / ".hermes", Path("/root/.hermes"), Path("/opt/hermes")) if _is_dir(one)]
        how = f"hermes-watchdog doctor --home {near[0]}" if near else "hermes-watchdog doctor --home DIR"
        yield Check("home", BAD, f"no Hermes at {folder}" + ("" if near else "; was Hermes ever started by this user?"), how)
        return
    owner = _name(folder.stat().st_uid)
    if not os.access(folder, os.R_OK | os.X_OK):
        words = ["sudo", "-u", owner, "hermes-watchdog", "doctor", "--home", str(folder)]
        yield Check("home", BAD, f"{folder} belongs to {owner} and may not be read by {_me()}", shlex.join(words))
        return
    if folder.stat().st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        yield Check("home", OK, f"{folder} of {owner}; readable, but repairs need the rights of {owner}")
        return
    note = "" if os.access(folder, os.W_OK) else "; it cannot be written, so databases in it cannot be healed"
    yield Check("home", OK, f"{folder} (owner {owner}){note}")


def rules(ctx: Context) -> Iterator[Check]:
    from watchdog.rulebook import unknown_auto

    book = None
    try:
        book = ctx.book
        off = f", {len(book.off)} switched off" if book.off else ""
        yield Check("rules", OK, f"{len(book.rules)} rules, {len(book.recipes)} recipes{off}")
    except ConfigError as error:
        yield Check("rules", BAD, str(error), "hermes-watchdog rules lint")
    try:
        where = ctx.settings.where
        if book is not None and (wrong := unknown_auto(ctx.settings.limits.auto, book.recipes, where)):
            raise ConfigError(wrong)
        yield Check("settings", OK, where or f"none of your own ({ctx.config / 'settings.yaml'}); the defaults hold")
    except ConfigError as error:
        yield Check("settings", BAD, str(error), f"edit {shlex.quote(str(ctx.config / 'settings.yaml'))}")


def logs(ctx: Context) -> Iterator[Check]:
    from watchdog.paths import open_regular

    folder = ctx.home / "logs"
    for name in ("gateway.log", "agent.log", "errors.log"):
        path = folder / name
        try:
            with open_regular(path) as file:
                file.read(1)
                told = os.fstat(file.fileno())
            written = datetime.fromtimestamp(told.st_mtime, ctx.now.tzinfo)
            yield Check(name, OK, f"{told.st_size:,} bytes, last written {ago(written, ctx.now)}")
        except FileNotFoundError:
            if name == "errors.log":
                yield Check(name, OK, "not there yet; Hermes makes it with the first warning")
            else:
                yield Check(name, BAD, f"no such file ({path}); is this the home of a gateway that ever ran?", "hermes gateway run")
        except OSError as error:
            fix = f"sudo -u {_name(folder.stat().st_uid)} hermes-watchdog check --dry-run" if folder.exists() else ""
            yield Check(name, BAD, f"{path}: {error.strerror}; rules on it are not checked", fix)


def measured(ctx: Context) -> World:
    from watchdog.world import measure_world

    unit = "" if ctx.settings.unit == "auto" else ctx.settings.unit
    return measure_world(ctx.home, ctx.state, ctx.settings.limits, unit, zone=ctx.settings.zone)


def gateway(ctx: Context, world: World) -> Iterator[Check]:
    """Its process, its release, what runs it, whether we may restart it, and its journal."""
    from watchdog.supervisor import PROCESS, SYSTEM, USER
    from watchdog.supervisor import UNKNOWN as NOTHING

    seen, who = world.gateway, world.supervisor
    if seen.alive:
        since = f", since {clock(seen.started_at)}" if seen.started_at else ""
        yield Check("gateway", OK, f"running as pid {seen.pid}{since}")
    elif seen.alive is None:
        yield Check("gateway", BAD, "its lock is held, but its process cannot be seen in /proc (hidepid, or another container)",
                    "sudo -u <the gateway's user> hermes-watchdog doctor")  # fmt: skip
    else:
        yield Check("gateway", OK, "not running; whether it should be, 'check' knows")
    release, where = hermes_release(seen.argv or who.argv)
    yield Check("Hermes", OK if release else UNKNOWN, f"{release} ({where})" if release else "which release cannot be told: " + where)
    if who.kind == NOTHING:
        yield Check("unit", BAD, who.why_not, "hermes gateway install")
    else:
        yield Check("unit", OK, f"{who.name} ({who.found})")
    fix = f"sudo visudo    # add: {who.sudoers_line}" if who.sudoers_line else ""
    if who.kind != NOTHING:
        yield Check("restart", OK if who.may_act else BAD, "allowed" if who.may_act else who.why_not, fix)
    for warning in who.warnings:
        yield Check("unit", BAD, warning)
    if who.kind in (SYSTEM, USER):
        yield journal(who.unit, who.kind == USER, world)
    elif who.kind == PROCESS:
        yield Check("journal", OK, "not needed: no unit runs this gateway")


def journal(unit: str, user: bool, world: World) -> Check:
    words = ("journalctl", *(("--user",) if user else ()), "-u", unit, "-n", "1", "--no-pager", "-o", "cat")
    told = world.run(words, 10)
    fix = f"sudo usermod -aG systemd-journal {_me()}    # then log in again"
    if told.code != 0:
        return Check("journal", BAD, f"cannot be read: {harmless(told.output, 120)}; crash-loop is not checked from it", fix)
    if "not seeing messages from other users" in told.output or "No journal files were" in told.output:
        return Check("journal", BAD, "the journal of this unit may not be read; crash-loop is not checked from it", fix)
    return Check("journal", OK, f"readable (unit {unit})")


def hermes_release(argv: tuple[str, ...]) -> tuple[str, str]:
    """The release behind a command line, from the folder it is installed in; ('', why not)."""
    import shutil

    for name in (*argv[:2], shutil.which("hermes") or ""):
        if not name.startswith("/"):
            continue
        root = Path(os.path.realpath(name)).parent.parent if Path(name).name == "hermes" else Path(name).parent.parent
        for base in (root, Path(name).parent.parent):
            for info in sorted(base.glob("lib/python*/site-packages/hermes_agent-*.dist-info")):
                return f"Hermes {info.name.split('-')[1].removesuffix('.dist')}", str(base)
    return "", "no installation found beside the gateway's command or in PATH"


def time_of_day(ctx: Context) -> Check:
    """A log that speaks of the future means a clock that jumped, or another zone than we think."""
    from watchdog.pipeline import span_of
    from watchdog.store.incidents import last_check

    _, newest = span_of(ctx.sources())
    if newest is not None and newest > ctx.now + AHEAD:
        return Check("clock", BAD, f"the newest log line is of {clock(newest)}, now is {clock(ctx.now)}: is 'timezone' right?",
                     f"edit {shlex.quote(str(ctx.config / 'settings.yaml'))}    # timezone: UTC, Asia/Shanghai, …")  # fmt: skip
    seen = ctx.look_at_store()
    if seen is not None:
        with seen:
            last = last_check(seen)
        if last is not None and last > ctx.now + AHEAD:
            return Check("clock", BAD, f"the last check was at {clock(last)}, which is yet to come; the clock was set back", "timedatectl")
    return Check("clock", OK, f"{clock(ctx.now)}, log times read as {ctx.settings.timezone}")


def store(ctx: Context) -> Iterator[Check]:
    from watchdog.lock import at_work
    from watchdog.world import free_bytes

    there = ctx.state
    while not there.exists():
        there = there.parent
    free = free_bytes(there)
    room = f"{free // 1_000_000:,} MB free" if free is not None else "free space unknown"
    other = "hermes-watchdog check --state DIR"
    if not os.access(there, os.W_OK | os.X_OK):
        yield Check("store", BAD, f"{there} may not be written by {_me()}", other)
    elif free is not None and free < ROOM:
        yield Check("store", BAD, f"{ctx.state}: only {room}; what is found could not be remembered", f"df -h {shlex.quote(str(there))}")
    else:
        seen = ctx.look_at_store()  # says so when a newer version of us wrote it
        if seen is not None:
            seen.close()
        yield Check("store", OK, f"{ctx.store_path if seen else ctx.state}, {room}{'' if seen else '; made at the first check'}")
    if busy := at_work(ctx.state, ctx.now):
        yield Check("lock", OK, f"{busy} is at work now")


def targets(ctx: Context) -> Iterator[Check]:
    """Whether each target can be spoken to, without sending: its secret is there, and what its last message met."""
    known = ctx.settings.notify.targets
    if not known:
        yield Check("targets", BAD, "nobody is told: no target in settings.yaml", "hermes-watchdog notify --test    # after adding one")
        return
    failing = {}
    if (seen := ctx.look_at_store()) is not None:
        with seen:
            rows = seen.db.execute("SELECT name, failures, says FROM targets WHERE failures > 0")
            failing = {row["name"]: (row["failures"], row["says"]) for row in rows}
    for target in known:
        try:
            target.url.reveal()
        except WatchdogError as error:
            yield Check(f"target {target.name}", BAD, str(error))
            continue
        if target.name in failing:
            count, says = failing[target.name]
            yield Check(f"target {target.name}", BAD, f"did not take the last {count} messages: {says}", "hermes-watchdog notify --test")
        else:
            yield Check(f"target {target.name}", OK, "its address is known; 'hermes-watchdog notify --test' sends a real message")


def schedule(ctx: Context) -> Check:
    from watchdog.status import gather

    told = gather(ctx)
    if told.runs_by and told.last and ctx.now - told.last > timedelta(days=1):
        return Check("schedule", BAD, f"{told.runs_by}, but the last check was {ago(told.last, ctx.now)}", "hermes-watchdog status")
    if told.runs_by:
        return Check("schedule", OK, told.runs_by + (f"; last check {ago(told.last, ctx.now)}" if told.last else "; no check yet"))
    return Check("schedule", BAD, "nothing makes checks happen for this home", "hermes-watchdog install --cron")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _me() -> str:
    return _name(os.getuid())

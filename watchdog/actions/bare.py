"""A gateway that nothing supervises: signal exactly that process, start it again detached."""

from __future__ import annotations

import os
import pwd
import signal
from datetime import timedelta
from typing import NoReturn

from watchdog.actions.common import failed, ok
from watchdog.errors import WatchdogError
from watchdog.model import Outcome
from watchdog.process import start_time_of
from watchdog.startcommand import gateway_command
from watchdog.text import spell
from watchdog.world import Gateway, World

# Variables of another life: of a service manager, or of the gateway itself.
_DROP = {"_HERMES_GATEWAY", "NOTIFY_SOCKET", "INVOCATION_ID", "LISTEN_FDS", "LISTEN_PID", "JOURNAL_STREAM"}


def stop(world: World, gateway: Gateway) -> Outcome:
    """SIGTERM, wait, SIGKILL; to the process that was looked at, never to one that took over its number."""
    name = "stop the gateway"
    if gateway.alive is None:
        return failed(name, "its lock is held but its process cannot be seen; nothing was signalled")
    if not gateway.alive:
        return ok(name, "it was not running")
    if gateway.pid in (1, os.getpid(), os.getppid()):
        return failed(name, f"pid {gateway.pid} is not a process that we may end")
    world.kept["env"], world.kept["cwd"] = _surroundings(gateway.pid)
    try:
        # The descriptor stays with this process even when its number is given to another one.
        handle = os.pidfd_open(gateway.pid)
    except ProcessLookupError:
        return ok(name, "it ended by itself")
    except OSError as error:
        return failed(name, f"cannot take hold of process {gateway.pid}: {error}; nothing was signalled")
    try:
        if start_time_of(gateway.pid) != gateway.start_time:
            return failed(name, f"pid {gateway.pid} is another process now; nothing was signalled")
        if strange := _strange(world, gateway):
            return failed(name, f"{strange}; nothing was signalled")
        for number, patience in ((signal.SIGTERM, world.supervisor.patience), (signal.SIGKILL, timedelta(seconds=10))):
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return ok(name, "stopped")
            except PermissionError as error:
                return failed(name, f"may not signal process {gateway.pid}: {error}")
            if _gone(world, gateway, patience):
                how = "" if number == signal.SIGTERM else f" with SIGKILL; SIGTERM was ignored for {spell(world.supervisor.patience)}"
                return ok(name, f"stopped{how}")
    finally:
        os.close(handle)
    return failed(name, f"process {gateway.pid} does not end, not even by SIGKILL")


def _strange(world: World, gateway: Gateway) -> str:
    """Why this is not the process to end: gateway.pid may have been written anew since anybody looked."""
    before = world.gateway
    if before.alive and not world.kept.get("started") and (before.pid, before.start_time) != (gateway.pid, gateway.start_time):
        return f"gateway.pid names process {gateway.pid} now, and not process {before.pid}, which was approved"
    uid = world.supervisor.uid
    try:
        if uid is not None and os.stat(f"/proc/{gateway.pid}").st_uid != uid:
            return f"process {gateway.pid} belongs to somebody else"
    except OSError as error:
        return f"process {gateway.pid} cannot be looked at: {error.strerror}"
    return "" if gateway_command(gateway.argv) else f"process {gateway.pid} is not a gateway"


def _gone(world: World, gateway: Gateway, within: timedelta) -> bool:
    def ended(_: Gateway) -> bool:
        return start_time_of(gateway.pid) != gateway.start_time

    return world.wait_for(ended, within, every=0.1) is not None


def start(world: World) -> None:
    """Detached: its own session, no terminal, not our child, as the owner of the home; never as root for someone else's home."""
    owner = os.stat(world.home).st_uid
    # Looked at once, approved, and kept: a home that is exchanged for one of root's while we wait starts nothing as root.
    if world.supervisor.uid not in (None, owner):
        raise WatchdogError(f"{world.home} belongs to another user than when it was approved; the gateway was not started")
    record = _record(owner) if os.getuid() == 0 and owner != 0 else None
    env = surroundings(dict(os.environ), world.kept.get("env") or {}, record)
    env["HERMES_HOME"] = str(world.home)
    world.kept["started"] = True
    folder = world.kept.get("cwd") or str(world.home)
    child = os.fork()
    if child == 0:
        _become(world.supervisor.argv, env, folder, record)
    os.waitpid(child, 0)


def surroundings(ours: dict[str, str], before: dict[str, str], record: pwd.struct_passwd | None) -> dict[str, str]:
    """The environment it had, else ours; of ours another user gets only what holds no secret."""
    if before:
        return {key: value for key, value in before.items() if key not in _DROP}
    if record is None:
        return {key: value for key, value in ours.items() if key not in _DROP and not key.startswith("HERMES_WATCHDOG_")}
    plain = {key: value for key, value in ours.items() if key in ("PATH", "LANG", "TZ") or key.startswith("LC_")}
    return plain | {"HOME": record.pw_dir, "USER": record.pw_name, "LOGNAME": record.pw_name, "SHELL": record.pw_shell}


def _become(argv: tuple[str, ...], env: dict[str, str], folder: str, record: pwd.struct_passwd | None) -> NoReturn:
    """In the child: fork once more so that init looks after it, let go of everything that is ours, become the gateway."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        if record:
            os.initgroups(record.pw_name, record.pw_gid)
            os.setgid(record.pw_gid)
            os.setuid(record.pw_uid)
        os.chdir(folder if os.path.isdir(folder) else "/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 65536)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        os.execve(argv[0], argv, env)
    finally:
        os._exit(127)  # nobody hears us; that no gateway came up is seen and told by the one who waits


def _record(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise WatchdogError(f"the owner of the home (uid {uid}) is not in the user database; the gateway was not started") from None


def _surroundings(pid: int) -> tuple[dict[str, str], str]:
    """Environment and folder of a living process, held in memory only: there are secrets in it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [word.partition(b"=") for word in file.read(1_000_000).split(b"\0") if b"=" in word]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}, os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return {}, ""

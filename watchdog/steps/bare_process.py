"""A gateway that nothing supervises: signal exactly that process, start it again detached."""

from __future__ import annotations

import os
import pwd
import signal
from datetime import timedelta
from typing import NoReturn

from watchdog.gateway.command import folder_for, gateway_command
from watchdog.gateway.machine import GatewayProcess, Machine
from watchdog.model import Outcome, Reason
from watchdog.model.plan_reasons import Done, Failed, What
from watchdog.steps.common import failed, ok
from watchdog.system.procfs import environment_of, lock_holder, start_time_of

# Variables of another life: of a service manager, or of the gateway itself.
_DROP = {"_HERMES_GATEWAY", "NOTIFY_SOCKET", "INVOCATION_ID", "LISTEN_FDS", "LISTEN_PID", "JOURNAL_STREAM"}


def stop(machine: Machine, gateway: GatewayProcess) -> Outcome:
    """SIGTERM, wait, SIGKILL; to the process that was looked at, never to one that took over its number."""
    what = Reason(What.STOP)
    if gateway.alive is None:
        return failed(what, Reason(Failed.INVISIBLE))
    if not gateway.alive:
        return ok(what, Reason(Done.WAS_NOT_RUNNING))
    if gateway.pid in (1, os.getpid(), os.getppid()):
        return failed(what, Reason(Failed.NOT_OURS_TO_END, {"pid": gateway.pid}))
    machine.kept["env"], machine.kept["cwd"] = _surroundings(gateway.pid)
    try:
        # The descriptor stays with this process even when its number is given to another one.
        handle = os.pidfd_open(gateway.pid)
    except ProcessLookupError:
        return ok(what, Reason(Done.ENDED_ITSELF))
    except OSError as error:
        return failed(what, Reason(Failed.NO_HANDLE, {"pid": gateway.pid, "error": str(error)}))
    try:
        if strange := _strange(machine, gateway):
            return failed(what, strange)
        patience = machine.supervisor.patience
        for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, timedelta(seconds=10))):
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return ok(what, Reason(Done.STOPPED))
            except PermissionError as error:
                return failed(what, Reason(Failed.MAY_NOT_SIGNAL, {"pid": gateway.pid, "error": str(error)}))
            if _gone(machine, gateway, wait):
                gently = number == signal.SIGTERM
                return ok(
                    what, Reason(Done.STOPPED) if gently else Reason(Done.KILLED, {"patience": patience})
                )
    finally:
        os.close(handle)
    return failed(what, Reason(Failed.DOES_NOT_END, {"pid": gateway.pid}))


def _strange(machine: Machine, gateway: GatewayProcess) -> Reason | None:
    """Why this is not the process to end: gateway.pid may have been written anew since anybody looked."""
    before, pid = machine.gateway, {"pid": gateway.pid}
    if start_time_of(gateway.pid) != gateway.start_time:
        return Reason(Failed.PID_REUSED, pid)
    if (
        before.alive
        and not machine.kept.get("started")
        and (before.pid, before.start_time) != (gateway.pid, gateway.start_time)
    ):
        return Reason(Failed.NOT_THE_APPROVED, {**pid, "before": before.pid})
    uid = machine.supervisor.uid
    try:
        if uid is not None and os.stat(f"/proc/{gateway.pid}").st_uid != uid:
            return Reason(Failed.SOMEBODY_ELSES, pid)
    except OSError as error:
        return Reason(Failed.CANNOT_LOOK, {**pid, "error": error.strerror})
    if not gateway_command(gateway.argv):
        return Reason(Failed.NOT_A_GATEWAY, pid)
    # Only who holds this home's lock is this home's gateway; a copy of a home names the original's.
    held = lock_holder(str(machine.home / "gateway.lock")) == gateway.pid
    return None if held else Reason(Failed.HOLDS_NO_LOCK, pid)


def _gone(machine: Machine, gateway: GatewayProcess, within: timedelta) -> bool:
    def ended(_: GatewayProcess) -> bool:
        return start_time_of(gateway.pid) != gateway.start_time

    return machine.wait_for(ended, within, every=0.1) is not None


def start(machine: Machine) -> Reason | None:
    """Detached, not our child, as the owner of the home; never as root for someone else's home.

    Gives why it was not started; whether a gateway came up is for the caller to see.
    """
    owner = os.stat(machine.home).st_uid
    # Looked at once, approved, and kept: a home that is exchanged for one of root's while we wait starts
    # nothing as root.
    if machine.supervisor.uid not in (None, owner):
        return Reason(Failed.OTHER_OWNER, {"home": str(machine.home)})
    record = None
    if os.getuid() == 0 and owner != 0:
        try:
            record = pwd.getpwuid(owner)
        except KeyError:
            return Reason(Failed.NO_OWNER, {"uid": str(owner)})
    env = surroundings(dict(os.environ), machine.kept.get("env") or {}, record)
    env["HERMES_HOME"] = str(machine.home)
    machine.kept["started"] = True
    folder = machine.kept.get("cwd") or folder_for(machine.supervisor.argv) or str(machine.home)
    child = os.fork()
    if child == 0:
        _become(machine.supervisor.argv, env, folder, record)
    os.waitpid(child, 0)
    return None


def surroundings(
    ours: dict[str, str], before: dict[str, str], record: pwd.struct_passwd | None
) -> dict[str, str]:
    """The environment it had, else ours; of ours another user gets only what holds no secret."""
    if before:
        return {key: value for key, value in before.items() if key not in _DROP}
    if record is None:
        own = {key for key in ours if key not in _DROP and not key.startswith("HERMES_WATCHDOG_")}
        return {key: ours[key] for key in own}
    plain = {key: ours[key] for key in ours if key in ("PATH", "LANG", "TZ") or key.startswith("LC_")}
    who = {"HOME": record.pw_dir, "USER": record.pw_name, "LOGNAME": record.pw_name}
    return plain | who | {"SHELL": record.pw_shell}


def _become(
    argv: tuple[str, ...], env: dict[str, str], folder: str, record: pwd.struct_passwd | None
) -> NoReturn:
    """In the child: fork again so that init looks after it, close what is ours, become the gateway."""
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
        os._exit(127)  # no one hears us; that no gateway came up is seen and told by the one who waits


def _surroundings(pid: int) -> tuple[dict[str, str], str]:
    """Environment and folder of a living process."""
    try:
        return environment_of(pid), os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return {}, ""

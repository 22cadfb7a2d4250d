"""What keeps the gateway running, and the exact commands that stop and start it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum

from watchdog.gateway.reasons import MayNot, Name
from watchdog.model import Reason
from watchdog.values import dataclass


class SupervisorKind(StrEnum):
    """A new kind is measured in a module like loaded_units.py or containers.py, and has its commands in recognise.py."""

    SYSTEM = "systemd"
    USER = "systemd user"
    DOCKER = "docker"
    PODMAN = "podman"
    S6 = "s6"  # one service per profile, usually in a container
    PROCESS = "process"  # nothing does: a process that a person started
    UNKNOWN = "unknown"


SYSTEM, USER, DOCKER, PODMAN, S6, PROCESS, UNKNOWN = SupervisorKind


@dataclass(frozen=True)
class Supervisor:
    """Who to talk to. A bare process has no commands: it is signalled and started by us."""

    kind: SupervisorKind
    unit: str = ""  # the name of the unit, the service, or the container
    user: str = ""  # whose unit or process it is
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    may_act: bool = True
    why_not: Reason | None = None
    sudoers_line: str = ""
    stop_timeout: timedelta | None = None
    drain: timedelta | None = None
    found: Reason | None = None  # by what it was recognised
    argv: tuple[str, ...] = ()  # bare process: what to start
    uid: int | None = None  # bare process: whose it is; no other is signalled, it is started as no other user
    exit_status: int = 0  # of the last run, when systemd knows it
    warnings: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()  # what a plan should say, though nothing is wrong with it
    container: str = ""  # the name of the container that the gateway is in
    container_id: str = ""
    kill: tuple[str, ...] = ()  # s6: where SIGTERM does not end the gateway
    by_signal: bool = False  # s6 out of reach: the process is signalled, and s6 starts it again
    stop_deletes: bool = False  # a container that was made with --rm
    shares_pids: bool = False  # process numbers here are those inside its container (pid: "container:…")

    @property
    def patience(self) -> timedelta:
        """How long a stop or restart may take before something is wrong: drain, stop time-out, and a minute."""
        known = (self.stop_timeout or timedelta(seconds=90)) + (self.drain or timedelta(0))
        return min(max(known + timedelta(minutes=1), timedelta(minutes=2)), timedelta(minutes=15))

    @property
    def name(self) -> Reason:
        fields = {"unit": self.unit, "user": self.user, "container": self.container}
        match self.kind:
            case SupervisorKind.SYSTEM:
                return Reason(Name.SYSTEM_UNIT, {"unit": self.unit})
            case SupervisorKind.USER:
                return Reason(Name.USER_UNIT, {"unit": self.unit, "user": self.user})
            case SupervisorKind.DOCKER | SupervisorKind.PODMAN:
                return Reason(Name.CONTAINER, {"container": self.container})
            case SupervisorKind.S6:
                return Reason(Name.SERVICE_IN if self.container else Name.SERVICE, fields)
            case SupervisorKind.PROCESS:
                return Reason(Name.PROCESS)
        return Reason(Name.UNKNOWN)

    def place(self, pid: int) -> Reason | None:
        """The container that the gateway runs in, with its process; None when it is in none."""
        if not self.container:
            return None
        key = Name.INSIDE if self.shares_pids else Name.OUTSIDE
        found = Reason(key, {"container": self.container, "pid": pid})
        return Reason(Name.SERVICE_AT, {"unit": self.unit, "place": found}) if self.kind == S6 else found

    def refusal(self, verbs: Iterable[str]) -> Reason | None:
        """Why these (stop, start, restart) may not be done; None when they may."""
        if not self.may_act:
            return self.why_not
        if self.by_signal and set(verbs) - {"restart"}:
            return Reason(MayNot.ONLY_RESTARTS, {"name": self.name, "id": self.container_id[:12]})
        if self.stop_deletes and "stop" in verbs:
            return Reason(MayNot.STOP_DELETES, {"container": self.container})
        return None


def unknown(why: Reason) -> Supervisor:
    return Supervisor(UNKNOWN, may_act=False, why_not=why)

"""What is measured of a machine before anything is decided: units, containers, services, users."""

from __future__ import annotations

from datetime import timedelta

from watchdog.gateway.supervisor import SupervisorKind
from watchdog.model import Reason
from watchdog.values import dataclass


@dataclass(frozen=True)
class Unit:
    """One systemd unit as `systemctl show` tells it."""

    name: str
    scope: SupervisorKind  # SYSTEM or USER
    main_pid: int = 0
    command: str = ""  # ExecStart, for recognising; never run by us
    home: str = ""  # HERMES_HOME in its Environment, else the default home of its user
    user: str = ""
    stop_timeout: timedelta | None = None
    restart: str = ""
    state: str = ""
    exit_status: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class Container:
    """One container as docker or podman tells it."""

    id: str  # 64 hex digits
    name: str
    tool: str  # docker or podman
    sources: tuple[str, ...] = ()  # folders of the host that it mounts, links resolved
    running: bool = True
    paused: bool = False
    out_of_memory: bool = False  # the last run was ended by the kernel for that
    stop_timeout: timedelta | None = None
    runs_gateway: bool = False  # its command names the gateway

    @property
    def short_id(self) -> str:
        """As `docker ps` shows it; unlike a name it is never given to another container."""
        return self.id[:12]


@dataclass(frozen=True)
class Service:
    """The service of s6 that runs this home's gateway, as seen inside its container."""

    name: str  # gateway-default
    folder: str  # /run/service/gateway-default
    tools: str  # the folder of s6-svc: s6-overlay's is on no PATH


@dataclass(frozen=True)
class Surroundings:
    """What is known of the container around the gateway, whether or not the gateway lives."""

    id: str = ""  # of the container that the living gateway is in, unless it is ours, too
    tool: str = ""  # docker or podman, by its cgroup
    signs: bool = False  # the home shows that its gateway runs in some container
    last_id: str = ""  # of the container that we last saw the gateway in
    containers: tuple[Container, ...] = ()
    troubles: tuple[Reason, ...] = ()  # why an engine gave no answer
    service: Service | None = None
    neighbours: tuple[str, ...] = ()  # what else runs in the container
    contained: bool = False  # we are in a container ourselves, where paths of the host mean nothing


@dataclass(frozen=True)
class HostFacts:
    """What was measured about this machine and this home."""

    home: str
    uid: int
    user: str
    owner: str = ""  # of the home
    owner_uid: int = 0
    pid: int = 0  # of the gateway, 0 when none lives
    pid_uid: int = 0
    cgroup: str = ""  # /proc/PID/cgroup
    units: tuple[Unit, ...] = ()
    around: Surroundings = Surroundings()
    bus: bool = True  # the owner's user bus is there
    systemctl: str = "/usr/bin/systemctl"
    argv: tuple[str, ...] = ()  # of the gateway: from its process, else from gateway.pid
    drain: timedelta | None = None
    chosen: str = ""  # unit or container named in settings.yaml
    inside: Reason | None = None  # why we seem to run inside the gateway
    told_by: int | None = None  # owner of gateway.pid, which names the command of a gateway that does not run
    others: bool = False  # someone besides root could put another folder in the place of the home
    sandboxed: bool = False  # we run in a unit that is locked up; what we start would be, too
    program_of_others: bool = False  # the same of the program that would be started

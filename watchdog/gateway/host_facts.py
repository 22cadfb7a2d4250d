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
    exit_status: int = 0


@dataclass(frozen=True)
class Mount:
    """A folder of the host in a container."""

    source: str  # on the host, links resolved
    inside: str = ""
    writable: bool = True

    def path_of(self, folder: str) -> str:
        """What this folder of the host is called inside; '' when it is not there."""
        if folder == self.source:
            return self.inside or folder
        above = self.source.rstrip("/") + "/"
        return self.inside.rstrip("/") + "/" + folder.removeprefix(above) if folder.startswith(above) else ""


@dataclass(frozen=True)
class Container:
    """One container as docker or podman tells it."""

    id: str  # 64 hex digits
    name: str
    tool: str  # docker or podman
    mounts: tuple[Mount, ...] = ()
    running: bool = True
    paused: bool = False
    out_of_memory: bool = False  # the last run was ended by the kernel for that
    stop_timeout: timedelta | None = None
    runs_gateway: bool = False  # its command names the gateway
    auto_remove: bool = False  # made with --rm: a stop deletes it
    manager: str = ""  # the systemd unit or the swarm service that starts it again by itself
    name_taken: bool = (
        False  # another container bears our short id as its name: a command would reach that one
    )

    @property
    def short_id(self) -> str:
        """As `docker ps` shows it."""
        return self.id[:12]

    @property
    def address(self) -> str:
        """What a command calls it: its id, because a name can be given to another container."""
        return self.id if self.name_taken else self.short_id

    @property
    def title(self) -> str:
        return self.name or self.short_id

    def has(self, home: str, inside: str = "", writable: bool = False) -> bool:
        """Whether this folder of the host is in it, and there called `inside` where that is known."""
        paths = [mount.path_of(home) for mount in self.mounts if mount.writable or not writable]
        return any(path == inside if inside else path for path in paths)


@dataclass(frozen=True)
class Service:
    """The service of s6 that runs this home's gateway, as seen inside its container."""

    name: str  # gateway-default
    folder: str  # /run/service/gateway-default
    tools: str  # the folder of s6-svc: s6-overlay's is on no PATH


@dataclass(frozen=True)
class Surroundings:
    """What is known of the container around the gateway, whether or not the gateway runs."""

    id: str = ""  # of the container that the living gateway is in, unless it is ours, too
    tool: str = ""  # docker or podman, by its cgroup
    signs: bool = False  # the home shows that its gateway runs in some container
    last_id: str = ""  # of the container that we last saw the gateway in
    last_name: str = ""  # its name at that time: what an engine that is down cannot tell
    containers: tuple[Container, ...] = ()
    troubles: tuple[Reason, ...] = ()  # why an engine gave no answer
    service: Service | None = None
    neighbours: tuple[str, ...] = ()  # what else runs in the container
    contained: bool = False  # we are in a container ourselves, where paths of the host mean nothing
    host_home: str = ""  # what the home is called on the host, when the engine shows us our own container
    inner_home: str = ""  # what the gateway last called its home
    other_namespace: bool = False  # the gateway is in a container that we do not recognise
    shares_pids: bool = False  # we are in its pid namespace: numbers here are those inside

    def candidates(self, home: str) -> tuple[Container, ...]:
        """The containers that may run the gateway of this home when it does not live: the one it was last
        seen in, else those that have the home as a volume, in the place where the gateway knows it.
        """
        if last := tuple(box for box in self.containers if box.id == self.last_id):
            return last
        folder = self.host_home or home
        boxes = tuple(box for box in self.containers if box.has(folder, self.inner_home, writable=True))
        # A dashboard often has the same volume; its command tells it from the gateway.
        running = tuple(box for box in boxes if box.runs_gateway)
        return running if len(running) == 1 else boxes


@dataclass(frozen=True)
class HostFacts:
    """What was measured about this machine and this home."""

    home: str
    uid: int
    user: str
    owner: str = ""  # of the home
    owner_uid: int = 0
    pid: int = 0  # of the gateway, 0 when none runs
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

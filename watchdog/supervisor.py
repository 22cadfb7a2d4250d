"""What runs the gateway of this home, and by which exact commands it is stopped and started: found, never assumed.

Everything here decides from measured facts and touches nothing; surroundings.py measures.
"""

from __future__ import annotations

import re
from datetime import timedelta

from watchdog.startcommand import gateway_command
from watchdog.unitfiles import is_ours, runs_gateway
from watchdog.values import dataclass, replace

SYSTEM, USER, CONTAINER, LAUNCHD, PROCESS, UNKNOWN = "systemd", "systemd user", "container", "launchd", "process", "unknown"
_UNIT = re.compile(r"[A-Za-z0-9:_.@-]{1,200}\.service")
_CONTAINER = re.compile(r"(?:^|/)(?:(docker|libpod|crio)-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)")


@dataclass(frozen=True)
class Unit:
    """One systemd unit as `systemctl show` tells it."""

    name: str
    scope: str  # SYSTEM or USER
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
    id: str
    name: str
    tool: str  # docker or podman
    sources: tuple[str, ...] = ()  # folders of the host that it mounts
    stop_timeout: timedelta | None = None


@dataclass(frozen=True)
class Facts:
    """What was measured about this machine and this home."""

    home: str
    uid: int
    user: str
    owner: str = ""  # of the home
    owner_uid: int = 0
    pid: int = 0  # of the gateway, 0 when none lives
    pid_uid: int = 0
    cgroup: str = ""  # /proc/PID/cgroup
    our_cgroup: str = ""
    units: tuple[Unit, ...] = ()
    containers: tuple[Container, ...] = ()
    agents: tuple[tuple[str, str], ...] = ()  # launchd: label, path of the plist that names this home
    bus: bool = True  # the owner's user bus is there
    systemctl: str = "/usr/bin/systemctl"
    argv: tuple[str, ...] = ()  # of the gateway: from its process, else from gateway.pid
    drain: timedelta | None = None
    chosen: str = ""  # unit named in settings.yaml
    inside: str = ""  # why we seem to run inside the gateway
    told_by: int | None = None  # owner of gateway.pid, which names the command of a gateway that does not run
    others: bool = False  # someone besides root could put another folder in the place of the home


@dataclass(frozen=True)
class Supervisor:
    """Who to talk to. A bare process has no commands: it is signalled and started by us."""

    kind: str
    unit: str = ""
    user: str = ""  # whose unit or process it is
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    may_act: bool = True
    why_not: str = ""
    sudoers_line: str = ""
    stop_timeout: timedelta | None = None
    drain: timedelta | None = None
    found: str = ""  # by what it was recognised
    argv: tuple[str, ...] = ()  # bare process: what to start
    uid: int | None = None  # bare process: whose it is; nothing else is signalled, and it is started as nobody else
    exit_status: int = 0  # of the last run, when systemd knows it
    warnings: tuple[str, ...] = ()

    @property
    def patience(self) -> timedelta:
        """How long a stop or restart may take before something is wrong: drain, stop time-out, and a minute."""
        known = (self.stop_timeout or timedelta(seconds=90)) + (self.drain or timedelta(0))
        return min(max(known + timedelta(minutes=1), timedelta(minutes=2)), timedelta(minutes=15))

    @property
    def name(self) -> str:
        return {
            SYSTEM: f"system unit {self.unit}",
            USER: f"user unit {self.unit} of {self.user}",
            CONTAINER: f"container {self.unit}",
            LAUNCHD: f"launchd job {self.unit}",
            PROCESS: "bare process",
        }.get(self.kind, "nothing that we know")


def decide(facts: Facts) -> Supervisor:
    """The supervisor of this gateway; when it cannot be told, why not and what to do."""
    found = _by_cgroup(facts) if facts.pid else None
    found = found or _by_name(facts)
    found = replace(found, drain=facts.drain)
    if facts.inside:
        found = replace(found, may_act=False, why_not=facts.inside)
    if found.stop_timeout and found.drain and found.stop_timeout < found.drain:
        told = (
            f"{found.name}: its stop time-out ({_spell(found.stop_timeout)}) is shorter than the gateway's drain "
            f"({_spell(found.drain)}): a stop cuts answers off; raise TimeoutStopSec"
        )
        found = replace(found, warnings=(*found.warnings, told))
    return found


def _by_cgroup(facts: Facts) -> Supervisor | None:
    paths = [line.split(":", 2)[-1] for line in facts.cgroup.splitlines() if line.count(":") >= 2]
    for path in paths:
        if inside := _CONTAINER.search(path):
            if path in {line.split(":", 2)[-1] for line in facts.our_cgroup.splitlines()}:
                return None  # the same container as ours: for us it is a process like any other
            known = next((one for one in facts.containers if one.id == inside[2]), None)
            if known and _mounts(known, facts.home):
                return _container(known, facts)
            name = known.name if known and known.name else inside[2][:12]
            why = f"gateway.pid names process {facts.pid} in container {name}, which does not mount {facts.home}; it is not touched"
            if not known:
                why = (
                    f"the gateway runs in container {name}, which neither docker nor podman shows us; "
                    "run the watchdog as a user who may use docker"
                )
            return Supervisor(CONTAINER, name, may_act=False, found="cgroup", why_not=why)
    for path in paths:
        names = [part for part in path.split("/") if part.endswith(".service") and not part.startswith("user@")]
        if not names:
            continue
        scope = USER if "/user@" in path else SYSTEM
        unit = next((one for one in facts.units if one.name == names[-1] and one.scope == scope), None)
        if unit and _is_its_unit(unit, facts):
            return _unit(unit, facts, "cgroup of the process")
        # Started from cron, ssh or a terminal service: that unit is not the gateway's, and is not ours to restart.
    return None


def _is_its_unit(unit: Unit, facts: Facts) -> bool:
    if is_ours(unit.command):
        return False  # our own service, whose home is called .hermes; a gateway that it started sits in its cgroup
    if unit.name == facts.chosen:
        return True
    # Whoever writes the home may write any pid into gateway.pid: another's process, or another program, is not its gateway.
    if facts.pid_uid != facts.owner_uid and unit.home != facts.home:
        return False
    by_name = "hermes" in (unit.command + unit.name).lower()
    return by_name or (unit.main_pid == facts.pid and bool(gateway_command(facts.argv)))


def _starts_a_gateway(unit: Unit) -> bool:
    """By its name or by its command: whoever wrote the unit may have called it anything."""
    return runs_gateway(unit.command) or ("hermes" in unit.name.lower() and not is_ours(unit.command))


def _mounts(box: Container, home: str) -> bool:
    return any(home == source or home.startswith(source.rstrip("/") + "/") for source in box.sources)


def _by_name(facts: Facts) -> Supervisor:
    if facts.chosen:
        named = [unit for unit in facts.units if unit.name in (facts.chosen, f"{facts.chosen}.service")]
        if not named:
            return Supervisor(
                UNKNOWN,
                may_act=False,
                why_not=f"settings name the unit '{facts.chosen}', which does not exist here; see systemctl list-unit-files 'hermes*'",
            )
        return _unit(named[0], facts, "settings")
    boxes = [box for box in facts.containers if facts.home in box.sources]
    units = [unit for unit in facts.units if unit.home == facts.home and _starts_a_gateway(unit)]
    if facts.pid and facts.cgroup and not boxes:
        # A living process whose cgroup names no unit was started by hand; a unit file that also exists would start a second one.
        return _process(facts, units)
    if len(boxes) + len(units) + len(facts.agents) > 1:
        names = ", ".join(
            [
                *(f"container {box.name}" for box in boxes),
                *(f"{unit.scope} unit {unit.name}" for unit in units),
                *(f"launchd {label}" for label, _ in facts.agents),
            ]
        )
        return Supervisor(
            UNKNOWN, may_act=False, why_not=f"more than one could run this gateway: {names}; name the right one in settings.yaml as 'unit:'"
        )
    if boxes:
        return _container(boxes[0], facts)
    if units:
        return _unit(units[0], facts, "the unit file names this home")
    if facts.agents:
        return _launchd(*facts.agents[0], facts)
    return _process(facts, ())


def _unit(unit: Unit, facts: Facts, found: str) -> Supervisor:
    if not _UNIT.fullmatch(unit.name):
        return Supervisor(UNKNOWN, may_act=False, why_not=f"the unit name {unit.name!r} is not one that we would put into a command")
    base: tuple[str, ...]
    may, why = True, ""
    if unit.scope == SYSTEM:
        base = (facts.systemctl,) if facts.uid == 0 else ("sudo", "-n", facts.systemctl)
    else:
        # cron gives neither variable; without them systemctl --user finds no bus.
        run = f"/run/user/{facts.owner_uid}"
        base = ("env", f"XDG_RUNTIME_DIR={run}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={run}/bus", facts.systemctl, "--user")
        if facts.uid == 0 and facts.owner_uid != 0:
            base = ("runuser", "-u", facts.owner, "--", *base)
        elif facts.uid != facts.owner_uid:
            may, why = False, f"user unit {unit.name} belongs to {facts.owner}, we are {facts.user}; run the watchdog as {facts.owner}"
        if may and not facts.bus:
            may, why = False, f"{facts.owner} has no user bus ({run}/bus); run once: sudo loginctl enable-linger {facts.owner}"
    return Supervisor(
        SYSTEM if unit.scope == SYSTEM else USER,
        unit.name,
        unit.user or facts.owner,
        (*base, "stop", unit.name),
        (*base, "start", unit.name),
        (*base, "restart", unit.name),
        may,
        why,
        stop_timeout=unit.stop_timeout,
        found=found,
        exit_status=unit.exit_status,
    )


def _container(box: Container, facts: Facts) -> Supervisor:
    wait = str(int((box.stop_timeout or facts.drain or timedelta(seconds=30)).total_seconds()) + 10)
    return Supervisor(
        CONTAINER,
        box.name or box.id[:12],
        facts.user,
        (box.tool, "stop", "--time", wait, box.id),
        (box.tool, "start", box.id),
        (box.tool, "restart", "--time", wait, box.id),
        stop_timeout=timedelta(seconds=int(wait)),
        found="the container mounts this home",
    )


def _launchd(label: str, plist: str, facts: Facts) -> Supervisor:
    domain = f"gui/{facts.owner_uid}"
    may = facts.uid in (0, facts.owner_uid)
    return Supervisor(
        LAUNCHD,
        label,
        facts.owner,
        ("launchctl", "bootout", f"{domain}/{label}"),
        ("launchctl", "bootstrap", domain, plist),
        ("launchctl", "kickstart", "-k", f"{domain}/{label}"),
        may,
        "" if may else f"launchd job {label} belongs to {facts.owner}; run the watchdog as {facts.owner}",
        found=plist,
    )


def _process(facts: Facts, units: object) -> Supervisor:
    if facts.pid == 1:
        return Supervisor(PROCESS, may_act=False, why_not="the gateway is process 1 of this container; restart the container from its host")
    if facts.pid and facts.uid not in (0, facts.pid_uid):
        return Supervisor(
            PROCESS,
            may_act=False,
            why_not=f"the gateway (pid {facts.pid}) runs as another user; run the watchdog as {facts.owner or 'that user'} or as root",
        )
    if strange := _not_theirs(facts):
        return Supervisor(PROCESS, may_act=False, why_not=strange)
    if not facts.pid and facts.uid not in (0, facts.owner_uid):
        return Supervisor(PROCESS, may_act=False, why_not=f"{facts.home} belongs to {facts.owner}; run the watchdog as {facts.owner}")
    command = gateway_command(facts.argv)
    if not command:
        return Supervisor(
            UNKNOWN,
            may_act=False,
            why_not=f"nothing tells how the gateway of {facts.home} is started: no unit or "
            "container names this home and gateway.pid holds no 'gateway run' command; start it once by hand",
        )
    told = (f"a unit for this home exists ({units[0].name}) but the gateway runs outside it",) if isinstance(units, list) and units else ()
    return Supervisor(PROCESS, "", facts.owner, found="gateway.pid", argv=command, uid=facts.owner_uid, warnings=told)


def _not_theirs(facts: Facts) -> str:
    """Why root must not act on what this gateway.pid says: whoever wrote it would act as somebody else through us."""
    if facts.uid != 0:
        return ""
    if facts.pid and facts.pid_uid != facts.owner_uid:
        return f"gateway.pid names process {facts.pid}, which does not belong to {facts.owner}, whose home this is; it is not touched"
    if not facts.pid and facts.told_by not in (None, facts.owner_uid):
        return f"gateway.pid does not belong to {facts.owner}, whose home this is; what it says is not started"
    if facts.owner_uid == 0 and facts.others:
        return f"{facts.home} belongs to root, but others can put something else in its place; nothing is started as root from there"
    return ""


def sudoers(user: str, supervisor: Supervisor) -> str:
    """The exact line that lets this user do exactly this, and nothing with a wildcard."""
    commands = [command[2:] for command in (supervisor.stop, supervisor.start, supervisor.restart) if command[:2] == ("sudo", "-n")]
    written = ", ".join(" ".join(re.sub(r"([,:=\\])", r"\\\1", word) for word in command) for command in commands)
    return f"{user} ALL=(root) NOPASSWD: {written}" if written else ""


def with_permission(found: Supervisor, user: str, refused: str) -> Supervisor:
    """The same supervisor, knowing that the host will not let us: told before anyone is asked."""
    if not refused or not found.may_act:
        return found
    line = sudoers(user, found)
    how = f"; add this line with visudo: {line}" if line and "not installed" not in refused else ""
    return replace(found, may_act=False, sudoers_line=line, why_not=f"{user} may not manage {found.name}: {refused}{how}")


def _spell(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"

"""Who runs the gateway of this home, and by which exact commands: decided from measured facts, nothing touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from watchdog.gateway.command import gateway_command
from watchdog.gateway.containers import engine_command
from watchdog.gateway.host_facts import Container, HostFacts, Service, Unit
from watchdog.gateway.loaded_units import user_systemctl
from watchdog.gateway.reasons import Found, MayNot, Name, Warn
from watchdog.gateway.supervisor import DOCKER, PODMAN, PROCESS, S6, SYSTEM, USER, Supervisor, unknown
from watchdog.gateway.unit_files import is_ours, runs_gateway
from watchdog.model import Reason
from watchdog.values import replace

_UNIT = re.compile(r"[A-Za-z0-9:_.@-]{1,200}\.service")


def recognise(facts: HostFacts) -> Supervisor:
    """The supervisor of this gateway; when it cannot be told, why not and what to do."""
    found = _by_cgroup(facts) if facts.pid else None
    found = replace(found or _by_name(facts), drain=facts.drain)
    if facts.inside:
        found = replace(found, may_act=False, why_not=facts.inside)
    if found.stop_timeout and found.drain and found.stop_timeout < found.drain:
        fields = {"name": found.name, "timeout": found.stop_timeout, "drain": found.drain}
        found = replace(found, warnings=(*found.warnings, Reason(Warn.STOP_TIMEOUT, fields)))
    return found


def _by_cgroup(facts: HostFacts) -> Supervisor | None:
    around = facts.around
    if around.id:
        box = next((box for box in around.containers if box.id == around.id), None)
        if box is None:
            return _hidden_container(facts)
        if not around.contained and not box.has(facts.home):
            fields = {"pid": facts.pid, "container": box.title, "home": facts.home}
            return unknown(Reason(MayNot.CONTAINER_OTHER, fields))
        return _container(box, facts, Reason(Found.CGROUP))
    if around.service:
        return _service(around.service, facts)
    for line in facts.cgroup.splitlines():
        path = line.split(":", 2)[-1]
        names = [
            part for part in path.split("/") if part.endswith(".service") and not part.startswith("user@")
        ]
        if not names:
            continue
        scope = USER if "/user@" in path else SYSTEM
        unit = next((unit for unit in facts.units if unit.name == names[-1] and unit.scope == scope), None)
        if unit and _is_its_unit(unit, facts) and (not around.other_namespace or _holds(unit, path, facts)):
            return _unit(unit, facts, Reason(Found.CGROUP))
        # Started from cron, ssh or a terminal service: that unit is not the gateway's, and is not ours to
        # restart.
    if around.other_namespace:
        # Of an engine that we do not know: its program and its paths mean nothing here.
        return unknown(Reason(MayNot.OTHER_NAMESPACE, {"pid": facts.pid}))
    return None


def _holds(unit: Unit, path: str, facts: HostFacts) -> bool:
    """Whether a process of another namespace is this unit's: a machine in a container may have one of that name.

    podman below a unit of systemd puts the container into the unit's own cgroup.
    """
    return unit.main_pid == facts.pid or "/libpod-payload-" in path


def _is_its_unit(unit: Unit, facts: HostFacts) -> bool:
    if is_ours(unit.command):
        # our own service, whose home is called .hermes; a gateway that it started sits in its cgroup
        return False
    if unit.name == facts.chosen:
        return True
    # Who may write the home may write any pid into gateway.pid: another's process, or another program, is
    # not its gateway.
    if facts.pid_uid != facts.owner_uid and unit.home != facts.home:
        return False
    by_name = "hermes" in (unit.command + unit.name).lower()
    return by_name or (unit.main_pid == facts.pid and bool(gateway_command(facts.argv)))


def _starts_a_gateway(unit: Unit) -> bool:
    """By its name or by its command: a unit may have any name."""
    return runs_gateway(unit.command) or ("hermes" in unit.name.lower() and not is_ours(unit.command))


def _by_name(facts: HostFacts) -> Supervisor:
    if facts.chosen:
        return _chosen(facts)
    units = [unit for unit in facts.units if unit.home == facts.home and _starts_a_gateway(unit)]
    boxes = facts.around.candidates(facts.home)
    last = [box for box in boxes if box.id == facts.around.last_id]
    found = Reason(Found.LAST_LIFE if last else Found.MOUNT)
    if facts.pid and facts.cgroup:
        # A living process whose cgroup names neither unit nor container was started by a person; a unit file that
        # also exists would start a second one.
        return _process(facts, units)
    if len(boxes) + len(units) > 1:
        names = (
            *(Reason(Name.CONTAINER, {"container": box.title}) for box in boxes),
            *(_unit(unit, facts, found).name for unit in units),
        )
        return unknown(Reason(MayNot.SEVERAL, {"names": names}))
    if boxes:
        return _container(boxes[0], facts, found)
    if units:
        return _unit(units[0], facts, Reason(Found.UNIT_FILE))
    if facts.around.signs and not facts.pid:
        # Its program and its paths are those of a container: nothing of them is started here.
        return unknown(_no_container(facts))
    return _process(facts, ())


def _chosen(facts: HostFacts) -> Supervisor:
    """What settings.yaml names: a unit, or a container."""
    for unit in facts.units:
        if unit.name in (facts.chosen, f"{facts.chosen}.service"):
            return _unit(unit, facts, Reason(Found.SETTINGS))
    for box in facts.around.containers:
        if box.name == facts.chosen:
            return _container(box, facts, Reason(Found.SETTINGS))
    if facts.around.troubles and facts.around.signs:
        return unknown(facts.around.troubles[0])
    return unknown(Reason(MayNot.NO_SUCH_UNIT, {"unit": facts.chosen}))


# -- containers ------------------------------------------------------------------------------------------------------------


def _no_container(facts: HostFacts) -> Reason:
    around = facts.around
    if around.troubles and around.last_id:
        trouble = around.troubles[0]
        fields = {"container": _titled(around.last_name, around.last_id), "id": around.last_id[:12]}
        return Reason(MayNot.CONTAINER_DOWN, {**fields, "tool": trouble.fields["tool"], "why": trouble})
    if around.troubles:
        return around.troubles[0]
    return Reason(MayNot.CONTAINER_UNKNOWN, {"home": facts.home, "inside": around.inner_home or "/opt/data"})


def _titled(name: str, container_id: str) -> str:
    return f"{name} ({container_id[:12]})" if name else container_id[:12]


def _hidden_container(facts: HostFacts) -> Supervisor:
    """The gateway lives in a container that no engine shows us."""
    around, short_id = facts.around, facts.around.id[:12]
    title = around.last_name or short_id
    known = Supervisor(
        PODMAN if around.tool == "podman" else DOCKER,
        title,
        found=Reason(Found.CGROUP),
        container=title,
        container_id=around.id,
        shares_pids=around.shares_pids,
    )
    if around.service and facts.uid in (0, facts.pid_uid) and facts.pid_uid == facts.owner_uid:
        notes = (Reason(Warn.LEFT_ALONE, {"names": around.neighbours}),) if around.neighbours else ()
        return replace(
            known, kind=S6, unit=around.service.name, uid=facts.owner_uid, by_signal=True, notes=notes
        )
    fields = {
        "container": _titled(around.last_name, around.id),
        "command": f"{around.tool} restart {short_id}",
    }
    own = Reason(MayNot.ENGINE_OTHER, {"tool": around.tool, "owner": facts.owner})
    why = around.troubles[0] if around.troubles else own
    return replace(known, may_act=False, why_not=Reason(MayNot.CONTAINER_HIDDEN, {**fields, "why": why}))


def _container(box: Container, facts: HostFacts, found: Reason) -> Supervisor:
    around, name = facts.around, box.title
    engine = engine_command(box.tool)
    patience = max(filter(None, (box.stop_timeout, facts.drain)), default=timedelta(seconds=30))
    wait = int(patience.total_seconds()) + 10
    ended = box.out_of_memory and not facts.pid
    known = Supervisor(
        PODMAN if box.tool == "podman" else DOCKER,
        name,
        facts.user,
        found=found,
        container=name,
        container_id=box.id,
        shares_pids=around.shares_pids,
        stop_timeout=timedelta(seconds=wait),
        warnings=(Reason(Warn.OUT_OF_MEMORY, {"container": name}),) if ended else (),
        notes=_container_notes(box, facts),
    )
    if box.paused:
        fields = {"container": name, "command": " ".join((*engine, "unpause", box.address))}
        return replace(known, may_act=False, why_not=Reason(MayNot.CONTAINER_PAUSED, fields))
    if around.service and box.running:
        return _service(around.service, facts, known, (*engine, "exec", box.address))
    if box.manager:
        if unit := next((unit for unit in facts.units if unit.name == box.manager), None):
            return replace(_unit(unit, facts, found), container=name, container_id=box.id)
        fields = {"container": name, "manager": box.manager}
        return replace(known, may_act=False, why_not=Reason(MayNot.CONTAINER_MANAGED, fields))
    restart = (*engine, "restart", "-t", str(wait), box.address)
    also = (Reason(Warn.ALSO_RESTARTED, {"container": name, "names": around.neighbours}),)
    return replace(
        known,
        stop=(*engine, "stop", "-t", str(wait), box.address),
        # Starting a container that runs already changes nothing.
        start=restart if box.running and not facts.pid else (*engine, "start", box.address),
        restart=restart,
        stop_deletes=box.auto_remove,
        notes=(*known.notes, *also) if around.neighbours else known.notes,
    )


def _container_notes(box: Container, facts: HostFacts) -> tuple[Reason, ...]:
    """Other containers on the same home, and that this one is another than before."""
    around, last_id = facts.around, facts.around.last_id
    others = [other for other in around.containers if other.id != box.id]
    sharing = tuple(other.title for other in others if other.has(facts.home, writable=True))
    anew = last_id and last_id not in {other.id for other in around.containers}
    return (
        *((Reason(Warn.SHARED_HOME, {"names": sharing}),) if sharing else ()),
        *((Reason(Warn.NEW_CONTAINER, {"id": last_id[:12], "container": box.title}),) if anew else ()),
    )


def _service(
    service: Service, facts: HostFacts, known: Supervisor | None = None, prefix: Sequence[str] = ()
) -> Supervisor:
    """One service of s6; `prefix` runs a command inside its container, `known` is what runs that."""
    base = known or Supervisor(S6, user=facts.user, found=Reason(Found.PARENT))
    program, names = f"{service.tools}/s6-svc", facts.around.neighbours
    commands = {flag: (*prefix, program, flag, service.folder) for flag in ("-d", "-u", "-r", "-k")}
    return replace(
        base,
        kind=S6,
        unit=service.name,
        stop=commands["-d"],
        start=commands["-u"],
        restart=commands["-r"],
        kill=commands["-k"],
        notes=(*base.notes, Reason(Warn.LEFT_ALONE, {"names": names})) if names else base.notes,
    )


# -- units and processes ---------------------------------------------------------------------------------------------------


def _unit(unit: Unit, facts: HostFacts, found: Reason) -> Supervisor:
    if not _UNIT.fullmatch(unit.name):
        return unknown(Reason(MayNot.UNIT_NAME, {"unit": unit.name}))
    base: tuple[str, ...]
    why: Reason | None = None
    if unit.scope == SYSTEM:
        base = (facts.systemctl,) if facts.uid == 0 else ("sudo", "-n", facts.systemctl)
    else:
        as_owner = facts.owner if facts.uid == 0 and facts.owner_uid != 0 else ""
        base = user_systemctl(facts.systemctl, facts.owner_uid, as_owner)
        if not as_owner and facts.uid != facts.owner_uid:
            fields = {"unit": unit.name, "owner": facts.owner, "user": facts.user}
            why = Reason(MayNot.UNIT_OF_OTHER, fields)
        elif not facts.bus:
            bus = f"/run/user/{facts.owner_uid}/bus"
            why = Reason(MayNot.NO_USER_BUS, {"owner": facts.owner, "path": bus})
    return Supervisor(
        unit.scope,
        unit.name,
        unit.user or facts.owner,
        (*base, "stop", unit.name),
        (*base, "start", unit.name),
        (*base, "restart", unit.name),
        why is None,
        why,
        stop_timeout=unit.stop_timeout,
        found=found,
        exit_status=unit.exit_status,
    )


def _process(facts: HostFacts, units: Sequence[Unit]) -> Supervisor:
    if why := _not_to_touch(facts):
        return Supervisor(PROCESS, may_act=False, why_not=why)
    command = gateway_command(facts.argv)
    if not command:
        return unknown(Reason(MayNot.HOW_UNKNOWN, {"home": facts.home}))
    if facts.sandboxed:
        return Supervisor(PROCESS, may_act=False, why_not=Reason(MayNot.LOCKED_UP))
    return Supervisor(
        PROCESS,
        "",
        facts.owner,
        found=Reason(Found.PID_FILE),
        argv=command,
        uid=facts.owner_uid,
        warnings=tuple(Reason(Warn.OUTSIDE_UNIT, {"unit": unit.name}) for unit in units[:1]),
    )


def _not_to_touch(facts: HostFacts) -> Reason | None:
    """Why this process is not signalled, or not started, by us."""
    pid, home, owner = facts.pid, facts.home, facts.owner
    if pid == 1:
        return Reason(MayNot.FIRST_PROCESS)
    if pid and facts.uid not in (0, facts.pid_uid):
        return Reason(MayNot.PROCESS_OF_OTHER, {"pid": pid, "owner": owner or "that user"})
    # Root must not act on this gateway.pid when its writer could act as another user through us.
    if facts.uid == 0 and pid and facts.pid_uid != facts.owner_uid:
        return Reason(MayNot.PID_OF_OTHER, {"pid": pid, "owner": owner})
    if facts.uid == 0 and not pid and facts.told_by not in (None, facts.owner_uid):
        return Reason(MayNot.PID_FILE_OF_OTHER, {"owner": owner})
    if facts.uid == facts.owner_uid == 0 and facts.program_of_others:
        return Reason(MayNot.PROGRAM_OF_OTHERS, {"program": facts.argv[0]})
    if facts.uid == facts.owner_uid == 0 and facts.others:
        return Reason(MayNot.HOME_OF_OTHERS, {"home": home})
    if not pid and facts.uid not in (0, facts.owner_uid):
        return Reason(MayNot.HOME_OF_OTHER, {"home": home, "owner": owner})
    return None

"""How a home is right now, as one traffic light: what is known, what it means, and all of it for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from watchdog.model import Incident, Plan, Reason
from watchdog.notify.translate import in_english
from watchdog.plan.limits import Disarmed
from watchdog.reports.language import Reader
from watchdog.store.messages import Silence
from watchdog.store.plans import Stored
from watchdog.text import clock, harmless, iso, picked, size

SERIOUS = ("critical", "high")
OLD_BACKUP = timedelta(days=3)


class Light(StrEnum):
    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"


class Key(StrEnum):
    """Why the light is not green."""

    STORE = "status.why.store"
    FAILED = "status.why.failed"
    INTERRUPTED = "status.why.interrupted"
    OPEN = "status.why.open"
    ASKED = "status.why.asked"
    HELD = "status.why.held"
    DISARMED = "status.why.disarmed"
    MAINTENANCE = "status.why.maintenance"
    BLIND = "status.why.blind"
    EDIT = "status.why.edit"
    NO_SCHEDULE = "status.why.no-schedule"
    NO_CRON = "status.why.no-cron"
    NO_CHECK = "status.why.no-check"
    LATE = "status.why.late"
    GATEWAY_DOWN = "status.why.gateway-down"
    GATEWAY_HIDDEN = "status.why.gateway-hidden"
    DISK = "status.why.disk"
    BACKUP = "status.why.backup"


@dataclass(frozen=True)
class Signal:
    """One reason for the colour of the light."""

    light: Light
    why: Reason


@dataclass(frozen=True)
class GatewaySeen:
    """The gateway's process, and what runs it."""

    alive: bool | None = None  # None: that cannot be told
    pid: int = 0
    since: datetime | None = None
    where: Reason | None = None  # what runs it: "system unit hermes-gateway.service"
    container: str = ""  # that it is in
    place: Reason | None = (
        None  # in which container, with its process: "hermes-gateway (process 4711 outside)"
    )
    unseen: str = ""  # why that cannot be told


@dataclass(frozen=True)
class LastAnswer:
    """The last chat that got an answer."""

    at: datetime
    platform: str
    chat: str


@dataclass(frozen=True)
class BackupAge:
    """The newest verified backup of one database."""

    database: str
    at: datetime | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Status:
    """Everything that `status` knows; gathered by service.status, which touches nothing."""

    home: str
    now: datetime
    gateway: GatewaySeen | None = None  # None: not looked at
    answer: LastAnswer | None = None
    last: datetime | None = None
    next: datetime | None = None
    schedule: Reason | None = None  # what makes checks happen
    late: bool = False  # the schedule should have made one by now
    at_work: str = ""
    open: tuple[Incident, ...] = ()
    suspected: int = 0
    asked: tuple[Stored, ...] = ()
    unasked: tuple[Plan, ...] = ()  # plans that wait for something, or for the next check
    interrupted: tuple[int, ...] = ()
    disarmed: Disarmed | None = None
    maintenance: Silence | None = None
    silences: tuple[Silence, ...] = ()
    blind: tuple[tuple[str, str], ...] = ()
    free: int | None = None  # bytes, on the home's volume
    low_disk: bool = False
    backups: tuple[BackupAge, ...] = ()
    expects_backups: bool = False
    problem: str = ""  # with an edit of the files that the daemon does not use
    last_error: str = ""
    store_error: str = ""

    @property
    def light(self) -> Light:
        lights = {signal.light for signal in signals(self)}
        return Light.RED if Light.RED in lights else Light.YELLOW if lights else Light.GREEN

    @property
    def held(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self.unasked if plan.hold)


def signals(status: Status) -> list[Signal]:
    """Every reason why the light is not green, the worst first."""
    return [*_red(status), *_yellow(status)]


def _red(status: Status) -> Iterator[Signal]:
    if status.store_error:
        yield Signal(Light.RED, Reason(Key.STORE, {"why": status.store_error}))
    serious = [incident for incident in status.open if incident.severity in SERIOUS]
    if serious:
        first = serious[0]
        yield Signal(Light.RED, Reason(Key.OPEN, {"count": len(serious), "incident": first}))
    if status.interrupted:
        yield Signal(Light.RED, Reason(Key.INTERRUPTED, {"plan": status.interrupted[0]}))
    if status.last_error:
        yield Signal(Light.RED, Reason(Key.FAILED, {"why": harmless(status.last_error, 200)}))


def _yellow(status: Status) -> Iterator[Signal]:
    def signal(key: Key, **fields: Any) -> Signal:
        return Signal(Light.YELLOW, Reason(key, fields))

    gateway = status.gateway
    if gateway is not None and gateway.alive is False:
        yield signal(Key.GATEWAY_DOWN)
    if gateway is not None and gateway.alive is None:
        yield signal(Key.GATEWAY_HIDDEN)
    minor = [incident for incident in status.open if incident.severity not in SERIOUS]
    if minor:
        yield signal(Key.OPEN, count=len(minor), incident=minor[0])
    if status.asked:
        yield signal(Key.ASKED, plan=status.asked[0].id, until=clock(status.asked[0].expires_at))
    if status.held:
        yield signal(Key.HELD, count=len(status.held))
    if status.disarmed:
        yield signal(Key.DISARMED, why=status.disarmed.why)
    if status.maintenance:
        yield signal(Key.MAINTENANCE, until=clock(status.maintenance.until))
    if status.blind:
        yield signal(Key.BLIND, names=tuple(source for source, _ in status.blind))
    if status.problem:
        yield signal(Key.EDIT)
    if status.last is None and not status.store_error:
        yield signal(Key.NO_CHECK)
    elif status.late and status.last is not None:
        yield signal(Key.LATE, span=status.now - status.last)
    if status.schedule is None and (status.last is None or status.late):
        yield signal(Key.NO_SCHEDULE)
    if status.schedule is not None and status.schedule.key == "schedule.no-cron":
        yield signal(Key.NO_CRON)
    if status.low_disk and status.free is not None:
        yield signal(Key.DISK, size=size(status.free))
    if status.expects_backups and (old := _old_backups(status)):
        yield signal(Key.BACKUP, names=tuple(old))


def _old_backups(status: Status) -> list[str]:
    return [
        backup.database
        for backup in status.backups
        if backup.at is not None and status.now - backup.at > OLD_BACKUP
    ]


def sentence_of(signal: Signal, reader: Reader) -> str:
    """What a signal says to this reader."""
    fields = dict(signal.why.fields)
    incident = fields.pop("incident", None)
    if incident is not None:
        fields["what"] = reader.says(incident)
    return reader.reason(Reason(signal.why.key, fields))


def headline(status: Status, reader: Reader) -> str:
    """The one sentence beside the light."""
    found = signals(status)
    return sentence_of(found[0], reader) if found else reader("status.well")


def as_json(status: Status, reader: Reader) -> dict[str, Any]:
    """Everything that `status` knows; sentences in the reader's language."""
    seen, off = status.gateway, status.disarmed
    return {
        "home": status.home,
        "now": iso(status.now),
        "light": str(status.light),
        "reasons": [
            {
                "light": str(signal.light),
                "key": str(signal.why.key).rpartition(".")[2],
                "says": sentence_of(signal, reader),
            }
            for signal in signals(status)
        ],
        "gateway": _gateway_json(seen, reader) if seen else None,
        "last_answer": picked(status.answer, "at platform chat") if status.answer else None,
        "runs_by": in_english(status.schedule) or None,
        "last_check": iso(status.last),
        "next_check": iso(status.next),
        "at_work": status.at_work or None,
        "armed": status.disarmed is None,
        "disarmed": off and {**picked(off, "at by"), "why": reader.reason(off.why)},
        "maintenance": picked(status.maintenance, _SILENCE) if status.maintenance else None,
        "silences": [picked(silence, _SILENCE) for silence in status.silences],
        "blind": dict(status.blind),
        "open": [
            picked(incident, "id severity rule key")
            | {"says": reader.says(incident), "since": iso(incident.opened_at)}
            for incident in status.open
        ],
        "suspected": status.suspected,
        "plans_waiting": [stored.id for stored in status.asked],
        "plans_on_hold": [
            {
                "title": plan.title,
                "reason": reader.reason(plan.hold.reason),
                **picked(plan.hold, "until"),
                **picked(plan, "recipes"),
            }
            for plan in status.held
            if plan.hold
        ],
        "plans_ready": [picked(plan, "title recipes") for plan in status.unasked if not plan.hold],
        "plans_cut_off": list(status.interrupted),
        "disk_free": status.free,
        "backups": [picked(backup, "database at rows") for backup in status.backups],
        "config_problem": status.problem or None,
        "last_error": status.last_error or None,
        "store_error": status.store_error or None,
    }


_SILENCE = "id what until because by"


def _gateway_json(seen: GatewaySeen, reader: Reader) -> dict[str, Any]:
    state = {True: "running", False: "not running", None: "unknown"}[seen.alive]
    where, container = reader.reason(seen.where) or None, seen.container or None
    since = iso(seen.since)
    return {"state": state, "pid": seen.pid or None, "since": since, "where": where, "container": container}

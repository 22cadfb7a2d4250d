"""A machine that does not exist: a gateway, a systemd, a clock. Nothing sleeps, nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from homes import BOOK

from watchdog import pipeline
from watchdog.config.rulebook import Rulebook
from watchdog.config.settings import Limits, Settings
from watchdog.gateway.host_facts import HostFacts
from watchdog.gateway.machine import GatewayProcess
from watchdog.gateway.machine import Machine as RealMachine
from watchdog.gateway.supervisor import SYSTEM, Supervisor
from watchdog.job import Run
from watchdog.model import Incident, Outcome, Plan, Reason, Recipe, plain
from watchdog.notify.translate import in_english
from watchdog.repair import Look, RepairJob
from watchdog.sources.read import Sources
from watchdog.steps import KINDS
from watchdog.store import Store
from watchdog.system.commands import Ran

START = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
SYSTEMCTL = "/usr/bin/systemctl"
HOME = "/home/hermes/.hermes"
ARGV = ("/opt/hermes/venv/bin/hermes", "gateway", "run")
# What root measures of a gateway that nothing supervises.
ROOT_FACTS = HostFacts(
    HOME,
    0,
    "root",
    "hermes",
    1000,
    pid=812,
    pid_uid=1000,
    cgroup="0::/user.slice/session-3.scope\n",
    argv=ARGV,
)
RULES = Path(__file__).parent.parent / "rules"


def shipped() -> dict[str, Recipe]:
    return dict(BOOK.recipes)


def run_of(book: Rulebook, store: Store | None, now: datetime, sources: Sources | None = None) -> Run:
    """One run with the default settings; of a home that is not there unless its sources are given."""
    sources = sources or Sources(Path("/nowhere"), zone=UTC, stated="running")
    return Run(book, sources, Settings(backups=False), store, now, book.rules)


def propose(
    machine: Machine, store: Store | None, world: RealMachine | None = None, now: datetime | None = None
) -> tuple[Plan, ...]:
    """The plans for what is wrong with the machine, as a check makes them."""
    run = run_of(machine.book, store, now or machine.now)
    return pipeline.propose(machine.wrong, machine.not_checked, run, world or machine.world())


def ask(
    machine: Machine, store: Store, world: RealMachine | None = None, now: datetime | None = None
) -> tuple[Plan, ...]:
    """The same, recorded, so that people may be asked."""
    run = run_of(machine.book, store, now or machine.now)
    return pipeline.ask(machine.wrong, machine.not_checked, run, world or machine.world())


class HasReason(Protocol):
    @property
    def reason(self) -> Reason | None: ...


def said(told: HasReason) -> str:
    """The English sentence of an outcome, an answer or a stored plan."""
    return in_english(told.reason)


def waits_for(plan: Plan) -> str:
    """Why a plan waits, in English; '' when it does not."""
    return in_english(plan.hold.reason) if plan.hold else ""


def book(recipes: Mapping[str, Recipe] | None = None) -> Rulebook:
    """The shipped rules, with these recipes."""
    return Rulebook(BOOK.rules, shipped() if recipes is None else recipes)


@dataclass
class Machine:
    """Time passes only when something waits; every command is written down in `ran`."""

    folder: Path
    now: datetime = START
    limits: Limits = field(default_factory=Limits)
    alive: bool = True
    pid: int = 800
    turns: int = 0
    hung: int = 0  # of these
    ran: list[tuple[str, ...]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)  # verb -> exit code of systemctl
    lives_after_start: bool = True
    connected: tuple[str, ...] | None = None  # platforms
    connects_after_start: tuple[str, ...] | None = None
    may_act: bool = True
    why_not: str = ""
    wrong: list[Incident] = field(default_factory=list)  # what a look would find
    cured_by: Callable[[Machine], bool] | None = None
    recipes: Mapping[str, Recipe] = field(default_factory=shipped)
    not_checked: dict[str, str] = field(default_factory=dict)
    off: dict[str, str] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    kinds: Mapping[str, Any] = field(default_factory=lambda: KINDS)  # of steps
    starts: list[datetime] = field(default_factory=list)

    @property
    def book(self) -> Rulebook:
        return book(self.recipes)

    def clock(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run(self, argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran:
        self.ran.append(tuple(argv))
        self.now += timedelta(seconds=2)
        verb = argv[1] if argv[0] == SYSTEMCTL else ""
        if code := self.codes.get(verb or argv[0], 0):
            return Ran(code, "Failed to do that")
        if verb in ("stop", "restart"):
            self.alive = False
        if verb in ("start", "restart"):
            self.alive, self.pid = self.lives_after_start, self.pid + 1
            self.starts.append(self.now)
            self.connected = self.connects_after_start
        return Ran(0, "")

    def gateway(self) -> GatewayProcess:
        return GatewayProcess(
            self.alive,
            self.pid if self.alive else 0,
            self.pid * 10 if self.alive else 0,
            (),
            self.turns,
            None,
            None,
            connected=self.connected,
        )

    def world(self) -> RealMachine:
        unit = "hermes-gateway.service"
        who = Supervisor(
            SYSTEM,
            unit,
            "hermes",
            *((SYSTEMCTL, verb, unit) for verb in ("stop", "start", "restart")),
            may_act=self.may_act,
            why_not=plain(self.why_not),
        )
        return RealMachine(
            self.folder,
            self.folder / "state",
            who,
            self.gateway(),
            self.limits,
            "lab",
            "root",
            10**12,
            tuple(self.starts[-5:]),
            self.run,
            self.clock,
            self.sleep,
            self.gateway,
            hung=self.hung,
        )

    def job(self, store: Store, world: RealMachine | None = None, **more: Any) -> RepairJob:
        """What carrying out a plan on this machine works with."""
        return RepairJob(
            store, world or self.world(), **{"look_again": self.look_again, "kinds": self.kinds, **more}
        )

    def does(self, kind: str, run: Callable[..., Outcome]) -> None:
        """From now on, steps of this kind are done by this function."""
        self.kinds = {**self.kinds, kind: SimpleNamespace(**{**vars(KINDS[kind]), "run": run})}

    def look_again(self, since: datetime | None) -> Look:
        wrong = [] if self.cured_by and self.cured_by(self) else self.wrong
        if since is not None:  # only what happened after it: a dead gateway is, a stuck chat is not
            wrong = [
                one for one in wrong if one.rule not in ("session-stuck", "crash-loop") or not self.alive
            ]
        return Look(tuple(wrong), self.book, self.not_checked, off=self.off, unsure=self.unsure)

    def restarted(self) -> bool:
        return any(argv[1] in ("start", "restart") for argv in self.ran if argv[0] == SYSTEMCTL)

    def verbs(self) -> list[str]:
        return [argv[1] for argv in self.ran if argv[0] == SYSTEMCTL]


def incident(
    rule: str = "session-stuck",
    key: str = "telegram/42",
    recipe: str | None = "restart-gateway",
    at: datetime = START,
    status: str = "open",
    **more: object,
) -> Incident:
    plain = Incident(
        1,
        rule,
        key,
        "high",
        status,
        rule.replace("-", " "),
        f"{rule} of {key}",
        at - timedelta(minutes=20),
        at,
        at,
        recipe=recipe,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


STUCK = incident()
DEAD = incident("gateway-down", "gateway", "start-gateway")
BROKEN = incident("database-broken", "state.db", "heal-database", facts={"database": "state.db"})
LACKING = incident(
    "missing-column",
    "kanban.db",
    "add-missing-columns",
    facts={"database": "kanban.db", "columns": "tasks.session_id TEXT"},
)
LOOP = incident("crash-loop", "gateway", "stop-crash-loop")

"""Which changes deserve a message, and why: a pure decision from what is seen and what was said before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from watchdog.model import SEVERITIES, Hold, Notice, Outcome, Plan
from watchdog.targets import QuietHours
from watchdog.text import UNVERIFIED
from watchdog.values import dataclass, replace

FLAPPING = timedelta(hours=6)  # three times within this is coming and going
CALM = timedelta(hours=1)  # this long without it, and it is over
HOUR = timedelta(hours=1)
ASKS = ("approval needed", "reminder")
OUTCOMES = ("healed by us", "not verified", "not healed")
RESERVED = 2  # of the messages an hour, kept for what is critical or asks


@dataclass(frozen=True)
class Thing:
    """Something a person may want to hear of: an incident, a blind source, a target that fails."""

    ref: str  # "incident 12", "blind gateway.log"
    rule: str
    key: str
    severity: str
    title: str
    says: str
    since: datetime
    over_at: datetime | None = None
    incident: int = 0
    advice: str = ""
    quotes: tuple[str, ...] = ()  # log lines, shown only when the settings say so

    @property
    def name(self) -> str:
        return f"{self.rule} {self.key}".strip()


@dataclass(frozen=True)
class Told:
    """What has been said about one thing so far."""

    thing: Thing
    at: datetime | None = None
    told_as: str = ""
    severity: str = ""
    settled_at: datetime | None = None
    times: int = 0  # how often it was told as news: a fault that comes back keeps its row


@dataclass(frozen=True)
class Silence:
    """Something nobody wants to hear of for a while; `*` is everything: maintenance."""

    id: int
    what: str
    until: datetime
    because: str
    by: str
    at: datetime

    def covers(self, thing: Thing) -> bool:
        return self.what in ("*", thing.rule, thing.key, thing.name)


@dataclass(frozen=True)
class Case:
    """A plan with the question it needs, or the outcome it had."""

    plan: Plan
    ask: bool = False  # it needs a person's leave and nobody has been asked yet
    remind: bool = False  # half of the time has passed without an answer
    outcomes: tuple[Outcome, ...] = ()
    answer: str = ""  # "approved by anna via ntfy at 08:51"
    severity: str = ""  # when the things themselves are no longer known
    left: str = ""  # of the time to answer, in words


@dataclass(frozen=True)
class Restraint:
    """What keeps a phone quiet."""

    per_hour: int = 6
    quiet: QuietHours | None = None


@dataclass(frozen=True)
class Memory:
    """What was said before this check."""

    told: tuple[Told, ...] = ()
    sent: tuple[tuple[datetime, str], ...] = ()  # time and reason of each message of the last hour
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True)
class Choice:
    """One message with the things it is about, or the reason why it has to wait."""

    reason: str
    things: tuple[Thing, ...]
    severity: str
    case: Case | None = None
    hold: Hold | None = None
    parts: tuple[Choice, ...] = ()  # of a digest
    again: int = 0  # how often it came before
    owed: bool = False  # held back, to be told later; otherwise its silence is wished for


def choose_notices(
    things: Sequence[Thing], cases: Sequence[Case], memory: Memory, restraint: Restraint, now: datetime
) -> tuple[Choice, ...]:
    """Each change as one message, grouped by case; what must wait carries its reason."""
    told = {entry.thing.ref: entry for entry in memory.told}
    wanted: list[Choice] = []
    held: list[Choice] = []
    left: list[Thing] = []
    for thing in things:
        if silence := next((silence for silence in memory.silences if silence.covers(thing)), None):
            held.append(Choice(_news(thing, told) or "silenced", (thing,), thing.severity, hold=_silenced(silence)))
        else:
            left.append(thing)
    for case in cases:
        own = [thing for thing in left if thing.name in case.plan.incidents]
        if choice := _about_case(case, own, things, told):
            # What everybody silenced is not asked about; an outcome is told all the same.
            if not own and not case.outcomes and any(thing.name in case.plan.incidents for thing in things):
                held.append(replace(choice, hold=Hold("everything it is about is silenced")))
                continue
            wanted.append(choice)
            left = [thing for thing in left if thing not in own]
    alone, restless = _grouped(left, told, memory, now)
    wanted += alone
    held += restless
    passed, waiting = _let_through(wanted, memory, restraint, now)
    return tuple(passed) + tuple(held) + tuple(waiting)


def notice_of(choice: Choice, title: str, body: str) -> Notice:
    """The value that is recorded and reported."""
    ids = tuple(dict.fromkeys(thing.incident for thing in choice.things if thing.incident))
    return Notice(choice.reason, title, body, choice.severity, ids, choice.case.plan.id if choice.case else 0)


def worst(severities: Iterable[str], default: str = "medium") -> str:
    known = [severity for severity in severities if severity in SEVERITIES]
    return max(known, key=SEVERITIES.index) if known else default


def _news(thing: Thing, told: Mapping[str, Told]) -> str:
    """Why one thing, taken alone, deserves words; empty when all was said."""
    entry = told.get(thing.ref)
    if thing.over_at is None:
        if entry is None or entry.at is None or entry.settled_at:
            return "first seen"  # or seen again, after its end was told
        if SEVERITIES.index(thing.severity) > SEVERITIES.index(entry.severity or thing.severity):
            return "worse"
        return ""
    if entry is None:
        return "passed"
    if entry.settled_at or thing.rule == "disarmed":
        return ""  # a person armed it again, and knows
    # Nobody was told while it lasted (quiet hours): one word that it was there.
    return "healed by itself" if entry.at else "passed"


def _about_case(case: Case, own: list[Thing], everything: Sequence[Thing], told: Mapping[str, Told]) -> Choice | None:
    about = tuple(own) or tuple(thing for thing in everything if thing.name in case.plan.incidents)
    severity = worst([thing.severity for thing in about] or [case.severity], "high")
    if case.outcomes:
        proven = f"; {UNVERIFIED}" not in case.outcomes[-1].says
        reason = "not healed" if not case.outcomes[-1].ok else "healed by us" if proven else "not verified"
        return Choice(reason, about, severity, case)
    if case.ask:
        return Choice("approval needed", about, severity, case)
    if case.remind:
        return Choice("reminder", about, severity, case)
    news = [reason for thing in own if (reason := _news(thing, told)) in ("first seen", "worse")]
    if not news:
        return None
    # A plan that must wait is part of the story: one message for the case, with the reason it waits.
    return Choice("worse" if "worse" in news and "first seen" not in news else "first seen", tuple(own), severity, case)


def _grouped(things: Sequence[Thing], told: Mapping[str, Told], memory: Memory, now: datetime) -> tuple[list[Choice], list[Choice]]:
    """Things without a plan: one message per reason, the gravest first; and those that come and go and were told so."""
    groups: dict[tuple[str, bool], list[Thing]] = {}
    alone: list[Choice] = []
    held: list[Choice] = []
    for thing in sorted(things, key=lambda thing: (-SEVERITIES.index(thing.severity), thing.since, thing.ref)):
        reason = _news(thing, told)
        same = [entry for entry in memory.told if entry.thing.name == thing.name]
        times = sum(entry.times for entry in same if entry.at and now - entry.at <= FLAPPING)
        flapping = next((entry for entry in same if entry.told_as == "flapping" and not entry.settled_at), None)
        if flapping and reason and reason != "worse":
            others = [entry.thing.over_at or entry.settled_at or now for entry in same if entry.thing.ref != thing.ref]
            last = max([*others, thing.over_at or now])
            if flapping.thing.ref == thing.ref and now - last >= CALM:
                alone.append(Choice("healed by itself", (thing,), thing.severity, again=max(times, 1)))
            else:
                hold = Hold("it comes and goes; told when it was calm for an hour", last + CALM)
                held.append(Choice(reason, (thing,), thing.severity, hold=hold))
        elif reason == "first seen" and times >= 2:
            alone.append(Choice("flapping", (thing,), thing.severity, again=times))
        elif reason == "first seen" and thing.rule in ("disarmed", "target"):
            alone.append(Choice(thing.rule, (thing,), thing.severity))
        elif reason == "first seen" and times:
            alone.append(Choice(reason, (thing,), thing.severity, again=times))
        elif reason:
            reason = "blind" if (reason, thing.rule) == ("first seen", "blind") else reason
            # What is critical goes alone: it passes where the others must wait.
            groups.setdefault((reason, thing.severity == "critical"), []).append(thing)
    for (reason, _), group in groups.items():
        alone.append(Choice(reason, tuple(group), worst(thing.severity for thing in group)))
    return alone, held


def _let_through(wanted: list[Choice], memory: Memory, restraint: Restraint, now: datetime) -> tuple[list[Choice], list[Choice]]:
    """Quiet hours, then the number an hour; what is too many becomes one digest."""
    passed: list[Choice] = []
    held: list[Choice] = []
    crowd: list[Choice] = []
    until = restraint.quiet.ends(now) if restraint.quiet else None
    recent = [(at, reason) for at, reason in memory.sent if now - at < HOUR]
    used = sum(reason != "digest" for _, reason in recent)
    # Healed and answered messages close a matter; the gravest news goes first.
    for choice in sorted(wanted, key=lambda choice: (not _urgent(choice), -SEVERITIES.index(choice.severity))):
        # What was done to the machine is told when it was done, at any hour.
        if until and choice.severity != "critical" and choice.reason not in OUTCOMES:
            held.append(replace(choice, hold=Hold("quiet hours", until), owed=True))
            continue
        room = restraint.per_hour - (0 if _urgent(choice) else min(RESERVED, restraint.per_hour - 1))
        if used < room:
            used += 1
            passed.append(choice)
        else:
            crowd.append(choice)
    if not crowd:
        return passed, held
    if not any(reason == "digest" for _, reason in recent):
        # A question in a digest could not be answered, so it waits for the next free message.
        asks = [choice for choice in crowd if choice.reason in ASKS]
        parts = tuple(choice for choice in crowd if choice not in asks)
        if parts:
            things = tuple(thing for part in parts for thing in part.things)
            passed.append(Choice("digest", things, worst(part.severity for part in parts), parts=parts))
        crowd = asks
    free = min((at for at, _ in recent), default=now) + HOUR
    full = Hold(f"{restraint.per_hour} messages were sent within an hour", free)
    held += [replace(choice, hold=full, owed=True) for choice in crowd]
    return passed, held


def _urgent(choice: Choice) -> bool:
    return choice.severity == "critical" or choice.reason in (*ASKS, *OUTCOMES)


def _silenced(silence: Silence) -> Hold:
    if silence.what == "*":
        return Hold(f"maintenance by {silence.by}: {silence.because}", silence.until)
    return Hold(f"silenced by {silence.by}: {silence.because}", silence.until)

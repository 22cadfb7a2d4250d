"""What happened over days: incidents, how soon they were noticed and resolved, what was done, and what was not seen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Any

from watchdog.model import EVERY_CHECK, Incident
from watchdog.notify.translate import in_english
from watchdog.reports.check import incident_json
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.incidents import all_incidents, read_blind
from watchdog.store.plans import Stored
from watchdog.store.rows import stamp
from watchdog.store.store import reads_rows
from watchdog.text import duration, harmless, iso, picked, redact

MISSED = 2.5  # times the usual distance of two checks, without one: at least two did not happen


class Ending(StrEnum):
    """How an incident ended."""

    BY_US = "by-us"
    BY_ITSELF = "by-itself"
    OPEN = "open"


@dataclass(frozen=True)
class PastIncident:
    """One incident with its times."""

    incident: Incident
    noticed_at: datetime | None  # the first check after it became true
    ending: Ending

    @property
    def to_notice(self) -> timedelta | None:
        return max(self.noticed_at - self.incident.opened_at, timedelta(0)) if self.noticed_at else None

    @property
    def lasted(self) -> timedelta | None:
        return self.incident.resolved_at - self.incident.opened_at if self.incident.resolved_at else None


@dataclass(frozen=True)
class Unseen:
    """A stretch of time in which a source could not be read, or no check was made."""

    start: datetime
    end: datetime
    source: str = ""  # '': no check was made at all
    why: str = ""


@dataclass(frozen=True)
class Past:
    """Everything the report says, whatever its form."""

    home: str
    start: datetime
    end: datetime
    checks: int
    incidents: tuple[PastIncident, ...] = ()
    actions: tuple[Stored, ...] = ()  # plans with what became of them
    unseen: tuple[Unseen, ...] = ()
    watched: tuple[tuple[datetime, datetime], ...] = ()  # stretches with checks
    pause: timedelta = timedelta(hours=1)  # a longer one without a check is a gap

    @property
    def noticing(self) -> timedelta | None:
        return middle([past.to_notice for past in self.incidents])

    @property
    def resolving(self) -> timedelta | None:
        return middle([past.lasted for past in self.incidents])

    def count(self, ending: Ending) -> int:
        return sum(past.ending is ending for past in self.incidents)


def middle(spans: Sequence[timedelta | None]) -> timedelta | None:
    """The median of what is known."""
    known = [span.total_seconds() for span in spans if span is not None]
    return timedelta(seconds=median(known)) if known else None


@reads_rows
def gather(store: Store | None, home: str, start: datetime, now: datetime) -> Past:
    """Read the store; nothing is written."""
    if store is None:
        return Past(home, start, now, 0)
    found = store.db.execute("SELECT at, blind FROM checks WHERE at >= ? ORDER BY at", [stamp(start)])
    checks = [(datetime.fromisoformat(row["at"]), read_blind(row["blind"])) for row in found]
    times = [at for at, _ in checks]
    plans = [
        stored
        for stored in rows.newest(store, 1000)
        if stored.asked_at >= start or (stored.finished_at or start) > start
    ]
    repaired = [stored for stored in plans if stored.state == "done"]
    incidents = [incident for incident in all_incidents(store, since=start) if incident.status != "suspected"]
    return Past(
        home,
        start,
        now,
        len(checks),
        tuple(_past_incident(incident, times, repaired) for incident in incidents),
        tuple(reversed(plans)),
        unseen(checks, start, now),
        watched(times),
        longest_pause(times),
    )


def longest_pause(times: Sequence[datetime]) -> timedelta:
    """The distance of two checks from which on there is a gap: by their usual pace, and never less than cron's."""
    usual = duration(EVERY_CHECK)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    return MISSED * max(usual, middle(pauses) or usual)


def _past_incident(
    incident: Incident, checks: Sequence[datetime], repaired: Sequence[Stored]
) -> PastIncident:
    index = bisect_left(checks, incident.opened_at)
    noticed = checks[index] if index < len(checks) else None
    ending = Ending.OPEN
    if incident.resolved_at is not None:
        ending = Ending.BY_ITSELF
        if any(_ended(incident, incident.resolved_at, stored) for stored in repaired):
            ending = Ending.BY_US
    return PastIncident(incident, noticed, ending)


def _ended(incident: Incident, at: datetime, stored: Stored) -> bool:
    """Whether this plan ended the incident: it was for it, or it was over when the plan was."""
    name, plan = incident.name, stored.plan
    if name not in [known.strip() for known in plan.incidents] or stored.asked_at < incident.first_at:
        return False
    treated = {known.strip() for _, known, _ in plan.parts} or {name}
    began = stored.claimed_at or stored.asked_at
    return began <= at and (name in treated or at <= (stored.finished_at or began))


def watched(times: Sequence[datetime]) -> tuple[tuple[datetime, datetime], ...]:
    """The stretches in which one check followed the other."""
    found: list[tuple[datetime, datetime]] = []
    pause = longest_pause(times)
    for at in times:
        if found and at - found[-1][1] <= pause:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return tuple(found)


def unseen(
    checks: Sequence[tuple[datetime, dict[str, str]]], start: datetime, now: datetime
) -> tuple[Unseen, ...]:
    """Stretches without a check, and stretches in which a source was blind; each as one."""
    found: list[Unseen] = []
    before = checks[0][0] if checks else start
    pause = longest_pause([at for at, _ in checks])
    for at, _ in [*checks, (now, {})]:
        if at - before > pause:
            found.append(Unseen(before, at))
        before = at
    blind_now: dict[str, Unseen] = {}
    for at, blind in checks:
        for source in [name for name in blind_now if name not in blind]:
            found.append(blind_now.pop(source))
        for source, why in blind.items():
            known = blind_now.get(source)
            began = known.start if known else at
            blind_now[source] = Unseen(began, at, source, redact(harmless(why, 200)))
    found += blind_now.values()
    return tuple(sorted(found, key=lambda gap: (gap.start, gap.source)))


def as_json(past: Past) -> dict[str, Any]:
    """The contract of docs/json.md."""

    def seconds(span: timedelta | None) -> float | None:
        return span.total_seconds() if span is not None else None

    healed = {Ending.BY_US: "watchdog", Ending.BY_ITSELF: "itself", Ending.OPEN: None}
    return {
        "home": past.home,
        "from": iso(past.start),
        "to": iso(past.end),
        "checks": past.checks,
        "median_seconds_to_notice": seconds(past.noticing),
        "median_seconds_to_heal": seconds(past.resolving),
        "incidents": [
            incident_json(entry.incident)
            | {
                "noticed_at": iso(entry.noticed_at),
                "seconds_to_notice": seconds(entry.to_notice),
                "seconds_to_heal": seconds(entry.lasted),
                "healed": healed[entry.ending],
            }
            for entry in past.incidents
        ],
        "actions": [
            {
                "plan": stored.id,
                "title": stored.plan.title,
                **picked(stored, "state asked_at"),
                "answered_by": stored.answered_by or None,
                **picked(stored, "finished_at"),
                "says": redact(in_english(stored.reason)),
            }
            for stored in past.actions
        ],
        "not_seen": [
            {
                "from": iso(gap.start),
                "to": iso(gap.end),
                "what": gap.source or "everything",
                "why": gap.why or "no check was made",
            }
            for gap in past.unseen
        ],
    }

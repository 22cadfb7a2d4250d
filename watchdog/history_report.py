"""What happened over days: incidents, how soon they were noticed and healed, what was done, and what was not seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from watchdog.model import Incident
from watchdog.report import incident_json, iso
from watchdog.text import clock, harmless, redact, spell

if TYPE_CHECKING:
    from watchdog.store import Store

GAP = timedelta(hours=1)  # without any check; shorter pauses are the pace of cron
US, ITSELF, OPEN = "by us", "by itself", "not yet"


@dataclass(frozen=True)
class Told:
    """One incident with its times."""

    incident: Incident
    noticed_at: datetime | None  # the first check after it became true
    healed: str  # US, ITSELF, OPEN

    @property
    def to_notice(self) -> timedelta | None:
        return max(self.noticed_at - self.incident.opened_at, timedelta(0)) if self.noticed_at else None

    @property
    def lasted(self) -> timedelta | None:
        return self.incident.resolved_at - self.incident.opened_at if self.incident.resolved_at else None


@dataclass(frozen=True)
class Done:
    """One plan and what became of it."""

    number: int
    title: str
    state: str
    asked_at: datetime
    by: str
    finished_at: datetime | None
    says: str


@dataclass(frozen=True)
class Unseen:
    """A stretch of time in which something could not be seen."""

    start: datetime
    end: datetime
    what: str  # a source, or 'everything'
    why: str


@dataclass(frozen=True)
class Past:
    """Everything the report says, whatever its form."""

    home: str
    start: datetime
    end: datetime
    checks: int
    incidents: tuple[Told, ...] = ()
    actions: tuple[Done, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    @property
    def noticing(self) -> timedelta | None:
        return middle([told.to_notice for told in self.incidents])

    @property
    def healing(self) -> timedelta | None:
        return middle([told.lasted for told in self.incidents])

    def count(self, healed: str) -> int:
        return sum(told.healed == healed for told in self.incidents)


def middle(spans: Sequence[timedelta | None]) -> timedelta | None:
    known = [span.total_seconds() for span in spans if span is not None]
    return timedelta(seconds=median(known)) if known else None


def gather(store: Store | None, home: str, start: datetime, now: datetime) -> Past:
    """Read the store; nothing is written."""
    from watchdog.store import plans as rows
    from watchdog.store.incidents import all_incidents, stamp

    if store is None:
        return Past(home, start, now, 0)
    found = store.db.execute("SELECT at, blind FROM checks WHERE at >= ? ORDER BY at", [stamp(start)])
    checks = [(datetime.fromisoformat(row["at"]), json.loads(row["blind"] or "{}")) for row in found]
    times = [at for at, _ in checks]
    plans = [one for one in rows.newest(store, 1000) if one.asked_at >= start or (one.finished_at or start) > start]
    mended = [(name, one) for one in plans if one.state == "done" for name in one.plan.incidents]
    incidents = [one for one in all_incidents(store, since=start) if one.status != "suspected"]
    actions = [
        Done(one.id, one.plan.title, one.state, one.asked_at, one.answered_by, one.finished_at, redact(one.says)) for one in reversed(plans)
    ]
    return Past(
        home, start, now, len(checks), tuple(_told(one, times, mended) for one in incidents), tuple(actions), unseen(checks, start, now)
    )


def _told(incident: Incident, checks: Sequence[datetime], mended: Sequence[tuple[str, Any]]) -> Told:
    from bisect import bisect_left

    index = bisect_left(checks, incident.opened_at)
    noticed = checks[index] if index < len(checks) else None
    healed = OPEN
    if incident.resolved_at is not None:
        name = f"{incident.rule} {incident.key}".strip()
        ours = any(
            known.strip() == name and (plan.claimed_at or plan.asked_at) <= incident.resolved_at and plan.asked_at >= incident.first_at
            for known, plan in mended
        )
        healed = US if ours else ITSELF
    return Told(incident, noticed, healed)


def unseen(checks: Sequence[tuple[datetime, dict[str, str]]], start: datetime, now: datetime) -> tuple[Unseen, ...]:
    """Stretches without a check, and stretches in which a source was blind; each as one."""
    found: list[Unseen] = []
    before = checks[0][0] if checks else start
    for at, _ in [*checks, (now, {})]:
        if at - before > GAP:
            found.append(Unseen(before, at, "everything", "no check was made"))
        before = at
    open_: dict[str, Unseen] = {}
    for at, blind in checks:
        for source in [name for name in open_ if name not in blind]:
            found.append(open_.pop(source))
        for source, why in blind.items():
            known = open_.get(source)
            open_[source] = Unseen(known.start if known else at, at, source, redact(harmless(why, 200)))
    found += open_.values()
    return tuple(sorted(found, key=lambda one: (one.start, one.what)))


def as_json(past: Past) -> dict[str, Any]:
    def seconds(span: timedelta | None) -> float | None:
        return span.total_seconds() if span is not None else None

    return {
        "home": past.home,
        "from": iso(past.start),
        "to": iso(past.end),
        "checks": past.checks,
        "median_seconds_to_notice": seconds(past.noticing),
        "median_seconds_to_heal": seconds(past.healing),
        "incidents": [
            incident_json(told.incident)
            | {
                "noticed_at": iso(told.noticed_at),
                "seconds_to_notice": seconds(told.to_notice),
                "seconds_to_heal": seconds(told.lasted),
                "healed": {US: "watchdog", ITSELF: "itself", OPEN: None}[told.healed],
            }
            for told in past.incidents
        ],
        "actions": [
            {"plan": one.number, "title": one.title, "state": one.state, "asked_at": iso(one.asked_at), "answered_by": one.by or None,
             "finished_at": iso(one.finished_at), "says": one.says}
            for one in past.actions
        ],
        "not_seen": [{"from": iso(one.start), "to": iso(one.end), "what": one.what, "why": one.why} for one in past.unseen],
    }  # fmt: skip


def summary(past: Past) -> list[str]:
    """The three or four sentences that people read."""
    total = len(past.incidents)
    checks = f"{past.checks} check{'s' if past.checks != 1 else ''}"
    if not total:
        return [f"{checks}, nothing found."] if past.checks else ["No check was made in this time."]
    lines = [
        f"{checks}, {total} incident{'s' if total != 1 else ''}: {past.count(US)} healed by the watchdog, "
        f"{past.count(ITSELF)} over by themselves, {past.count(OPEN)} still open."
    ]
    if past.noticing is not None:
        lines.append(f"Noticed within {spell(past.noticing)} (median of the time from the limit passed to the next check).")
    if past.healing is not None:
        lines.append(f"Over within {spell(past.healing)} (median).")
    return lines


def times(told: Told) -> str:
    """'from … to … (26 minutes), noticed after 3 minutes, healed by us'."""
    one = told.incident
    end = f"to {clock(one.resolved_at)} ({spell(told.lasted)})" if one.resolved_at and told.lasted is not None else "still open"
    noticed = f", noticed after {spell(told.to_notice)}" if told.to_notice is not None else ""
    return f"from {clock(one.opened_at)} {end}{noticed}" + (f", healed {told.healed}" if told.healed == US else "")


def outcome(one: Done) -> str:
    by = f" by {one.by}" if one.by else ""
    return f"{one.state}{by}" + (f" at {clock(one.finished_at)}" if one.finished_at else "") + (f": {one.says}" if one.says else "")


def as_text(past: Past) -> str:
    lines = [f"{past.home} from {clock(past.start)} to {clock(past.end)}", *summary(past)]
    lines += [""] if past.incidents else []
    for told in past.incidents:
        one = told.incident
        lines += [f"{one.severity:<9} {one.rule} {one.key}".rstrip(), f"          {redact(one.says)}", f"          {times(told)}"]
    if past.actions:
        lines += ["", "Actions"]
        lines += [f"  plan {one.number}, asked {clock(one.asked_at)}: {one.title}\n    {outcome(one)}" for one in past.actions]
    if past.unseen:
        lines += ["", "Not seen"]
        lines += [f"  {clock(one.start)} to {clock(one.end)}: {one.what}: {one.why}" for one in past.unseen]
    return "\n".join(lines).rstrip()


def as_markdown(past: Past) -> str:
    lines = [f"# Hermes gateway, {clock(past.start)[:10]} to {clock(past.end)[:10]}", "", f"`{past.home}`", "", *summary(past)]
    if past.incidents:
        lines += ["", "| Severity | What | From | Lasted | Noticed after | Healed |", "| --- | --- | --- | --- | --- | --- |"]
        for told in past.incidents:
            one = told.incident
            lasted = spell(told.lasted) if told.lasted is not None else "still open"
            noticed = spell(told.to_notice) if told.to_notice is not None else "?"
            says = f"**{one.rule}** {_cell(one.key)}: {_cell(one.says)}"
            lines.append(f"| {' | '.join((one.severity, says, clock(one.opened_at), lasted, noticed, told.healed))} |")
    if past.actions:
        lines += ["", "## Actions", ""]
        lines += [f"- plan {one.number}, asked {clock(one.asked_at)}: {_cell(one.title)}; {_cell(outcome(one))}" for one in past.actions]
    if past.unseen:
        lines += ["", "## Not seen", ""]
        lines += [f"- {clock(one.start)} to {clock(one.end)}: {_cell(one.what)}: {_cell(one.why)}" for one in past.unseen]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text from elsewhere, fit for a table: nothing of it becomes markup, and no secret stays in it."""
    text = redact(harmless(text, 2000))
    for sign in "\\`*_[]<>|#~":
        text = text.replace(sign, f"\\{sign}")
    return text

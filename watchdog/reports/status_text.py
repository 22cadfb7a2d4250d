"""The status of a home as lines for a terminal; its facts serve the page too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from watchdog.model import Plan
from watchdog.reports.language import Reader
from watchdog.reports.status import Light, Status, headline
from watchdog.store.messages import Silence
from watchdog.text import cells, clock, harmless, padded, size

SHOWN = 20  # of each kind; the rest is counted
PAINTS = {Light.GREEN: "good", Light.YELLOW: "medium", Light.RED: "critical"}


@dataclass(frozen=True)
class Fact:
    """One line of the status."""

    label: str
    text: str
    how: str = ""  # its colour


def as_text(status: Status, reader: Reader) -> str:
    """The light with its sentence, then one line for each thing that a person asks about."""
    light = reader.paint(f"● {reader(f'status.light.{status.light}')}", PAINTS[status.light])
    lines = [f"{light}  {headline(status, reader)}", reader.paint(status.home, "dim")]
    found = list(facts(status, reader))
    width = max(cells(fact.label) for fact in found)
    for fact in found:
        shown = reader.paint(harmless(fact.text, 2000), fact.how)
        lines.append(f"  {padded(fact.label, width)}  {shown}".rstrip())
    return "\n".join(lines)


def facts(status: Status, reader: Reader) -> Iterator[Fact]:
    """The gateway, checks, what is open, what may be done, what is kept."""
    yield from _check_facts(status, reader)
    for incident in status.open[:SHOWN]:
        text = f"{incident.rule}: {reader.says(incident)}"
        yield Fact(reader(f"severity.{incident.severity}"), text, incident.severity)
    if len(status.open) > SHOWN:
        yield Fact("", reader("report.more", count=len(status.open) - SHOWN))
    yield from _plan_facts(status, reader)
    for source, why in status.blind:
        yield Fact(reader("status.label.blind"), f"{source}: {reader.phrase(why)}", "medium")
    yield from _watch_facts(status, reader)
    for backup in status.backups[:SHOWN]:
        text = f"{backup.database}: {past(backup.at, reader) if backup.at else reader('status.none')}"
        yield Fact(reader("status.label.backup"), text)


def page_facts(status: Status, reader: Reader) -> Iterator[tuple[str, str]]:
    """(label, text) of what a page does not show anyway: it has lists of incidents, plans and databases."""
    for fact in (*_check_facts(status, reader), *_watch_facts(status, reader)):
        yield fact.label, fact.text


def _check_facts(status: Status, reader: Reader) -> Iterator[Fact]:
    def label(name: str) -> str:
        return reader(f"status.label.{name}")

    yield Fact(label("gateway"), gateway_text(status, reader))
    if status.answer or status.gateway:
        yield Fact(label("answer"), answer_text(status, reader))
    yield Fact(label("last"), past(status.last, reader) if status.last else reader("status.none-yet"))
    if status.at_work:
        yield Fact(label("working"), status.at_work)
    yield Fact(label("next"), next_text(status, reader), "" if status.schedule else "medium")
    if status.last_error:
        yield Fact(label("failed"), status.last_error, "high")
    if status.problem:
        yield Fact(label("edit"), status.problem.splitlines()[0], "high")
    if not status.open and status.last and not status.store_error:
        more = f" ({reader('status.suspected', count=status.suspected)})" if status.suspected else ""
        yield Fact(label("open"), reader("status.nothing") + more, "good")


def _watch_facts(status: Status, reader: Reader) -> Iterator[Fact]:
    def label(name: str) -> str:
        return reader(f"status.label.{name}")

    yield Fact(label("acting"), acting_text(status, reader), "high" if status.disarmed else "")
    if status.maintenance:
        yield Fact(label("maintenance"), silence_text(status.maintenance, reader), "medium")
    for silence in status.silences[:SHOWN]:
        yield Fact(label("silence"), silence_text(silence, reader, silence.what))
    if status.free is not None:
        yield Fact(
            label("disk"), reader("status.free", size=size(status.free)), "high" if status.low_disk else ""
        )


def _plan_facts(status: Status, reader: Reader) -> Iterator[Fact]:
    for number in status.interrupted:
        yield Fact(
            reader("status.label.plan", plan=number), reader("status.interrupted", plan=number), "high"
        )
    for stored in status.asked[:SHOWN]:
        fields = {
            "title": reader.plan_title(stored.plan),
            "until": clock(stored.expires_at),
        }
        yield Fact(reader("status.label.plan", plan=stored.id), reader("status.asked", **fields), "medium")
    for plan in status.unasked[:SHOWN]:
        yield Fact(
            reader(f"status.label.{'held' if plan.hold else 'next'}"), held_text(plan, reader), "medium"
        )


def held_text(plan: Plan, reader: Reader) -> str:
    """'Restart the gateway: the gateway was started at … (until …)'."""
    if plan.hold is None:
        return reader("status.ready", title=reader.plan_title(plan))
    fields = {"title": reader.plan_title(plan), "why": reader.reason(plan.hold.reason)}
    if plan.hold.until is None:
        return reader("status.held", **fields)
    return reader("status.held-until", until=clock(plan.hold.until), **fields)


def gateway_text(status: Status, reader: Reader) -> str:
    seen = status.gateway
    if seen is None:
        return reader("status.none-yet")
    where = reader.reason(seen.place or seen.where) or reader("status.gateway.somewhere")
    if seen.alive is None:
        why = reader.phrase(seen.unseen) if seen.unseen else ""
        return reader("status.gateway.hidden-why", why=why) if why else reader("status.gateway.hidden")
    if not seen.alive:
        return reader("status.gateway.down")
    inside = "-in" if seen.place else ""
    if seen.since is None:
        return reader(f"status.gateway.running{inside}", pid=seen.pid, where=where)
    return reader(f"status.gateway.since{inside}", at=past(seen.since, reader), pid=seen.pid, where=where)


def answer_text(status: Status, reader: Reader) -> str:
    if status.answer is None:
        return reader("status.no-answer")
    chat = reader("status.chat", platform=status.answer.platform, chat=status.answer.chat)
    return reader("status.and", first=past(status.answer.at, reader), second=chat)


def next_text(status: Status, reader: Reader) -> str:
    if status.schedule is None:
        return reader("status.no-schedule")
    by = reader.reason(status.schedule)
    if status.next is None:
        return by
    if status.next <= status.now:
        return reader("status.and", first=reader("status.due"), second=by)
    when = reader("status.in", at=clock(status.next), span=reader.span(status.next - status.now))
    return reader("status.and", first=when, second=by)


def acting_text(status: Status, reader: Reader) -> str:
    if status.disarmed is None:
        return reader("status.armed")
    off = status.disarmed
    return reader("status.disarmed", at=clock(off.at), by=off.by, why=reader.reason(off.why))


def silence_text(silence: Silence, reader: Reader, what: str = "") -> str:
    """'rule until … (2 hours left), by ann: why'; without `what` only the rest."""
    fields = {
        "what": what,
        "until": clock(silence.until),
        "left": reader.span(silence.until - reader.now),
        "because": silence.because,
        "by": silence.by,
    }
    return reader("silence.until" if what else "status.maintenance", **fields)


def past(at: datetime, reader: Reader) -> str:
    """'2026-11-16 01:33:00 (11 minutes ago)'."""
    return reader("status.past", at=clock(at), ago=reader.since(at))

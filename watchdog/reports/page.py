"""Report and status as one HTML file each, from the templates beside this module: no request to anywhere.

Everything that a template shows is text made here, in the reader's language, harmless and without secrets; the
templates escape it. A page stays under 100 KB whatever is in the store: lists are cut and the rest is counted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from watchdog.reports import status as status_report
from watchdog.reports import status_text
from watchdog.reports.cards import action_card, incident_card, open_card, plan_card
from watchdog.reports.history import Ending, Past, PastIncident, Unseen
from watchdog.reports.history_text import gap_text, summary
from watchdog.reports.language import Reader
from watchdog.reports.output import about
from watchdog.reports.status import Light, Status
from watchdog.reports.timeline import ticks, timeline
from watchdog.text import clock, harmless, redact

if TYPE_CHECKING:
    from jinja2 import Environment

LISTED = 60  # cards of each kind in a report; the rest is counted
SHOWN = 15  # cards of each kind on the status page
LONG = 300  # characters of one text
SYMBOLS = {Light.GREEN: "✓", Light.YELLOW: "!", Light.RED: "✕"}
COLOURS = {Light.GREEN: "#176b3f", Light.YELLOW: "#8a5a00", Light.RED: "#a80f27"}
LATE = timedelta(minutes=10)  # after the next check is due, a page that was not written again is out of date


@dataclass(frozen=True)
class Database:
    """One database on the page."""

    name: str
    verdict: str
    kind: str  # class of the verdict's badge
    backup: str
    rows: str


@dataclass(frozen=True)
class Live:
    """What the page of a server has and a file has not: links, and a form to answer with."""

    languages: tuple[str, ...] = ()
    message: str = ""  # what came of an answer
    wrong: bool = False  # the message is a refusal
    token: str = ""  # binds the form to the session
    version: str = ""  # of what it shows; the page is loaded anew when the server says another


@cache
def environment() -> Environment:
    """The templates; they escape everything and stop at a name that is not there."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import, and only a page needs it

    made = Environment(
        loader=PackageLoader("watchdog.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(clean=clean, exact=exact)
    return made


@cache
def style() -> str:
    """The style sheet, which is part of every page."""
    return (files("watchdog.reports") / "templates" / "style.css").read_text("utf-8")


@cache
def style_hash() -> str:
    """What a Content-Security-Policy allows instead of every inline style: this one."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()}'"


def clean(text: object) -> str:
    """Text of others fit for a page: one line, no control characters, no secrets."""
    return redact(harmless(str(text), LONG))


def exact(text: object) -> str:
    """A command that a person is asked about: all of it."""
    return redact(harmless(str(text), 2000))


def icon(light: Light) -> str:
    """The light as a picture for the browser's tab, within the page itself."""
    shape = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><circle cx='16' cy='16' r='15' "
        f"fill='{COLOURS[light]}'/><text x='16' y='23' font-size='20' font-weight='bold' text-anchor='middle' "
        f"font-family='sans-serif' fill='#fff'>{SYMBOLS[light]}</text></svg>"
    )
    return f"data:image/svg+xml,{quote(shape)}"


def _render(template: str, reader: Reader, live: Live | None, **fields: Any) -> str:
    shared = {"reader": reader, "live": live, "style": style(), "style_hash": style_hash()}
    made = reader("report.made", at=clock(reader.now))
    return environment().get_template(template).render({"icon": "data:,", "made": made, **shared, **fields})


def report_page(past: Past, reader: Reader, live: Live | None = None) -> str:
    """The history of some days."""
    return _render(
        "report.html.j2",
        reader,
        live,
        title=reader("report.title", start=clock(past.start)[:10], end=clock(past.end)[:10]),
        home=past.home,
        numbers=numbers(past, reader),
        summary=summary(past, reader),
        rows=timeline(past, reader),
        ticks=ticks(past),
        incidents=[incident_card(entry, reader) for entry in worst_first(past.incidents)[:LISTED]],
        more_incidents=max(0, len(past.incidents) - LISTED),
        actions=[action_card(action, reader) for action in reversed(past.actions[-LISTED:])],
        more_actions=max(0, len(past.actions) - LISTED),
        unseen=[unseen_line(gap, reader) for gap in reversed(past.unseen[-LISTED:])],
        more_unseen=max(0, len(past.unseen) - LISTED),
    )


def status_page(status: Status, past: Past, reader: Reader, live: Live | None = None) -> str:
    """How the home is now, top to bottom as a person asks: well or not, what waits, what is open, the last days."""
    ended = [action for action in past.actions if action.state != "pending"]
    now_blind = [f"{source}: {reader.phrase(why)}" for source, why in status.blind]
    return _render(
        "status.html.j2",
        reader,
        live,
        title=f"{SYMBOLS[status.light]} {reader(f'page.light.{status.light}')}",
        home=status.home,
        about=about(status.home),
        icon=icon(status.light),
        light=str(status.light),
        symbol=SYMBOLS[status.light],
        light_word=reader(f"page.light.{status.light}"),
        headline=sentence_case(status_report.headline(status, reader)),
        as_of=as_of(status, reader),
        reasons=[
            sentence_case(status_report.sentence_of(signal, reader))
            for signal in status_report.signals(status)[1:]
        ],
        glance=glance(status, reader),
        asked=[plan_card(stored, reader) for stored in status.asked[:SHOWN]],
        held=[status_text.held_text(plan, reader) for plan in status.unasked[:SHOWN]],
        open=[open_card(incident, reader) for incident in status.open[:SHOWN]],
        more_open=max(0, len(status.open) - SHOWN),
        rows=timeline(past, reader),
        ticks=ticks(past),
        databases=databases(status, reader),
        actions=[action_card(action, reader) for action in reversed(ended[-SHOWN:])],
        more_actions=max(0, len(ended) - SHOWN),
        unseen=now_blind + [unseen_line(gap, reader) for gap in reversed(past.unseen[-SHOWN:])],
        more_unseen=max(0, len(past.unseen) - SHOWN),
        facts=list(status_text.page_facts(status, reader)),
    )


def sentence_case(text: str) -> str:
    """With a capital letter, unless it begins with a name such as kanban.db."""
    first = text.partition(" ")[0].rstrip(":,")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def as_of(status: Status, reader: Reader) -> str:
    """When the page was made, and from when on it is out of date: a light that is not updated must not be trusted."""
    at = moment(status.now, status.now)
    if status.next is None:
        return reader("page.as-of", at=at)
    return reader("page.as-of-until", at=at, until=moment(max(status.next, status.now) + LATE, status.now))


def glance(status: Status, reader: Reader) -> list[tuple[str, str]]:
    """(question, answer) for the first look: does it run, does it answer, is it watched, is anything open?"""
    seen = status.gateway
    states = {True: "running", False: "down", None: "hidden"}
    running = reader(f"page.gateway.{states[seen.alive] if seen else 'hidden'}")
    if seen and seen.alive and seen.since:
        running = reader("page.gateway.since", at=moment(seen.since, status.now))
    answered = moment(status.answer.at, status.now) if status.answer else reader("page.no-answer")
    checked = moment(status.last, status.now) if status.last else reader("status.none-yet")
    known = status.last is not None and not status.store_error
    return [
        (reader("status.label.gateway"), running),
        (reader("status.label.answer"), answered),
        (reader("status.label.last"), checked),
        (reader("report.heading.open"), str(len(status.open)) if known else reader("page.unknown")),
    ]


def moment(at: datetime, now: datetime) -> str:
    """'02:13' of today, '11-16 02:13' before."""
    local = at.astimezone()
    return f"{local:%H:%M}" if local.date() == now.astimezone().date() else f"{local:%m-%d %H:%M}"


def plan_page(card: Any, reader: Reader, live: Live) -> str:
    """One plan with all that a person must know, and the form to answer it."""
    return _render(
        "plan.html.j2",
        reader,
        live,
        title=f"{reader('report.plan', plan=card.number)}: {card.title}",
        card=card,
    )


def incidents_page(past: Past, number: int, reader: Reader, live: Live) -> str:
    """One sheet of the incidents of the last days."""
    incidents = worst_first(past.incidents)
    last = max(1, -(-len(incidents) // LISTED))
    number = min(max(1, number), last)
    return _render(
        "incidents.html.j2",
        reader,
        live,
        title=reader("report.heading.incidents"),
        incidents=[
            incident_card(entry, reader) for entry in incidents[(number - 1) * LISTED : number * LISTED]
        ],
        number=number,
        last=last,
    )


def message_page(text: str, reader: Reader, live: Live) -> str:
    """One sentence, such as why a request was not accepted."""
    return _render("message.html.j2", reader, live, title=reader("status.title"), text=text)


def numbers(past: Past, reader: Reader) -> list[tuple[str, str]]:
    """(figure, what it counts) for the top of the page."""

    def short(span: timedelta | None) -> str:
        return reader.short(span) if span is not None else reader("report.none")

    acted = sum(action.state in ("done", "failed") for action in past.actions)
    figures = {
        "checks": f"{past.checks:,}",
        "incidents": str(len(past.incidents)),
        "open": str(past.count(Ending.OPEN)),
        "notice": short(past.noticing),
        "resolve": short(past.resolving),
        "actions": str(acted),
    }
    return [(figure, reader(f"report.number.{name}")) for name, figure in figures.items()]


def worst_first(incidents: Sequence[PastIncident]) -> list[PastIncident]:
    """What is open first, then the newest."""
    return sorted(
        incidents, key=lambda entry: (entry.ending is Ending.OPEN, entry.incident.opened_at), reverse=True
    )


def unseen_line(gap: Unseen, reader: Reader) -> str:
    return f"{clock(gap.start)} – {clock(gap.end)}: {gap_text(gap, reader)}"


def databases(status: Status, reader: Reader) -> list[Database]:
    """Each database with its verdict at the last check and its newest verified backup."""
    found = []
    for backup in status.backups[:SHOWN]:
        verdict, kind = _verdict(backup.database, status, reader)
        at = clock(backup.at)[:16] if backup.at else reader("status.none")
        count = f"{backup.rows:,}" if backup.rows is not None else reader("report.none")
        found.append(Database(backup.database, verdict, kind, at, count))
    return found


def _verdict(name: str, status: Status, reader: Reader) -> tuple[str, str]:
    """(what the last check says of a database, class of its badge); not looked at is not well."""
    for incident in status.open:
        if name in incident.key.split():
            return reader.title(incident), incident.severity
    if status.last is None or status.store_error or any(name in source for source, _ in status.blind):
        return reader("page.not-checked"), "medium"
    return reader("page.no-damage"), "good"

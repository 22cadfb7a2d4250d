"""Something began and its answer never came."""

from __future__ import annotations

from datetime import timedelta

from watchdog.detect.common import aside, longest, meanwhile, names_of, need_names, once, read_lines
from watchdog.detect.waiting import Watch
from watchdog.model import Line
from watchdog.values import dataclass
from watchdog.yamlfile import Section

__all__ = ["KIND", "Watch", "lines", "reach", "read", "says"]

KIND = "gap"


@dataclass(frozen=True)
class Sooner:
    """Signs that shorten the wait: with them, less patience is enough."""

    line: tuple[Line, ...]
    within: timedelta
    longer_than: timedelta


@dataclass(frozen=True)
class Gap:
    opened_by: tuple[Line, ...]
    closed_by: tuple[Line, ...]
    longer_than: timedelta
    same: tuple[str, ...] = ()
    dropped_by: tuple[Line, ...] = ()  # one of several that wait was given up
    reset_by: tuple[Line, ...] = ()  # a restart forgets everything that was pending
    resumed_by: tuple[Line, ...] = ()  # what was pending then goes on by itself; nobody asked anew
    session_by: tuple[Line, ...] = ()  # tells which session works on it
    progress: tuple[Line, ...] = ()  # of that session: slow is not stuck
    turn_over: tuple[Line, ...] = ()  # of that session: the next answer in its chat is its answer
    sooner: Sooner | None = None
    key: str = ""


def read(section: Section) -> Gap:
    want = Gap(
        opened_by=read_lines(section, "opened_by"),
        closed_by=meanwhile(read_lines(section, "closed_by")),
        longer_than=section.duration("longer_than", least=timedelta(0)),
        same=section.names("same", ()),
        dropped_by=meanwhile(read_lines(section, "dropped_by", ())),
        reset_by=read_lines(section, "reset_by", ()),
        resumed_by=read_lines(section, "resumed_by", ()),
        session_by=once(read_lines(section, "session_by", ())),
        progress=aside(read_lines(section, "progress", ())),
        turn_over=aside(read_lines(section, "turn_over", ())),
        sooner=_read_sooner(section),
        key=section.text("key", ""),
    )
    need_names(section, "same", want.same, (*want.opened_by, *want.closed_by, *want.dropped_by, *want.resumed_by))
    need_names(section, "session_by", ("session",) if want.session_by else (), want.session_by)
    if want.sooner and want.sooner.longer_than >= want.longer_than:
        section.wrong_at("sooner", "its longer_than is not shorter than the ordinary one; it would change nothing")
    section.done()
    return want


def _read_sooner(section: Section) -> Sooner | None:
    inner = section.section("sooner", None)
    if inner is None:
        return None
    sooner = Sooner(read_lines(inner, "line"), inner.duration("within"), inner.duration("longer_than"))
    inner.done()
    return sooner


def lines(want: Gap) -> list[tuple[str, Line, bool]]:
    roles = [("opened", want.opened_by, True), ("closed", want.closed_by, True), ("dropped", want.dropped_by, True)]
    roles += [("reset", want.reset_by, True), ("session", want.session_by, True), ("progress", want.progress, True)]
    roles += [("turn_over", want.turn_over, True), ("resumed", want.resumed_by, True)]
    roles += [("sooner", want.sooner.line if want.sooner else (), False)]
    if want.session_by:
        roles += [("known", (Line("sessions"),), False)]
    return [(role, line, required) for role, group, required in roles for line in group]


def reach(want: Gap) -> timedelta:
    return longest(want.longer_than, want.sooner.within + want.sooner.longer_than if want.sooner else None)


def says(want: Gap) -> frozenset[str]:
    return names_of(want.opened_by) | {"waited", "longer_than"}

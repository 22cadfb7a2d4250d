"""Something began and its answer never came."""

from __future__ import annotations

from datetime import timedelta

from watchdog.detect.common import aside, longest, names_of, need_names, read_lines
from watchdog.detect.gap_tracker import Detector
from watchdog.model import Line
from watchdog.values import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

__all__ = ["KIND", "Detector", "lines", "reach", "read", "says"]

KIND = "gap"


@dataclass(frozen=True)
class Sooner:
    """Signs that shorten the wait: with them, less patience is enough."""

    line: tuple[Line, ...]
    within: timedelta
    longer_than: timedelta


@dataclass(frozen=True)
class ToolPatience:
    """A session that waits for a tool is not stuck; the gateway's database tells."""

    asks: tuple[str, ...]  # tools that wait for a person, however long
    longer_than: timedelta  # any other tool may work for so long


@dataclass(frozen=True)
class Gap:
    opened_by: tuple[Line, ...]
    closed_by: tuple[Line, ...]
    longer_than: timedelta
    same: tuple[str, ...] = ()
    joined_by: tuple[Line, ...] = ()  # more of the same: begins only where nothing has begun
    dropped_by: tuple[Line, ...] = ()  # one of several that wait was given up
    ended_by: tuple[Line, ...] = ()  # names less than `same`: ends the newest that it may be about
    reset_by: tuple[Line, ...] = ()  # a restart forgets everything that was pending
    spares: timedelta | None = None  # but what began so shortly before belongs to the new process
    resumed_by: tuple[Line, ...] = ()  # what was pending then goes on by itself; it was not asked anew
    session_by: tuple[Line, ...] = ()  # tells which session works on it
    progress: tuple[Line, ...] = ()  # of that session: slow is not stuck
    turn_over: tuple[Line, ...] = ()  # of that session: the next answer in its chat is its answer
    sooner: Sooner | None = None
    tool_calls: ToolPatience | None = None
    last: tuple[Line, ...] = ()  # the newest such line of the same is quoted in the sentence
    key: str = ""


def read(section: Section) -> Gap:
    want = Gap(
        opened_by=read_lines(section, "opened_by"),
        joined_by=read_lines(section, "joined_by", ()),
        closed_by=read_lines(section, "closed_by"),
        longer_than=section.duration("longer_than", least=timedelta(0)),
        same=section.names("same", ()),
        dropped_by=read_lines(section, "dropped_by", ()),
        ended_by=read_lines(section, "ended_by", ()),
        spares=section.duration("spares", None),
        last=read_lines(section, "last", ()),
        reset_by=read_lines(section, "reset_by", ()),
        resumed_by=read_lines(section, "resumed_by", ()),
        session_by=read_lines(section, "session_by", ()),
        progress=aside(read_lines(section, "progress", ())),
        turn_over=aside(read_lines(section, "turn_over", ())),
        sooner=_read_sooner(section),
        tool_calls=_read_tool_patience(section),
        key=section.text("key", ""),
    )
    need_names(
        section,
        "same",
        want.same,
        (*want.opened_by, *want.joined_by, *want.closed_by, *want.dropped_by, *want.resumed_by),
    )
    need_names(section, "session_by", ("session",) if want.session_by else (), want.session_by)
    if want.sooner and want.sooner.longer_than >= want.longer_than:
        section.wrong_at(
            "sooner", "its longer_than is not shorter than the ordinary one; it would change nothing"
        )
    return want


def _read_sooner(section: Section) -> Sooner | None:
    inner = section.section("sooner", None)
    if inner is None:
        return None
    lines = read_lines(inner, "of" if inner.has("of") else "line")
    sooner = Sooner(lines, inner.duration("within"), inner.duration("longer_than"))
    inner.done()
    return sooner


def _read_tool_patience(section: Section) -> ToolPatience | None:
    inner = section.section("tool_calls", None)
    if inner is None:
        return None
    patience = ToolPatience(inner.names("asks", ()), inner.duration("longer_than"))
    inner.done()
    return patience


def lines(want: Gap) -> list[tuple[str, Line, bool]]:
    roles = [
        ("opened", want.opened_by, True),
        ("joined", want.joined_by, True),
        ("closed", want.closed_by, True),
        ("dropped", want.dropped_by, True),
        ("ended", want.ended_by, False),
        ("last", want.last, False),
    ]
    roles += [
        ("reset", want.reset_by, True),
        ("session", want.session_by, True),
        ("progress", want.progress, True),
    ]
    roles += [("turn_over", want.turn_over, True), ("resumed", want.resumed_by, True)]
    roles += [("sooner", want.sooner.line if want.sooner else (), False)]
    if want.session_by:
        roles += [("known", (Line("sessions"),), False)]
    return [(role, line, required) for role, group, required in roles for line in group]


def reach(want: Gap) -> timedelta:
    return longest(want.longer_than, want.sooner.within + want.sooner.longer_than if want.sooner else None)


def says(want: Gap) -> frozenset[str]:
    return (
        names_of((*want.opened_by, *want.last))
        | {"waited", "longer_than"}
        | ({"tool"} if want.tool_calls else set())
    )

"""Too many of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from watchdog import config
from watchdog.detect.attribution import Names, SessionChats
from watchdog.detect.common import (
    Captures,
    aside,
    key_of,
    longest,
    names_of,
    need_names,
    read_lines,
    with_levels,
)
from watchdog.detect.series import LONG_AGO, Series, states, tidy
from watchdog.model import Event, Line, Reason, Span
from watchdog.model.trace import Trace, whose
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "burst"
MEMORY = 1000  # sessions whose captures are remembered
MANY = 50
SLACK = timedelta(minutes=1)  # events may come a little out of order
INSTANT = timedelta(milliseconds=1)  # logs know no shorter
UNDER_WAY = timedelta(minutes=2)  # an answer that comes sooner may have been asked for before it failed
COUNTED = ("or_once", "line")  # roles


@dataclass(frozen=True)
class Recovery:
    """A later line of the same session that shows that it works again."""

    line: tuple[Line, ...]
    after: timedelta  # so long after the last failure, or later
    same: tuple[str, ...] = ()  # or of any session, when it captures the same as the failure
    ends: bool = True  # what is open, too; else it only makes good the attempts before it


@dataclass(frozen=True)
class Attribution:
    """Lines that tell what chat or person the counted ones are about."""

    named_by: tuple[Line, ...] = ()  # the newest before it
    claimed_by: tuple[Line, ...] = ()  # keeps that name for what follows
    released_by: tuple[Line, ...] = ()  # and lets go of it
    asked_by: tuple[Line, ...] = ()  # a message of a chat …
    session_by: tuple[Line, ...] = ()  # … and the session that begins to work on it


@dataclass(frozen=True)
class Burst:
    line: tuple[Line, ...]
    at_least: int
    within: timedelta
    per: tuple[str, ...] = ()
    or_once: tuple[Line, ...] = ()  # a line that alone is enough
    unless: tuple[Line, ...] = ()  # a line that ends it at once
    alive: tuple[Line, ...] = ()  # a sign of life
    settles_after: timedelta | None = None  # nothing for so long after a sign of life: over
    quiet_for: timedelta | None = None  # nothing for so long: over; else `within`
    recovery: Recovery | None = None
    about: Attribution | None = None
    last: tuple[Line, ...] = ()  # the newest such line is quoted in the sentence
    key: str = ""


def read(section: Section) -> Burst:
    lines = read_lines(section, "of" if section.has("of") else "line")
    want = Burst(
        line=with_levels(lines, config.read_levels(section), section.names("logger", ())),
        at_least=section.number("at_least", 1, least=1, most=10_000),
        within=section.duration("within"),
        per=section.names("per", ()),
        or_once=read_lines(section, "or_once", ()),
        unless=read_lines(section, "unless", ()),
        alive=read_lines(section, "lives", ()),
        settles_after=section.duration("settles_after", None),
        quiet_for=section.duration("quiet_for", None),
        recovery=_read_recovery(section),
        about=_read_attribution(section),
        last=read_lines(section, "last", ()),
        key=section.text("key", ""),
    )
    named = names_of((*want.about.named_by, *want.about.asked_by)) if want.about else frozenset()
    need_names(section, "per", [name for name in want.per if name not in named], want.line)
    if want.at_least > 1 and want.within < timedelta(seconds=1) * (want.at_least - 1) / 1000:
        section.wrong_at(
            "within", "no log can hold so many lines in so short a time; this rule would never match"
        )
    if bool(want.alive) != (want.settles_after is not None):
        section.wrong(
            "'lives' and 'settles_after' go together: after this sign of life and nothing for so long, the trouble has ended"
        )
    return want


def _read_recovery(section: Section) -> Recovery | None:
    passed = section.has("passed_by")
    lines = aside(read_lines(section, "passed_by" if passed else "recovered_by", ()))
    after = section.duration("recovered_after", timedelta(0), least=timedelta(0))
    same = section.names("recovered_for", ())
    for name in same:
        if name not in names_of(lines):
            section.wrong_at("recovered_for", f"'{harmless(name, 40)}' is not captured by these lines")
    return Recovery(lines, after, same, ends=not passed) if lines else None


def _read_attribution(section: Section) -> Attribution | None:
    about = Attribution(
        named_by=read_lines(section, "named_by", ()),
        claimed_by=read_lines(section, "claimed_by", ()),
        released_by=read_lines(section, "released_by", ()),
        asked_by=read_lines(section, "asked_by", ()),
        session_by=read_lines(section, "session_by", ()),
    )
    if bool(about.asked_by) != bool(about.session_by):
        section.wrong(
            "'asked_by' and 'session_by' go together: a chat's message, and the session that took it up"
        )
    need_names(section, "session_by", ("session",) if about.session_by else (), about.session_by)
    return about if about.named_by or about.asked_by else None


def lines(want: Burst) -> list[tuple[str, Line, bool]]:
    about = want.about or Attribution()
    return [
        *(("line", line, True) for line in want.line),
        *(("or_once", line, True) for line in want.or_once),
        *(("unless", line, False) for line in want.unless),
        *(("last", line, False) for line in want.last),
        *(("alive", line, False) for line in want.alive),
        *(("recovered", line, False) for line in (want.recovery.line if want.recovery else ())),
        *(("answered", line, False) for line in _of_any_session(want.recovery)),
        *(("named", line, False) for line in about.named_by),
        *(("claimed", line, False) for line in about.claimed_by),
        *(("released", line, False) for line in about.released_by),
        *(("asked", line, False) for line in about.asked_by),
        *(("session", line, False) for line in about.session_by),
        *([("known", Line("sessions"), False)] if about.session_by else []),
    ]


def _of_any_session(recovery: Recovery | None) -> tuple[Line, ...]:
    """The lines by which any session shows that what had failed works again."""
    if recovery is None or not recovery.same:
        return ()
    return tuple(replace(line, by=recovery.same) for line in recovery.line)


def reach(want: Burst) -> timedelta:
    return longest(want.within)


def says(want: Burst) -> frozenset[str]:
    about = want.about or Attribution()
    lines = (*want.line, *want.or_once, *want.last, *about.named_by, *about.asked_by)
    return names_of(lines) | {"times", "at_least", "within"}


class Detector:
    def __init__(self, want: Burst):
        self.want = want
        self.series: dict[str, Series] = {}
        self.many = MANY  # keys; with so many it is time to tidy up
        self.last: Captures = {}
        self.known: dict[str, Captures] = {}  # session → what its lines captured, for lines that lack it
        # session → what its newest line captured, the same completed, its key, its series, what failed
        self.routes: dict[str, tuple[Captures, Captures, str, Series, str]] = {}
        self.same = want.recovery.same if want.recovery is not None else ()
        self.names = Names(want.per)
        self.chats = SessionChats()
        self.traces: list[Trace] = []  # of the lines that show that a session works again
        if want.recovery is not None:
            self.follow("recovered", Trace())  # for those that come as events
        self.acts: dict[str, Callable[[Captures, Event], None]] = {
            "or_once": self._count_once,
            "line": self._count,
            "last": self._last,
            "alive": self._alive,
            "unless": self._unless,
            "recovered": self._recovered,
            "answered": self._answered,
            "named": self._named,
            "claimed": self._claimed,
            "released": self._released,
            "asked": self.chats.asked,
            "session": self._began,
            "known": self._known,
        }

    def follow(self, role: str, trace: Trace) -> None:
        """Lines of which only the time matters are asked for when there was a failure, or never."""
        self.traces.append(trace)
        trace.followers.append(self._settle)

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        for role, captures in roles.items():
            if role not in COUNTED:
                self.acts[role](captures, event)
        counted = [role for role in COUNTED if role in roles]
        if counted and "unless" not in roles:
            self.acts[counted[0]](roles[counted[0]], event)

    def _count(self, captures: Captures, event: Event, enough: bool = False) -> None:
        session = event.session
        route = self.routes.get(session)
        if route is not None and route[0] is captures:  # as the line before it of this session
            _, completed, key, series, name = route
        else:
            completed = self._completed(captures, event)
            key, series = self._series(completed, event)
            name = whose(completed, self.same)
            if self.want.about is None:
                if len(self.routes) > MEMORY:
                    self.routes.clear()
                self.routes[session] = captures, completed, key, series, name
        if self.traces and (series.current is not None or len(series.recent) + 1 >= self.want.at_least):
            self._recover([series], event.at)
        series.add(key, event, completed, enough)
        if self.same:
            series.failed[name] = event.at

    def _series(self, captures: Captures, event: Event) -> tuple[str, Series]:
        want = self.want
        key = key_of(captures, want.per, want.key)
        if want.about is not None and not key.replace("/", ""):
            key = event.session or key
        series = self.series.get(key)
        if series is None:
            if len(self.series) >= self.many:
                tidy(self.series, event.at - SLACK)
                self.routes.clear()
                self.many = 2 * len(self.series) + MANY
            series = self.series[key] = Series(want.at_least, want.within, want.settles_after, want.quiet_for)
            series.about = {name: captures[name] for name in want.per if captures.get(name)}
        return key, series

    def _count_once(self, captures: Captures, event: Event) -> None:
        self._count(captures, event, enough=True)

    def _last(self, captures: Captures, _: Event) -> None:
        self.last = {name: harmless(value, 200) for name, value in captures.items()}

    def _alive(self, captures: Captures, event: Event) -> None:
        for series in self._agreeing(captures):
            series.alive(event.at)

    def _unless(self, captures: Captures, event: Event) -> None:
        for series in self._agreeing(captures):
            series.end(event.at)

    def _recovered(self, _: Captures, event: Event) -> None:
        self.traces[0].note(event.at, event.session)

    def _answered(self, captures: Captures, event: Event) -> None:
        self.traces[0].note(event.at, whose(captures, self.same))

    def _named(self, captures: Captures, event: Event) -> None:
        self.names.name(captures, event.at)

    def _claimed(self, captures: Captures, event: Event) -> None:
        self.names.claim(captures, event.at)

    def _released(self, captures: Captures, event: Event) -> None:
        self.names.take(captures, event.at)

    def _known(self, _: Captures, event: Event) -> None:
        self.chats.known(event)

    def _began(self, captures: Captures, event: Event) -> None:
        """A session takes up a message of a chat: whatever it achieves counts for the chat's failures, too."""
        self.chats.began(captures, event)
        if not self.series:
            return
        session = captures.get("session", "")
        series = self.series.get(key_of(self.chats.of(session), self.want.per, self.want.key))
        if series is not None:
            series.sessions.add(session)

    def _agreeing(self, captures: Captures) -> list[Series]:
        """The series that this line is about: all, but those that it names otherwise."""
        if not self.series:
            return []
        named = [name for name in self.want.per if captures.get(name)]
        if not named:
            return list(self.series.values())
        return [
            series
            for series in self.series.values()
            if all(series.about.get(name, captures[name]) == captures[name] for name in named)
        ]

    def _completed(self, captures: Captures, event: Event) -> Captures:
        """What was captured, with what other lines tell of the same session or the same story."""
        if self.want.about is not None and self.want.about.named_by:
            captures = {**self.names.take(captures, event.at), **captures}
        if event.session:
            captures = {
                **self.known.get(event.session, {}),
                **self.chats.of(event.session),
                **{name: value for name, value in captures.items() if value},
            }
            if len(self.known) > MEMORY:
                self.known.clear()
            self.known[event.session] = captures
        return captures

    def _settle(self, before: datetime) -> None:
        """Signs before this moment will be forgotten: take from them what is needed."""
        self._recover([series for series in self.series.values() if series.recent], before)

    def _recover(self, failing: Iterable[Series], before: datetime) -> None:
        """End what recovered before this moment; attempts that a later one made good do not count."""
        recovery = self.want.recovery or Recovery((), timedelta(0))
        after = recovery.after
        for series in failing:
            if not series.recent or (series.current is not None and not recovery.ends):
                continue
            for trace in self.traces:
                trace.read(series.recent[0].at, before)
            if series.current is not None:
                since = series.last_at + after + INSTANT
                signs = [at for session in series.sessions for at in self._signs(session, since, before)]
                signs += self._answers(series, before)
                if signs:
                    series.end(min(signs))
            else:
                failed = [
                    event
                    for event in series.recent
                    if not self._signs(event.session, event.at + after + INSTANT, before)
                ]
                series.recent.clear()
                series.recent.extend(failed)

    def _answers(self, series: Series, before: datetime) -> list[datetime]:
        """When the last of all that had failed in the present burst was answered again, in whatever session."""
        begun = series.current.opened_at if series.current is not None else LONG_AGO
        first = [
            min(self._signs(who, at + UNDER_WAY, before), default=None)
            for who, at in series.failed.items()
            if at >= begun
        ]
        return [] if None in first else sorted(at for at in first if at is not None)[-1:]

    def _signs(self, session: str, since: datetime, before: datetime) -> list[datetime]:
        return (
            [at for trace in self.traces for at in trace.between(session, since, before)] if session else []
        )

    def spans(self, now: datetime) -> list[Span]:
        if self.traces:
            self._recover([series for series in self.series.values() if series.current], now + INSTANT)
        found = [span for series in self.series.values() for span in series.spans(now)]
        return [replace(span, quotes={**span.quotes, **self.last}) for span in found] if self.last else found

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: how near each key is to its limit."""
        return states(self.series, self.want.at_least, self.want.within, now)

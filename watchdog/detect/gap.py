"""Something began and its answer never came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from watchdog.detect.common import Captures, key_of, longest, names_of, need_names, read_lines
from watchdog.model import Event, Line, Span
from watchdog.text import ago, spell
from watchdog.values import Any, dataclass, field
from watchdog.yamlfile import Section

KIND = "gap"
LINK_WITHIN = timedelta(minutes=2)  # a turn that starts later than this belongs to another message
AT_WORK = timedelta(minutes=5)  # after its last step a turn counts as going on for so long
MEMORY = 10_000  # sessions remembered
Owner = tuple[str, str]  # the key of a chat, and a digest of who speaks there


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
    session_by: tuple[Line, ...] = ()  # tells which session works on it
    progress: tuple[Line, ...] = ()  # of that session: slow is not stuck
    turn_over: tuple[Line, ...] = ()  # of that session: the next answer in its chat is its answer
    sooner: Sooner | None = None
    key: str = ""


def read(section: Section) -> Gap:
    want = Gap(
        opened_by=read_lines(section, "opened_by"),
        closed_by=read_lines(section, "closed_by"),
        longer_than=section.duration("longer_than", least=timedelta(0)),
        same=section.names("same", ()),
        dropped_by=read_lines(section, "dropped_by", ()),
        reset_by=read_lines(section, "reset_by", ()),
        session_by=read_lines(section, "session_by", ()),
        progress=read_lines(section, "progress", ()),
        turn_over=read_lines(section, "turn_over", ()),
        sooner=_read_sooner(section),
        key=section.text("key", ""),
    )
    need_names(section, "same", want.same, (*want.opened_by, *want.closed_by, *want.dropped_by))
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
    roles += [("turn_over", want.turn_over, True)]
    roles += [("sooner", want.sooner.line if want.sooner else (), False)]
    if want.session_by:
        roles += [("known", (Line("sessions"),), False)]
    return [(role, line, required) for role, group, required in roles for line in group]


def reach(want: Gap) -> timedelta:
    return longest(want.longer_than, want.sooner.within + want.sooner.longer_than if want.sooner else None)


def says(want: Gap) -> frozenset[str]:
    return names_of(want.opened_by) | {"waited", "longer_than"}


@dataclass
class Waiting:
    """One thing that has begun and is not answered."""

    opened: Event
    captures: Captures
    sign: datetime  # when it was last seen to live
    session: str = ""
    over: datetime | None = None  # its turn has ended; the answer is on its way
    failed: datetime | None = None  # the newest failure before the shorter patience ran out
    failed_late: datetime | None = None  # the first failure after that
    evidence: list[Event] = field(default_factory=list)

    @property
    def user(self) -> str:
        return self.opened.facts.get("user", "")


class Watch:
    def __init__(self, want: Gap):
        self.want = want
        self.waiting: dict[str, list[Waiting]] = {}
        self.sessions: dict[str, Owner] = {}  # session → the chat and person it works for
        self.owners: dict[Owner, str] = {}  # and back
        self.strangers: dict[str, Captures] = {}  # sessions of which we cannot tell for whom they work
        self.failures: dict[str, datetime] = {}  # session → its newest failure
        self.closed: list[Span] = []

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "known" in roles:
            owner = key_of(event.facts, self.want.same, self.want.key), event.facts.get("user", "")
            self._know(event.facts["session"], owner)
        if "reset" in roles:
            self._end(list(self.waiting), event.at)
            self.strangers.clear()
        if "closed" in roles:
            for key in self._answered(roles["closed"]):
                self._close_turn(key, event.at)
        if "dropped" in roles:
            for key in self._answered(roles["dropped"]):
                self._close(key, self.waiting[key][:1], event.at)
        if "opened" in roles:
            self._open(roles["opened"], event)
        if "session" in roles:
            self._link(roles["session"], event)
        if "turn_over" in roles:
            for one in self._of(event.session):
                one.over = one.over or event.at
        if "progress" in roles:
            for one in self._of(event.session):
                self._progress(one, event.at)
        if "sooner" in roles and event.session:
            self._failed(event)

    def _answered(self, captures: Captures) -> list[str]:
        """The keys that wait for this answer."""
        key = key_of(captures, self.want.same, self.want.key)
        if key in self.waiting:
            return [key]
        # A session key ends in the chat, or in the chat and the person: 'CHAT' or 'CHAT:PERSON'.
        found: list[str] = []
        while ":" in key and not found:
            key = key.rpartition(":")[0]
            found = [key] if key in self.waiting else []
        return found

    def _open(self, captures: Captures, event: Event) -> None:
        key = key_of(captures, self.want.same, self.want.key)
        one = Waiting(event, captures, event.at, evidence=[event])
        one.session = self.owners.get((key, one.user), "")
        one.failed = self.failures.get(one.session)
        queue = self.waiting.setdefault(key, [])
        if not queue or self.want.session_by:
            queue.append(one)  # without sessions to tell them apart, only the first matters

    def _know(self, session: str, owner: Owner) -> None:
        _remember(self.sessions, session, owner)
        _remember(self.owners, owner, session)

    def _link(self, captures: Captures, event: Event) -> None:
        """A turn begins: find the message that it answers."""
        session = captures.get("session", "")
        if not session or session in self.sessions:
            return
        common = [name for name in self.want.same if name in captures]
        recent = [
            (key, one)
            for key, queue in islice(reversed(self.waiting.items()), 200)
            for one in queue
            if all(one.captures.get(name) == captures[name] for name in common)
        ]
        said = event.facts.get("said")
        exact = [pair for pair in recent if said and pair[1].opened.facts.get("said") == said]
        near = [pair for pair in recent if not pair[1].session and event.at - pair[1].opened.at <= LINK_WITHIN]
        found = exact or near
        if len({key for key, _ in found}) == 1:
            key, answered = found[0]
            self._know(session, (key, answered.user))
            for one in self.waiting[key]:
                if one.user == answered.user:
                    one.session = session
        else:
            _remember(self.strangers, session, {name: captures[name] for name in common})

    def _of(self, session: str) -> Iterator[Waiting]:
        """Whoever waits for this session; all that may, when we cannot tell."""
        if session in self.sessions:
            key, _ = self.sessions[session]
            for one in self.waiting.get(key, ()):
                if one.session in ("", session):
                    yield one
        elif session in self.strangers:
            common = self.strangers[session]
            for queue in self.waiting.values():
                for one in queue:
                    if all(one.captures.get(name) == value for name, value in common.items()):
                        yield one

    def _progress(self, one: Waiting, at: datetime) -> None:
        if (span := self._span(one, at, at)) is not None:
            self.closed.append(span)
        one.sign = max(one.sign, at)
        one.failed, one.failed_late = one.failed_late or one.failed, None

    def _failed(self, event: Event) -> None:
        assert self.want.sooner is not None
        _remember(self.failures, event.session, event.at)
        for one in self._of(event.session):
            if event.at <= one.sign + self.want.sooner.longer_than:
                one.failed = event.at
            elif one.failed_late is None:
                one.failed_late = event.at
            one.evidence = [*one.evidence[:1], *one.evidence[1:][-2:], event]

    def _opens_at(self, one: Waiting) -> datetime:
        ordinary = one.sign + self.want.longer_than
        if self.want.sooner is None:
            return ordinary
        early = one.sign + self.want.sooner.longer_than
        if one.failed is not None and early - one.failed <= self.want.sooner.within:
            return early
        return min(ordinary, one.failed_late) if one.failed_late is not None else ordinary

    def _span(self, one: Waiting, now: datetime, ended: datetime | None) -> Span | None:
        opens = self._opens_at(one)
        if now < opens:
            return None
        quotes = {
            **one.captures,
            "waited": spell(now - one.opened.at),
            "longer_than": spell(opens - one.sign),
        }
        key = key_of(one.captures, self.want.same, self.want.key)
        return Span(key, one.opened.at, opens, max(one.sign, one.evidence[-1].at), ended, quotes, {}, tuple(one.evidence))

    def _end(self, keys: list[str], at: datetime) -> None:
        for key in keys:
            self._close(key, self.waiting[key], at)

    def _close_turn(self, key: str, at: datetime) -> None:
        """An answer came. In a group each member has a turn of their own, and the answer does not say whose it was."""
        turns: dict[str, list[Waiting]] = {}
        for one in self.waiting[key]:
            turns.setdefault(one.session or one.user, []).append(one)
        over = [turn for turn in turns.values() if turn[0].over is not None]
        first = min(over, key=lambda turn: turn[0].over or at) if over else next(iter(turns.values()))
        self._close(key, first, at)

    def _close(self, key: str, done: list[Waiting], at: datetime) -> None:
        # Whatever waited longest speaks for the rest.
        spans = [span for one in done if (span := self._span(one, at, at)) is not None]
        self.closed.extend(spans[:1])
        self.waiting[key] = [one for one in self.waiting[key] if one not in done]
        if not self.waiting[key]:
            del self.waiting[key]

    def spans(self, now: datetime) -> list[Span]:
        still = (next((span for one in queue if (span := self._span(one, now, None)) is not None), None) for queue in self.waiting.values())
        return [*self.closed, *(span for span in still if span is not None)]

    def since(self) -> datetime | None:
        """When the oldest thing began that still waits: a later check must see it begin, too."""
        return min((queue[0].opened.at for queue in self.waiting.values()), default=None) if self.want.progress else None

    def at_work(self, now: datetime) -> int:
        """How many wait while somebody works for them: what a restart would cut off."""
        if not self.want.progress:
            return 0
        return sum(one.sign > one.opened.at and now - one.sign < AT_WORK for queue in self.waiting.values() for one in queue)

    def state(self, now: datetime) -> list[str]:
        """For explain: who waits, and how long still."""
        found = []
        for key, queue in self.waiting.items():
            one = queue[0]
            worked = f", last progress {ago(one.sign, now)}" if one.sign > one.opened.at else ""
            last = one.failed_late or one.failed
            failed = f", last failure {ago(last, now)}" if last else ""
            limit = spell(self._opens_at(one) - one.sign)
            found.append(f"{key or 'all'}: waiting for {spell(now - one.opened.at)} (limit {limit}{worked}{failed})")
        return found or ["nothing is waiting"]


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) >= MEMORY:
        memory.clear()
    memory[key] = value

"""Who waits for an answer, who works on it, and since when nothing lives: the memory behind a gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from watchdog.detect.common import Captures, key_of
from watchdog.detect.sessions import Owner, Recent, Waiting, agree
from watchdog.detect.workers import Workers, few, stranger
from watchdog.model import Event, Span
from watchdog.text import ago, spell
from watchdog.trace import Trace
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.detect.gap import Gap

LINK_WITHIN = timedelta(minutes=2)  # a turn that starts later than this belongs to another message
AT_WORK = timedelta(minutes=5)  # after its last step a turn counts as going on for so long
RESUMED_WITHIN = timedelta(minutes=10)  # after a restart; what is woken later is something else
LET_GO_EVERY = timedelta(minutes=5)
INSTANT = timedelta(milliseconds=1)  # logs know no shorter
MEMORY = 10_000  # chats remembered that a restart cut off


def _turn_over(one: Waiting, at: datetime) -> None:
    one.over = one.over or at


class Watch:
    def __init__(self, want: Gap):
        self.want = want
        self.waiting: dict[str, list[Waiting]] = {}
        self.said: dict[str, list[Waiting]] = {}  # the same by what was said
        self.fresh: deque[Waiting] = deque()  # those of the last minutes, answered or not
        self.workers = Workers(self.waiting)
        self.sessions = self.workers.sessions
        self.failures = Recent()  # session → its newest failure
        self.closed: list[Span] = []
        self.cut_off: dict[str, datetime] = {}  # key → when a restart cut it off
        self.traces: dict[str, list[Trace]] = {"progress": [Trace()], "turn_over": [Trace()]}
        self.margins: dict[str, list[Any]] = {"progress": [], "turn_over": []}
        self.let_go_at = datetime.min.replace(tzinfo=UTC)  # when to look next whether parts of them can be parted from
        self.patience = min(want.longer_than, want.sooner.longer_than) if want.sooner else want.longer_than
        self.acts: dict[str, Callable[[Captures, Event], None]] = {
            "known": self._known,
            "reset": self._reset,
            "closed": self._closed,
            "dropped": self._dropped,
            "opened": self._open,
            "resumed": self._resume,
            "session": self._link,
            "turn_over": lambda _, event: self.traces["turn_over"][0].note(event.at, event.session),
            "progress": lambda _, event: self.traces["progress"][0].note(event.at, event.session),
            "sooner": self._failed,
        }

    def follow(self, role: str, trace: Trace) -> None:
        """Lines of which only the time matters are read when somebody has waited for long, or never."""
        self.traces[role].append(trace)
        self.margins[role].append(trace.margin)
        trace.margin.followers.append(partial(self._settle, role))

    def awake(self) -> bool:
        return bool(self.waiting)

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if event.at >= self.let_go_at:
            self.let_go_at = event.at + LET_GO_EVERY
            for margin in [*self.margins["progress"], *self.margins["turn_over"]]:
                margin.let_go(event.at - self.patience)
            if self.workers.strangers:
                self.workers.forget(min((queue[0].opened.at for queue in self.waiting.values()), default=event.at))
        if len(roles) == 1:
            for role, captures in roles.items():
                self.acts[role](captures, event)
            return
        for role, act in self.acts.items():
            if role in roles:
                act(roles[role], event)

    def _settle(self, role: str, before: datetime) -> None:
        """What sessions did before this moment will be forgotten: take what those need who wait since then."""
        if late := [one for one in self._all() if one.up_to[role] < before]:
            self._catch_up(late, before, role)

    def _late(self, those: Iterable[Waiting], at: datetime) -> list[Waiting]:
        """Those who wait for so long that it matters what was done for them."""
        return [one for one in those if at - one.sign >= self.patience]

    def _catch_up(self, those: Sequence[Waiting], now: datetime, role: str = "progress") -> None:
        """What was done for these until now."""
        workers, traces = self.workers, self.traces[role]
        names = {one: workers.names(one, one.up_to[role]) for one in those}
        first = min(one.up_to[role] for one in those)
        unclear = workers.strangers if any(one.linked > one.up_to[role] for one in those) else ()
        for margin in self.margins[role]:
            margin.read(first, now, set(unclear).union(*names.values()))
        anywhere = [name for name in workers.anywhere if any(trace.between(name, first, now) for trace in traces)] if unclear else []
        take = self._progress if role == "progress" else _turn_over
        for one in those:
            theirs = names[one].union(workers.maybe(one, one.up_to[role], anywhere)) if unclear else names[one]
            signs = [(at, name) for trace in traces for name in theirs for at in trace.between(name, one.up_to[role], now)]
            for at, name in sorted(signs):
                if self.workers.works_for(name, one, at):
                    take(one, at)
            one.up_to[role] = max(one.up_to[role], now)

    def _known(self, _: Captures, event: Event) -> None:
        owner = key_of(event.facts, self.want.same, self.want.key), event.facts.get("user", "")
        self._know(event.facts["session"], owner, event.at)

    def _reset(self, _: Captures, event: Event) -> None:
        for key in list(self.waiting):
            _remember(self.cut_off, key, event.at)
            self._close(key, self.waiting[key], event.at)
        self.workers.forget()

    def _closed(self, captures: Captures, event: Event) -> None:
        for key in self._answered(captures):
            queue = self.waiting[key]
            if len(queue) > 1:
                self._close_turn(key, event.at)
            else:
                self._close(key, queue, event.at)

    def _dropped(self, captures: Captures, event: Event) -> None:
        for key in self._answered(captures):
            self._close(key, self.waiting[key][:1], event.at)

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
        queue = self.waiting.get(key)
        if queue is not None and not self.want.session_by:
            return  # without sessions to tell them apart, only the first matters
        one = Waiting(key, event, captures)
        if queue is None:
            self.waiting[key] = [one]
        else:
            queue.append(one)
        if self.want.session_by:
            session = self.sessions.owners.get((key, one.user))
            if session is not None:
                self.workers.engage(one, session)
                one.failed = self.failures.get(session)
            self.said.setdefault(one.said, []).append(one)
            self.fresh.append(one)
            while event.at - self.fresh[0].opened.at > LINK_WITHIN:
                self.fresh.popleft()

    def _resume(self, captures: Captures, event: Event) -> None:
        """A turn that a restart cut off begins again: whoever asked is still waiting. Others are only woken."""
        at = self.cut_off.pop(key_of(captures, self.want.same, self.want.key), None)
        if at is not None and event.at - at <= RESUMED_WITHIN:
            self._open(captures, event)

    def _know(self, session: str, owner: Owner, at: datetime) -> None:
        if self.sessions.know(session, owner, at):
            self.sessions.keep([(one.session, (one.key, one.user)) for one in self._all()])

    def _link(self, captures: Captures, event: Event) -> None:
        """A turn begins: find the message that it answers."""
        session, settled = captures.get("session", ""), self.sessions.settled
        if not session or settled.get(session) or settled.get(event.session):
            return
        common = {name: captures[name] for name in self.want.same if name in captures}
        told = event.facts.get("said")
        found = few(one for one in self.said.get(told, ()) if agree(one, common)) if told else []
        if not found:
            near = [one for one in self.fresh if event.at - one.opened.at <= LINK_WITHIN and agree(one, common)]
            # An answer to something older may have come in between and counted for this one, too.
            found = [one for one in near if told and one.said == told]
            found = found or [one for one in near if not one.session and one in self.waiting.get(one.key, ())]
        keys = frozenset(one.key for one in found)
        known = self.sessions.chats.get(session)
        if len(keys) != 1:
            if known is None:
                self.workers.meet(session, stranger(common, found, event.at))
            return
        answered = found[0]
        if known is not None and known[0] == answered.key:
            settled[session] = True
        else:
            # Short words are said by many, so that the first guess may have been wrong.
            for one in self.waiting.get(known[0], ()) if known is not None else ():
                if one.session == session:
                    self.workers.engage(one, "")
            self._know(session, (answered.key, answered.user), event.at)
        for one in self.waiting.get(answered.key, ()):
            if one.user == answered.user and one.session != session:
                self.workers.engage(one, session, event.at)

    def _progress(self, one: Waiting, at: datetime) -> None:
        if at <= one.sign:
            return
        if at - one.sign >= self.patience and (span := self._span(one, at, at)) is not None:
            self.closed.append(span)
        one.sign = at
        one.failed, one.failed_late = one.failed_late or one.failed, None

    def _failed(self, _: Captures, event: Event) -> None:
        if self.want.sooner is None or not event.session:
            return
        self.failures.put(event.session, event.at)
        theirs = self.workers.whom(event.session, event.at)
        if late := self._late(theirs, event.at):
            self._catch_up(late, event.at)
        for one in theirs:
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
        if now - one.sign < self.patience or now < (opens := self._opens_at(one)):
            return None
        quotes = {
            **one.captures,
            "waited": spell(now - one.opened.at),
            "longer_than": spell(opens - one.sign),
        }
        return Span(one.key, one.opened.at, opens, max(one.sign, one.evidence[-1].at), ended, quotes, {}, tuple(one.evidence))

    def _close_turn(self, key: str, at: datetime) -> None:
        """An answer came where several wait. In a group each member has a turn of their own, and the answer does not say whose it was."""
        turns: dict[str, list[Waiting]] = {}
        for one in self.waiting[key]:
            turns.setdefault(one.session or one.user, []).append(one)
        if len(turns) > 1:
            self._catch_up(self.waiting[key], at, "turn_over")
        over = [turn for turn in turns.values() if turn[0].over is not None]
        first = min(over, key=lambda turn: turn[0].over or at) if over else next(iter(turns.values()))
        self._close(key, first, at)

    def _close(self, key: str, done: list[Waiting], at: datetime) -> None:
        if late := self._late(done, at):
            self._catch_up(late, at)
            # Whatever waited longest speaks for the rest.
            spans = [span for one in late if (span := self._span(one, at, at)) is not None]
            self.closed.extend(spans[:1])
        for one in done if self.want.session_by else ():
            self.workers.release(one)
            same = self.said[one.said]
            same.remove(one)
            if not same:
                del self.said[one.said]
        if done is not self.waiting[key] and (left := [one for one in self.waiting[key] if one not in done]):
            self.waiting[key] = left
        else:
            del self.waiting[key]

    def _all(self) -> list[Waiting]:
        return [one for queue in self.waiting.values() for one in queue]

    def spans(self, now: datetime) -> list[Span]:
        if late := self._late(self._all(), now):
            self._catch_up(late, now + INSTANT)
        still = (next((span for one in queue if (span := self._span(one, now, None)) is not None), None) for queue in self.waiting.values())
        return [*self.closed, *(span for span in still if span is not None)]

    def since(self) -> datetime | None:
        """When the oldest thing began that still waits: a later check must see it begin, too."""
        return min((queue[0].opened.at for queue in self.waiting.values()), default=None) if self.want.progress else None

    def at_work(self, now: datetime) -> int:
        """How many wait while somebody works for them: what a restart would cut off."""
        if not self.want.progress or not self.waiting:
            return 0
        self._catch_up(self._all(), now + INSTANT)
        return sum(one.sign > one.opened.at and now - one.sign < AT_WORK for queue in self.waiting.values() for one in queue)

    def state(self, now: datetime) -> list[str]:
        """For explain: who waits, and how long still."""
        if self.waiting:
            self._catch_up(self._all(), now + INSTANT)
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

"""Who waits for an answer, who works on it, and since when there was no sign of life: the memory behind a gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from watchdog.detect.common import Captures, key_of
from watchdog.detect.gap_sessions import MOST, Owner, Recent, Waiting, agree
from watchdog.detect.gap_workers import Workers, few, stranger
from watchdog.model import Event, Reason, Span
from watchdog.model.trace import Trace
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from watchdog.detect.gap import Gap
    from watchdog.sqlite import ToolCalls

LINK_WITHIN = timedelta(minutes=2)  # a turn that starts later than this belongs to another message
AT_WORK = timedelta(minutes=5)  # after its last step a turn counts as going on for so long
RESUMED_WITHIN = timedelta(minutes=10)  # after a restart; what is woken later is something else
LET_GO_EVERY = timedelta(minutes=5)
INSTANT = timedelta(milliseconds=1)  # logs know no shorter
MEMORY = 10_000  # chats remembered that a restart cut off
SESSION_KEY = "session_key"  # the capture of an answer that tells whose it is


UNSEEN, TOOL = "unseen", "tool"  # causes: the database cannot be asked; a tool has not come back for too long
# the tool calls of sessions, each at a moment, asked of the gateway's database
Ask = Callable[[Sequence[tuple[str, datetime]]], Any]


def _turn_over(wait: Waiting, at: datetime) -> None:
    wait.over = wait.over or at


class Detector:
    def __init__(self, want: Gap):
        self.want = want
        self.waiting: dict[str, list[Waiting]] = {}
        self.said: dict[str, list[Waiting]] = {}  # the same by what was said
        self.fresh: deque[Waiting] = deque()  # those of the last minutes, answered or not
        self.workers = Workers(self.waiting)
        self.sessions = self.workers.sessions
        self.failures = Recent()  # session → its newest failure
        self.members = Recent()  # session key as an answer names it → who speaks there
        self.closed: list[tuple[Span, tuple[str, ...]]] = []  # with the sessions that may have worked on it
        self.doubtful: set[str] = set()  # keys that wait too long, unless a user name wrote what tells so
        self.ask: Ask | None = None  # given by the evaluation; None: there is no database to ask
        self.asked: dict[tuple[str, datetime], ToolCalls | None] = {}
        self.unreadable: datetime | None = None  # when a message was last met that cannot be read for certain
        self.nameless: set[str] = set()  # sessions whose turn may be for such a message, and for any other
        self.cut_off: dict[str, datetime] = {}  # key → when a restart cut it off
        self.last: dict[str, Captures] = {}  # key → what its newest line of `last` captured
        self.traces: dict[str, list[Trace]] = {"progress": [], "turn_over": []}
        for role in self.traces:
            self.follow(role, Trace())  # for signs that come as events
        # when to look next whether parts of them can be forgotten
        self.let_go_at = datetime.min.replace(tzinfo=UTC)
        self.patience = min(want.longer_than, want.sooner.longer_than) if want.sooner else want.longer_than
        self.acts: dict[str, Callable[[Captures, Event], None]] = {
            "known": self._known,
            "reset": self._reset,
            "closed": self._closed,
            "dropped": self._dropped,
            "ended": self._ended,
            "last": self._last,
            "opened": self._open,
            "joined": self._join,
            "resumed": self._resume,
            "session": self._link,
            "turn_over": lambda _, event: self.traces["turn_over"][0].note(event.at, event.session),
            "progress": lambda _, event: self.traces["progress"][0].note(event.at, event.session),
            "sooner": self._failed,
        }

    def follow(self, role: str, trace: Trace) -> None:
        """Lines of which only the time matters are asked for when a chat has waited for long, or never."""
        self.traces[role].append(trace)
        trace.followers.append(partial(self._settle, role))

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        for role, act in self.acts.items():
            if role in roles:
                act(roles[role], event)

    def _let_go(self, at: datetime) -> None:
        """Forget what can no longer be asked for."""
        self.let_go_at = at + LET_GO_EVERY
        for trace in dict.fromkeys([*self.traces["progress"], *self.traces["turn_over"]]):
            trace.forget(at - self.patience)
        if self.workers.strangers:
            self.workers.forget(min((queue[0].opened.at for queue in self.waiting.values()), default=at))

    def see_unreadable(self, at: datetime) -> None:
        """A message came, and nobody can tell for certain in which chat: the turns that begin now may be for it."""
        self.unreadable = at

    def see_doubtful(self, roles: Mapping[str, Captures], event: Event) -> None:
        """A record that a user name may have written opens and settles nothing for certain."""
        self.see_unreadable(event.at)
        if "reset" in roles:
            for wait in self._all():
                wait.doubted = event.at
        for role in ("closed", "dropped"):
            for key in self._answered(roles[role]) if role in roles else ():
                queue = self.waiting[key]
                for wait in queue:
                    wait.doubted = event.at
                if over := [wait for wait in queue if self._own_turn_over(wait, event.at)]:
                    self._close(key, over, event.at)
        for role in self.traces.keys() & roles.keys():
            self.traces[role][0].doubt(event.at, event.session)
        for role in ("ended", "session"):
            common = {name: roles[role][name] for name in self.want.same if roles.get(role, {}).get(name)}
            for wait in self._all() if role in roles else ():
                if agree(wait, common):
                    wait.doubted = event.at
        for role in ("opened", "joined", "resumed"):
            if role in roles:
                self.acts[role](roles[role], event)

    def _own_turn_over(self, wait: Waiting, at: datetime) -> bool:
        """Whether the turn that began for it has ended, in a session that is known for certain to be of this chat: then
        an answer is due, and a doubtful one is believed.
        """
        if not self.sessions.settled.get(wait.session) or wait.linked > at:
            return False
        for trace in self.traces["turn_over"]:
            trace.read(wait.linked, at + INSTANT)
        return any(
            trace.between(wait.session, wait.linked, at + INSTANT) for trace in self.traces["turn_over"]
        )

    def _settle(self, role: str, before: datetime) -> None:
        """What sessions did before this moment will be forgotten: take what those need who wait since then."""
        if late := [wait for wait in self._all() if wait.up_to[role] < before]:
            self._catch_up(late, before, role)

    def _late(self, waits: Iterable[Waiting], at: datetime) -> list[Waiting]:
        """Those who wait for so long that it matters what was done for them."""
        return [wait for wait in waits if at - wait.sign >= self.patience]

    def _catch_up(self, waits: Sequence[Waiting], now: datetime, role: str = "progress") -> None:
        """What was done for these until now."""
        workers, traces = self.workers, self.traces[role]
        names = {wait: workers.names(wait, wait.up_to[role]) for wait in waits}
        first = min(wait.up_to[role] for wait in waits)
        unclear = workers.strangers if any(wait.linked > wait.up_to[role] for wait in waits) else ()
        for trace in traces:
            trace.read(first, now)
        anywhere = (
            [name for name in workers.anywhere if any(trace.between(name, first, now) for trace in traces)]
            if unclear
            else []
        )
        take = self._progress if role == "progress" else _turn_over
        for wait in waits:
            theirs = (
                names[wait].union(workers.maybe(wait, wait.up_to[role], anywhere)) if unclear else names[wait]
            )
            signs = [
                (at, name)
                for trace in traces
                for name in theirs
                for at in trace.between(name, wait.up_to[role], now)
            ]
            for at, name in sorted(signs):
                if not self.workers.works_for(name, wait, at):
                    continue
                if name in self.nameless and name != wait.session:
                    wait.doubted = at
                else:
                    take(wait, at)
            if doubts := [trace.doubts[name] for trace in traces for name in theirs if name in trace.doubts]:
                wait.doubted = max(doubts)
            wait.up_to[role] = max(wait.up_to[role], now)

    def _known(self, _: Captures, event: Event) -> None:
        same, key = self.want.same, self.want.key
        chats = event.facts["sessions"]
        self.sessions.know_all(
            {chat["session"]: (key_of(chat, same, key), chat["user"]) for chat in chats}, event.at
        )
        self.members.update({chat["key"]: chat["user"] for chat in chats[-MOST:]})

    def _reset(self, _: Captures, event: Event) -> None:
        if not (self.waiting or self.last or self.workers.strangers):
            return
        spared = event.at - self.want.spares if self.want.spares is not None else event.at
        for key, queue in list(self.waiting.items()):
            if queue[0].opened.at > spared and not queue[0].spared:
                queue[0].spared = True
                continue
            _remember(self.cut_off, key, event.at)
            self._close(key, self.waiting[key], event.at)
        self.last = {key: captures for key, captures in self.last.items() if key in self.waiting}
        self.workers.forget()

    def _closed(self, captures: Captures, event: Event) -> None:
        if not self.waiting:
            return
        for key in self._answered(captures):
            queue = self.waiting[key]
            whose = captures.get(SESSION_KEY, "")
            if len(queue) > 1:
                self._doubt_all(queue, event.at)
                self._close_turn(key, event.at, self.members.get(whose) if whose else None)
            else:
                if whose and self.members.get(whose) is None:
                    self.members.put(whose, queue[0].user)
                self._close(key, queue, event.at)

    def _doubt_all(self, queue: list[Waiting], at: datetime) -> None:
        """Where one may not be waiting at all, an answer may be for any of them."""
        if any(wait.in_doubt() for wait in queue):
            for wait in queue:
                wait.doubted = at

    def _dropped(self, captures: Captures, event: Event) -> None:
        for key in self._answered(captures):
            self._doubt_all(self.waiting[key], event.at)
            self._close(key, self.waiting[key][:1], event.at)

    def _ended(self, captures: Captures, event: Event) -> None:
        """Something ended without saying whose it was: the newest, rather one that is not worked on yet."""
        common = {name: captures[name] for name in self.want.same if captures.get(name)}
        fitting = [wait for wait in self._all() if agree(wait, common)]
        idle = [wait for wait in fitting if not wait.linked < event.at]
        if newest := max(idle or fitting, key=lambda wait: wait.opened.at, default=None):
            self._close(newest.key, [newest], event.at)

    def _last(self, captures: Captures, event: Event) -> None:
        if len(self.last) > MEMORY:
            self.last.clear()
        key = key_of(captures, self.want.same, self.want.key)
        self.last[key] = {name: harmless(value, 200) for name, value in captures.items() if value}

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
        if event.at >= self.let_go_at:
            self._let_go(event.at)
        key = key_of(captures, self.want.same, self.want.key)
        queue = self.waiting.get(key)
        if queue is not None and not self.want.session_by:
            return  # without sessions to tell them apart, only the first matters
        wait = Waiting(key, event, captures)
        if queue is None:
            self.waiting[key] = [wait]
        else:
            queue.append(wait)
        if self.want.session_by:
            session = self.sessions.owners.get((key, wait.user))
            if session is not None:
                self.workers.engage(wait, session)
                wait.failed = self.failures.get(session)
            self.said.setdefault(wait.said, []).append(wait)
            self.fresh.append(wait)
            while event.at - self.fresh[0].opened.at > LINK_WITHIN:
                self.fresh.popleft()

    def _join(self, captures: Captures, event: Event) -> None:
        """More for the session that is at work on this already, and answered together with it."""
        if key_of(captures, self.want.same, self.want.key) not in self.waiting:
            self._open(captures, event)

    def _resume(self, captures: Captures, event: Event) -> None:
        """A turn that a restart cut off begins again: the person who asked is still waiting.

        Others are only woken.
        """
        at = self.cut_off.pop(key_of(captures, self.want.same, self.want.key), None)
        if at is not None and event.at - at <= RESUMED_WITHIN:
            self._open(captures, event)

    def _know(self, session: str, owner: Owner, at: datetime) -> None:
        if self.sessions.know(session, owner, at):
            self.sessions.keep([(wait.session, (wait.key, wait.user)) for wait in self._all()])

    def _link(self, captures: Captures, event: Event) -> None:
        """A turn begins: find the message that it answers."""
        if event.at >= self.let_go_at:
            self._let_go(event.at)
        session, settled = captures.get("session", ""), self.sessions.settled
        if not session or settled.get(session) or settled.get(event.session):
            self._prove(session, event.at)
            return
        common = {name: captures[name] for name in self.want.same if name in captures}
        words = event.facts.get("said")
        uncertain = self.unreadable is not None and event.at - self.unreadable <= LINK_WITHIN
        found = few(wait for wait in self.said.get(words, ()) if agree(wait, common)) if words else []
        if not found:
            near = [
                wait
                for wait in self.fresh
                if event.at - wait.opened.at <= LINK_WITHIN
                and agree(wait, common)
                and wait.opened.doubt is None
            ]
            # An answer to something older may have come in between and counted for this one, too.
            found = [wait for wait in near if words and wait.said == words]
            if not found and not uncertain:
                found = [wait for wait in near if not wait.session and wait in self.waiting.get(wait.key, ())]
        keys = frozenset(wait.key for wait in found)
        known = self.sessions.chats.get(session)
        if len(keys) != 1:
            if known is None:
                self.workers.meet(session, stranger(common, found, event.at))
                if uncertain:
                    self.nameless.add(session)
            return
        answered = found[0]
        if known is not None and known[0] == answered.key:
            settled[session] = answered.opened.doubt is None or answered.proved
        else:
            # Short words are said by many, so that the first guess may have been wrong.
            for wait in self.waiting.get(known[0], ()) if known is not None else ():
                if wait.session == session:
                    self.workers.engage(wait, "")
            self._know(session, (answered.key, answered.user), event.at)
        for wait in self.waiting.get(answered.key, ()):
            if wait.user == answered.user and wait.session != session:
                self.workers.engage(wait, session, event.at)
        if answered.opened.doubt is not None and answered.opened.doubt.provable:
            if known is None or known[0] == answered.key:
                answered.prove(event.at)
            else:
                answered.proved = False

    def _prove(self, session: str, at: datetime) -> None:
        """A turn of this session began, which works for this chat alone: it was asked there."""
        for wait in self.workers.engaged.get(session, ()):
            wait.prove(at)

    def _progress(self, wait: Waiting, at: datetime) -> None:
        if at <= wait.sign:
            return
        if at - wait.sign >= self.patience and (span := self._span(wait, at, at)) is not None:
            self.closed.append((span, self._sessions(wait)))
        wait.sign = at
        wait.failed, wait.failed_late = wait.failed_late or wait.failed, None

    def _failed(self, _: Captures, event: Event) -> None:
        if event.at >= self.let_go_at:
            self._let_go(event.at)
        if self.want.sooner is None or not event.session:
            return
        self.failures.put(event.session, event.at)
        if not self.waiting:
            return
        theirs = self.workers.waiting_for(event.session, event.at)
        if late := self._late(theirs, event.at):
            self._catch_up(late, event.at)
        for wait in theirs:
            if event.at <= wait.sign + self.want.sooner.longer_than:
                wait.failed = event.at
            elif wait.failed_late is None:
                wait.failed_late = event.at
            wait.evidence = [*wait.evidence[:1], *wait.evidence[1:][-2:], event]

    def _opens_at(self, wait: Waiting) -> datetime:
        ordinary = wait.sign + self.want.longer_than
        if self.want.sooner is None:
            return ordinary
        early = wait.sign + self.want.sooner.longer_than
        if wait.failed is not None and early - wait.failed <= self.want.sooner.within:
            return early
        return min(ordinary, wait.failed_late) if wait.failed_late is not None else ordinary

    def _span(self, wait: Waiting, now: datetime, ended: datetime | None) -> Span | None:
        if now - wait.sign < self.patience or now < (opens := self._opens_at(wait)):
            return None
        if wait.in_doubt():
            self.doubtful.update([wait.key] if ended is None else ())
            return None
        quotes = {
            **wait.captures,
            **self.last.get(wait.key, {}),
            "waited": now - wait.began,
            "longer_than": opens - wait.sign,
        }
        return Span(
            wait.key,
            wait.began,
            opens,
            max(wait.sign, wait.evidence[-1].at),
            ended,
            quotes,
            {},
            tuple(wait.evidence),
        )

    def _close_turn(self, key: str, at: datetime, member: str | None) -> None:
        """An answer came where several wait.

        In a group each member has a turn of their own. Newer releases say whose answer it is; where that is not
        known, the turn that has just ended is meant.
        """
        turns: dict[str, list[Waiting]] = {}
        if member and (theirs := [wait for wait in self.waiting[key] if wait.user == member]):
            self._close(key, theirs, at)
            return
        for wait in self.waiting[key]:
            turns.setdefault(wait.session or wait.user, []).append(wait)
        if len(turns) > 1:
            self._catch_up(self.waiting[key], at, "turn_over")
        over = [turn for turn in turns.values() if turn[0].over is not None]
        first = min(over, key=lambda turn: turn[0].over or at) if over else next(iter(turns.values()))
        self._close(key, first, at)

    def _close(self, key: str, done: list[Waiting], at: datetime) -> None:
        if late := self._late(done, at):
            self._catch_up(late, at)
            # Whatever waited longest speaks for the rest.
            spans = [
                (span, self._sessions(wait))
                for wait in late
                if (span := self._span(wait, at, at)) is not None
            ]
            self.closed.extend(spans[:1])
        for wait in done if self.want.session_by else ():
            self.workers.release(wait)
            same = self.said[wait.said]
            same.remove(wait)
            if not same:
                del self.said[wait.said]
        if done is not self.waiting[key] and (
            left := [wait for wait in self.waiting[key] if wait not in done]
        ):
            self.waiting[key] = left
        else:
            del self.waiting[key]

    def _all(self) -> list[Waiting]:
        return [wait for queue in self.waiting.values() for wait in queue]

    def spans(self, now: datetime) -> list[Span]:
        if late := self._late(self._all(), now):
            self._catch_up(late, now + INSTANT)
        found = [(span, sessions, span.opened_at) for span, sessions in self.closed]
        for queue in self.waiting.values():
            spans = ((self._span(wait, now, None), self._sessions(wait)) for wait in queue)
            found += [(span, sessions, now) for span, sessions in spans if span is not None][:1]
        if self.want.tool_calls is None:
            return [span for span, _, _ in found]
        self._ask_all((session, at) for _, sessions, at in found for session in sessions)
        judged = (self._judged(span, sessions, at) for span, sessions, at in found)
        return [span for span in judged if span is not None]

    def _sessions(self, wait: Waiting) -> tuple[str, ...]:
        """The sessions that may work for it, the likeliest first."""
        others = self.sessions.by_key.get(wait.key, ())
        return (wait.session,) if wait.session else tuple(reversed(others[-3:]))

    def _judged(self, span: Span, sessions: Sequence[str], at: datetime) -> Span | None:
        """None for a chat that waits for its user or for a tool; with its doubt where that cannot be told."""
        assert self.want.tool_calls is not None
        calls = self._calls(sessions, at)
        if calls is None:
            return replace(span, quotes={**span.quotes, "cause": UNSEEN})
        if not calls.tools:
            return span
        asks = any(tool in self.want.tool_calls.asks for tool in calls.tools)
        since = datetime.fromtimestamp(calls.since, UTC)
        if asks or at - since < self.want.tool_calls.longer_than:
            return None
        return replace(span, quotes={**span.quotes, "cause": TOOL, "tool": ", ".join(calls.tools)})

    def _calls(self, sessions: Sequence[str], at: datetime) -> ToolCalls | None:
        """The open tool calls of the first session that the database knows; None when it cannot be asked."""
        return next((found for session in sessions if (found := self.asked.get((session, at)))), None)

    def _ask_all(self, questions: Iterable[tuple[str, datetime]]) -> None:
        """Ask for all at once: each time a process is started for it."""
        new = [question for question in dict.fromkeys(questions) if question not in self.asked]
        if new and self.ask is not None:
            for question, answer in zip(new, self.ask(new), strict=True):
                self.asked[question] = answer if answer.state != "unknown" else None

    def since(self) -> datetime | None:
        """When the oldest thing began that still waits: a later check must see it begin, too."""
        return (
            min((queue[0].opened.at for queue in self.waiting.values()), default=None)
            if self.want.progress
            else None
        )

    def at_work(self, now: datetime) -> int:
        """How many wait and are being worked for: what a restart would cut off."""
        if not self.want.progress or not self.waiting:
            return 0
        self._catch_up(self._all(), now + INSTANT)
        return sum(
            wait.sign > wait.opened.at and now - wait.sign < AT_WORK
            for queue in self.waiting.values()
            for wait in queue
        )

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: who waits, and how long still."""
        if self.waiting:
            self._catch_up(self._all(), now + INSTANT)
        if self.want.tool_calls:
            first = [queue[0] for queue in self.waiting.values()]
            self._ask_all((session, now) for wait in first for session in self._sessions(wait))
        found: list[Reason | str] = []
        for key, queue in self.waiting.items():
            wait = queue[0]
            last = wait.failed_late or wait.failed
            calls = self._calls(self._sessions(wait), now) if self.want.tool_calls else None
            waits_for: Reason | str = ""
            if calls is not None and calls.tools and self.want.tool_calls:
                asks = any(tool in self.want.tool_calls.asks for tool in calls.tools)
                tools = {"tools": tuple(calls.tools)}
                waits_for = Reason("explain.for-user") if asks else Reason("explain.for-tool", tools)
            fields = {
                "key": key or Reason("explain.all"),
                "waited": now - wait.opened.at,
                "limit": self._opens_at(wait) - wait.sign,
                "worked": Reason("explain.worked", {"at": wait.sign}) if wait.sign > wait.opened.at else "",
                "failed": Reason("explain.failure", {"at": last}) if last else "",
                "whom": waits_for,
            }
            found.append(Reason("explain.waiting", fields))
        return found or [Reason("explain.nobody")]


def _remember(memory: dict[Any, Any], key: object, value: object) -> None:
    if len(memory) >= MEMORY:
        memory.clear()
    memory[key] = value

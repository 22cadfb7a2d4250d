"""Rules × events → findings. One pass over the events serves every rule; nothing here reads a file or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchdog.detect import KINDS
from watchdog.errors import SlowPattern
from watchdog.model import Condition, Event, Finding, Line, Rule, Span
from watchdog.sources.gate import gate_for, words_of
from watchdog.text import harmless, spell
from watchdog.trace import Trace
from watchdog.values import Any, dataclass, replace


@dataclass(frozen=True)
class Evaluation:
    """What the rules say of one window."""

    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]  # rule → why
    unsure: frozenset[tuple[str, str]]  # (rule, key) that could not be judged
    ambiguous: tuple[Event, ...]
    turns: int = 0  # chats that are being worked on right now
    pending_since: datetime | None = None  # when the oldest thing began that is neither answered nor overdue
    notes: tuple[str, ...] = ()  # what a witness saw that is no fault


@dataclass
class Witness:
    """One condition at work."""

    condition: Condition
    watch: Any
    lines: list[tuple[str, Line, bool]]
    others: list[Witness]  # of 'any': the alternatives

    def needs(self) -> set[str]:
        return {line.source for _, line, required in self.lines if required}

    def spans(self, now: datetime) -> list[Span]:
        if not self.others:
            return self.watch.spans(now)
        return _merged([span for other in self.others for span in other.spans(now)])

    def blind(self, blind: Mapping[str, str]) -> str:
        """Why this witness cannot speak; '' when it can."""
        if self.others:
            whys = [other.blind(blind) for other in self.others]
            return whys[0] if all(whys) else ""
        return next((f"{source}: {blind[source]}" for source in sorted(self.needs()) if source in blind), "")


def witness(condition: Condition) -> Witness:
    if condition.kind == "any":
        return Witness(condition, None, [], [witness(other) for other in condition.want])
    module = KINDS[condition.kind]
    return Witness(condition, module.Watch(condition.want), module.lines(condition.want), [])


def lines_by_source(rules: Iterable[Rule]) -> dict[str, list[Line]]:
    """What all rules together want to see of each source."""
    wanted: dict[str, list[Line]] = {}
    conditions = [condition for rule in rules for condition in rule.when]
    while conditions:
        condition = conditions.pop(0)
        if condition.kind == "any":
            conditions[:0] = condition.want
            continue
        for _, line, _ in KINDS[condition.kind].lines(condition.want):
            wanted.setdefault(line.source, []).append(line)
    return wanted


Posts = dict[str, list[Witness]]
Entry = tuple[Line, str, Any, str]  # what is wanted, the rule, its witness, in which role
Order = tuple[Any, list[Entry], bool]  # a pattern, who wants it, and whether it is one alone who takes it at any level
_NOTHING: dict[str, str] = {}
_NO_TRACES: Mapping[Line, Trace] = {}


def evaluate(
    rules: Sequence[Rule], events: Iterable[Event], blind: Mapping[str, str], now: datetime, traces: Mapping[Line, Trace] = _NO_TRACES
) -> Evaluation:
    """Show every event to every witness that wants it, then ask each rule whether all of its witnesses agree."""
    posts: Posts = {rule.id: [witness(condition) for condition in rule.when] for rule in rules}
    slow, ambiguous = show_all(rules, posts, events, traces)
    findings: list[Finding] = []
    not_checked: dict[str, str] = {}
    unsure: set[tuple[str, str]] = set()
    for rule in rules:
        why = slow.get(rule.id) or next((why for one in posts[rule.id] if (why := one.blind(blind))), "")
        if why:
            not_checked[rule.id] = why
            continue
        for one in flat(posts[rule.id]):
            unsure.update((rule.id, key) for key in getattr(one.watch, "unsure", ()))
        findings.extend(_findings(rule, posts[rule.id], now))
    findings.sort(key=lambda finding: (finding.opened_at, finding.rule, finding.key))
    watches = [one.watch for rule in rules for one in flat(posts[rule.id])]
    # Whom a restart would cut off matters only when something is wrong or cannot be seen.
    working = [watch.at_work for watch in watches if hasattr(watch, "at_work")] if findings or not_checked else []
    turns = max((at_work(now) for at_work in working), default=0)
    said = [note for watch in watches if hasattr(watch, "notes") for note in watch.notes()]
    pending = min((at for watch in watches if hasattr(watch, "since") and (at := watch.since()) is not None), default=None)
    return Evaluation(tuple(findings), not_checked, frozenset(unsure), tuple(ambiguous), turns, pending, tuple(dict.fromkeys(said)))


def show_all(
    rules: Sequence[Rule], posts: Posts, events: Iterable[Event], traces: Mapping[Line, Trace] = _NO_TRACES
) -> tuple[dict[str, str], list[Event]]:
    """One pass over the events: (rules whose pattern was too slow, records that could not be believed)."""
    slow: dict[str, str] = {}
    ambiguous: list[Event] = []
    desks: dict[str, Desk] = {}
    for rule in rules:
        for one in flat(posts[rule.id]):
            for role, line, _ in one.lines:
                if line in traces:
                    one.watch.follow(role, traces[line])
                else:
                    desks.setdefault(line.source, Desk(slow)).add(line, rule.id, one.watch, role)
    for desk in desks.values():
        desk.ready()
    for event in events:
        if event.ambiguous:
            ambiguous.append(event)
        elif (wanted := desks.get(event.source)) is not None:
            wanted.show(event)
    return slow, ambiguous


class Desk:
    """Hands each event of one source to the witnesses that may want it."""

    def __init__(self, slow: dict[str, str]) -> None:
        self.slow = slow
        self.entries: list[Entry] = []
        self.orders: dict[tuple[int, ...] | None, list[Order]] = {}

    def add(self, line: Line, rule: str, watch: Any, role: str) -> None:
        self.entries.append((line, rule, watch, role))

    def ready(self) -> None:
        """Sort the entries by the words the reader's gate knows them by."""
        ids = gate_for([line for line, _, _, _ in self.entries]).ids
        self.by_word: list[list[int]] = [[] for _ in ids]
        self.always: list[int] = []
        for number, (line, _, _, _) in enumerate(self.entries):
            words = words_of(line)
            if words is None:
                self.always.append(number)
            for word in words or ():
                self.by_word[ids[word]].append(number)

    def _orders(self, hits: tuple[int, ...] | None) -> list[Order]:
        """Who may want a record in which the reader saw these words: (pattern, its entries), each pattern once."""
        numbers: Iterable[int] = range(len(self.entries))
        if hits is not None:
            numbers = sorted({*self.always, *(number for hit in hits for number in self.by_word[hit])})
        orders: dict[Any, list[Entry]] = {}
        for number in numbers:
            orders.setdefault(self.entries[number][0].pattern, []).append(self.entries[number])
        self.orders[hits] = [
            (pattern, entries, pattern is not None and len(orders) == len(entries) == 1 and not (entries[0][0].level or entries[0][0].logger))
            for pattern, entries in orders.items()
        ]
        return self.orders[hits]

    def show(self, event: Event) -> None:
        orders = self.orders.get(event.hits)
        if orders is None:
            orders = self._orders(event.hits)
        text = f"{event.text}\n{event.more}" if event.more else event.text
        seen: dict[Any, dict[str, dict[str, str]]] = {}  # watch → role → what was captured
        for pattern, entries, alone in orders:
            captures: dict[str, str] | None = None
            if alone and not self.slow:  # most of a busy log
                captures = pattern.match(text) if pattern.sure else self._match(pattern, text, entries, event)
                if captures is not None:
                    entries[0][2].see({entries[0][3]: captures}, event)
                return
            for line, rule, watch, role in entries:
                if (line.level and event.level not in line.level) or (line.logger and not event.logger.startswith(line.logger)):
                    continue
                if self.slow and rule in self.slow:
                    continue
                if captures is None:
                    captures = self._match(pattern, text, entries, event) if pattern is not None else _NOTHING
                    if captures is None:
                        break
                if watch in seen:
                    seen[watch].setdefault(role, captures)
                else:
                    seen[watch] = {role: captures}
        for watch, roles in seen.items():
            watch.see(roles, event)

    def _match(self, pattern: Any, text: str, entries: list[Entry], event: Event) -> dict[str, str] | None:
        try:
            captures: dict[str, str] | None = pattern.match(text)
        except SlowPattern as error:
            self.slow.update((rule, f"{error} ({event.where})") for _, rule, _, _ in entries)
            return None
        return captures


def flat(witnesses: Iterable[Witness]) -> Iterable[Witness]:
    for one in witnesses:
        if one.others:
            yield from flat(one.others)
        else:
            yield one


def _findings(rule: Rule, witnesses: list[Witness], now: datetime) -> Iterable[Finding]:
    """The first witness gives the key; the others must have held at the same time."""
    first, *support = witnesses
    supporting = [one.spans(now) for one in support]
    for span in first.spans(now):
        for spans in supporting:
            together = next((both for other in reversed(spans) if (both := _overlap(span, other, now)) is not None), None)
            if together is None:
                break
            span = together
        else:
            yield _finding(rule, span, now)


def _overlap(span: Span, other: Span, now: datetime) -> Span | None:
    opened = max(span.opened_at, other.opened_at)
    ended = min((at for at in (span.ended_at, other.ended_at) if at is not None), default=None)
    if opened > (ended or now):
        return None
    quotes = {**other.quotes, **span.quotes}
    facts = {**other.facts, **span.facts}
    return replace(span, opened_at=opened, ended_at=ended, quotes=quotes, facts=facts)


def _merged(spans: list[Span]) -> list[Span]:
    """Spans of several alternatives, one per key and stretch of time."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.key, span.opened_at)):
        last = merged[-1] if merged else None
        if last is None or last.key != span.key or (last.ended_at is not None and last.ended_at < span.opened_at):
            merged.append(span)
            continue
        ended = None if last.ended_at is None or span.ended_at is None else max(last.ended_at, span.ended_at)
        merged[-1] = replace(
            last,
            first_at=min(last.first_at, span.first_at),
            last_at=max(last.last_at, span.last_at),
            ended_at=ended,
            quotes={**span.quotes, **last.quotes},
            facts={**span.facts, **last.facts},
        )
    return merged


def _finding(rule: Rule, span: Span, now: datetime) -> Finding:
    fields = {**limits(rule), **span.facts, **span.quotes}
    says = rule.say.format_map(_Fields(fields))
    return Finding(
        rule=rule.id,
        key=span.key,
        severity=rule.severity,
        title=rule.title,
        says=harmless(says, 600),
        first_at=span.first_at,
        opened_at=span.opened_at,
        last_seen_at=span.last_at,
        ended_at=span.ended_at,
        recipe=rule.recipe,
        advice=rule.advice,
        quotes={name: harmless(str(value), 200) for name, value in {**limits(rule), **span.quotes}.items()},
        facts=span.facts,
        evidence=span.evidence,
        confirm=1 if span.facts.get("stated") else rule.confirm,
    )


def limits(rule: Rule) -> dict[str, str]:
    """The rule's own numbers, so that a sentence can show them beside what was seen."""
    found: dict[str, str] = {}
    for one in flat([witness(condition) for condition in rule.when]):
        for name in ("within", "longer_than", "at_least"):
            value = getattr(one.condition.want, name, None)
            if value is not None:
                found.setdefault(name, str(value) if isinstance(value, int) else spell(value))
    return found


class _Fields(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "?"

"""Rules × events → findings. One pass over the events serves every rule; nothing here reads a file or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from watchdog.desk import Desk
from watchdog.detect import KINDS
from watchdog.model import Condition, Event, Finding, Line, Rule, Span
from watchdog.sources.attention import Attention
from watchdog.text import harmless, spell
from watchdog.trace import Trace
from watchdog.values import Any, dataclass, replace


@dataclass
class Ambiguous:
    """Records that could not be believed: how many, and the first few, because a hostile name can write as many as it likes."""

    count: int = 0
    first: tuple[Event, ...] = ()

    def add(self, event: Event) -> None:
        self.count += 1
        if len(self.first) < 5:
            self.first += (event,)


@dataclass(frozen=True)
class Evaluation:
    """What the rules say of one window."""

    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]  # rule → why
    unsure: frozenset[tuple[str, str]]  # (rule, key) that could not be judged
    ambiguous: Ambiguous
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

    def can_sleep(self) -> bool:
        """Whether some lines matter only while something is open, and all that can open it stands in the same log as they do."""
        return any(line.meanwhile for _, line, _ in self.lines) and len({line.source for _, line, _ in self.lines}) == 1

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
_NOTHING: dict[Any, Any] = {}


def evaluate(
    rules: Sequence[Rule],
    events: Iterable[Event],
    blind: Mapping[str, str],
    now: datetime,
    traces: Mapping[Line, Trace] = _NOTHING,
    attention: Mapping[str, Attention] = _NOTHING,
) -> Evaluation:
    """Show every event to every witness that wants it, then ask each rule whether all of its witnesses agree."""
    posts: Posts = {rule.id: [witness(condition) for condition in rule.when] for rule in rules}
    slow, ambiguous = show_all(rules, posts, events, traces, attention)
    findings: list[Finding] = []
    not_checked: dict[str, str] = {}
    unsure: set[tuple[str, str]] = set()
    for rule in rules:
        found = list(_findings(rule, posts[rule.id], now))  # which may find that a log cannot be read any more
        why = slow.get(rule.id) or next((why for one in posts[rule.id] if (why := one.blind(blind))), "")
        if why:
            not_checked[rule.id] = why
            continue
        for one in flat(posts[rule.id]):
            unsure.update((rule.id, key) for key in getattr(one.watch, "unsure", ()))
        findings += found
    findings.sort(key=lambda finding: (finding.opened_at, finding.rule, finding.key))
    watches = [one.watch for rule in rules for one in flat(posts[rule.id])]
    # Whom a restart would cut off matters only when something is wrong or cannot be seen.
    working = [watch.at_work for watch in watches if hasattr(watch, "at_work")] if findings or not_checked else []
    turns = max((at_work(now) for at_work in working), default=0)
    said = [note for watch in watches if hasattr(watch, "notes") for note in watch.notes()]
    pending = min((at for watch in watches if hasattr(watch, "since") and (at := watch.since()) is not None), default=None)
    return Evaluation(tuple(findings), not_checked, frozenset(unsure), ambiguous, turns, pending, tuple(dict.fromkeys(said)))


def show_all(
    rules: Sequence[Rule],
    posts: Posts,
    events: Iterable[Event],
    traces: Mapping[Line, Trace] = _NOTHING,
    attention: Mapping[str, Attention] = _NOTHING,
) -> tuple[dict[str, str], Ambiguous]:
    """One pass over the events: (rules whose pattern was too slow, records that could not be believed)."""
    slow: dict[str, str] = {}
    ambiguous = Ambiguous()
    desks: dict[str, Desk] = {}
    can_sleep = set()
    for rule in rules:
        for one in flat(posts[rule.id]):
            if one.can_sleep():
                can_sleep.add(one.watch)
            for role, line, _ in one.lines:
                if line in traces:
                    one.watch.follow(role, traces[line])
                else:
                    desks.setdefault(line.source, Desk(slow)).add(line, rule.id, one.watch, role)
    for source, desk in desks.items():
        desk.ready()
        if source in attention:
            attention[source].wanted = [(line, watch, watch in can_sleep) for line, _, watch, _ in desk.entries]
    for event in events:
        if event.ambiguous:
            ambiguous.add(event)
        elif (wanted := desks.get(event.source)) is not None:
            wanted.show(event)
    return slow, ambiguous


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

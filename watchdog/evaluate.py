"""Rules × events → findings. One pass over the events serves every rule; nothing here reads a file or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from watchdog.detect import KINDS
from watchdog.errors import SlowPattern
from watchdog.model import Condition, Event, Finding, Line, Rule, Span
from watchdog.sources.gate import Gate, words_of
from watchdog.text import harmless, spell


@dataclass(frozen=True)
class Evaluation:
    """What the rules say of one window."""

    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]  # rule → why
    unsure: frozenset[tuple[str, str]]  # (rule, key) that could not be judged
    ambiguous: tuple[Event, ...]


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
    for rule in rules:
        for one in flat([witness(condition) for condition in rule.when]):
            for _, line, _ in one.lines:
                wanted.setdefault(line.source, []).append(line)
    return wanted


Posts = dict[str, list[Witness]]


def evaluate(rules: Sequence[Rule], events: Iterable[Event], blind: Mapping[str, str], now: datetime) -> Evaluation:
    """Show every event to every witness that wants it, then ask each rule whether all of its witnesses agree."""
    posts: Posts = {rule.id: [witness(condition) for condition in rule.when] for rule in rules}
    slow, ambiguous = show_all(rules, posts, events)
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
    return Evaluation(tuple(findings), not_checked, frozenset(unsure), tuple(ambiguous))


def show_all(rules: Sequence[Rule], posts: Posts, events: Iterable[Event]) -> tuple[dict[str, str], list[Event]]:
    """One pass over the events: (rules whose pattern was too slow, records that could not be believed)."""
    slow: dict[str, str] = {}
    ambiguous: list[Event] = []
    desks: dict[str, Desk] = {}
    for rule in rules:
        for one in flat(posts[rule.id]):
            for role, line, _ in one.lines:
                desks.setdefault(line.source, Desk()).add(line, rule.id, one.watch, role)
    for desk in desks.values():
        desk.ready()
    for event in events:
        if event.ambiguous:
            ambiguous.append(event)
            continue
        if (wanted := desks.get(event.source)) is not None:
            wanted.show(event, slow)
    return slow, ambiguous


class Desk:
    """Hands each event of one source to the witnesses that may want it."""

    def __init__(self) -> None:
        self.entries: list[tuple[Line, str, Any, str]] = []

    def add(self, line: Line, rule: str, watch: Any, role: str) -> None:
        self.entries.append((line, rule, watch, role))

    def ready(self) -> None:
        """Sort the entries by the words the reader's gate knows them by."""
        ids = Gate([line for line, _, _, _ in self.entries]).ids
        self.by_word: list[list[int]] = [[] for _ in ids]
        self.always: list[int] = []
        for number, (line, _, _, _) in enumerate(self.entries):
            words = words_of(line)
            if words is None:
                self.always.append(number)
            for word in words or ():
                self.by_word[ids[word]].append(number)

    def show(self, event: Event, slow: dict[str, str]) -> None:
        if event.hits is None:
            numbers: Iterable[int] = range(len(self.entries))
        elif len(event.hits) == 1 and not self.always:
            numbers = self.by_word[event.hits[0]]
        else:
            numbers = sorted({*self.always, *(number for hit in event.hits for number in self.by_word[hit])})
        text = f"{event.text}\n{event.more}" if event.more else event.text
        known: dict[Any, dict[str, str] | None] = {}
        for_watch: dict[int, tuple[Any, dict[str, dict[str, str]]]] = {}
        for number in numbers:
            line, rule, watch, role = self.entries[number]
            if rule in slow or (line.level and event.level not in line.level):
                continue
            if line.logger and not event.logger.startswith(line.logger):
                continue
            if line.pattern is None:
                captures: dict[str, str] | None = {}
            else:
                if line.pattern not in known:
                    try:
                        known[line.pattern] = line.pattern.match(text)
                    except SlowPattern as error:
                        slow[rule] = f"{error} ({event.where})"
                        known[line.pattern] = None
                captures = known[line.pattern]
            if captures is not None:
                for_watch.setdefault(id(watch), (watch, {}))[1].setdefault(role, captures)
        for watch, roles in for_watch.values():
            watch.see(roles, event)


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


class _Fields(dict):  # type: ignore[type-arg]
    def __missing__(self, name: str) -> str:
        return "?"

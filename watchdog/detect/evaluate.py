"""Rules × events → findings.

One pass over the events serves every rule; nothing here reads a file or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from watchdog.config.rulebook import ANY
from watchdog.config.rulebook import flat as flat_conditions
from watchdog.detect import KINDS
from watchdog.detect.ambiguous import Ambiguous
from watchdog.detect.dispatch import Dispatch
from watchdog.model import LOG_SOURCES, Condition, Event, Finding, Line, Rule, Span, phrase
from watchdog.model.trace import Trace
from watchdog.text import english, harmless, template_fields
from watchdog.values import Any, dataclass, field, replace

MOST = 500  # findings of one rule; more are counted, and neither opened nor resolved
FEW = 20  # keys of one rule that are named as not seen
IN_DOUBT = phrase("blind.in-doubt", "only log lines tell of it that a user name may have written")


@dataclass(frozen=True)
class Evaluation:
    """What the rules say of one window."""

    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]  # rule → why
    unsure: frozenset[tuple[str, str]]  # (rule, key) that could not be judged
    ambiguous: Ambiguous
    turns: int = 0  # chats that are being worked on right now
    hung: int = 0  # chats that wait and are not worked on
    pending_since: datetime | None = None  # when the oldest thing began that is neither answered nor overdue
    notes: tuple[str, ...] = ()  # what a detector saw that is no fault
    doubtful: Mapping[str, str] = field(default_factory=dict)  # what only a user name may have told → why not


@dataclass
class ActiveCondition:
    """One condition of a rule at work: its detector, or the alternatives of 'any'."""

    condition: Condition
    detector: Any
    others: list[ActiveCondition]
    twin: Any = None  # the same detector, which believes records that a user name may have written

    @property
    def lines(self) -> tuple[tuple[str, Line, bool], ...]:
        return self.condition.lines

    def spans(self, now: datetime, believing: bool = False) -> list[Span]:
        if not self.others:
            detector = self.twin if believing and self.twin is not None else self.detector
            spans: list[Span] = detector.spans(now)
            return spans
        return _merged([span for other in self.others for span in other.spans(now, believing)])

    def blind(self, blind: Mapping[str, str]) -> str:
        """Why this condition cannot be judged; '' when it can."""
        if not blind:
            return ""
        if self.others:
            whys = [other.blind(blind) for other in self.others]
            return whys[0] if all(whys) else ""
        needed = sorted({line.source for _, line, required in self.lines if required})
        source = next((source for source in needed if source in blind), None)
        return phrase("explain.blind", "{source}: {why}", source=source, why=blind[source]) if source else ""


def activate(rules: Iterable[Rule]) -> dict[str, list[ActiveCondition]]:
    """The conditions of each rule at work; those that share what they want share a detector."""
    shared: dict[int, ActiveCondition] = {}

    def active(condition: Condition) -> ActiveCondition:
        if condition.kind == ANY:
            return ActiveCondition(condition, None, [active(other) for other in condition.want])
        want = condition.want
        if id(want) not in shared:
            module = KINDS[condition.kind]
            shared[id(want)] = ActiveCondition(condition, module.Detector(want), [])
        return shared[id(want)]

    return {rule.id: [active(condition) for condition in rule.when] for rule in rules}


def lines_by_source(rules: Iterable[Rule]) -> dict[str, list[Line]]:
    """What all rules together want to see of each source; an event names these lines by their places."""
    wanted: dict[str, list[Line]] = {}
    conditions = [condition for rule in rules for condition in flat_conditions(rule.when)]
    for condition in {id(condition.want): condition for condition in conditions}.values():
        for _, line, _ in condition.lines:
            wanted.setdefault(line.source, []).append(line)
    return wanted


def is_measured(rule: Rule) -> bool:
    """Whether no condition of the rule needs a log: what it says of now does not hang on what was written then."""
    active = flat(activate([rule])[rule.id])
    return not any(needed and line.source in LOG_SOURCES for part in active for _, line, needed in part.lines)


_NOTHING: dict[Any, Any] = {}


@dataclass(frozen=True)
class Seen:
    """What a reading gives beside its events, which are complete once those have been consumed."""

    blind: Mapping[str, str]  # source → why it cannot be read
    traces: Mapping[Line, Trace] = field(default_factory=dict)  # of lines of which only the time is wanted
    # source → place of a line → what to say of its pattern, which took too long
    slow: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    lost: Callable[[], Mapping[str, str]] = dict  # what turned out to be blind when it was asked for
    # (session, moment) → its tool calls in the gateway's database; None: it cannot be asked
    ask: Callable[[Sequence[tuple[str, datetime]]], Any] | None = None


def evaluate(rules: Sequence[Rule], events: Iterable[Event], seen: Seen, now: datetime) -> Evaluation:
    """Show every event to every detector that wants it, then ask each rule whether all of its conditions hold.

    The events were asked for by lines_by_source of these very rules.
    """
    active = activate(rules)
    slow, ambiguous = show_all(active, events, seen)
    findings: list[Finding] = []
    not_checked: dict[str, str] = {}
    unsure: set[tuple[str, str]] = set()
    doubtful: dict[str, str] = {}
    unread: dict[str, str] = {}
    notes: list[str] = []
    hung = 0
    for rule in rules:
        conditions = active[rule.id]
        found = _spans(conditions, now)  # which may find that a log cannot be read any more
        blind = {**seen.blind, **seen.lost()}
        why = slow.get(rule.id) or next((why for part in conditions if (why := part.blind(blind))), "")
        if not why and ambiguous.rows and (name := _unread(conditions, ambiguous)):
            unread = ambiguous.blind()
            why = f"{name}: {unread[name]}"
        if why:
            not_checked[rule.id] = why
            continue
        for condition in flat(conditions):
            unsure.update((rule.id, key) for key in getattr(condition.detector, "unsure", ()))
        sure, keys = _without_doubt(conditions, found, now)
        sure.sort(key=lambda span: (span.opened_at, span.key))
        limits = _limits(conditions)
        if any(_tells_of_turns(condition) for condition in flat(conditions)):
            hung = max(hung, sum(span.ended_at is None for span in sure))
        findings += [_finding(rule, span, limits, now) for span in sure[:MOST]]
        unsure.update((rule.id, key) for key in (*keys, *(span.key for span in sure[MOST:])))
        doubtful.update(_named_few(rule.id, sorted(keys)))
        if len(sure) > MOST:
            english = "{rule}: {count} more than the {most} that are shown; those were not looked at"
            more = {"count": len(sure) - MOST, "most": MOST}
            notes.append(phrase("note.more-findings", english, rule=rule.id, **more))
    findings.sort(key=lambda finding: (finding.opened_at, finding.rule, finding.key))
    every = [condition for rule in rules for condition in flat(active[rule.id])]
    # Who would be cut off by a restart matters only when something is wrong or cannot be seen.
    working = filter(_tells_of_turns, every) if findings or not_checked else ()
    turns = max((condition.detector.at_work(now) for condition in working), default=0)
    detectors = [condition.detector for condition in every]
    notes += [note for detector in detectors if hasattr(detector, "notes") for note in detector.notes()]
    pending = min(
        (at for detector in detectors if hasattr(detector, "since") and (at := detector.since()) is not None),
        default=None,
    )
    return Evaluation(
        tuple(findings),
        not_checked,
        frozenset(unsure),
        ambiguous,
        turns,
        hung,
        pending,
        (*dict.fromkeys(notes), *ambiguous.notes()),
        {**unread, **doubtful},
    )


def _tells_of_turns(condition: ActiveCondition) -> bool:
    return hasattr(condition.detector, "at_work") and bool(condition.detector.want.progress)


def _unread(conditions: Iterable[ActiveCondition], ambiguous: Ambiguous) -> str:
    """What a line is called that these conditions need and that cannot be read; '' when there is none."""
    needed = (line for condition in flat(conditions) for _, line, needed in condition.lines if needed)
    return next((name for line in needed if (name := ambiguous.unread(line))), "")


def show_all(
    active: Mapping[str, Sequence[ActiveCondition]], events: Iterable[Event], seen: Seen
) -> tuple[dict[str, str], Ambiguous]:
    """One pass over the events: (rules whose pattern was too slow, records that could not be believed)."""
    ambiguous = Ambiguous()
    sources: dict[str, Dispatch] = {}
    uncertain: list[Callable[[datetime], None]] = []  # whom to tell of a message that cannot be read

    def forget() -> None:
        for dispatch in sources.values():
            dispatch.calls.clear()

    every = [condition for conditions in active.values() for condition in flat(conditions)]
    for condition in {id(condition): condition for condition in every}.values():
        if hasattr(condition.detector, "ask"):
            condition.detector.ask = seen.ask
        if hasattr(condition.detector, "see_unreadable"):
            uncertain.append(condition.detector.see_unreadable)
        for role, line, _ in condition.lines:
            if line.aside and line in seen.traces:
                condition.detector.follow(role, seen.traces[line])
            sources.setdefault(line.source, Dispatch(forget)).entries.append((condition, role))
    calls = {source: dispatch.calls for source, dispatch in sources.items()}
    rows = ambiguous.rows
    for event in events:
        matches = event.matches
        if event.is_odd or rows or len(matches) != 1:
            if event.ambiguous:
                ambiguous.add(event)
                for tell in uncertain:
                    tell(event.at)
            elif rows:
                ambiguous.read(event)
            if matches and (not event.ambiguous or event.doubt is not None):
                sources[event.source].show(event)
            continue
        places, captures = matches[0]
        for call in calls[event.source].get(places) or sources[event.source].calls_for(places):
            call(captures, event)
    too_slow = {
        id(sources[source].entries[place][0]): why
        for source, places in seen.slow.items()
        for place, why in places.items()
    }
    slow = {
        rule: too_slow[id(condition)]
        for rule, conditions in (active if too_slow else {}).items()
        for condition in flat(conditions)
        if id(condition) in too_slow
    }
    return slow, ambiguous


def flat(conditions: Iterable[ActiveCondition]) -> Iterable[ActiveCondition]:
    """The conditions with a detector of their own."""
    for condition in conditions:
        if condition.others:
            yield from flat(condition.others)
        else:
            yield condition


def _named_few(rule: str, keys: Sequence[str]) -> dict[str, str]:
    """What cannot be seen of a rule: the first of its keys by name, and how many more there are."""
    few: dict[str, str] = {f"{rule} {key}".strip(): IN_DOUBT for key in keys[:FEW]}
    return few if len(keys) <= FEW else {**few, f"{rule}, {len(keys) - FEW} more": IN_DOUBT}


def _without_doubt(
    conditions: Sequence[ActiveCondition], found: list[Span], now: datetime
) -> tuple[list[Span], set[str]]:
    """(what holds whether or not one believes what a user name may have written, keys that are open for only one of the
    two).
    """
    every = list(flat(conditions))
    keys = set().union(*(getattr(condition.detector, "doubtful", ()) for condition in every))
    if all(condition.twin is None for condition in every):
        return found, keys - {span.key for span in found if span.ended_at is None}
    believing = {(span.key, span.ended_at is None) for span in _spans(conditions, now, believing=True)}
    sceptical = {(span.key, span.ended_at is None) for span in found}
    keys |= {key for key, is_open in believing ^ sceptical if is_open}
    return [span for span in found if (span.key, span.ended_at is None) in believing], keys


def _spans(conditions: Sequence[ActiveCondition], now: datetime, believing: bool = False) -> list[Span]:
    """When all conditions held: the first gives the key; the others must have held at the same time."""
    first, *support = conditions
    supporting = [condition.spans(now, believing) for condition in support]
    found = []
    for span in first.spans(now, believing):
        for spans in supporting:
            together = next(
                (both for other in reversed(spans) if (both := _overlap(span, other, now)) is not None), None
            )
            if together is None:
                break
            span = together
        else:
            found.append(span)
    return found


def findings_of(rule: Rule, conditions: Sequence[ActiveCondition], now: datetime) -> list[Finding]:
    """What the rule says, user names believed or not."""
    limits = _limits(conditions)
    return [_finding(rule, span, limits, now) for span in _spans(conditions, now)[:MOST]]


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
        if (
            last is None
            or last.key != span.key
            or (last.ended_at is not None and last.ended_at < span.opened_at)
        ):
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
            past=last.past and span.past,
        )
    return merged


def _finding(rule: Rule, span: Span, limits: Mapping[str, Any], now: datetime) -> Finding:
    fields = {**limits, **span.facts, **span.quotes}
    quotes = {**limits, **span.quotes}
    rule = rule.for_cause(fields)
    return Finding(
        rule=rule.id,
        key=span.key,
        severity=rule.severity,
        title=rule.title,
        says=harmless(english(rule.say, fields, now), 600),
        first_at=span.first_at,
        opened_at=span.opened_at,
        last_seen_at=span.last_at,
        ended_at=span.ended_at,
        recipe=rule.recipe,
        advice=rule.advice,
        quotes={name: harmless(english(f"{{{name}}}", quotes, now), 200) for name in quotes},
        facts=span.facts,
        evidence=span.evidence,
        confirm=1 if span.facts.get("stated") else rule.confirm,
        fields=quotes | {name: fields[name] for name in sorted(_named(rule)) if name in fields},
        say=rule.say,
        past=span.past,
    )


def _named(rule: Rule) -> set[str]:
    """The fields that its sentences use, in any language."""
    templates = [rule.say, rule.headline]
    for texts in rule.translations.values():
        templates += [texts.get("say", ""), texts.get("headline", "")]
    return {name for template in templates for name in template_fields(template) if name}


def _limits(conditions: Iterable[ActiveCondition]) -> dict[str, Any]:
    """The rule's own numbers, so that a sentence can show them beside what was seen."""
    found: dict[str, Any] = {}
    for active in flat(conditions):
        for name in ("within", "longer_than", "at_least"):
            value = getattr(active.condition.want, name, None)
            if value is not None:
                found.setdefault(name, value)
    return found

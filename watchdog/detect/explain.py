"""Why a rule fires or does not, and what one record of a log means to the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from watchdog.config.rulebook import Rulebook
from watchdog.detect.evaluate import Seen, activate, findings_of, flat, show_all
from watchdog.errors import SlowPattern
from watchdog.model import Event, Finding, Reason, Rule, plain
from watchdog.text import harmless, redact


@dataclass(frozen=True)
class ConditionState:
    """One condition: whether it holds, since when, how far it is from its limit."""

    kind: str
    holds: bool
    since: datetime | None
    state: tuple[Reason, ...]


@dataclass(frozen=True)
class Explanation:
    rule: str
    not_checked: str  # why it could not be checked; '' when it could
    conditions: tuple[ConditionState, ...]
    fires: tuple[Finding, ...]


def explain(rule: Rule, events: Iterable[Event], seen: Seen, now: datetime) -> Explanation:
    """Each condition of the rule on these events, which were asked for by lines_by_source([rule])."""
    conditions = activate([rule])[rule.id]
    slow, _ = show_all({rule.id: conditions}, events, seen)
    why = slow.get(rule.id) or next((why for part in conditions if (why := part.blind(seen.blind))), "")
    found = []
    for part in conditions:
        still = [span for span in part.spans(now) if span.ended_at is None]
        since = min((span.opened_at for span in still), default=None)
        parts = list(flat([part]))
        state = tuple(
            Reason("explain.part", {"kind": part.condition.kind, "state": known}) if len(parts) > 1 else known
            for part in parts
            for known in (plain(one) if isinstance(one, str) else one for one in part.detector.state(now))
        )
        known = since if since is not None and since.year > 1970 else None
        found.append(ConditionState(part.condition.kind, bool(still), known, state))
    findings = () if why else findings_of(rule, conditions, now)
    fires = tuple(finding for finding in findings if finding.ended_at is None)
    return Explanation(rule.id, why, tuple(found), fires)


@dataclass(frozen=True)
class LineUse:
    """A rule that wants this record, and as what."""

    rule: str
    kind: str
    role: str
    source: str
    captured: Mapping[str, str]
    slow: str = ""  # the complaint of a pattern that took too long


def explain_record(book: Rulebook, event: Event) -> tuple[list[str], list[LineUse]]:
    """(the words of the vocabulary that the record is, the rules that want it)."""
    text = f"{event.text}\n{event.more}" if event.more else event.text
    found = []
    for rule, conditions in activate(book.rules).items():
        for part in flat(conditions):
            for role, wanted, _ in part.lines:
                if wanted.pattern is None or (
                    wanted.level and event.level and event.level not in wanted.level
                ):
                    continue
                use = rule, part.condition.kind, role, wanted.source
                try:
                    captured = wanted.pattern.match(text)
                except SlowPattern as error:
                    found.append(LineUse(*use, {}, str(error)))
                    continue
                if captured is not None:
                    shown = {name: redact(harmless(value, 120)) for name, value in captured.items() if value}
                    found.append(LineUse(*use, shown))
    return [str(meaning) for meaning in book.vocabulary.read(text)], found

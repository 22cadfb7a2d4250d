"""The nouns: what is read, found, proposed, done and said. Only values here, no behaviour that could fail."""

from watchdog.model.events import LEVELS, LOG_SOURCES, LOGS, Doubt, Event, Line, Measurement
from watchdog.model.incidents import (
    EVERY_CHECK,
    MISSING,
    SEVERITIES,
    Change,
    Condition,
    Finding,
    Incident,
    Recipe,
    Rule,
    Span,
    Step,
    Verify,
)
from watchdog.model.plans import Hold, Notification, Outcome, OutcomeKind, Plan, Report
from watchdog.model.reason import (
    EMPTY,
    PLAIN,
    PLAN_TITLE,
    RULE_ADVICE,
    RULE_SAY,
    RULE_TITLE,
    Phrase,
    Reason,
    Sentence,
    as_phrase,
    nothing,
    packed,
    phrase,
    plain,
    unpacked,
)

"""The keys of what the record of approvals says; their sentences are in notify/locale/*/approval.yaml."""

from __future__ import annotations

from enum import StrEnum


class Said(StrEnum):
    """What a person who answered is told."""

    NOT_ALLOWED = "approval.not-allowed"
    LOCKED = "approval.locked"
    UNKNOWN_CODE = "approval.unknown-code"
    WRONG_FORM = "approval.wrong-form"
    PLAN_GONE = "approval.plan-gone"
    OTHER_PLAN = "approval.other-plan"
    CLOCK_WENT_BACK = "approval.clock-went-back"
    CHANGED = "approval.changed"
    APPROVED = "approval.approved"
    REFUSED = "approval.refused"
    STOPPED = "approval.stopped"
    STOPPING = "approval.stopping"
    EXPIRED = "approval.expired"
    SUPERSEDED = "approval.superseded"
    ALREADY_APPROVED = "approval.already-approved"
    ALREADY_REFUSED = "approval.already-refused"
    BEING_DONE = "approval.being-done"
    OVER = "approval.over"
    OVER_ANSWERED = "approval.over-answered"
    SEE_NEWER = "approval.see-newer"


class End(StrEnum):
    """Why a question or an approval ended without its plan having been carried out."""

    PLAN_CHANGED = "ended.plan-changed"
    NO_ANSWER = "ended.no-answer"
    REFUSED = "ended.refused"
    REFUSED_AFTER_YES = "ended.refused-after-yes"
    NO_LONGER_NEEDED = "ended.no-longer-needed"
    CHANGED_IN_STORE = "ended.changed-in-store"
    TOO_LATE = "ended.too-late"


class Note(StrEnum):
    """What the audit says besides."""

    BY_SETTINGS = "audit.by-settings"
    STRANGER = "audit.stranger"
    WRONG_CODE = "audit.wrong-code"
    FORGET_FAILURES = "audit.forget-failures"
    WORDS_AND_FORGET = "audit.words-and-forget"
    BY_HAND = "audit.by-hand"

"""The keys of what carrying out a plan says; their sentences are in notify/locale/*/repair.yaml."""

from __future__ import annotations

from enum import StrEnum


class Refused(StrEnum):
    """Why a plan is not carried out now; its approval stays as it is."""

    NO_PLAN = "not-now.no-plan"
    NOT_APPROVED = "not-now.not-approved"
    NOT_APPROVED_WHY = "not-now.not-approved-why"
    TAKEN = "not-now.taken"
    NO_LOCK = "not-now.no-lock"
    BUSY = "not-now.busy"
    NO_RECORD = "not-now.no-record"


class Lapse(StrEnum):
    """Why an approval is void."""

    CHANGED = "lapse.changed"
    ELSEWHERE = "lapse.elsewhere"
    TOO_LATE = "lapse.too-late"
    CANNOT_LOOK = "lapse.cannot-look"
    RULE_OFF = "lapse.rule-off"
    RULE_BLIND = "lapse.rule-blind"
    GONE = "lapse.gone"
    OTHER_PLAN = "lapse.other-plan"
    MUST_WAIT = "lapse.must-wait"


class About(StrEnum):
    """What an outcome is about."""

    STEP = "about.step"
    UNDO = "about.undo"
    VERIFICATION = "about.verification"
    PLAN = "about.plan"


class Verification(StrEnum):
    """What a verification found."""

    WELL = "verify.well"
    OTHERS_WELL = "verify.others-well"
    RUNNING = "verify.running"
    RUNNING_IN = "verify.running-in"  # a container
    CONNECTED = "verify.connected"  # the platforms that were, are again
    NOT_CONNECTED = "verify.not-connected"
    UNSEEN = "verify.unseen"  # the gateway does not say which platforms are connected
    STOPPED = "verify.stopped"
    AND = "verify.and"
    UNPROVEN = "verify.unproven"
    UNPROVEN_ALONE = "verify.unproven-alone"
    NOT_BETTER = "verify.not-better"
    STILL_THERE = "verify.still-there"
    RULE_BLIND = "verify.rule-blind"
    UNSURE = "verify.unsure"
    STILL_RUNS = "verify.still-runs"
    NO_PROCESS = "verify.no-process"
    NOT_UP = "verify.not-up"
    ONLY_STARTED = "verify.only-started"
    CANNOT_LOOK = "verify.cannot-look"


class Ended(StrEnum):
    """How a plan ended."""

    VERIFIED = "end.verified"
    UNPROVEN = "end.unproven"
    NOT_CONNECTED = "end.not-connected"
    FAILED = "end.failed"
    REFUSED = "end.refused"
    GATEWAY_DOWN = "end.gateway-down"
    UNRECORDED = "end.unrecorded"
    NOT_BEGUN = "end.not-begun"
    STEP = "end.step"
    DID_NOT_HELP = "end.did-not-help"


class CutOff(StrEnum):
    """Where a plan was cut off, and why it cannot go on."""

    TOLD = "cut-off.told"
    BEFORE_FIRST = "cut-off.before-first"
    AFTER = "cut-off.after"
    WITHIN = "cut-off.within"
    GATEWAY_RUNS = "cut-off.gateway-runs"
    GATEWAY_DOWN = "cut-off.gateway-down"
    GATEWAY_UNKNOWN = "cut-off.gateway-unknown"
    NOT_INTERRUPTED = "cut-off.not-interrupted"
    CHANGED = "cut-off.changed"
    STEP_FAILED = "cut-off.step-failed"
    HALF_WAY = "cut-off.half-way"
    OTHER_COMMAND = "cut-off.other-command"
    RESUMED = "cut-off.resumed"
    RESUMED_STOPPING = "cut-off.resumed-stopping"
    ABANDONED = "cut-off.abandoned"

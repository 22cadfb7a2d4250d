"""The keys of what is said from a plan to its end; their sentences are in notify/locale/*."""

from __future__ import annotations

from enum import StrEnum

# What the planner decides. Sentences: plan.yaml.


class Wait(StrEnum):
    """Why a plan must wait."""

    DISARMED = "hold.disarmed"
    UNFINISHED = "hold.unfinished"
    NEEDS_SUDOERS = "hold.needs-sudoers"
    GATEWAY_UNSEEN = "hold.gateway-unseen"
    MAINTENANCE = "hold.maintenance"
    RULE_HOLDS = "hold.rule-holds"
    RULE_BLIND = "hold.rule-blind"
    REFUSED = "hold.refused"
    COOLING_DOWN = "hold.cooling-down"
    RECIPE_SPENT = "hold.recipe-spent"
    DAY_SPENT = "hold.day-spent"
    HOUR_SPENT = "hold.hour-spent"
    STARTS_SPENT = "hold.starts-spent"
    JUST_STARTED = "hold.just-started"
    CLOCK_WENT_BACK = "hold.clock-went-back"


class Refuse(StrEnum):
    """Why nothing is proposed at all; no waiting changes it."""

    TRIED = "refusal.tried"
    ADVICE_ONLY = "refusal.advice-only"
    RESTART_USELESS = "refusal.restart-useless"
    NO_EXACT_COMMAND = "refusal.no-exact-command"


class Cause(StrEnum):
    """Why a restart does not help."""

    FULL_DISK = "cause.full-disk"
    BAD_CONFIG = "cause.bad-config"
    QUOTA = "cause.quota"
    CREDENTIALS = "cause.credentials"
    CONTENT_FILTER = "cause.content-filter"
    LITTLE_SPACE = "cause.little-space"
    EXIT_78 = "cause.exit-78"
    RULE_SAYS = "cause.rule-says"


class Chain(StrEnum):
    """What followed from what."""

    LEADS_TO = "chain.leads-to"
    AND = "chain.and"
    ALSO_OPEN = "chain.also-open"


class Cost(StrEnum):
    """What a plan costs the people who chat."""

    REPLIES = "cost.replies"
    NO_REPLY = "cost.no-reply"
    STAYS_STOPPED = "cost.stays-stopped"


class Disarm(StrEnum):
    """Why the watchdog stops acting."""

    DOES_NOT_LAST = "disarm.does-not-last"


# What the record of approvals says. Sentences: approval.yaml.


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


# What steps say of themselves. Sentences: steps.yaml.


class Describe(StrEnum):
    """What a step would do, with the exact command: what a person approves."""

    STOP_UNIT = "step.stop-unit"
    START_UNIT = "step.start-unit"
    RESTART_UNIT = "step.restart-unit"
    STOP_SERVICE = "step.stop-service"  # of s6, with what is done to a process that does not end
    RESTART_SERVICE = "step.restart-service"
    RESTART_SIGNALLED = "step.restart-signalled"
    STOP_UNKNOWN = "step.stop-unknown"
    START_UNKNOWN = "step.start-unknown"
    RESTART_UNKNOWN = "step.restart-unknown"
    STOP_PROCESS = "step.stop-process"
    STOP_NOTHING = "step.stop-nothing"
    START_PROCESS = "step.start-process"
    RESTART_PROCESS = "step.restart-process"
    HEAL = "step.heal"
    HEAL_UNDO = "step.heal-undo"
    ADD_COLUMNS = "step.add-columns"
    ADD_COLUMNS_UNMEASURED = "step.add-columns-unmeasured"
    SET_ASIDE = "step.set-aside"
    SET_ASIDE_UNDO = "step.set-aside-undo"
    COMMAND = "step.command"
    OWN = "step.own"  # a command of ours, by the path of a file


# No command is known for these; why is told by the reason the plan waits for.
WITHOUT_COMMAND = frozenset({Describe.STOP_UNKNOWN, Describe.START_UNKNOWN, Describe.RESTART_UNKNOWN})


class What(StrEnum):
    """What an outcome is about, in a few words."""

    STOP = "what.stop"
    START = "what.start"
    RESTART = "what.restart"
    HEAL = "what.heal"
    PUT_BACK = "what.put-back"
    ADD_COLUMNS = "what.add-columns"
    SET_ASIDE = "what.set-aside"
    COMMAND = "what.command"
    KIND = "what.kind"  # a step that raised an error, by the name of its kind


class Done(StrEnum):
    """How a step went well."""

    STOPPED = "done.stopped"
    KILLED = "done.killed"
    WAS_NOT_RUNNING = "done.was-not-running"
    ENDED_ITSELF = "done.ended-itself"
    ALREADY_RUNNING = "done.already-running"
    RUNNING = "done.running"
    RUNNING_IN = "done.running-in"  # a container: the pid is that of the host, not the one in gateway.pid
    AFTER_KILL = "done.after-kill"
    CUT_OFF = "done.cut-off"  # and replies that were still in progress
    PUT_BACK = "done.put-back"
    COLUMNS_ADDED = "done.columns-added"
    NO_COLUMN_MISSING = "done.no-column-missing"
    SET_ASIDE = "done.set-aside"
    COMMAND = "done.command"
    ROWS_LOST = "done.rows-lost"
    ROWS_BETWEEN = "done.rows-between"
    ROWS_DOUBTFUL = "done.rows-doubtful"
    ROWS_UNCOUNTED = "done.rows-uncounted"
    BACKUP = "done.backup"
    KEPT = "done.kept"


class Failed(StrEnum):
    """How a step failed, and what became of what it touched."""

    INVISIBLE = "failed.invisible"
    NOT_OURS_TO_END = "failed.not-ours-to-end"
    NO_HANDLE = "failed.no-handle"
    PID_REUSED = "failed.pid-reused"
    NOT_THE_APPROVED = "failed.not-the-approved"
    SOMEBODY_ELSES = "failed.somebody-elses"
    CANNOT_LOOK = "failed.cannot-look"
    NOT_A_GATEWAY = "failed.not-a-gateway"
    HOLDS_NO_LOCK = "failed.holds-no-lock"
    MAY_NOT_SIGNAL = "failed.may-not-signal"
    DOES_NOT_END = "failed.does-not-end"
    EXIT_CODE = "failed.exit-code"
    STILL_RUNS = "failed.still-runs"
    NO_NEW_PROCESS = "failed.no-new-process"
    OTHER_OWNER = "failed.other-owner"
    NO_OWNER = "failed.no-owner"
    FILE_UNTOUCHED = "failed.file-untouched"
    LOOK_AT_FILE = "failed.look-at-file"
    NOT_HEALED = "failed.not-healed"
    NOTHING_DONE = "failed.nothing-done"
    CANNOT_ADD = "failed.cannot-add"
    IN_USE = "failed.in-use"
    NAME_TAKEN = "failed.name-taken"
    NOTHING_ASIDE = "failed.nothing-aside"
    NO_PROGRAM = "failed.no-program"
    TOO_LONG = "failed.too-long"
    RAISED = "failed.raised"


class Unfit(StrEnum):
    """Why a step cannot be filled in from what was measured."""

    NOT_MEASURED = "unfit.not-measured"
    BAD_VALUE = "unfit.bad-value"


# What carrying out a plan says. Sentences: repair.yaml.


class Refused(StrEnum):
    """Why a plan is not carried out now; its approval stays as it is."""

    NO_PLAN = "not-now.no-plan"
    NOT_APPROVED = "not-now.not-approved"
    NOT_APPROVED_WHY = "not-now.not-approved-why"
    TAKEN = "not-now.taken"
    NO_LOCK = "not-now.no-lock"
    BUSY = "not-now.busy"
    NO_RECORD = "not-now.no-record"
    WAITS = "not-now.waits"


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

"""The keys of what steps say of themselves; their sentences are in notify/locale/*/steps.yaml."""

from __future__ import annotations

from enum import StrEnum


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
    ROWS_DOUBTFUL = "done.rows-doubtful"
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

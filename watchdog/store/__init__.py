"""What the watchdog remembers between two checks."""

from watchdog.later import lazy
from watchdog.store.store import Store, recording
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.store.examine import newer, problems
    from watchdog.store.incidents import (
        all_incidents,
        failed_restarts,
        known_incidents,
        past_measurements,
        record_check,
        record_ends,
        work_left,
        worth_telling,
    )
    from watchdog.store.messages import QUESTIONS, disarmed
    from watchdog.store.migrations import bring_up_to_date
    from watchdog.store.plans import history, note_starts, set_armed
    from watchdog.store.questions import any_asked
    from watchdog.store.retention import forget_old

# Loaded on first use: a quiet check has no plans, and these modules need the Store.
__getattr__ = lazy(
    __name__,
    examine=("newer", "problems"),
    incidents=(
        "all_incidents",
        "failed_restarts",
        "known_incidents",
        "past_measurements",
        "record_check",
        "record_ends",
        "work_left",
        "worth_telling",
    ),
    messages=("QUESTIONS", "disarmed"),
    migrations=("bring_up_to_date",),
    plans=("history", "note_starts", "set_armed"),
    questions=("any_asked",),
    retention=("forget_old",),
)

"""What the watchdog remembers between two checks."""

from watchdog.store.store import Store, recording
from watchdog.values import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from watchdog.store.incidents import all_incidents, known_incidents, record_check
    from watchdog.store.measurements import failed_restarts, past_measurements
    from watchdog.store.messages import QUESTIONS, worth_telling
    from watchdog.store.plans import history, note_starts
    from watchdog.store.questions import any_asked, work_left

__all__ = [
    "QUESTIONS",
    "Store",
    "all_incidents",
    "any_asked",
    "failed_restarts",
    "history",
    "known_incidents",
    "note_starts",
    "past_measurements",
    "record_check",
    "recording",
    "work_left",
    "worth_telling",
]

# Loaded on first use: a quiet check has no plans, and these modules need the Store.
__getattr__ = lazy(
    __name__,
    incidents=("all_incidents", "known_incidents", "record_check"),
    measurements=("failed_restarts", "past_measurements"),
    messages=("QUESTIONS", "worth_telling"),
    plans=("history", "note_starts"),
    questions=("any_asked", "work_left"),
)

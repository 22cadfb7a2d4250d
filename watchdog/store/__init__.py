"""What the watchdog remembers between two checks."""

from watchdog.store.store import Store
from watchdog.values import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from watchdog.store.plans import history, note_starts

__all__ = ["Store", "history", "note_starts"]

# Loaded on first use: a quiet check has no plans.
__getattr__ = lazy(__name__, plans=("history", "note_starts"))

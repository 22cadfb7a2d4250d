"""Where events come from: one module per kind of source."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.sources.reasons import not_stated, too_many_doubts, why_unreadable

# Loaded on first use: most checks can read every source.
__getattr__ = lazy(__name__, reasons=("not_stated", "too_many_doubts", "why_unreadable"))

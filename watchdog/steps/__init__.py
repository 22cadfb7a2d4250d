"""What can be done: one module per kind of step.

A module has KIND; Args, a frozen dataclass of text, flags and durations; read(section) → Args; describe(args,
machine) → the words a person approves, with the exact command; run(args, machine) → Outcome; and
REPEATABLE, whether a step that was cut off half way may be begun again.
"""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.steps.kinds import KINDS

# Loaded on first use: a quiet check has its rules in a cache, and does nothing.
__getattr__ = lazy(__name__, kinds=("KINDS",))

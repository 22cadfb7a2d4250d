"""Plans: why it is broken, what would repair it, and what makes that wait."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.plan.limits import Disarmed, must_disarm
    from watchdog.plan.planner import make_plans

# Loaded on first use: a quiet check plans nothing.
__getattr__ = lazy(
    __name__,
    limits=("Disarmed", "must_disarm"),
    planner=("make_plans",),
)

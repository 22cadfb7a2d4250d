"""What runs checks and looks after them: one check, the daemon, the schedule, the status and the doctor."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.service.failure import tell_failure, tell_recovery
    from watchdog.service.page import write_after_check

# Loaded on first use: a check that succeeds sends no message about itself, and most homes have no page.
__getattr__ = lazy(__name__, failure=("tell_failure", "tell_recovery"), page=("write_after_check",))

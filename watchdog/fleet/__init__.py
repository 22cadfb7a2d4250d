"""One home of many: what it tells Prometheus, Alertmanager and the mailbox of plans in PostgreSQL.

Nothing here decides or runs anything. The local store stays the truth; a service that is down costs a check at
most three seconds and a note.
"""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.fleet.postgres import listener_for
    from watchdog.fleet.publishing import publish

# Loaded on first use: most hosts are alone.
__getattr__ = lazy(__name__, postgres=("listener_for",), publishing=("publish",))

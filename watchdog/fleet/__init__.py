"""One home of many: what it tells Prometheus, Alertmanager and the mailbox of plans in PostgreSQL.

Nothing here decides or runs anything. The local store stays the truth; a service that is down costs a check at
most three seconds and a note.
"""

from __future__ import annotations

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from watchdog.config.settings import Settings
    from watchdog.fleet.postgres import listener_for
    from watchdog.model import Report
    from watchdog.store import Store

# Loaded on first use: most hosts are alone.
__getattr__ = lazy(__name__, postgres=("listener_for",))


def publish(report: Report, store: Store, settings: Settings, now: datetime) -> tuple[str, ...]:
    """Tell the fleet how this home stands after a check; lines for the report about what did not work.

    Called when the check is recorded and its messages are sent; `now` is that moment, `report.now` when the check
    began. It raises nothing for a service that fails, and takes about three seconds at most.
    """
    if settings.fleet is None:
        return ()
    from watchdog.fleet.publishing import publish_all  # the one place: most hosts load nothing of a fleet

    return publish_all(report, store, settings, now)

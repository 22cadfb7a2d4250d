"""Notifications: choose what is worth saying, say it in the reader's language, deliver it."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.notify.choose import Proposal
    from watchdog.notify.context import MessageContext
    from watchdog.notify.dead_man import ping
    from watchdog.notify.deliver import Messenger, deliver_all
    from watchdog.notify.run import messenger, write

# Loaded on first use: a quiet check sends no message.
__getattr__ = lazy(
    __name__,
    choose=("Proposal",),
    context=("MessageContext",),
    dead_man=("ping",),
    deliver=("Messenger", "deliver_all"),
    run=("messenger", "write"),
)

"""Notifications: choose what is worth saying, say it in the reader's language, deliver it."""

from watchdog.values import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from watchdog.notify.choose import Proposal
    from watchdog.notify.context import MessageContext
    from watchdog.notify.deliver import Messenger, deliver_all, ping
    from watchdog.notify.run import messenger, write

__all__ = ["MessageContext", "Messenger", "Proposal", "deliver_all", "messenger", "ping", "write"]

# Loaded on first use: a quiet check tells nobody.
__getattr__ = lazy(
    __name__,
    choose=("Proposal",),
    context=("MessageContext",),
    deliver=(
        "Messenger",
        "deliver_all",
        "ping",
    ),
    run=(
        "messenger",
        "write",
    ),
)

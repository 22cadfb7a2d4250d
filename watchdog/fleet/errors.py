"""What can go wrong with the services of a fleet."""

from __future__ import annotations

from watchdog.errors import WatchdogError


class FleetError(WatchdogError):
    """A service of the fleet did not do what it was asked; the text never holds a password."""


def needs_extra(module: str) -> FleetError:
    """What to say where a library of the optional extra is missing."""
    return FleetError(f"{module} is not installed; run: pip install 'hermes-watchdog[fleet]'")

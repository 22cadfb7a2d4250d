"""The gateway of a home: whether it runs, what supervises it, how it is started and stopped."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.gateway.machine import Machine, measure_machine
    from watchdog.gateway.unit_files import units_of

# Loaded on first use: a quiet check measures only what its rules ask for.
__getattr__ = lazy(
    __name__,
    machine=("Machine", "measure_machine"),
    unit_files=("units_of",),
)

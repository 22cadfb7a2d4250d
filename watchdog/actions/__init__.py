"""What can be done: one module per kind of step.

A module has KIND; Args, a frozen dataclass of text, flags and durations; read(section) → Args; describe(args, world) → the
words a person approves, with the exact command; run(args, world) → Outcome; REPEATABLE, whether a step that was cut off
half way may be begun again; and CHANGES, whether files or processes are changed by it.
"""

from __future__ import annotations

from watchdog.actions import add_column, command, gateway, heal_database, set_aside

KINDS = {module.KIND: module for module in (gateway, heal_database, add_column, set_aside, command)}

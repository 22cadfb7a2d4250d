"""What can be wrong: one module per kind of condition.

A module has KIND; read(section) → what the rule wants; lines(want) → the records it must see, by role; reach(want) → how
far back; says(want) → the fields its sentence may use; and Watch(want) with see(roles, event) and spans(now).
"""

from __future__ import annotations

from watchdog.detect import burst, gap, gateway, loop, silence, sqlite_health, sqlite_schema

KINDS = {module.KIND: module for module in (gap, burst, loop, silence, gateway, sqlite_health, sqlite_schema)}

"""What can be wrong: one module per kind of condition.

A module has KIND; read(section) → what the rule wants; lines(want) → the records it must see, by role;
reach(want) → how far back, where that is further than any check looks; says(want) → the fields its sentence may use;
and Detector(want) with see(roles, event) and spans(now).
"""

from __future__ import annotations

from watchdog.detect import (
    burst,
    cron,
    disk,
    gap,
    gateway,
    loop,
    memory,
    oom_kill,
    open_files,
    silence,
    sqlite_health,
    sqlite_schema,
    sqlite_users,
)

_MODULES = (
    gap,
    burst,
    loop,
    silence,
    gateway,
    disk,
    cron,
    memory,
    open_files,
    oom_kill,
    sqlite_health,
    sqlite_schema,
    sqlite_users,
)
KINDS = {module.KIND: module for module in _MODULES}

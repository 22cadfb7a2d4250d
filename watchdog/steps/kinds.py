"""Every kind of step that a recipe may have."""

from __future__ import annotations

from watchdog.steps import add_column, command, gateway, heal_database, set_aside

KINDS = {module.KIND: module for module in (gateway, heal_database, add_column, set_aside, command)}

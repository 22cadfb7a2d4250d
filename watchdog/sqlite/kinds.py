"""Which databases Hermes has, and how to tell them apart."""

from __future__ import annotations

import os
from collections.abc import Iterable

NAMES = {"state": "state.db", "kanban": "kanban.db", "response_store": "response_store.db"}
CORE = {"state": ("sessions", "messages"), "kanban": ("tasks", "task_events"),
        "response_store": ("responses", "conversations")}


def kind_of(tables: Iterable[str], path: str = "") -> str:
    """Which of the databases this is: by its tables, else by its name."""
    have = {table.lower() for table in tables}
    for kind, core in CORE.items():
        if have.issuperset(core):
            return kind
    for kind, core in CORE.items():
        if have.intersection(core):
            return kind
    base = os.path.basename(path)
    return next((kind for kind, name in NAMES.items() if base.startswith(name)), "") if not have else ""


def is_virtual(sql: str) -> bool:
    return sql[:30].upper().split()[:2] == ["CREATE", "VIRTUAL"]

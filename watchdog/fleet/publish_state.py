"""What publishing must remember between two checks: alerts that were posted, services that failed.

Kept as one JSON value beside the cursors of the reply channels. Lost or damaged, it is begun anew; the worst that
follows is an alert that ends by its own time.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from watchdog.store import Store, questions

NAME = "fleet"


def load(store: Store) -> dict[str, Any]:
    try:
        state = json.loads(questions.cursor(store, NAME) or "{}")
    except (ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def save(store: Store, state: dict[str, Any], now: datetime) -> None:
    questions.move_cursor(store, NAME, json.dumps(state, sort_keys=True), now)


def count_of(state: Any, name: str) -> int:
    """A count of the state; 0 for whatever is none."""
    value = state.get(name) if isinstance(state, dict) else None
    return value if isinstance(value, int) and value >= 0 else 0

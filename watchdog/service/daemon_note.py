"""What others must know of the long-running mode without loading a scheduler: its note, and how long it may stop."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchdog.system.procfs import start_time_of

NOTE = "daemon.json"  # what it writes of itself
STOP_LIMIT = timedelta(minutes=10)  # a repair that was begun is finished before a stop, if it takes no longer


def read_note(state: Path) -> dict[str, Any] | None:
    """What a living daemon of this home says of itself; None when there is none."""
    try:
        note: dict[str, Any] = json.loads((state / NOTE).read_text())
        alive = start_time_of(int(note["pid"])) == note["start_time"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if alive else None

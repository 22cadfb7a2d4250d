"""What the long-running mode writes about itself: a small file that `status` reads without loading a scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from watchdog.system.procfs import start_time_of

NOTE = "daemon.json"


def read_note(state: Path) -> dict[str, Any] | None:
    """What a living daemon of this home says of itself; None when there is none."""
    try:
        note: dict[str, Any] = json.loads((state / NOTE).read_text())
        alive = start_time_of(int(note["pid"])) == note["start_time"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if alive else None

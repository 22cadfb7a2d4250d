"""Measurements that lie beside saved logs (measured.jsonl): what only the machine itself could have told.

One JSON object per line: `at` (ISO, with its zone) and the names that store/measurements.py keeps.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from watchdog.model import Measurement
from watchdog.system.files import read_text

FILE = "measured.jsonl"


def saved_measurements(folder: Path) -> tuple[Measurement, ...]:
    """Oldest first; lines that are none are passed over."""
    found = []
    for line in read_text(folder / FILE).splitlines():
        try:
            values = json.loads(line)
            at = datetime.fromisoformat(values.pop("at"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
        if at.tzinfo is not None:
            found.append(Measurement(at, values))
    return tuple(sorted(found, key=lambda measurement: measurement.at))

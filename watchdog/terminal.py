"""Colour, where it helps and nowhere else."""

from __future__ import annotations

import os
import sys


def colours(stream: object = None) -> bool:
    """Only on a terminal, and never against NO_COLOR."""
    stream = stream or sys.stdout
    return bool(getattr(stream, "isatty", lambda: False)()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


PAINT = {"critical": "1;31", "high": "31", "medium": "33", "low": "36", "info": "2", "good": "32", "dim": "2", "bold": "1"}


def paint(text: str, how: str, on: bool) -> str:
    return f"\x1b[{PAINT[how]}m{text}\x1b[0m" if on and how in PAINT else text

"""Helpers for tests: a fixed now, homes and sources made from text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from watchdog.reading import Sources

SAMPLES = Path(__file__).parent.parent / "samples" / "logs"
NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


def dated(text: str, day: str = "2026-05-19") -> str:
    lines = [f"{day} {line}" if line[:2].isdigit() and line[2:3] == ":" else line for line in text.strip("\n").split("\n")]
    return "\n".join(lines) + "\n" if text.strip() else ""


def saved(folder: Path, gateway: str = "running", **more) -> Sources:
    return Sources(folder, zone=UTC, stated=gateway, **more)

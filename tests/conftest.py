"""What many tests share: a fixed now, homes made from text, the shipped rules."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchdog.reading import Sources
from watchdog.rulebook import Rulebook, load

SAMPLES = Path(__file__).parent.parent / "samples" / "logs"
NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)


@pytest.fixture(scope="session")
def book() -> Rulebook:
    return load()


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def home(tmp_path: Path):
    """Make a Hermes home from the text of its logs; lines that begin with a clock time get the day in front."""

    def make(gateway: str = "", agent: str | None = None, **files: str | bytes) -> Path:
        folder = tmp_path / "home"
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "logs" / "gateway.log").write_text(dated(gateway), "utf-8")
        (folder / "logs" / "agent.log").write_text(dated(gateway if agent is None else agent), "utf-8")
        for name, content in files.items():
            path = folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make


def dated(text: str, day: str = "2026-05-19") -> str:
    lines = [f"{day} {line}" if line[:2].isdigit() and line[2:3] == ":" else line for line in text.strip("\n").split("\n")]
    return "\n".join(lines) + "\n" if text.strip() else ""


def saved(folder: Path, gateway: str = "running", **more) -> Sources:
    return Sources(folder, zone=UTC, stated=gateway, **more)

"""What many tests share: a fixed now, homes made from text, the shipped rules."""

from __future__ import annotations

import importlib.util
from datetime import datetime
from pathlib import Path

import pytest
from homes import BOOK, NOW, dated

from watchdog.config.rulebook import Rulebook


@pytest.fixture(scope="session")
def book() -> Rulebook:
    return BOOK


@pytest.fixture(scope="session")
def maker():
    """scripts/make_schema.py, which records how configuration is read."""
    path = Path(__file__).parent.parent / "scripts" / "make_schema.py"
    spec = importlib.util.spec_from_file_location("make_schema", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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

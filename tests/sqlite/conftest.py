"""Databases to break: one well file per kind and session, copied for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import generated
import inject
import pytest

from watchdog.sqlite import sandbox

KINDS = ("state", "kanban", "response_store")


@pytest.fixture(scope="session")
def well(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("well")
    return {kind: inject.make(folder / f"{kind}.db", kind, size=120) for kind in KINDS}


@pytest.fixture
def patient(well: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of a well database, damaged when a fault is named."""

    def make(kind: str = "state", fault: str = "", seed: int = 1) -> Path:
        path = tmp_path / f"{kind}.db"
        shutil.copyfile(well[kind], path)
        os.chmod(path, 0o600)
        if fault:
            inject.FAULTS[fault](inject.Patient(path, kind, seed))
        return path

    return make


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox works in this process: for tests of what it answers. test_deep_check.py is about the child."""
    monkeypatch.setattr(sandbox, "run", generated.in_this_process)

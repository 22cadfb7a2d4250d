"""Databases to break: one well file per kind and session, copied for each test."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import generated
import inject
import pytest

from watchdog.sqlite import quarantine, sandbox
from watchdog.sqlite.heal import heal

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


def _heal_until(path: str, last: str, taken: Path) -> None:
    def step(name: str) -> None:
        with taken.open("a") as file:
            file.write(f"{name}\n")
        if name == last:
            os.kill(os.getpid(), signal.SIGKILL)

    quarantine.step = step
    heal(path)


@pytest.fixture
def steps_of_a_heal(tmp_path: Path) -> Callable[..., list[str]]:
    """Heal a database in another process, which is killed after the step `last`; the steps that were taken."""

    def run(path: Path, last: str = "") -> list[str]:
        taken = tmp_path / "steps taken"
        taken.write_text("")
        child = multiprocessing.get_context("fork").Process(target=_heal_until, args=(str(path), last, taken))
        child.start()
        child.join(60)
        assert child.exitcode == (-signal.SIGKILL if last else 0)
        return taken.read_text().splitlines()

    return run

"""Each scenario gets a world, a machine and a gateway of its own; all of it is gone when the scenario ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import parts
from .gateway import Gateway
from .machine import Machine
from .watchdog import Watchdog
from .world import World

# The long ones first, so that no worker is left alone with one at the end.
LONG = ("does_not_help", "matrix", "cron", "operators", "busy", "wedge", "resume_loop", "hung_chat")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((place for place, name in enumerate(LONG) if name in item.nodeid), len(LONG)))
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Get what is missing, once, before the workers start."""
    if session.config.option.markexpr == "lab" and not hasattr(session.config, "workerinput"):
        parts.install()


@pytest.fixture(scope="session")
def real_parts() -> None:
    lacking = parts.missing()
    if lacking:
        reason = "; ".join(f"{part}: {why}" for part, why in lacking.items())
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the lab lacks {reason}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.stash[FAILED] = True


FAILED = pytest.StashKey[bool]()


@pytest.fixture
def lab(real_parts: None, request: pytest.FixtureRequest) -> Iterator[Callable[..., SimpleNamespace]]:
    """lab('0.19.0', platforms=(…)) → world, machine, gateway (not started), watchdog."""
    worlds: list[World] = []
    machines: list[Machine] = []
    gateways: list[Gateway] = []

    def make(version: str, platforms: tuple[str, ...] = ("telegram",), systemd: bool = True, user: bool = False,
             settings: str = "", rules: dict[str, str] | None = None, **how) -> SimpleNamespace:
        world = World()
        worlds.append(world)
        machine = Machine(world, systemd, user)
        machines.append(machine)
        machine.boot()
        gateway = Gateway(machine, version, platforms, **how)
        gateways.append(gateway)
        return SimpleNamespace(world=world, machine=machine, gateway=gateway,
                               watchdog=Watchdog(gateway, settings, rules))

    yield make
    for machine in machines:
        machine.kill()
    for gateway in gateways:
        if gateway.process:
            gateway.process.wait(10)
    for world in worlds:
        if request.node.stash.get(FAILED, False):       # what a person needs to find out why
            kept = parts.CACHE / "failed" / request.node.name.replace("/", "_")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(world.folder, kept, symlinks=True, ignore_dangling_symlinks=True,
                            ignore=shutil.ignore_patterns("*.sock", "journal"))
        world.end()


both = pytest.mark.parametrize("version", parts.VERSIONS)

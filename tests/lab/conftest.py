"""Each scenario gets a world, a machine and a gateway of its own; all of it is gone when the scenario ends."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from . import parts
from .gateway import Gateway
from .machine import Machine
from .watchdog import Watchdog
from .world import World

# The long ones first, so that no worker is left alone with one at the end.
LONG = (
    "does_not_help",
    "cron",
    "matrix",
    "cut_off",
    "busy",
    "hung_chat",
    "operators",
    "loop",
    "every_point",
    "timer",
    "wedge",
    "user_unit",
    "rejected",
    "killed",
)
LIMIT = 600  # seconds; alone on two cores nothing takes a quarter of it
# The gate proves the chain on every kind of part: of these files it takes what is named here, of the others whatever
# is not marked `thorough` itself. `make lab-all` runs everything.
GATE = {
    "test_browser.py": ("approved_by_a_person", "of_another_origin", "hostile_text", "screen_reader[en]"),
    "test_chats.py": ("[0.19.0]",),
    "test_fleet_alerts.py": ("twenty_hosts", "host_that_dies", "full_disk"),
    "test_fleet_contrib.py": ("accept_the_examples", "[alert0"),
    "test_fleet_mailbox.py": ("answered_from_elsewhere", "fifty_who", "stolen_host", "postgresql_down"),
    "test_healthy.py": ("update_from", "[0.19.0]"),
    "test_operators_story.py": ("[0.13.0]",),
    "test_power.py": ("says_so[0.13.0-kill]", "test_a_restart_cut_off"),
    "test_provider.py": ("[0.19.0-openai]",),
    "test_qq.py": ("[0.19.0]", "wedge"),
    "test_stops.py": ("planned_stop_is_silence[0.19.0]", "crash_loop_by_rejected"),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "thorough: left out where the lab is only a gate (make lab-all runs it)"
    )
    config.addinivalue_line("markers", f"takes_at_most(seconds): instead of {LIMIT} seconds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(
        key=lambda item: next((place for place, name in enumerate(LONG) if name in item.nodeid), len(LONG))
    )
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            gate = GATE.get(item.path.name)
            if gate and not any(name in item.nodeid for name in gate):
                item.add_marker(pytest.mark.thorough)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Get what is missing, once, before the workers start."""
    if session.config.option.markexpr.startswith("lab") and not hasattr(session.config, "workerinput"):
        parts.install(thorough="not thorough" not in session.config.option.markexpr)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """No scenario holds the others up for ever; what it started is ended all the same."""

    def ring(number: int, frame: object) -> None:
        raise AssertionError(f"not done within {limit} s")

    own = item.get_closest_marker("takes_at_most")
    limit = own.args[0] if own else LIMIT
    if item.get_closest_marker("lab"):
        before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(limit)
    yield
    if item.get_closest_marker("lab"):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def real_parts() -> None:
    needs()


def needs(*more: str) -> None:
    """Skip, in a plain sentence, where a real part cannot be had; LAB_REQUIRED=1 makes that a failure."""
    if lacking := parts.missing(*more):
        reason = "; ".join(f"{part}: {why}" for part, why in lacking.items())
        lacks(f"the lab lacks {reason}")


def lacks(reason: str) -> NoReturn:
    (pytest.fail if os.environ.get("LAB_REQUIRED") else pytest.skip)(reason)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.stash[FAILED] = True


FAILED = pytest.StashKey[bool]()


def keep_failed(world: World, item: pytest.Item) -> None:
    """What a person needs to find out why a scenario failed, in failed/ of the cache."""
    if not item.stash.get(FAILED, False):
        return
    kept = parts.CACHE / "failed" / item.name.replace("/", "_")
    shutil.rmtree(kept, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.sock", "journal", "dk*", "podman", "containers", "source", "base")
    shutil.copytree(world.folder, kept, symlinks=True, ignore=ignored, ignore_dangling_symlinks=True)


@pytest.fixture
def lab(real_parts: None, request: pytest.FixtureRequest) -> Iterator[Callable[..., SimpleNamespace]]:
    """lab('0.19.0', platforms=(…), hurry=(rules whose waiting is cut short,)) → world, machine, gateway (not
    started), watchdog.
    """
    worlds: list[World] = []
    machines: list[Machine] = []
    gateways: list[Gateway] = []

    def make(
        version: str,
        platforms: tuple[str, ...] = ("telegram",),
        systemd: bool = True,
        user: bool = False,
        settings: str = "",
        hurry: tuple[str, ...] = (),
        **how,
    ) -> SimpleNamespace:
        world = World()
        worlds.append(world)
        machine = Machine(world, systemd, user)
        machines.append(machine)
        machine.boot()
        gateway = Gateway(machine, version, platforms, **how)
        gateways.append(gateway)
        return SimpleNamespace(
            world=world, machine=machine, gateway=gateway, watchdog=Watchdog(gateway, settings, hurry)
        )

    yield make
    for machine in machines:
        machine.kill()
    for gateway in gateways:
        if gateway.process:
            gateway.process.wait(10)
    for world in worlds:
        keep_failed(world, request.node)
        world.end()


both = pytest.mark.parametrize("version", parts.VERSIONS)

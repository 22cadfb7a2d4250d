"""Golden tests: what the product prints and stores, met only through its command line and plain sqlite3.

Nothing here knows how the product is built inside. A difference fails with a diff; when it was meant, write the expected
files anew with:  python -m pytest tests/golden --update-golden
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from goldens import Golden, Shell


def command_line() -> Callable[[list[str]], int]:
    """The one place that knows where the command line lives."""
    from watchdog.cli import main

    return main


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", default=False, help="write tests/golden/expected anew"
    )


@pytest.fixture(scope="session")
def main() -> Callable[[list[str]], int]:
    """The command line with all of its modules loaded, so that none is loaded while the clock stands still."""
    entry = command_line()
    package = importlib.import_module(entry.__module__.partition(".")[0])
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return entry


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=bool(request.config.getoption("--update-golden", default=False)))


@pytest.fixture(autouse=True)
def _a_machine_without_properties(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """UTC, 80 columns, no programs in PATH, an empty home: whoever runs the tests gets the same words."""
    for name in list(os.environ):
        if (
            name.startswith(("HERMES", "_HERMES", "XDG_", "LC_"))
            or name.lower().endswith("_proxy")
            or name.endswith("_COLOR")
        ):
            monkeypatch.delenv(name)
    nothing = tmp_path / "bin"
    nothing.mkdir()
    for name, value in {
        "HOME": tmp_path,
        "PATH": nothing,
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "COLUMNS": "80",
        "no_proxy": "*",
    }.items():
        monkeypatch.setenv(name, str(value))
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def shell(main: Callable[[list[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Type commands, get a transcript; relative paths begin at the top of the checkout."""
    monkeypatch.chdir(Path(__file__).parents[2])
    return Shell(main, tmp_path)

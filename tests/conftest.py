"""What many tests share: a fixed now, homes made from text, the shipped rules."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from homes import BOOK, NOW, dated

from watchdog.approval import record
from watchdog.cli import main
from watchdog.config.rulebook import Rulebook
from watchdog.store import Store

MEMORY = Path("/dev/shm")
ROOM = 2_000_000_000  # bytes


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of the user who runs the tests is read, and temporary folders are in memory where there is room.

    What they expect is written for a machine in UTC that speaks English: logs of Hermes name no zone.
    The tests make thousands of small databases; half of the suite's time would be waiting for the disk.
    """
    for name in list(os.environ):
        if name.startswith(("HERMES_", "XDG_", "LANG", "LC_")) and name != "HERMES_WATCHDOG_EFFORT":
            del os.environ[name]
    os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8"}
    time.tzset()
    if (
        config.option.markexpr == "not lab"
        and "TMPDIR" not in os.environ
        and os.access(MEMORY, os.W_OK | os.X_OK)
    ):
        status = os.statvfs(MEMORY)
        if status.f_bavail * status.f_frsize > ROOM and not status.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line as a person types it; gives exit code, standard output and standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


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
def store() -> Iterator[Store]:
    with Store.in_memory() as made:
        yield made


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def quick_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a code is slow on purpose; that it is, is tested beside the record."""
    slow = record.hashlib.scrypt
    monkeypatch.setattr(record.hashlib, "scrypt", lambda code, **more: slow(code, **{**more, "n": 16}))


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

"""The places a benchmark runs in: an installation as pip leaves it, and Hermes homes with logs, databases and
a live process.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import json
import os
import re
import shutil
import sqlite3
import sysconfig
import time
import venv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import IO

from bench.generate import generate
from bench.shapes import turns, write
from watchdog.sqlite.memory import SETTLED
from watchdog.sqlite.schema import is_virtual, releases

ROOT = Path(__file__).resolve().parent.parent
PART = 5 * 1024 * 1024  # where Hermes rotates
WRITTEN = datetime(2026, 7, 20, 12, 40)  # when a home's logs end, before they are moved to now
_LOCKS: list[IO[str]] = []


def install(folder: Path) -> tuple[str, str]:
    """(python, hermes-watchdog) of an installation without the shortcuts and burdens of a checkout."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin" / "python")
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith(
            ("__editable__", "hermes_watchdog", "_distutils", "distutils", "setuptools", "pip")
        ):
            (packages / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "watchdog", packages / "watchdog", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "rules", packages / "watchdog" / "shipped")
    compileall.compile_dir(packages / "watchdog", quiet=1)
    script = folder / "bin" / "hermes-watchdog"
    script.write_text(
        f"#!{python}\nimport sys\nfrom watchdog.cli import entry\nif __name__ == '__main__':\n    sys.exit(entry())\n"
    )
    script.chmod(0o755)
    return python, str(script)


def forget(python: str) -> None:
    """Let the next command read the rules anew, as the first one after an install does."""
    for kept in (Path(python).parent.parent / "lib").glob(
        "*/site-packages/watchdog/config/__pycache__/rulebook.*"
    ):
        if kept.suffix != ".pyc":
            kept.unlink()


def home(
    folder: Path, size: int, hourly: int, rotated: bool = False, trouble: bool = False, seed: int = 1
) -> Path:
    """A home whose logs end now, whose databases are well, and whose gateway lives: it is this process."""
    generate(folder / "logs", size, seed, hourly, until=WRITTEN, trouble=trouble)
    for name in ("gateway.log", "agent.log"):
        move(folder / "logs" / name, datetime.now(UTC).replace(tzinfo=None) - WRITTEN)
    if rotated:
        for name in ("gateway.log", "agent.log"):
            rotate(folder / "logs" / name)
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    pid = {"pid": os.getpid(), "kind": "hermes-gateway", "argv": ["hermes"], "start_time": int(fields[19])}
    (folder / "gateway.pid").write_text(json.dumps(pid))
    lock = (folder / "gateway.lock").open("a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _LOCKS.append(lock)  # held until the bench ends
    for kind, name in (("state", "state.db"), ("kanban", "kanban.db")):
        database(folder / name, kind)
    return folder


def realistic(folder: Path, boards: int = 10, sessions: int = 500) -> Path:
    """A home as people have one: three databases, boards, sessions.json, an hour of traffic, settings with one target
    (in folder/config); the gateway lives.
    """
    place = home(folder / "home", 300_000, 300_000)
    database(place / "response_store.db", "state")
    for number in range(boards):
        board = place / "kanban" / "boards" / f"board{number}"
        board.mkdir(parents=True)
        database(board / "kanban.db", "kanban")
    (place / "sessions").mkdir()
    entries = {
        f"agent:main:telegram:dm:{number}": {
            "session_id": f"20260519_{number:06d}_{number:08x}",
            "origin": {"platform": "telegram", "chat_id": str(number), "user_name": f"Person {number}"},
        }
        for number in range(sessions)
    }
    (place / "sessions" / "sessions.json").write_text(json.dumps(entries))
    config = folder / "config"
    config.mkdir()
    settings = config / "settings.yaml"
    settings.write_text("notify:\n  targets:\n    - {name: me, url: 'json://127.0.0.1:9/'}\nbackups: false\n")
    settings.chmod(0o600)
    time.sleep(SETTLED + 1)  # as long as databases must stand still before a check remembers them
    return place


def with_an_incident(home: Path) -> Path:
    """The same home, whose provider account has run out of money."""
    now = datetime.now(UTC).replace(tzinfo=None)
    with (home / "logs" / "agent.log").open("a") as log:
        for number in range(12):
            # after the last line: a log that goes back in time is one whose clock was set back
            stamp = (now + timedelta(milliseconds=50 * number)).isoformat(" ", "milliseconds")
            log.write(
                f"{stamp.replace('.', ',')} WARNING [20260519_000001_0000abcd] agent.conversation_loop: API call failed "
                f"(attempt {1 + number % 3}/3) error_type=APIStatusError thread=a:1 provider=custom "
                "base_url=https://api.example.com/v1 model=m summary=Error code: 402 - insufficient_quota\n"
            )
    return home


def with_turns(home: Path, size: int) -> Path:
    """The same home with so many bytes of nothing but turns in the last minutes."""
    write(home, turns(Random(7), 60, 0.7), size, until=datetime.now(UTC).replace(tzinfo=None))
    return home


def database(path: Path, kind: str) -> None:
    """A database as the newest Hermes that we know makes it, with some rows."""
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    order = ("table", "index", "view", "trigger")
    made = set()
    for thing in sorted(
        releases()[-1].objects[kind], key=lambda thing: (order.index(thing.type), not is_virtual(thing.sql))
    ):
        if thing.sql and thing.name not in made and not thing.name.startswith("sqlite_"):
            # the tables that a full-text index made for itself
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute(thing.sql)
            made.add(thing.name)
    db.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT)")
    db.executemany("INSERT INTO notes (text) VALUES (?)", [(f"note {n} " * 20,) for n in range(5000)])
    db.commit()
    db.close()


def move(log: Path, by: timedelta) -> None:
    """The same log, so much later: a check then has the same lines in its window at any minute of the hour."""

    def later(found: re.Match[bytes]) -> bytes:
        at = datetime.fromisoformat(found[0].decode()) + by
        return at.isoformat(" ", "milliseconds").replace(".", ",").encode()

    stamp = rb"(?m)^2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
    log.write_bytes(re.sub(stamp, later, log.read_bytes()))


def rotate(log: Path, keep: int = 3) -> None:
    """As Hermes does: x.log.1 is the newest backup."""
    content = log.read_bytes()
    cuts = [0]
    while len(content) - cuts[-1] > PART:
        cuts.append(content.rfind(b"\n2", 0, cuts[-1] + PART) + 1)
    parts = [content[start:stop] for start, stop in zip(cuts, [*cuts[1:], len(content)], strict=True)]
    for number, part in enumerate(reversed(parts[-keep - 1 :])):
        (log if number == 0 else log.with_name(f"{log.name}.{number}")).write_bytes(part)


def more_rules(folder: Path, count: int) -> Path:
    """A configuration folder with so many rules of its own, each with words that no other has."""
    (folder / "detect").mkdir(parents=True)
    for number in range(count):
        (folder / "detect" / f"extra-{number}.yaml").write_text(
            f"id: extra-{number}\ntitle: Made up\nseverity: low\nwhen:\n  - burst:\n      in: agent.log\n"
            f"      line: 'Component c{number * 7919 % 100003:05d} (?<what>\\S+) failed with code \\d+'\n"
            "      per: [what]\n      at_least: 5\n      within: 15m\nsay: '{what} failed'\nadvice: none\n"
        )
    return folder

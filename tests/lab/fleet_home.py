"""Simulated hosts: a home with a real fault and a real repair, the installed command, and settings of a fleet."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from . import parts

LACKING = parts.CHECKOUT / "samples" / "logs" / "missing-column" / "fires-two-tables-0.13.0"
STAMP = re.compile(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
STOPPED = "{at},000 INFO gateway.run: Gateway stopped (total teardown 0.1s)\n"


class Host:
    """One home of one machine, as the command line sees it."""

    def __init__(self, folder: Path, name: str, settings: str, broken: bool = True, clock: str = ""):
        self.name, self.top, self.clock = name, folder / name, clock
        self.home, self.config, self.state = self.top / ".hermes", self.top / "config", self.top / "state"
        (self.home / "logs").mkdir(parents=True)
        self.config.mkdir()
        self.configure(settings)
        if broken:
            shutil.copy(LACKING / "kanban.db", self.home)
        for log in ("gateway.log", "agent.log"):
            at = datetime.now() + {"": 0, "-1h": -1, "+1h": 1}[clock] * timedelta(hours=1)
            lines = fresh((LACKING / log).read_text("utf-8"), at) if broken else ""
            now = at.strftime("%Y-%m-%d %H:%M:%S")
            (self.home / "logs" / log).write_text(lines + STOPPED.format(at=now), "utf-8")

    def configure(self, settings: str) -> None:
        path = self.config / "settings.yaml"
        path.write_text(f"backups: false\nreplies: {{wait: 0s}}\nnotify: {{host: {self.name}}}\n{settings}")
        path.chmod(0o600)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        where = ["--home", self.home, "--config", self.config, "--state", self.state]
        return subprocess.run(
            [
                str(word)
                for word in (
                    *(["faketime", "-f", self.clock] if self.clock else []),
                    parts.COMMAND,
                    *words,
                    *where,
                )
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "NO_PROXY": "*"},
        )

    def check(self) -> dict[str, Any]:
        """A check; its report."""
        done = self.run("check", "--json")
        assert done.returncode in (0, 1), done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def heal_by_hand(self) -> None:
        """Take the fault away, so that the incident resolves by itself."""
        (self.home / "kanban.db").unlink(missing_ok=True)

    @property
    def columns(self) -> set[str]:
        with sqlite3.connect(self.home / "kanban.db") as db:
            return {row[1] for row in db.execute("PRAGMA table_info(tasks)")}

    def done(self) -> int:
        """How often a plan was carried out here."""
        (store,) = self.state.rglob("watchdog.db")
        with sqlite3.connect(store) as db:
            return int(db.execute("SELECT count(*) FROM actions WHERE state <> 'begun'").fetchone()[0])


def fresh(text: str, now: datetime) -> str:
    """The same lines, ending a minute ago."""
    times = [datetime.fromisoformat(found) for found in STAMP.findall(text)]
    move = now - timedelta(minutes=1) - max(times)
    return STAMP.sub(
        lambda found: str((datetime.fromisoformat(found[0]) + move).replace(microsecond=0)), text
    )

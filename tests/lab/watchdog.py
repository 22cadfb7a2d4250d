"""The watchdog as its user runs it: the installed command, cron's environment, its settings folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

from .gateway import Gateway
from .machine import ANN, Done
from .parts import COMMAND
from .waiting import until

HERE = Path(__file__).parent
FASTER = 45  # a limit of 15 minutes becomes 20 seconds
_LIMIT = re.compile(r"\b(longer_than|settles_after): (\d+)([smh])\b")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def shipped_rules() -> Path:
    """Where the installed command has them."""
    told = subprocess.run(
        [
            COMMAND.parent / "python",
            "-c",
            "from watchdog.config.rules import shipped_folder as f; print(f())",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        timeout=30,
    )
    return Path(told.stdout.strip())


def faster(rule: str) -> str:
    """The same rule with its waiting times scaled down; windows, counts and patterns stay."""
    return _LIMIT.sub(lambda m: f"{m[1]}: {max(int(m[2]) * _SECONDS[m[3]] // FASTER, 0)}s", rule)


def later(**span: float) -> tuple[str, str]:
    """The option of a check that looks so much later: later(hours=13)."""
    return "--now", f"{datetime.now() + timedelta(**span):%Y-%m-%d %H:%M:%S}"


class Watchdog:
    def __init__(self, gateway: Gateway, settings: str = "", hurry: tuple[str, ...] = ()) -> None:
        """The shipped rules, but those in `hurry` wait 45 times less."""
        self.gateway, self.machine = gateway, gateway.machine
        self.config = self.machine.user_home / ".config/hermes-watchdog"
        self._configure(settings, hurry)
        if self.machine.user:
            for place in (
                self.machine.user_home / ".config",
                *(self.machine.user_home / ".config").rglob("*"),
            ):
                os.chown(place, ANN, ANN)

    def _configure(self, settings: str, hurry: tuple[str, ...]) -> None:
        (self.config / "detect").mkdir(parents=True)
        for rule in hurry:
            text = (shipped_rules() / "detect" / f"{rule}.yaml").read_text()
            assert faster(text) != text, f"{rule} waits for nothing"
            (self.config / "detect" / f"{rule}.yaml").write_text(faster(text))
        if settings:
            (self.config / "settings.yaml").write_text(settings)
            (self.config / "settings.yaml").chmod(0o600)

    prefix: tuple[str, ...] = ()  # what the command is run by

    def __call__(self, *words: str, within: float = 240, env: dict[str, str] | None = None) -> Done:
        settings = {**self.machine.environment, **(env or {})}
        return self.machine.run([*self.prefix, COMMAND, *words], settings, within=within)

    def start(self, *words: str, stop_at: str = "", stopped: Path | None = None) -> subprocess.Popen:
        """Not waited for; with `stop_at` it freezes there and makes the file `stopped`."""
        env = (
            {"PYTHONPATH": str(HERE / "breakpoint"), "LAB_STOP_AT": stop_at, "LAB_STOPPED": str(stopped)}
            if stop_at
            else {}
        )
        return self.machine.start(
            [COMMAND, *words], env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def json(self, *words: str, within: float = 240) -> dict:
        done = self(*words, "--json", within=within)
        assert done.returncode in (0, 1), f"{words}: exit {done.returncode}\n{done.text}"
        return json.loads(done.stdout)

    def forget(self) -> None:
        shutil.rmtree(self.machine.user_home / ".local/state/hermes-watchdog", ignore_errors=True)

    def as_shipped(self) -> None:
        """Every rule with its own waiting times again."""
        for file in (self.config / "detect").iterdir():
            file.unlink()

    def until_found(self, rule: str, within: float = 120) -> dict:
        """Looks without acting, as often as needed, until the rule fires."""

        def look() -> dict | None:
            report = self.json("check", "--dry-run")
            return next(
                (one for one in report["incidents"] if one["rule"] == rule and one["status"] != "resolved"),
                None,
            )

        return until(
            look,
            f"the watchdog finds {rule}",
            within=within,
            every=2,
            explain=lambda: self("check", "--dry-run").text,
        )

"""A home with a fault that needs no gateway: its kanban.db lacks columns, and the log complains of it just now."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from homes import SAMPLES

LACKING = SAMPLES / "missing-column" / "fires-two-tables-0.13.0"
LAST = datetime(2026, 11, 16, 1, 32, 46, tzinfo=UTC)
STOPPED = """\
2026-11-16 01:32:45,000 INFO gateway.run: Received SIGTERM — initiating shutdown
2026-11-16 01:32:46,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)
"""


def make_broken_home(folder: Path, language: str = "en") -> list[str]:
    """The home below `folder`; the options that name it, its settings and its store."""
    home, config = folder / "home", folder / "config"
    (home / "logs").mkdir(parents=True)
    config.mkdir()
    shutil.copy(LACKING / "kanban.db", home)
    later = datetime.now(UTC) - LAST

    def moved(found: re.Match[str]) -> str:
        return f"{datetime.fromisoformat(found[0]).replace(tzinfo=UTC) + later:%Y-%m-%d %H:%M:%S}"

    for name in ("gateway.log", "agent.log"):
        text = (LACKING / name).read_text("utf-8") + STOPPED
        (home / "logs" / name).write_text(
            re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", moved, text, flags=re.MULTILINE), "utf-8"
        )
    settings = config / "settings.yaml"
    settings.write_text(f"timezone: UTC\nbackups: false\nnotify: {{language: {language}}}\n")
    settings.chmod(0o600)
    return ["--home", str(home), "--config", str(config), "--state", str(folder / "state")]

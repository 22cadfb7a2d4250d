"""Helpers for tests: a fixed now, homes and sources made from text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from watchdog.config.cache import load_cached
from watchdog.config.rules import shipped_vocabulary
from watchdog.job import Job, load_rules
from watchdog.model import Report
from watchdog.sources.chat_text import ChatText
from watchdog.sources.process import Farewells
from watchdog.sources.read import Sources
from watchdog.store import Store
from watchdog.store.incidents import record_check

SAMPLES = Path(__file__).parent.parent / "samples" / "logs"
NOW = datetime(2026, 5, 19, 10, 41, tzinfo=UTC)
NOWHERE = Path("/nowhere")
# Kept with the program, as any command keeps it: every test that runs one reads no rule file again.
BOOK = load_cached(NOWHERE, NOWHERE, load_rules, write=False, remember=True)


def dated(text: str, day: str = "2026-05-19") -> str:
    lines = [
        f"{day} {line}" if line[:2].isdigit() and line[2:3] == ":" else line
        for line in text.strip("\n").split("\n")
    ]
    return "\n".join(lines) + "\n" if text.strip() else ""


def saved(folder: Path, gateway: str = "running", **more) -> Sources:
    return Sources(folder, zone=UTC, stated=gateway, **more)


def let_others_in(folder: Path) -> None:
    """Every user may come to this folder; pytest's own are closed."""
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & 0o001:
            path.chmod(0o755)


def where(job: Job) -> list[str]:
    """The options of a command line that name the folders of a job."""
    return ["--home", job.home_dir, "--config", job.config_dir, "--state", str(job.state.parent)]


def chat_text() -> ChatText:
    """Cuts chat text as the shipped vocabulary says."""
    return ChatText(shipped_vocabulary().with_chat_text())


def farewells() -> Farewells:
    words = shipped_vocabulary()
    return Farewells((*words.role("started"), *words.role("failed")), words.role("stopped"))


def finish_check(
    store: Store, now: datetime, start: datetime, blind: Mapping[str, str], rules: Iterable[str]
) -> None:
    """A check that found nothing, as the store remembers it."""
    record_check(store, Report(start, now, "", blind, (), {}, (), ()), rules)

"""Whole stories on a prepared home with a clock that stands still: commands, messages and the rows of the store."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from freezegun import freeze_time
from goldens import SAMPLES, Golden, Shell, last_written, phone, plain, rows_of, tables_of, utc

LACKING = SAMPLES / "missing-column" / "fires-two-tables-0.13.0"
STOPPED = """\
2026-11-16 01:32:45,000 INFO gateway.run: Received SIGTERM — initiating shutdown
2026-11-16 01:32:46,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)
"""
DAY = "2026-11-16"
LANGUAGES = ("en", "zh")


@contextmanager
def prepared(shell: Shell, language: str) -> Iterator[Any]:
    """A home whose gateway was stopped on purpose and whose kanban.db lacks columns; a clock; a phone. Gives the clock."""
    folder = shell.folder
    home, config = folder / "home", folder / "config"
    (home / "logs").mkdir(parents=True)
    config.mkdir()
    shutil.copy(LACKING / "kanban.db", home)
    for name in ("gateway.log", "agent.log"):
        (home / "logs" / name).write_text((LACKING / name).read_text("utf-8") + STOPPED, "utf-8")
    last_written(home, utc(f"{DAY} 01:32:56"))
    shell.where = ("--home", str(home), "--config", str(config), "--state", str(folder / "state"))
    with phone() as shell.phone, freeze_time(f"{DAY} 01:33:00") as clock:
        settings = config / "settings.yaml"
        target = f"{{name: phone, url: 'json://127.0.0.1:{shell.phone.port}/', tags: [ops]}}"
        settings.write_text(
            f"timezone: UTC\nbackups: false\nnotify:\n  host: box\n  language: {language}\n  targets:\n    - {target}\n"
        )
        settings.chmod(0o600)
        yield clock


def at(shell: Shell, clock: Any, time: str) -> None:
    clock.move_to(f"{DAY} {time}")
    shell.note(f"━━ {time}\n")


def finish(shell: Shell, golden: Golden, name: str) -> None:
    golden.same(f"stories/{name}.txt", shell.transcript)
    golden.same_json(f"stories/{name}-store.json", rows_of(shell.folder / "state", shell.folder))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_fault_is_found_asked_about_approved_healed_and_told(
    language: str, shell: Shell, golden: Golden
) -> None:
    with prepared(shell, language) as clock:
        at(shell, clock, "01:33:00")
        shell.type("check")
        for words in (("status",), ("plans",), ("plan", "1"), ("incidents",), ("incident", "1")):
            shell.type(*words)
        at(shell, clock, "01:36:00")
        assert shell.phone is not None
        shell.type("approve", shell.phone.code())
        shell.type("approve", shell.phone.code())
        at(shell, clock, "01:48:00")
        shell.type("check")
        shell.type("check", "--quiet")
        for words in (
            ("status",),
            ("plans",),
            ("plan", "1"),
            ("incidents",),
            ("incident", "1"),
            ("audit",),
            ("report",),
        ):
            shell.type(*words)
    finish(shell, golden, f"approved-{language}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plan_is_refused_and_the_fault_ends_by_itself(language: str, shell: Shell, golden: Golden) -> None:
    """Also: a wrong code, a question that nobody answers, disarming, and a silence."""
    with prepared(shell, language) as clock:
        at(shell, clock, "01:33:00")
        shell.type("check")
        shell.type("approve", "AAAAAAAA")
        assert shell.phone is not None
        shell.type("refuse", shell.phone.code())
        shell.type("approve", shell.phone.code())
        at(shell, clock, "01:48:00")
        shell.type("check")
        shell.type("plans")
        at(shell, clock, "07:50:00")
        shell.type("check")
        shell.type("plan", "1")
        at(shell, clock, "08:50:00")
        shell.type("check")
        shell.type("disarm", "--because", "moving house")
        shell.type("check")
        shell.type("status")
        shell.type("silence", "missing-column", "--for", "2h", "--because", "known")
        shell.type("check")
        shell.type("arm", "--because", "moved")
        (shell.folder / "home" / "kanban.db").unlink()
        at(shell, clock, "12:00:00")
        shell.type("check")
        shell.type("incidents")
        shell.type("audit")
        shell.type("report")
    finish(shell, golden, f"refused-{language}")


def test_a_broken_database_is_told_when_nothing_tells_how_to_start_the_gateway(
    shell: Shell, golden: Golden
) -> None:
    """A plan on hold; then a person heals by hand, and takes it back."""
    broken = SAMPLES / "database-broken" / "fires-state-header-0.19.0" / "state.db"
    with prepared(shell, "en") as clock:
        home = shell.folder / "home"
        (home / "kanban.db").unlink()
        shutil.copy(broken, home)
        at(shell, clock, "01:33:00")
        shell.type("check")
        shell.type("plans")
        shell.where = ()
        shell.type("db", "check", str(home / "state.db"))
        shell.type("db", "check", "--deep", str(home / "state.db"))
        shell.type("db", "heal", str(home / "state.db"), "--dry-run")
        shell.type("db", "heal", str(home / "state.db"))
        shell.type("db", "heal", str(home / "state.db"), "--yes")
        shell.type("db", "check", "--deep", str(home / "state.db"), "--json")
        shell.type("db", "undo", str(home / "state.db"))
        shell.type("db", "check", "--home", str(home))
    golden.same("stories/broken-database.txt", shell.transcript)


def test_the_answers_for_people_and_for_scripts_after_a_healed_fault(shell: Shell, golden: Golden) -> None:
    """Each command that looks at the store, as text, JSON and, for the report, Markdown and HTML."""
    looks = (
        ("status",),
        ("plans",),
        ("plan", "1"),
        ("incidents",),
        ("incident", "1"),
        ("audit",),
        ("report",),
        ("doctor",),
        ("notify",),
    )
    looks += (
        ("silences",),
        ("maintenance",),
        ("explain", "missing-column"),
        ("rules", "lint"),
        ("plan", "1", "--code"),
        ("check", "--dry-run"),
    )
    told: dict[str, Any] = {}
    with prepared(shell, "en") as clock:
        for moment in ("before any check", "asked", "healed"):
            if moment == "asked":
                told["check"] = shell.run("check", "--json").out
                shell.type("maintenance", "on", "--for", "2h", "--because", "new disk")
                shell.type("maintenance", "off")
                shell.type(
                    "silence", "provider-errors", "--for", "2h", "--because", "their status page knows"
                )
            elif moment == "healed":
                clock.move_to(f"{DAY} 01:36:00")
                assert shell.phone is not None
                found = shell.run("plan", "1", "--code", "--json")
                assert found.code in (0, 1)
                told["approve"] = shell.run("approve", shell.phone.code(), "--json").out
                clock.move_to(f"{DAY} 01:48:00")
                told["check again"] = shell.run("check", "--json").out
                shell.type("unsilence", "2")
                shell.type("notify", "--test", "--tag", "ops")
            shell.note(f"━━ {moment}\n")
            for words in looks:
                shell.type(*words)
                told[f"{' '.join(words)} ({moment})"] = shell.run(*words, "--json").out
        golden.same("stories/report.html", shell.run("report", "--format", "html").out)
        golden.same("stories/report.md", shell.run("report", "--format", "markdown").out)
        golden.same("stories/store.sql", tables_of(shell.folder / "state"))
    golden.same("stories/answers.txt", shell.transcript)
    golden.same_json("stories/answers.json", {name: parsed(text) for name, text in told.items()})


def parsed(text: str) -> Any:
    """JSON, or one JSON object a line; what is no JSON stays text."""
    try:
        return json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError:
            return text


def test_the_demo_tells_the_same_story(shell: Shell, golden: Golden) -> None:
    """The one live story: a real process, a real clock; only times, pids and the folder may differ."""
    told = shell.run("demo", "--fast")
    text = re.sub(r"/\S*/hermes-watchdog-demo-\w+", "<demo>", plain(told.out, shell.folder))
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "<time>", text)
    text = re.sub(r"\b\d{8}T\d+Z", "<time>", text)
    span = r"\d+ (?:second|minute|hour)s?"
    text = re.sub(rf"\b(?:{span}(?: {span})? ago|just now)\b", "<ago>", text)
    text = re.sub(r"(?m)^\d+ seconds, all of it", "<n> seconds, all of it", text)
    text = re.sub(r"\b(pid|process) \d+", r"\1 <pid>", text)
    # The frames are wrapped by the length of paths; the stories above keep whole messages.
    text = re.sub(
        r"(?s)╭─+╮\n(.*?)\n│ +│\n.*?╯", lambda frame: " ".join(re.sub(r"[│\s]+", " ", frame[1]).split()), text
    )
    golden.same("stories/demo.txt", f"{text}\nexit {told.code}\n{told.err}")

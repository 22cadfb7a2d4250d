"""The demo is the first thing a new user runs: it must tell the whole story, end well, and leave nothing
behind.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchdog.cli import main
from watchdog.demo import home as demo_home
from watchdog.demo.story import CODE, DemoPhone, Stage, cells

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run of the real command, by a user who has nothing, in a temporary folder that we can look into."""
    top = tmp_path_factory.mktemp("demo")
    for name in ("home", "tmp"):
        (top / name).mkdir()
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(top / "home"),
        "TMPDIR": str(top / "tmp"),
        "LC_ALL": "C.UTF-8",
    }
    words = [sys.executable, "-P", "-m", "watchdog", "demo", "--fast"]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env=surroundings, stdin=subprocess.DEVNULL
    )
    return done, top


def test_the_whole_story_is_told_and_ends_well(shown: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = shown
    assert done.returncode == 0, done.stdout + done.stderr
    parts = [
        "SQLite session store not available: file is not a database",
        "$ hermes-watchdog check",
        "5 starts died within 15 minutes",
        "state.db is not readable",
        "kanban.db lacks tasks.session_id TEXT",
        "A database of the gateway is broken → The gateway starts and dies over and over",
        "waits for your approval",
        "The question, as it arrives on a phone",
        "hermes-watchdog refuse ",
        "$ hermes-watchdog approve ",
        "heal state.db",
        "done  checked: problem gone, gateway running",
        "messages in state.db: 248 before the damage, 248 now",
        "Nothing is wrong",
        "On your own gateway, looking only:  hermes-watchdog check --dry-run",
    ]
    at = 0
    for part in parts:
        assert part in done.stdout[at:], f"not told, or not in this order: {part}"
        at = done.stdout.index(part, at)
    assert "\x1b" not in done.stdout  # no terminal, no colours


def test_it_says_how_long_it_took_and_where(shown: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, top = shown
    assert re.search(
        rf"^\d+ seconds, all of it in {top}/tmp/\S+, which is gone again", done.stdout, re.MULTILINE
    )


def test_nothing_is_left_behind_and_nothing_outside_is_touched(
    shown: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    _, top = shown
    assert list((top / "home").rglob("*")) == [] and list((top / "tmp").rglob("*")) == []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(top).encode() not in path.read_bytes()
        except OSError:
            continue


def test_the_home_is_broken_as_real_ones_were(tmp_path: Path) -> None:
    home = demo_home.build(tmp_path, datetime.now(UTC))
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        _count(home / "state.db", "SELECT count(*) FROM messages")
    with pytest.raises(sqlite3.OperationalError, match="no such column: session_id"):
        _count(home / "kanban.db", "SELECT count(session_id) FROM tasks")
    assert _count(home / "kanban.db", "SELECT count(*) FROM tasks") == demo_home.TASKS
    assert demo_home.still_runs(home) == 0


def _count(path: Path, sql: str) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute(sql).fetchone()[0])
    finally:
        db.close()


def test_the_phone_shows_a_message_in_a_frame_of_even_width(capsys: pytest.CaptureFixture[str]) -> None:
    Stage(
        main,
    ).phone(
        {
            "title": "Gateway watchdog: 已重启 gateway，卡住的 session 已清除",
            "message": "one\n\n    " + "long " * 30,
        }
    )
    lines = capsys.readouterr().out.splitlines()
    assert {cells(line) for line in lines} == {78}


def test_the_phone_takes_what_apprise_sends() -> None:
    import json
    import urllib.request

    phone = DemoPhone()
    with phone.listening() as port:
        body = json.dumps({"title": "t", "message": "run: hermes-watchdog approve K7MNPQRS"}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(urllib.request.Request(f"http://127.0.0.1:{port}/", body), timeout=10).close()
    (message,) = phone.new()
    assert phone.new() == []
    found = CODE.search(message["message"])
    assert found is not None and found[1] == "K7MNPQRS"


def test_the_recorded_picture_is_one_file_that_asks_nobody_and_names_no_machine() -> None:
    text = (TOP / "docs" / "demo.svg").read_text("utf-8")
    ET.fromstring(text)
    assert not re.search(r"(?:href|src)=|url\(|<script|@import", text)
    assert "/tmp/demo" in text and "root" not in text
    for said in ("approve ", "Nothing is wrong", "248 now"):
        assert said in text


def test_the_recorder_breaks_lines_between_words_and_keeps_colours() -> None:
    spec = importlib.util.spec_from_file_location("record_demo", TOP / "scripts" / "record-demo.py")
    assert spec is not None and spec.loader is not None
    recorder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    pieces = recorder.wrapped("  \x1b[31m" + "word " * 40 + "\x1b[0m")
    assert len(pieces) == 2 and pieces[1].startswith("    ")
    assert recorder.spans(pieces[1]).count("tspan") == 2
    assert recorder.tidy(f"start as root: {sys.executable} /var/x/hermes-watchdog-demo-ab12/bin/hermes") == (
        "start as me: /usr/bin/python3 /tmp/demo/bin/hermes"
    )

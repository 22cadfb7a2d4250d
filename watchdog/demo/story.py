"""`hermes-watchdog demo`: a broken gateway of its own in a temporary folder, found, explained, asked about,
healed and told.

Everything that is printed between the headings is the real thing: the same commands, the same line, a real
message taken by a stand-in for a phone. Nothing outside the temporary folder is read for it or written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from watchdog.demo import home as demo_home
from watchdog.job import find_job
from watchdog.reports.check import as_text
from watchdog.reports.language import reader_for
from watchdog.service.check import check_once
from watchdog.text import cells, paint
from watchdog.values import replace

CODE = re.compile(r"approve ([A-Z0-9]{8})\b")


@dataclass
class DemoPhone:
    """Takes what would have gone to ntfy, Telegram, Matrix or mail."""

    messages: list[dict[str, str]] = field(default_factory=list)
    shown: int = 0

    @contextmanager
    def listening(self) -> Iterator[int]:
        taken = self.messages

        class Taker(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Taker) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield server.server_port
            server.shutdown()

    def new(self) -> list[dict[str, str]]:
        fresh, self.shown = self.messages[self.shown :], len(self.messages)
        return fresh


@dataclass
class Stage:
    """Where the demo speaks: headings, commands and the phone, with pauses for people."""

    main: Callable[[list[str]], int]  # the command line itself
    colour: bool = False
    pause: float = 0.0
    width: int = 78

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def rest(self, beats: float = 1.0) -> None:
        """Time for a person to read."""
        time.sleep(self.pause * beats)

    def tidy(self, text: str) -> str:
        """What a message says, as it is shown; a recording hides whose machine it was made on."""
        return text

    def heading(self, text: str) -> None:
        self.say()
        for line in textwrap.wrap(text, self.width - 3):
            self.say(paint(f"━━ {line}", "bold", self.colour))
        self.rest()

    def command(self, *words: str) -> int:
        """The command as a person would type it, and what it really prints."""
        self.say(
            f"{paint('$', 'good', self.colour)} {paint('hermes-watchdog ' + ' '.join(words), 'bold', self.colour)}"
        )
        code = self.main(list(words))
        self.rest(2)
        return code

    def phone(self, message: dict[str, str]) -> None:
        inner = self.width - 4
        self.say(f"╭{'─' * (self.width - 2)}╮")
        title = self.tidy(message.get("title", ""))
        for line in [title, "", *self.tidy(message.get("message", "")).strip().splitlines()]:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            for part in textwrap.wrap(line, inner, subsequent_indent=indent, break_on_hyphens=False) or [""]:
                bold = line == title
                self.say(f"│ {paint(part, 'bold', self.colour and bold)}{' ' * (inner - cells(part))} │")
        self.say(f"╰{'─' * (self.width - 2)}╯")
        self.rest(3)


def run(stage: Stage, keep: bool = False) -> int:
    """The operators' story from the broken home to the last message; 0 when it ended well."""
    began = time.monotonic()
    top = Path(tempfile.mkdtemp(prefix="hermes-watchdog-demo-"))
    phone = DemoPhone()
    try:
        with phone.listening() as port, surroundings(top):
            home = demo_home.build(top, datetime.now(UTC))
            demo_home.settings(top, port)
            well = tell_story(stage, top, home, phone)
            demo_home.end_gateway(home)
    finally:
        if not keep:
            shutil.rmtree(top, ignore_errors=True)
    stage.say()
    stage.say(
        f"{time.monotonic() - began:.0f} seconds, all of it in {top}{'' if keep else ', which is gone again'}."
    )
    stage.say("On your own gateway, looking only:  hermes-watchdog check --dry-run")
    return 0 if well else 3


def tell_story(stage: Stage, top: Path, home: Path, phone: DemoPhone) -> bool:
    stage.heading(
        "QQ lost its session again and again (4009), a person restarted the gateway, and it does not come back"
    )
    stage.say(paint(f"$ hermes gateway run      (HERMES_HOME={home})", "dim", stage.colour))
    code = subprocess.run(demo_home.command(top), timeout=20).returncode
    lines = (home / "logs" / "gateway.log").read_text().splitlines()
    stage.say("\n".join(lines[-5:]))
    stage.say(paint(f"exit code {code}, as every time", "dim", stage.colour))
    stage.rest()

    stage.heading(
        "What cron would have found: the faults, their causes in order, and one plan. Nothing is done yet."
    )
    stage.command("check")

    stage.heading("The question, as it arrives on a phone")
    question = next((message for message in phone.new() if CODE.search(message.get("message", ""))), None)
    if question is None:
        stage.say(
            "no question arrived; this should not happen, please report it with: hermes-watchdog demo --keep"
        )
        return False
    stage.phone(question)
    found = CODE.search(question["message"])
    assert found is not None

    stage.heading(
        "A person says yes, to exactly these commands. Heal on a copy, count the rows, swap, start, verify."
    )
    before = demo_home.MESSAGES
    healed = stage.command("approve", found[1])
    count = rows(home)
    stage.say(f"messages in state.db: {before} before the damage, {count} now")

    stage.heading(
        "A quarter of an hour later: the next check finds nothing wrong, and the last message says so"
    )
    well = next_check(stage)
    for message in phone.new():
        stage.phone(message)
    return healed == 0 and well and count == before


def next_check(stage: Stage) -> bool:
    """The check that cron would make 15 minutes from now, without the waiting; whether all is well."""
    stage.say(f"{paint('$', 'good', stage.colour)} {paint('hermes-watchdog check', 'bold', stage.colour)}")
    job = find_job()
    report = check_once(job, job.now + timedelta(minutes=15))
    stage.say(as_text(report, replace(reader_for(job), colour=stage.colour)))
    stage.rest(2)
    return not any(incident.status == "open" for incident in report.incidents)


def rows(home: Path) -> int:
    db = sqlite3.connect(f"file:{home / 'state.db'}?mode=ro", uri=True)
    try:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        db.close()


@contextmanager
def surroundings(top: Path) -> Iterator[None]:
    """The environment of a user who has nothing but this folder."""
    given = {
        "HERMES_HOME": str(top / "home"),
        "HERMES_WATCHDOG_CONFIG": str(top / "config"),
        "HERMES_WATCHDOG_STATE": str(top / "state"),
        "HOME": str(top),
        "no_proxy": "*",
        "NO_PROXY": "*",
    }
    before = dict(os.environ)
    os.environ.update(given)
    for name in (
        "_HERMES_GATEWAY",
        "HERMES_KANBAN_DB",
        "HERMES_WATCHDOG_NOTIFY",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    ):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

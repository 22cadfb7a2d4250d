"""Helpers of the golden tests: a transcript, a phone that takes messages, the rows of the store, and the comparison."""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]
EXPECTED = Path(__file__).parent / "expected"
SAMPLES = TOP / "samples" / "logs"
USER = pwd.getpwuid(os.getuid()).pw_name
HOST = socket.gethostname()
CODE = re.compile(r"(?:approve|同意) ([A-Z0-9]{8})\b")


def plain(text: str, folder: Path) -> str:
    """The text without what differs from machine to machine and from run to run."""
    program = str(
        Path(sys.executable).with_name("hermes-watchdog")
    )  # messages name it where it is not on PATH
    places = {
        str(folder): "<tmp>",
        sys.executable: "<python>",
        program: "hermes-watchdog",
        str(TOP): "<checkout>",
    }
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    user, host, short = re.escape(USER), re.escape(HOST), re.escape(HOST.partition(".")[0])
    for pattern, instead in (
        (rf"\b(by|as|owner) {user}\b", r"\1 <user>"),
        (rf"\b{user} (refused|通过|于|已)", r"<user> \1"),
        (rf"(由|属于|答复人) {user}(?=[ ，）]|$)", r"\1 <user>"),
        (rf"，{user}：", "，<user>："),
        (rf"（{user}(?=[，）])", "（<user>"),
        (rf"主机 (?:{host}|{short})(?=，)", "主机 <host>"),
        (rf'"{user}"', '"<user>"'),
        (rf"\bon (?:{host}|{short})\b", "on <host>"),
        (rf'"(?:{host}|{short})"', '"<host>"'),
        (r"\b[0-9a-f]{32,}\b", "<hex>"),
        (r"^(audit|审计) [0-9a-f]{8}$", r"\1 <head>"),
        (r"\b(home|kanban\.db|state\.db)-[0-9a-f]{8}\b", r"\1-<hash>"),
        (r"\b(\d{8}T\d{6}(?:\d{6})?Z)-[0-9a-f]{16}\b", r"\1-<hash>"),
        (r"\b(approve|refuse|同意|拒绝) [A-Z0-9]{8}\b", r"\1 <code>"),
        (r'("code": )"[A-Z0-9]{8}"', r'\1"<code>"'),
        (r"\b(pid|process) \d+", r"\1 <pid>"),
        (r"[\d,.]+ [kMGT]?B free", "<size> free"),
        (r"剩余 [\d,.]+ [kMGT]?B", "剩余 <size>"),
        (r'("disk_free": )\d+', r'\1"<n>"'),
        (r"\b127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\bhermes-watchdog \d+\.\d+\.\d+\S*?(?=,|\s|$)", "hermes-watchdog <version>"),
        (r"\bPython 3\.\d+\.\d+\w*", "Python <version>"),
        (r'("sqlite": )"3\.[\d.]+"', r'\1"<version>"'),
        (r"\b(SQLite) 3\.\d+\.\d+", r"\1 <version>"),
        # What every new rule or recipe would change.
        (r"\b\d+ rules, \d+ recipes", "<n> rules, <n> recipes"),
        (r"\b\d+ 条规则，\d+ ", "<n> 条规则，<n> "),
        (r"(not checked for that reason: )(?:[a-z-]+, ){4,}[a-z-]+", r"\1<rules>"),
        (r"\bsent in \d+\.\d+ s", "sent in <n> s"),
        (r'("seconds": )\d+\.\d+', r"\1<n>"),
    ):
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


@dataclass
class Golden:
    """Compares with a file of expected/, or writes it."""

    update: bool

    def same(self, name: str, text: str) -> None:
        path = EXPECTED / name
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            return
        if not path.exists():
            pytest.fail(
                f"{name} is not there; if it should be: pytest tests/golden --update-golden", pytrace=False
            )
        before = path.read_text("utf-8")
        if text != before:
            diff = list(
                difflib.unified_diff(
                    before.splitlines(), text.splitlines(), f"expected/{name}", "now", lineterm="", n=2
                )
            )
            more = [f"… and {len(diff) - 200} lines more"] if len(diff) > 200 else []
            told = "\n".join([*diff[:200], *more])
            pytest.fail(f"{told}\n\nif this was meant: pytest tests/golden --update-golden", pytrace=False)

    def same_json(self, name: str, value: Any) -> None:
        self.same(name, json.dumps(value, indent=1, ensure_ascii=False))


@dataclass
class Said:
    code: int
    out: str
    err: str


@dataclass
class Phone:
    """Takes what Apprise would have sent to a chat."""

    port: int = 0
    taken: list[dict[str, str]] = field(default_factory=list)
    seen: int = 0

    def new(self) -> list[dict[str, str]]:
        fresh, self.seen = self.taken[self.seen :], len(self.taken)
        return fresh

    def code(self) -> str:
        """The code of the newest question."""
        return next(found[1] for one in reversed(self.taken) if (found := CODE.search(one["message"])))


@contextlib.contextmanager
def phone() -> Iterator[Phone]:
    told = Phone()

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        told.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield told
        server.shutdown()
        thread.join()


@dataclass
class Shell:
    """Runs commands in this process and writes down what was typed, printed and sent."""

    main: Callable[[list[str]], int]
    folder: Path
    where: tuple[str, ...] = ()
    phone: Phone | None = None
    lines: list[str] = field(default_factory=list)

    def run(self, *words: str) -> Said:
        """One command; nothing is written down."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = self.main([*words, *self.where])
            except SystemExit as leave:
                code = int(leave.code or 0)
        told, complained = (plain(stream.buffer.getvalue().decode(), self.folder) for stream in (out, err))
        return Said(code, told, complained)

    def type(self, *words: str) -> Said:
        """One command, written down with its answer, its exit code, and the messages that went out meanwhile."""
        said = self.run(*words)
        typed = plain(shlex.join(words), self.folder)
        self.note(f"$ hermes-watchdog {typed}")
        self.lines += said.out.rstrip("\n").splitlines()
        # a busy machine makes a command slow enough for a line of progress
        told = [line for line in said.err.rstrip("\n").splitlines() if not re.search(r" … -?\d+ s$", line)]
        self.lines += [f"stderr: {line}" for line in told]
        self.lines += [f"exit {said.code}", ""]
        for message in self.phone.new() if self.phone else ():
            title, body, kind = (
                plain(str(message.get(name, "")), self.folder) for name in ("title", "message", "type")
            )
            self.lines += [f"message ({kind}): {title}", *(f"  | {line}" for line in body.splitlines()), ""]
        return said

    def note(self, text: str) -> None:
        self.lines.append(text)

    @property
    def transcript(self) -> str:
        return "\n".join(self.lines)


def rows_of(state: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of the only store below this folder, but for those that every new rule or machine would change:
    when each rule ran, and what was measured.
    """
    (path,) = state.glob("*/watchdog.db")
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        tables = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {
            table: [
                {key: _value(value, folder) for key, value in dict(row).items()}
                for row in db.execute(f'SELECT * FROM "{table}" ORDER BY 1')
            ]
            for table in tables
            if not table.startswith("sqlite_") and table not in ("runs", "measurements")
        }
    finally:
        db.close()


def tables_of(state: Path) -> str:
    """The schema of the store."""
    (path,) = state.glob("*/watchdog.db")
    db = sqlite3.connect(path)
    try:
        found = db.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
        ).fetchall()
        version = db.execute("PRAGMA user_version").fetchone()[0]
        return ";\n".join(sql for (sql,) in found) + f";\nPRAGMA user_version={version}"
    finally:
        db.close()


def _value(value: Any, folder: Path) -> Any:
    if not isinstance(value, str):
        return value
    return "<user>" if value == USER else "<host>" if value == HOST else plain(value, folder)


def copied(case: Path, home: Path, now: str) -> Path:
    """A home made of one case of samples/, with files as old as they were then."""
    shutil.copytree(case, home)
    last_written(home, utc(now))
    return home


def last_written(folder: Path, at: datetime) -> None:
    """Files that were last written ten seconds before this time."""
    stamp = (at - timedelta(seconds=10)).timestamp()
    for path in folder.rglob("*"):
        os.utime(path, (stamp, stamp))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)

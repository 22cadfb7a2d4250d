"""The home that the demo heals: real-shaped databases, fresh logs, a stand-in for the gateway."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from watchdog.config.rules import shipped_folder
from watchdog.sqlite.schema import release
from watchdog.system.procfs import start_time_of

SESSIONS, MESSAGES, TASKS = 6, 248, 12
RELEASE = "0.19.0"
ROLES = ("user", "assistant")

# A small script that behaves like the gateway as far as a watchdog can see: pid file, lock, state file, log
# lines.
GATEWAY = '''\
#!{python}
"""A stand-in for the Hermes gateway: its pid file, lock, state file and log lines, and nothing else."""
import fcntl, json, os, signal, sqlite3, sys, time

HOME = os.environ["HERMES_HOME"]
END = time.monotonic() + 180  # never left behind, whatever becomes of the demo


def log(level, text, more=""):
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + ",%03d" % (now % 1 * 1000)
    for name in ("gateway.log", "agent.log"):
        with open(os.path.join(HOME, "logs", name), "a") as file:
            file.write("%s %s gateway.run: %s\\n%s" % (stamp, level, text, more))


def put(name, value):
    with open(os.path.join(HOME, name + ".new"), "w") as file:
        json.dump(value, file)
    os.replace(os.path.join(HOME, name + ".new"), os.path.join(HOME, name))


def ask(name, sql):
    db = sqlite3.connect(os.path.join(HOME, name))
    try:
        return db.execute(sql).fetchone()[0]
    finally:
        db.close()


def leave(number, frame):
    log("INFO", "Received %s — initiating shutdown" % signal.Signals(number).name)
    log("INFO", "Stopping gateway...")
    os.unlink(os.path.join(HOME, "gateway.pid"))
    log("INFO", "Gateway stopped (total teardown 0.0s)")
    sys.exit(1)


log("INFO", "Starting Hermes Gateway...")
with open("/proc/self/stat") as file:
    began = int(file.read().rpartition(")")[2].split()[19])
put("gateway.pid", {{"pid": os.getpid(), "kind": "hermes-gateway", "argv": sys.orig_argv, "start_time": began}})
lock = open(os.path.join(HOME, "gateway.lock"), "w")
fcntl.flock(lock, fcntl.LOCK_EX)
try:
    ask("kanban.db", "SELECT count(session_id) FROM tasks")
except sqlite3.Error as error:
    log("ERROR", "kanban dispatcher: tick failed on board default",
        "Traceback (most recent call last):\\nsqlite3.OperationalError: %s\\n" % error)
try:
    ask("state.db", "SELECT count(*) FROM messages")
except sqlite3.Error as error:
    log("WARNING", "SQLite session store not available: %s" % error)
    log("ERROR", "Gateway exiting with failure: session store: %s" % error)
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
put("gateway_state.json", {{"gateway_state": "running", "pid": os.getpid(), "start_time": began, "active_agents": 0,
                            "platforms": {{"qqbot": {{"state": "connected"}}}}}})
log("INFO", "Gateway running with 1 platform(s)")
while time.monotonic() < END and os.path.exists(os.path.join(HOME, "gateway.pid")):
    time.sleep(0.2)
'''


def build(top: Path, now: datetime) -> Path:
    """A home whose gateway was restarted and never came back; returns the folder of the home."""
    home = top / "home"
    (home / "logs").mkdir(parents=True)
    (home / "config.yaml").write_text("model: {default: demo, provider: custom}\n")
    fill_state(home / "state.db", now)
    fill_kanban(home / "kanban.db", now)
    with (home / "state.db").open("r+b") as file:
        file.write(b"SQLit\x17\xdb\x00\x91\x04")  # what a cut-off write left of the first bytes
    lines = "".join(story(now))
    for name in ("gateway.log", "agent.log"):
        (home / "logs" / name).write_text(lines)
    program = top / "bin" / "hermes"
    program.parent.mkdir()
    program.write_text(GATEWAY.format(python=sys.executable))
    program.chmod(0o755)
    (home / "gateway.pid").write_text(
        json.dumps({"pid": 0, "kind": "hermes-gateway", "argv": command(top), "start_time": 0})
    )
    return home


def command(top: Path) -> list[str]:
    return [sys.executable, str(top / "bin" / "hermes"), "gateway", "run"]


def settings(top: Path, port: int) -> Path:
    """A configuration of its own: messages go to the demo's phone, and a verification need not take minutes."""
    config = top / "config"
    (config / "recipes").mkdir(parents=True)
    (config / "settings.yaml").write_text(
        f"backups: false\nnotify:\n  host: demo\n  targets:\n    - {{name: phone, url: 'json://127.0.0.1:{port}/'}}\n"
    )
    for path in sorted((shipped_folder() / "recipes").glob("*.yaml")):
        text = path.read_text("utf-8")
        (config / "recipes" / path.name).write_text(text.replace("within: 3m", "within: 10s"), "utf-8")
    return config


def fill_state(path: Path, now: datetime) -> None:
    began = now.timestamp() - 86400
    with tables(path, "state") as db:
        db.executemany(
            "INSERT INTO sessions (id, source, chat_id, started_at, title, message_count) VALUES (?, 'qqbot', ?, ?, ?, ?)",
            [
                (f"s{n}", str(1000 + n), began + n, f"demo session {n}", MESSAGES // SESSIONS)
                for n in range(SESSIONS)
            ],
        )
        db.executemany(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            [
                (
                    f"s{n % SESSIONS}",
                    ROLES[n % 2],
                    f"message {n} of the demo {'…' * (n % 90)}",
                    began + 60 * n,
                )
                for n in range(MESSAGES)
            ],
        )


def fill_kanban(path: Path, now: datetime) -> None:
    began = int(now.timestamp()) - 86400
    with tables(path, "kanban") as db:
        db.executemany(
            "INSERT INTO tasks (id, title, status, created_at) VALUES (?, ?, 'todo', ?)",
            [(f"t{n}", f"task {n}", began + n) for n in range(TASKS)],
        )
        # As a release between 0.14 and 0.15 left it: the index came before the column, and then neither did.
        db.execute("DROP INDEX IF EXISTS idx_tasks_session_id")
        db.execute("ALTER TABLE tasks DROP COLUMN session_id")


@contextmanager
def tables(path: Path, kind: str) -> Iterator[sqlite3.Connection]:
    """A database with the tables of a known release, closed with its rows on disk."""
    known = release(RELEASE)
    assert known is not None
    with closing(sqlite3.connect(path)) as db:
        for made in known.objects[kind]:
            db.execute(made.sql)
        yield db
        db.commit()


def story(now: datetime) -> Iterator[str]:
    """What the logs hold: a good hour, QQ in a loop, a restart, and a gateway that dies at each start."""

    def line(
        minutes: float, text: str, level: str = "INFO", logger: str = "gateway.run", more: str = ""
    ) -> str:
        at = (now - timedelta(minutes=minutes)).astimezone()
        return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {level} {logger}: {text}\n{more}"

    qq = "gateway.platforms.qqbot.adapter"
    yield line(58, "Starting Hermes Gateway...")
    yield line(57.9, "[QQBot:1903] Ready, session_id=7f3a", logger=qq)
    yield line(57.8, "Gateway running with 1 platform(s)")
    for minutes in (50, 44, 37):
        yield line(minutes, "inbound message: platform=qqbot user=ann chat=1001 msg='how is the build?'")
        yield line(
            minutes - 0.3,
            "response ready: platform=qqbot chat=1001 time=18.0s api_calls=2 response=312 chars",
        )
    for round_ in range(7):
        lost = 29 - round_ / 10
        yield line(lost, f"[QQBot:1903] Resume sent (session_id=7f3a, seq={round_})", logger=qq)
        yield line(lost - 0.01, "[QQBot:1903] Session resumed", logger=qq)
        closed = "[QQBot:1903] WebSocket closed: code=4009 reason=Session timed out"
        yield line(lost - 0.03, closed, "WARNING", qq)
        yield line(lost - 0.031, "[QQBot:1903] Reconnecting in 2s (attempt 1)...", logger=qq)
    yield line(26, "Received SIGTERM — initiating shutdown")
    yield line(26, "Stopping gateway...")
    yield line(25.9, "Gateway stopped (total teardown 0.4s)")
    for minutes in (9, 7, 5, 3):
        traceback = (
            "Traceback (most recent call last):\nsqlite3.OperationalError: no such column: session_id\n"
        )
        yield line(minutes, "Starting Hermes Gateway...")
        yield line(minutes - 0.02, "kanban dispatcher: tick failed on board default", "ERROR", more=traceback)
        yield line(minutes - 0.04, "SQLite session store not available: file is not a database", "WARNING")
        yield line(
            minutes - 0.05, "Gateway exiting with failure: session store: file is not a database", "ERROR"
        )


def still_runs(home: Path) -> int:
    """The pid of the stand-in, if it is alive and is the one that wrote gateway.pid; 0 otherwise."""
    try:
        noted = json.loads((home / "gateway.pid").read_text())
        return int(noted["pid"]) if start_time_of(int(noted["pid"])) == noted["start_time"] else 0
    except (OSError, ValueError, KeyError):
        return 0


def end_gateway(home: Path) -> None:
    """Take the stand-in down: it goes by itself once its pid file is gone."""
    pid = still_runs(home)
    if pid:
        os.kill(pid, signal.SIGTERM)

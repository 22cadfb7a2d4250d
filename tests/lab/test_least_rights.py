"""The unit that `install` writes as root, locked up by a real systemd: it sees, repairs and reads a flooded journal."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from watchdog.sqlite.schema import is_virtual, releases

from .test_cron import Box, box, show, systemd  # noqa: F401  fixtures
from .waiting import until

GATEWAY = """
import fcntl, json, os, signal, sys, time
from datetime import datetime
home = os.environ["HERMES_HOME"]
lock = open(home + "/gateway.lock", "a+")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
start = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
def log(text):
    for name in ("gateway", "agent"):
        with open(f"{home}/logs/{name}.log", "a") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S},000 INFO gateway.run: {text}\\n")
def end(*_):
    log("Gateway stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
record = {"pid": os.getpid(), "kind": "hermes-gateway", "argv": sys.argv, "start_time": start}
for name, more in (("gateway_state.json", {"gateway_state": "running", "active_agents": 0}), ("gateway.pid", {})):
    with open(f"{home}/{name}", "w") as file:
        json.dump({**record, **more}, file)
log("Starting Hermes Gateway...")
while True:
    time.sleep(1)
"""


@pytest.fixture
def gateway(systemd: Box) -> Box:  # noqa: F811
    """A gateway that a system unit runs as an ordinary user, whose state.db has lost its header."""
    top = systemd.top
    (top / "bin").mkdir()
    (top / "bin" / "hermes").write_text(f"#!/usr/bin/python3\n{GATEWAY}")
    (top / "bin" / "hermes").chmod(0o755)
    path = top / "home" / "state.db"
    path.unlink()
    db = sqlite3.connect(path)
    for part in releases()[-1].objects["state"]:
        if part.type == "table" and not is_virtual(part.sql):
            db.execute(part.sql)
    db.execute("INSERT INTO sessions(id, source, started_at) VALUES('kept', 'cli', 1.0)")
    db.commit()
    db.close()
    (top / "units" / "hermes-gateway.service").write_text(
        f"[Unit]\nDefaultDependencies=no\n[Service]\nUser=nobody\nEnvironment=HERMES_HOME={top}/home\n"
        f"ExecStart={top}/bin/hermes gateway run\n"
    )
    for folder in (top, *list(top.parents)[:-2]):
        folder.chmod(0o755)
    for file in (top / "home", *(top / "home").rglob("*")):
        shutil.chown(file, "nobody", "nogroup")
    (top / "config").chmod(0o700)
    systemd.run("systemctl", "daemon-reload")
    assert systemd.run("systemctl", "start", "hermes-gateway.service").returncode == 0
    until((top / "home" / "gateway.pid").exists, "the gateway is up", explain=systemd.story)
    return systemd


def settings(box: Box, text: str) -> None:  # noqa: F811
    path = box.top / "config" / "settings.yaml"
    path.write_text(f"backups: false\nlimits: {{grace: 1s, wait_for_turns: 0s}}\n{text}")
    path.chmod(0o600)


def test_a_service_that_is_locked_up_heals_a_database_and_restarts_the_unit(gateway: Box) -> None:
    settings(gateway, f"approval: {{auto: [heal-database]}}\npage: {gateway.top}/www/hermes.html\n")
    (gateway.top / "www").mkdir()
    state = gateway.top / "home" / "state.db"
    with state.open("r+b") as file:
        file.write(b"\x17\x03\x03\x00\x13" + bytes(11))
    gateway.watchdog("install", "--daemon")
    (unit,) = (path.name for path in (gateway.top / "units").glob("gateway-watchdog-*.service"))
    text = (gateway.top / "units" / unit).read_text()
    assert "ProtectSystem=strict" in text and "NoNewPrivileges=yes" in text, text
    rated = gateway.run("systemd-analyze", "security", "--no-pager", unit).stdout.strip().splitlines()[-1]
    assert float(rated.rpartition(": ")[2].split()[0]) < 4, rated

    def whole() -> bool:
        with state.open("rb") as file:
            return file.read(6) == b"SQLite"

    def story() -> str:
        return gateway.run("journalctl", "--no-pager", "-u", unit).stdout[-3000:]

    until(whole, "the database is healed", within=200, every=0.5, explain=story)
    until(lambda: "done and verified" in story(), "the repair is over", within=180, every=2, explain=story)
    assert show(gateway, "hermes-gateway.service", "ActiveState") == "active"
    db = sqlite3.connect(f"file:{state}?mode=ro", uri=True)
    assert db.execute("SELECT id FROM sessions").fetchall() == [("kept",)]
    db.close()
    assert {file.stat().st_uid for file in (gateway.top / "home").iterdir()} == {65534}
    until((gateway.top / "www" / "hermes.html").exists, "the page is written", within=60, explain=story)
    gateway.watchdog("uninstall")


def test_a_flooded_journal_neither_holds_nor_blinds_a_check(gateway: Box) -> None:
    settings(gateway, "")
    unit = "hermes-gateway.service"
    flood = gateway.top / "units" / f"{unit}.d"
    flood.mkdir()
    (flood / "flood.conf").write_text(
        "[Service]\nLogRateLimitIntervalSec=0\n"
        "ExecStartPost=sh -c 'yes \"2026-05-19 10:00:00,000 ERROR x.y: a line that nobody wants\" | head -n 100000'\n"
    )
    gateway.run("systemctl", "daemon-reload")
    assert gateway.run("systemctl", "restart", unit).returncode == 0
    gateway.run("systemctl", "kill", "-s", "KILL", unit)
    until(lambda: show(gateway, unit, "ActiveState") == "failed", "it is down")
    first, second = gateway.watchdog("check"), gateway.watchdog("check")
    assert "Traceback" not in first.stdout + second.stdout
    assert "The gateway is not running" in first.stdout + second.stdout, second.stdout

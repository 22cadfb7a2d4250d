"""Real cron, a real systemd timer and the long-running mode as a real service fire real checks; each taken
away exactly.

Independent of the other scenarios: needs no Hermes, only a home whose state.db is broken.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from . import parts
from .waiting import until

MINE = "# mine\nMAILTO=me\n0 4 1 1 * /bin/true\n"
POOR = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LOGNAME": "root", "LC_ALL": "C.UTF-8"}
TARGETS = ("sysinit", "basic", "network-online", "shutdown", "timers", "multi-user")

# Nothing of the machine's own cron is seen or run: its tables, its spool and its pid file are covered.
CRON = """
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/spool/cron && mount -t tmpfs tmpfs /etc/cron.d || exit 1
mount --bind "$TOP/empty" /etc/crontab || exit 1
mkdir -p /var/spool/cron/crontabs && chmod 1730 /var/spool/cron/crontabs && chgrp crontab /var/spool/cron/crontabs
touch "$TOP/up"
# cron compares times in whole seconds: a crontab written in the second of its start would not be seen.
until [ -e "$TOP/go" ]; do sleep 0.1; done
exec cron -f
"""
SYSTEMD = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && mount --bind "$TOP/units" /etc/systemd/system || exit 1
mkdir -p /run/log/journal
export SYSTEMD_UNIT_PATH=/etc/systemd/system
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal
"""


class Box:
    """A private PID 1 with mounts of its own; everything in it ends with it."""

    def __init__(self, top: Path, script: str) -> None:
        self.top = top
        (top / "empty").touch()
        (top / "home" / "logs").mkdir(parents=True)
        line = f"{datetime.now():%Y-%m-%d %H:%M:%S},000 INFO gateway.run: Starting Hermes Gateway...\n"
        for name in ("gateway.log", "agent.log"):
            (top / "home" / "logs" / name).write_text(line)
        (top / "home" / "state.db").write_bytes(b"SQLit\x17" + b"\0" * 8190)
        (top / "config").mkdir()
        (top / "config" / "settings.yaml").write_text("backups: false\n")
        with (top / "boot.out").open("w") as output:
            self.outer = subprocess.Popen(
                ["unshare", "-f", "-p", "-m", "-i", "-C", "--mount-proc", "--propagation", "private", "--kill-child", "sh", "-c", script],
                env={**POOR, "TOP": str(top)}, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.pid = until(self._child, "PID 1 of the box", every=0.02, explain=self.story)

    def _child(self) -> int:
        try:
            return int(
                (Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split() or ["0"])[
                    0
                ]
            )
        except OSError:
            return 0

    def story(self) -> str:
        return (self.top / "boot.out").read_text()

    def run(self, *command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        words = ["nsenter", "-t", str(self.pid), "-p", "-m", "-i", "-C", "--wd=/", *command]
        env = {**POOR, "SYSTEMD_UNIT_PATH": "/etc/systemd/system"}
        return subprocess.run(words, capture_output=True, text=True, timeout=180, env=env, input=text)

    def watchdog(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = [part for name in ("home", "config", "state") for part in (f"--{name}", str(self.top / name))]
        done = self.run(str(parts.COMMAND), *words, *where)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done

    def checks(self) -> list[datetime]:
        return [datetime.fromisoformat(row[0]) for row in self._rows("SELECT at FROM checks ORDER BY id")]

    def found(self) -> set[str]:
        return {row[0] for row in self._rows("SELECT rule FROM incidents WHERE status = 'open'")}

    def _rows(self, sql: str) -> Sequence[tuple[str, ...]]:
        for path in (self.top / "state").glob("*/watchdog.db"):
            db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
            with suppress(sqlite3.OperationalError):
                return db.execute(sql).fetchall()
            db.close()
        return []

    def end(self) -> None:
        if self.outer.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.outer.wait(20)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Callable[[str], Box]]:
    lacking = [
        name
        for name in ("unshare", "nsenter", "cron", "crontab", "systemctl")
        if not shutil.which(name, path=POOR["PATH"])
    ]
    if os.geteuid() != 0 or lacking:
        pytest.skip(f"a private cron and systemd: {f'lacks {lacking}' if lacking else 'needs root'}")
    made: list[Box] = []

    def make(script: str) -> Box:
        made.append(Box(tmp_path, script))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.mark.thorough
def test_real_cron_fires_one_check_a_minute_and_the_entry_is_taken_away_exactly(
    box: Callable[[str], Box],
) -> None:
    one = box(CRON)
    until((one.top / "up").exists, "the spool is there", explain=one.story)
    one.run("crontab", "-", text=MINE)
    first = one.watchdog("install", "--cron", "--every", "1m")
    assert "written" in first.stdout
    assert "already there; nothing changed" in one.watchdog("install", "--cron", "--every", "1m").stdout
    installed = one.run("crontab", "-l").stdout
    assert installed.startswith(MINE) and installed.count("watchdog check --quiet") == 1
    (one.top / "go").touch()
    until(lambda: len(one.checks()) >= 2, "cron made two checks", within=150, every=0.5, explain=one.story)
    times = one.checks()
    assert len({at.replace(second=0, microsecond=0) for at in times}) == len(times)  # one in each minute
    assert all(at.second < 30 for at in times)
    assert "database-broken" in one.found()
    status = one.watchdog("status").stdout
    assert "by cron (* * * * *)" in status and "database-broken" in status
    assert "removed: crontab" in one.watchdog("uninstall").stdout
    assert one.run("crontab", "-l").stdout == MINE
    assert "Nothing is installed" in one.watchdog("uninstall").stdout


@pytest.fixture
def systemd(box: Callable[[str], Box], tmp_path: Path) -> Box:
    units = tmp_path / "units"
    units.mkdir()
    for name in ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"):
        shutil.copy(f"/lib/systemd/system/{name}", units / name)
    for name in TARGETS:
        (units / f"{name}.target").write_text(
            "[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service\n"
        )
    one = box(SYSTEMD)
    until(
        lambda: one.run("systemctl", "is-active", "multi-user.target").stdout.strip() == "active",
        "systemd is up",
        explain=one.story,
    )
    return one


def show(one: Box, unit: str, name: str) -> str:
    return one.run("systemctl", "show", unit, "-p", name, "--value").stdout.strip()


@pytest.mark.thorough
def test_a_real_systemd_timer_fires_checks_and_goes_away(systemd: Box) -> None:
    systemd.watchdog("install", "--systemd-timer", "--every", "1m")
    (timer,) = [path.name for path in (systemd.top / "units").glob("gateway-watchdog-*.timer")]
    service = timer.replace(".timer", ".service")
    assert systemd.run("systemctl", "is-active", timer).stdout.strip() == "active"
    until(lambda: "database-broken" in systemd.found(), "the timer made a check", within=150, every=0.5)
    until(lambda: show(systemd, service, "ActiveState") == "inactive", "the check is over")
    assert show(systemd, service, "Result") == "success"  # exit code 1 speaks of the gateway, not of us
    assert f"a systemd timer ({timer})" in systemd.watchdog("status").stdout
    assert timer in systemd.watchdog("uninstall").stdout
    assert not list((systemd.top / "units").rglob("gateway-watchdog-*"))
    assert show(systemd, timer, "LoadState") == "not-found"


def test_the_service_is_ready_checks_at_once_survives_a_freeze_and_stops_cleanly(systemd: Box) -> None:
    systemd.watchdog("install", "--daemon")
    (unit,) = [path.name for path in (systemd.top / "units").glob("gateway-watchdog-*.service")]
    assert show(systemd, unit, "ActiveState") == "active"  # systemctl enable --now waits for READY=1
    until(lambda: "database-broken" in systemd.found(), "the first check is made at once")
    until(lambda: "next check at" in show(systemd, unit, "StatusText"), "the status line")
    assert "by the long-running mode (pid " in systemd.watchdog("status").stdout

    # Frozen: systemd hears no sign of life and starts it again.
    drop = systemd.top / "units" / f"{unit}.d"
    drop.mkdir()
    (drop / "soon.conf").write_text("[Service]\nWatchdogSec=3\nRestartSec=0\nTimeoutAbortSec=2\n")
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "restart", unit)
    before = show(systemd, unit, "MainPID")
    systemd.run("kill", "-STOP", before)
    until(lambda: show(systemd, unit, "MainPID") not in ("0", before), "systemd started it again", within=120)
    until(lambda: show(systemd, unit, "ActiveState") == "active", "it is ready again")

    began = datetime.now(UTC)
    assert systemd.run("systemctl", "stop", unit).returncode == 0
    assert show(systemd, unit, "Result") == "success" and show(systemd, unit, "ExecMainStatus") == "0"
    assert (datetime.now(UTC) - began).total_seconds() < 20
    said = systemd.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout
    assert "watching " in said and "stopped (SIGTERM)" in said
    shutil.rmtree(drop)
    systemd.watchdog("uninstall")
    assert not list((systemd.top / "units").rglob("gateway-watchdog-*"))


def test_a_stop_in_the_middle_of_a_real_repair_lets_it_finish(tmp_path: Path) -> None:
    from watchdog.demo import home as demo_home
    from watchdog.demo.story import surroundings

    with surroundings(tmp_path):
        home = demo_home.build(tmp_path, datetime.now(UTC))
        config = demo_home.settings(tmp_path, 9)
        (config / "settings.yaml").write_text(
            "backups: false\napproval: {auto: [heal-database, add-missing-columns]}\n"
        )
        subprocess.run(demo_home.command(tmp_path), timeout=90)
        words = [sys.executable, "-P", "-m", "watchdog", "run"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            try:
                until(lambda: _one(tmp_path, "SELECT count(*) FROM steps_done") >= 2, "a repair is going on")
                running.send_signal(signal.SIGTERM)
                said, _ = running.communicate(timeout=200)
                assert running.returncode == 0 and said.endswith("stopped (SIGTERM)\n"), said
                assert _one(tmp_path, "SELECT count(*) FROM plans WHERE state = 'done'") == 1
                assert demo_home.still_runs(home)
            finally:
                running.kill()
                demo_home.end_gateway(home)


def _one(top: Path, sql: str) -> int:
    for path in (top / "state").glob("*/watchdog.db"):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            return int(db.execute(sql).fetchone()[0])
        except sqlite3.OperationalError:
            break
        finally:
            db.close()
    return 0

"""The long-running mode in accelerated time: nothing missed or doubled, no broken edit taken, every stop
clean.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers import base as schedulers
from homes import finish_check

from watchdog.cli.context import job_of
from watchdog.config import rules as rule_files
from watchdog.config.schedule import due, next_fire
from watchdog.job import Job, Run
from watchdog.model import Report
from watchdog.service import daemon as module
from watchdog.service.check import check_once
from watchdog.service.daemon import Daemon, fingerprint
from watchdog.service.daemon_note import read_note
from watchdog.store.incidents import last_runs
from watchdog.system import lock
from watchdog.system.lock import one_at_a_time
from watchdog.system.sdnotify import notify, watchdog_seconds

START = datetime(2026, 5, 19, 10, 0, 7, tzinfo=UTC)
RULE = """\
id: {name}
title: t
severity: low
every: {every}
when:
  - burst: {{in: gateway.log, line: 'nothing like it', at_least: 2, within: 5m}}
say: 's'
advice: a
"""


class Killed(BaseException):
    """kill -9, as far as a test can play it."""


class Life:
    """One home watched over an accelerated time, with things that happen to it."""

    def __init__(self, folder: Path):
        self.folder, self.now = folder, START
        (folder / "home" / "logs").mkdir(parents=True)
        (folder / "config" / "detect").mkdir(parents=True)
        self.args = argparse.Namespace(
            home=str(folder / "home"), config=str(folder / "config"), state=str(folder / "state")
        )
        self.ran: list[tuple[datetime, str]] = []
        self.checks: list[datetime] = []
        self.said: list[str] = []
        self.happens: list[tuple[datetime, Callable[[], object]]] = []
        self.check: Callable[[Job, datetime], Report] = self.note_and_record

    def rule(self, name: str, every: str = "15m", text: str = RULE) -> None:
        (self.folder / "config" / "detect" / f"{name}.yaml").write_text(text.format(name=name, every=every))

    def at(self, minutes: float, what: Callable[[], object]) -> None:
        self.happens.append((START + timedelta(minutes=minutes), what))

    def load(self) -> Job:
        job = job_of(self.args, self.now)
        assert job.settings and job.book
        return job

    def note_and_record(self, job: Job, now: datetime) -> Report:
        with job.store() as store:
            rules = due(job.book.rules, last_runs(store), now)
            self.checks.append(now)
            self.ran += [(now, rule.id) for rule in rules]
            finish_check(store, now, now, {}, [rule.id for rule in rules])
        return Report(now, now, "", {}, (), {}, (), ())

    def wait(self, seconds: float) -> None:
        """The only place where time passes."""
        self.now += timedelta(seconds=max(seconds, 0.01))
        self.let_happen()

    def let_happen(self) -> None:
        for moment in [one for one in self.happens if one[0] <= self.now]:
            self.happens.remove(moment)
            moment[1]()

    def live(self) -> None:
        assert self.watching(lambda job, now: self.check(job, now)).run() == 0

    def watching(self, check: Callable[[Job, datetime], Report], **more: Any) -> Daemon:
        return Daemon(
            self.load,
            check,
            self.said.append,
            clock=lambda: self.now,
            wait=lambda seconds: self.wait(seconds),
            **more,
        )

    def sleep(self, **span: float) -> None:
        """The whole machine: nobody waits, the clock goes on."""
        self.now += timedelta(**span)

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def kill(self) -> None:
        raise Killed

    def runs_of(self, name: str) -> list[datetime]:
        return [at for at, rule in self.ran if rule == name]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    shipped = tmp_path / "shipped"
    (shipped / "detect").mkdir(parents=True)
    monkeypatch.setattr(rule_files, "shipped_folder", lambda: shipped)
    one = Life(tmp_path)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return one.now.astimezone(tz)

    monkeypatch.setattr(schedulers, "datetime", Clock)
    return one


def assert_once_per_round(life: Life, name: str, every: str, start: datetime, end: datetime) -> None:
    """One run in each round between two fires of the trigger, from the first look to the end."""
    fire, runs = next_fire(every, start, UTC), life.runs_of(name)
    while (after := next_fire(every, fire, UTC)) <= end:
        inside = [at for at in runs if fire <= at < after]
        assert len(inside) == 1, f"{name}: {len(inside)} runs between {fire:%H:%M:%S} and {after:%H:%M:%S}"
        fire = after


def test_rules_run_at_their_own_pace_and_meet_in_one_check(life: Life) -> None:
    life.rule("often", "5m")
    life.rule("rarely", "15m")
    life.rule("cronwise", "'10,40 * * * *'")
    life.at(60, life.stop)
    life.live()
    assert_once_per_round(life, "often", "5m", START, START + timedelta(hours=1))
    assert_once_per_round(life, "rarely", "15m", START, START + timedelta(hours=1))
    assert [f"{at:%H:%M}" for at in life.runs_of("cronwise")] == [
        "10:00",
        "10:10",
        "10:40",
    ]  # the first look at once
    assert len(life.checks) == len(set(life.checks)) == 13  # 12 rounds of five minutes and the first look


def test_an_hour_with_edits_sleeps_and_kills_misses_no_check_and_doubles_none(life: Life) -> None:
    life.rule("often", "1m")
    life.rule("rarely", "15m")
    life.at(7.3, lambda: life.rule("new", "2m"))
    life.at(12, lambda: life.rule("often", "2m"))
    life.at(13, lambda: life.rule("often", "1m", "id: often\nevry: 1m\n"))  # a broken edit
    life.at(15, lambda: life.rule("often", "1m"))
    life.at(20.4, life.kill)
    life.at(31.2, life.kill)
    life.at(60, life.stop)
    for _ in range(3):
        with suppress(Killed):
            life.live()
    assert_once_per_round(life, "rarely", "15m", START, START + timedelta(hours=1))
    assert_once_per_round(life, "often", "1m", START + timedelta(minutes=16), START + timedelta(hours=1))
    assert_once_per_round(life, "new", "2m", START + timedelta(minutes=8), START + timedelta(hours=1))
    assert len(life.checks) == len(set(life.checks))


def test_after_a_sleep_there_is_one_check_and_not_one_for_each_that_was_missed(life: Life) -> None:
    life.rule("often", "1m")
    life.at(5, lambda: life.sleep(minutes=40))
    life.at(47, life.stop)
    life.live()
    asleep = [
        at for at in life.checks if timedelta(minutes=5) <= at - START < timedelta(minutes=45, seconds=30)
    ]
    assert len(asleep) == 1
    assert_once_per_round(life, "often", "1m", START + timedelta(minutes=45), START + timedelta(minutes=47))


def test_a_clock_that_was_set_back_stops_nothing(life: Life) -> None:
    life.rule("often", "1m")
    back = START - timedelta(hours=3)

    def set_back() -> None:
        life.now = back
        life.happens.append((back + timedelta(minutes=11), life.stop))

    life.at(5, set_back)
    life.live()
    assert any("the clock went back" in line for line in life.said)
    assert_once_per_round(life, "often", "1m", back + timedelta(minutes=1), back + timedelta(minutes=10))


def test_a_broken_edit_keeps_the_last_good_rules_and_says_so_with_the_line(life: Life) -> None:
    life.rule("often", "5m")
    life.at(6, lambda: life.rule("often", "5m", "id: often\ntitle: t\nseverity: lwo\n"))
    noted: list[object] = []
    life.at(7, lambda: noted.append(read_note(job_of(life.args, START).state)))
    life.at(16, lambda: life.rule("often", "5m"))
    life.at(18, life.stop)
    life.live()
    told = next(line for line in life.said if "not used" in line)
    assert "often.yaml:3: severity: 'lwo' is not one of info, low, medium, high, critical" in told
    assert "the last good rules and settings stay in force" in told
    assert "often.yaml:3" in noted[0]["config_problem"]  # type: ignore[index]
    assert [f"{at:%M}" for at in life.runs_of("often")] == ["00", "05", "10", "15"]
    assert any(line.startswith("rules and settings read again: 1 rule") for line in life.said)
    assert read_note(job_of(life.args, START).state) is None


def test_a_broken_settings_file_at_the_start_is_an_error_and_not_a_guess(life: Life) -> None:
    (life.folder / "config" / "settings.yaml").write_text("time_limt: 5m\n")
    from watchdog.errors import ConfigError

    with pytest.raises(ConfigError, match=r"settings.yaml:1: unknown key 'time_limt'"):
        life.live()


def test_a_check_that_fails_is_told_and_tried_again_at_the_next_trigger(life: Life) -> None:
    life.rule("often", "5m")
    fails = iter((True, True))

    def check(job: Job, now: datetime) -> Report:
        if next(fails, False):
            raise OSError(28, "No space left on device")
        return life.note_and_record(job, now)

    life.check = check
    life.at(12, life.stop)
    life.live()
    assert [f"{at:%M}" for at in life.checks] == ["10"]
    assert sum("No space left on device" in line for line in life.said) == 2


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def no_tables(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE plans")
        db.execute("DROP TABLE runs")
    db.close()


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("minutes", [-1, 7])
@pytest.mark.parametrize("spoil", [noise, no_tables, gone])
def test_a_store_that_cannot_be_read_stops_no_check(
    life: Life, minutes: int, spoil: Callable[[Path], None]
) -> None:
    life.rule("often", "5m")
    job = life.load()
    life.note_and_record(job, START - timedelta(hours=1))
    life.checks.clear()
    if minutes < 0:
        spoil(job.store_path)
    else:
        life.at(minutes, lambda: spoil(job.store_path))

    def check(job: Job, now: datetime) -> Report:
        life.checks.append(now)
        return check_once(job, now)

    life.check = check
    life.at(12, life.stop)
    life.live()
    assert [f"{at:%M}" for at in life.checks] == ["00", "05", "10"]
    with job.store() as store:
        assert store.db.execute("SELECT armed FROM arming").fetchone()[0] == 0, "it came back armed"


def test_a_lock_that_another_check_holds_is_waited_for_and_not_forgotten(life: Life) -> None:
    life.rule("often", "15m")

    def check(job: Job, now: datetime) -> Report:
        with one_at_a_time(job.state, now):
            return life.note_and_record(job, now)

    life.check = check
    state = job_of(life.args, START).state
    held = one_at_a_time(state, START)
    held.__enter__()
    life.at(1.2, lambda: held.__exit__(None, None, None))
    life.at(5, life.stop)
    life.live()
    assert len(life.checks) == 1 and life.checks[0] - START < timedelta(minutes=2)
    assert any("is at work on this home" in line for line in life.said)


def test_an_answer_between_two_checks_is_heard_within_half_a_minute(life: Life) -> None:
    life.rule("often", "15m")
    asked: list[datetime] = []

    def heard(job: Job, now: datetime) -> bool:
        asked.append(now)
        return timedelta(minutes=4) <= now - START < timedelta(minutes=4, seconds=20)

    life.at(10, life.stop)
    assert life.watching(life.note_and_record, heard=heard).run() == 0
    assert [at - START for at in life.checks][1:] and timedelta(minutes=4) <= life.checks[
        1
    ] - START < timedelta(minutes=4, seconds=30)
    assert len(life.checks) == 2 and len(asked) <= 31


def test_channels_are_asked_only_while_a_question_is_open(life: Life) -> None:
    settings = life.folder / "config" / "settings.yaml"
    settings.write_text(
        "replies:\n  channels:\n    - ntfy: {server: 'http://127.0.0.1:9', approvers: [{name: ann, topic: secret-topic-of-ann}]}\n"
    )
    asked: list[Run] = []

    def hear(run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
        asked.append(run)
        return ("yes",), ()

    job = life.load()
    assert module.heard(job, START, hear) is False  # no store, no question
    with job.store() as store:
        assert module.heard(job, START, hear) is False and asked == []
        store.db.execute("INSERT INTO plans (state) VALUES ('pending')")
    assert module.heard(job, START, hear) is True and len(asked) == 1
    settings.unlink()
    assert module.heard(life.load(), START) is False and len(asked) == 1


@pytest.mark.parametrize("state", ["approved", "claimed"])
def test_what_was_approved_or_cut_off_is_looked_at_the_moment_it_starts(life: Life, state: str) -> None:
    """No rule is due: the last check was a moment ago, and the next would be in a quarter of an hour."""
    life.rule("often", "15m")
    life.note_and_record(life.load(), START)
    life.checks.clear()
    with life.load().store() as store:
        store.db.execute("INSERT INTO plans (state) VALUES (?)", (state,))
    life.at(1, life.stop)
    life.live()
    assert life.checks == [START]


def test_two_daemons_of_one_home_do_not_run_beside_each_other(life: Life) -> None:
    life.rule("often", "15m")
    held = one_at_a_time(
        job_of(life.args, START).state, START, "watchdog in the long-running mode", "daemon.lock"
    )
    with held, pytest.raises(lock.Busy, match="a watchdog in the long-running mode"):
        life.live()


def test_a_stop_in_the_middle_of_a_check_lets_it_finish_in_its_grace(life: Life) -> None:
    life.rule("often", "15m")

    def check(job: Job, now: datetime) -> Report:
        life.stop()
        return life.note_and_record(job, now)

    life.check = check
    life.live()
    assert len(life.checks) == 1 and life.said[-1] == "stopped (SIGTERM)"


def hang(*_: object) -> Report:
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        signal.pause()


def test_a_stop_ends_a_check_that_hangs(life: Life) -> None:
    life.rule("often", "15m")
    assert life.watching(hang, grace=-1).run() == 0
    assert any("given up for the stop; nothing of it was recorded" in line for line in life.said)


def test_a_stop_waits_for_a_repair_but_not_for_ever(life: Life) -> None:
    life.rule("often", "15m")

    def repair(job: Job, now: datetime) -> Report:
        with lock.time_limit(60), lock.no_hurry():
            return hang()

    assert life.watching(repair, grace=-1, stop_limit=timedelta(seconds=-1)).run() == 0

    def repair_that_ends(job: Job, now: datetime) -> Report:
        with lock.time_limit(60), lock.no_hurry():
            life.stop()
            return life.note_and_record(job, now)

    assert life.watching(repair_that_ends).run() == 0
    assert len(life.checks) == 1


@pytest.mark.parametrize(
    ("now", "busy", "ends"),
    [
        (29, 0, False),
        (31, 0, True),
        (3599, 3599, False),  # a repair, past the grace of a check
        (3601, 3601, True),
        (3629, 3600, False),  # the repair has ended just now, and its result is being told
        (3631, 3600, True),
    ],
)
def test_a_stop_gives_a_check_its_grace_and_a_repair_its_limit(
    life: Life, now: float, busy: float, ends: bool
) -> None:
    daemon = life.watching(hang, grace=30, stop_limit=timedelta(hours=1))
    assert daemon.overdue(now, 0, busy) is ends


def test_systemd_is_told_of_readiness_status_and_the_stop(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.rule("often", "15m")
    life.at(1, life.stop)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(life.folder / "notify"))
        ear.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(life.folder / "notify"))
        life.live()
        heard = [ear.recv(1000).decode() for _ in range(3)]
    assert heard[0].startswith("READY=1\nSTATUS=next check at ")
    assert heard[1].startswith("STATUS=next check at ")
    assert heard[2] == "STOPPING=1"


def test_without_systemd_nothing_is_sent_and_an_abstract_socket_is_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert notify(READY=1) is False
    name = f"hermes-watchdog-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind("\0" + name)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        assert notify(STATUS="one\nREADY=1") is True
        assert ear.recv(100) == b"STATUS=one"  # a second line would be a second message
    assert watchdog_seconds({"WATCHDOG_USEC": "120000000"}) == 60
    assert watchdog_seconds({"WATCHDOG_USEC": "120000000", "WATCHDOG_PID": "1"}) is None
    assert watchdog_seconds({}) is None


def test_the_heart_beats_for_systemd_only_while_the_main_thread_lives(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.rule("often", "15m")

    class Rounds(threading.Event):
        left = 2

        def wait(self, timeout: float | None = None) -> bool:
            self.left -= 1
            return self.left < 0

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(life.folder / "notify"))
        ear.settimeout(0.1)
        monkeypatch.setenv("NOTIFY_SOCKET", str(life.folder / "notify"))
        daemon = Daemon(life.load, life.check, life.said.append, over=Rounds())
        daemon.job = life.load()
        daemon.heart(60)
        assert [ear.recv(100), ear.recv(100)] == [b"WATCHDOG=1"] * 2
        daemon.over = Rounds()
        daemon.beat -= 1000
        daemon.heart(60)
        with pytest.raises(TimeoutError):
            ear.recv(100)


def test_an_edit_of_any_file_changes_the_fingerprint(tmp_path: Path) -> None:
    for folder in ("detect", "recipes"):
        (tmp_path / folder).mkdir()
    seen = {fingerprint(tmp_path)}
    for name in ("settings.yaml", "detect/a.yaml", "recipes/b.yaml"):
        (tmp_path / name).write_text("x")
        seen.add(fingerprint(tmp_path))
    (tmp_path / "detect/a.yaml").unlink()
    seen.add(fingerprint(tmp_path))
    (tmp_path / "README.txt").write_text("not ours")
    assert fingerprint(tmp_path) in seen and len(seen) == 5


def test_memory_stays_flat_over_a_night_of_checks(life: Life) -> None:
    life.rule("often", "15m")
    life.check = lambda job, now: (life.note_and_record(job, now), life.ran.clear(), life.checks.clear())[0]
    counts: list[int] = []
    for hours in (2, 4, 6, 8):
        life.at(hours * 60, lambda: counts.append(gc.collect() * 0 + len(gc.get_objects())))
    life.at(8 * 60 + 1, life.stop)
    life.live()
    assert max(counts) - min(counts) < 50, counts


def test_the_real_command_stops_on_sigterm_with_exit_code_zero(tmp_path: Path) -> None:
    (tmp_path / "home" / "logs").mkdir(parents=True)
    code = (
        "import sys; from watchdog.service.daemon import *; from watchdog.cli.context import job_of; import argparse\n"
        f"top = {str(tmp_path)!r}; args = argparse.Namespace(home=top + '/home', config=top, state=top + '/state')\n"
        "def check(job, now):\n    say('checked'); raise WatchdogError('no matter')\n"
        "sys.exit(Daemon(lambda: job_of(args, datetime.now(UTC)), check, say).run())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "no matter\n":
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stdout.read()
        assert process.wait(20) == 0 and rest == "stopped (SIGTERM)\n"

"""The line as a whole: how time is cut does not matter, hostile text changes nothing, blind is not quiet, a
dry run leaves no trace.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from effort import EFFORT, rounds
from homes import NOW, SAMPLES, dated, farewells, saved
from machines import run_of

from watchdog.model import Event, Incident, Report
from watchdog.pipeline import check, look, record, replay
from watchdog.sources.read import Sources, log_span
from watchdog.store import Store
from watchdog.store.incidents import all_incidents
from watchdog.values import replace

FOLDERS = sorted(path.parent for path in SAMPLES.glob("*/*/case.yaml"))
LOGS_ONLY = [
    folder
    for folder in FOLDERS
    if not list(folder.glob("*.db")) and not list(folder.glob("*.sql")) and "cannot-tell" not in folder.name
]


def checked(book, store: Store, now: datetime, sources: Sources, keep: bool = True) -> Report:
    """One check, and what it leaves for the next."""
    run = run_of(book, store, now, sources)
    report = check(run, run.start)
    return record(report, run) if keep else report


def replayed(book, sources: Sources, first: datetime, end: datetime) -> tuple[Incident, ...]:
    return replay(run_of(book, None, end, sources), first).incidents


def walk(
    book, folder: Path, every: timedelta, start: datetime, end: datetime, gateway: str = "running"
) -> set[tuple[str, str]]:
    """Checks at a pace, each with the store the last one left."""
    with Store.in_memory() as store:
        at = start
        while True:
            checked(book, store, at, saved(folder, gateway))
            if at >= end:
                break
            at = min(at + every, end)
        return {(one.rule, one.key) for one in all_incidents(store) if one.rule != "gateway-down"}


@pytest.mark.parametrize(
    "folder", LOGS_ONLY[:: max(1, 6 // EFFORT)], ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
def test_how_time_is_cut_into_checks_does_not_change_what_is_found(folder: Path, book):
    first, last = log_span(saved(folder))
    assert first is not None and last is not None
    end = last + timedelta(minutes=20)
    whole = {(one.rule, one.key) for one in replayed(book, saved(folder), first, end)}
    for minutes in (7, 60):
        assert walk(book, folder, timedelta(minutes=minutes), first, end) == whole, f"at {minutes} minutes"


def story() -> str:
    """A day with faults that begin and end between checks."""
    chosen = random.Random(11)
    lines, at = [], datetime(2026, 5, 19, 0, 0, tzinfo=UTC)
    stamp = lambda at: at.strftime("%H:%M:%S,000")  # noqa: E731
    lines.append(f"{stamp(at)} INFO gateway.run: Starting Hermes Gateway...")
    for number in range(25):
        at += timedelta(minutes=chosen.randint(1, 12))
        lines.append(
            f"{stamp(at)} INFO gateway.run: inbound message: platform=telegram user=U{number} chat={number % 7} msg='hi {number}'"
        )
        at += timedelta(seconds=chosen.choice([3, 40, 300, 1000, 1500]))
        if chosen.random() < 0.8:
            lines.append(
                f"{stamp(at)} INFO gateway.run: response ready: platform=telegram chat={number % 7} time=3.1s api_calls=1 response=20 chars"
            )
        if chosen.random() < 0.2:
            for cycle in range(chosen.randint(2, 8)):
                at += timedelta(seconds=3)
                lines.append(
                    f"{stamp(at)} INFO gateway.platforms.qqbot.adapter: [QQBot:1] Resume sent (session_id=s{number}, seq={cycle})"
                )
                lines.append(f"{stamp(at)} INFO gateway.platforms.qqbot.adapter: [QQBot:1] Session resumed")
                lines.append(
                    f"{stamp(at)} WARNING gateway.platforms.qqbot.adapter: [QQBot:1] WebSocket closed: code=4009 reason=x"
                )
    return "\n".join(line for line in lines if line)


def test_a_day_of_short_faults_is_the_same_day_at_any_pace(book, home):
    folder = home(story())
    first, last = log_span(saved(folder))
    assert first is not None and last is not None
    end = last + timedelta(minutes=30)
    found = [walk(book, folder, timedelta(minutes=minutes), first, end) for minutes in (4, 15, 60)]
    assert found[0] and found[0] == found[1] == found[2]
    assert found[0] == {(one.rule, one.key) for one in replayed(book, saved(folder), first, end)}


def test_incidents_survive_a_restart_of_the_watchdog(book, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='hi'")
    with Store.open(tmp_path / "w.db") as store:
        checked(book, store, NOW, saved(folder))
    with (folder / "logs" / "gateway.log").open("a") as log:
        log.write(
            dated(
                "10:50:00,000 INFO gateway.run: response ready: platform=telegram chat=42 time=2100.0s api_calls=1 response=1 chars"
            )
        )
    with Store.open(tmp_path / "w.db") as store:
        later = NOW + timedelta(minutes=15)
        report = checked(book, store, later, saved(folder))
        (incident,) = all_incidents(store)
    assert [change.what for change in report.changes] == ["resolved"]
    assert incident.status == "resolved" and incident.resolved_at == datetime(2026, 5, 19, 10, 50, tzinfo=UTC)


def test_a_host_that_slept_misses_nothing(book, home):
    """A fault that began and ended while no check ran is told at the next one."""
    burst = "".join(
        f"03:0{n}:00,000 WARNING [s] run_agent: API call failed (attempt {n}/3) error_type=E thread=t:1 provider=p base_url=b model=m summary=HTTP 200: output new_sensitive (1027)\n"
        for n in (1, 2, 3)
    )
    folder = home("00:10:00,000 INFO gateway.run: Starting Hermes Gateway...", burst)
    with Store.in_memory() as store:
        checked(book, store, datetime(2026, 5, 19, 0, 30, tzinfo=UTC), saved(folder))
        report = checked(book, store, datetime(2026, 5, 19, 9, 0, tzinfo=UTC), saved(folder), keep=False)
    assert [(change.what, change.incident.rule) for change in report.changes] == [
        ("passed", "content-filter-burst")
    ]


def test_a_log_that_cannot_be_read_is_blind_and_resolves_nothing(book, home):
    folder = home("10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='hi'")
    with Store.in_memory() as store:
        checked(book, store, NOW, saved(folder))
        (folder / "logs" / "gateway.log").unlink()
        (folder / "logs" / "gateway.log").mkdir()
        report = checked(book, store, NOW + timedelta(minutes=15), saved(folder))
        assert "is not a regular file" in report.blind["gateway.log"]
        assert "session-stuck" in report.not_checked and "qq-dead" in report.not_checked
        assert "tls-burst" not in report.not_checked  # agent.log can still be read
        assert [one.status for one in all_incidents(store)] == ["open"]
        assert [one.rule for one in report.kept] == ["session-stuck"]


def test_logs_that_are_too_long_to_be_read_in_time_are_named_and_the_rest_is_still_looked_at(book, home):
    """A third of a check's time is for the logs: on a slow disk, a gigabyte in an hour is told and not given up."""
    folder = home("10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='hi'")
    with Store.in_memory() as store:
        checked(book, store, NOW, saved(folder))
        run = run_of(book, store, NOW + timedelta(minutes=15), saved(folder))
        hurried = replace(run, settings=replace(run.settings, time_limit=0.0))
        report = record(check(hurried, hurried.start), hurried)
        assert (
            "the last 1 MB of" in report.blind["gateway.log"] and "not looked at" in report.blind["agent.log"]
        )
        assert "session-stuck" in report.not_checked and "database-broken" not in report.not_checked
        assert [one.status for one in all_incidents(store)] == ["open"], "neither resolved nor found anew"
        assert replay(hurried, hurried.start).blind == {}, "a replay takes the time it needs"


def test_an_unknown_gateway_is_not_a_dead_one(book, home):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    seen, reading = look(book.rules, saved(folder, "unknown"), None, NOW)
    assert seen.findings == () and "gateway" in reading.blind and "gateway-down" in seen.not_checked


def test_gateway_down_needs_two_checks_in_a_row(book, tmp_path, home):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:15:02,000 INFO gateway.run: Gateway running with 1 platform(s)",
                  gateway_dot_pid='{"pid": 999999999, "start_time": 1}')  # fmt: skip
    sources = Sources(folder, zone=UTC)
    with Store.in_memory() as store:
        first = checked(book, store, NOW, sources)
        second = checked(book, store, NOW + timedelta(minutes=15), sources)
    assert [(change.what, change.incident.status) for change in first.changes] == [("suspected", "suspected")]
    assert [(change.what, change.incident.status) for change in second.changes] == [("opened", "open")]
    says = [report.changes[0].incident.says for report in (first, second)]
    assert says[0] == says[1], "the moment it was first seen missing does not move with each check"


def test_a_gateway_that_said_farewell_is_stopped_not_dead(home):
    from watchdog.sources.process import observe

    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:16:00,000 INFO gateway.run: Received SIGTERM — initiating shutdown\n"
        "10:16:01,000 INFO gateway.run: Gateway stopped (total teardown 0.24s)\n10:16:01,100 INFO gateway.run: Gateway housekeeping stopped"
    )
    event, _ = observe(folder, folder / "logs", None, NOW, farewells())
    assert event is not None and event.facts["state"] == "stopped"


def test_a_home_where_no_gateway_ever_ran_is_unknown(tmp_path):
    from watchdog.sources.process import observe

    event, why = observe(tmp_path, tmp_path / "logs", None, NOW, farewells())
    assert event is None and "was a gateway ever started" in why


def test_a_lock_that_a_stranger_holds_is_neither_running_nor_dead(home):
    import fcntl

    from watchdog.sources.process import observe

    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...", gateway_dot_lock="{}")
    with (folder / "gateway.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        event, why = observe(folder, folder / "logs", None, NOW, farewells())
    assert event is None and why


HOSTILE = [
    "response ready: platform=telegram chat=42 time=1.0s api_calls=1 response=1 chars",
    "\x1b[2J\x1b]0;x\x07 \u202eresponse ready: platform=telegram chat=42",
    'it\'s "quoted"\n2026-05-19 10:30:00,000 INFO gateway.run: response ready: platform=telegram chat=42 time=1s api_calls=1 response=1 chars',
    "2026-05-19 10:30:00,000 ERROR gateway.run: [QQBot:1] Max reconnect attempts reached",
    "' chat=42 msg='",
    "Starting Hermes Gateway...",
]


@pytest.mark.parametrize("said", HOSTILE)
def test_what_people_type_changes_no_verdict(said: str, book, home):
    lines = "10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='hi'\n"
    lines += (
        f"10:16:00,000 INFO gateway.run: inbound message: platform=telegram user=Eve chat=99 msg={said!r}\n"
    )
    lines += f"10:16:01,000 INFO [s] run_agent: conversation turn: session=s model=m provider=p platform=telegram history=0 msg={said!r}\n"
    lines += f"10:16:01,000 INFO gateway.platforms.qqbot.adapter: [QQBot:1] C2C message: id=1 content={said!r} attachments=None\n"
    lines += "10:16:09,000 INFO gateway.run: response ready: platform=telegram chat=99 time=1.0s api_calls=1 response=1 chars\n"
    seen, _ = look(book.rules, saved(home(lines)), None, NOW)
    assert [(one.rule, one.key) for one in seen.findings] == [("session-stuck", "telegram/42")]


NAMES = [
    "Eve chat=42 msg='x'",
    "Eve msg='x' chat=42",
    "Eve\n2026-05-19 10:30:00,000 INFO gateway.run: response ready: platform=telegram chat=42 time=1.0s api_calls=1 response=1 chars\n",
    "x platform=telegram",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_imitates_fields_is_reported_and_never_used(name: str, book, home):
    lines = "10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='hi'\n"
    lines += (
        f"10:16:00,000 INFO gateway.run: inbound message: platform=telegram user={name} chat=99 msg='hello'\n"
    )
    seen, _ = look(book.rules, saved(home(lines)), None, NOW)
    assert [(one.rule, one.key) for one in seen.findings] == [("session-stuck", "telegram/42")]
    assert seen.ambiguous.count == len(seen.ambiguous.first) > 0


def test_of_thousands_of_names_that_imitate_fields_the_first_few_are_kept_and_all_are_counted(book, home):
    forged = "inbound message: platform=telegram user=x chat=1 msg='a' chat=99 msg='hello'"
    lines = "".join(
        f"10:{number // 60:02d}:{number % 60:02d},000 INFO gateway.run: {forged}\n" for number in range(2000)
    )
    seen, _ = look(book.rules, saved(home(lines)), None, NOW)
    assert seen.ambiguous.count >= 2000 and len(seen.ambiguous.first) == 5
    assert (
        f"{seen.ambiguous.count - 5} more records whose chat text imitates log fields were not used"
        in seen.notes
    )


JUNK = [b"\n", b"\0" * 50, b"\xff\xfe", b"msg='", b" chat=", b"\r\n", b"\x1b[31m", b"'"]


@pytest.mark.parametrize("wild", [False, True], ids=["bytes", "time too"])
def test_mutated_logs_never_crash_the_engine(book, tmp_path, wild):
    """And both engines agree, unless the clock itself was thrown about: then only one of them sees the lines
    between.
    """
    chosen = random.Random(3)
    sources = [
        (folder / name).read_bytes()[:60_000]
        for folder in FOLDERS[::9]
        for name in ("gateway.log", "agent.log")
        if (folder / name).exists()
    ]
    for _ in range(rounds(50)):
        for name in ("gateway.log", "agent.log"):
            content = bytearray(chosen.choice(sources))
            for _ in range(chosen.randint(1, 30)):
                at = chosen.randrange(len(content) or 1)
                what = chosen.randrange(4)
                if what == 0 and not content[at : at + 1].isdigit():
                    content[at : at + 1] = bytes([chosen.randrange(128, 256)])
                elif what == 1:
                    del content[at : at + chosen.randint(1, 3000)]
                elif what == 2:
                    content[at:at] = chosen.choice(JUNK + [b"2026-05-19 10:15:00,000"] * wild)
                elif wild:
                    content[at:at] = content[: chosen.randint(1, 2000)]
            (tmp_path / name).write_bytes(bytes(content))
        gated, _ = look(book.rules, saved(tmp_path), None, datetime(2027, 1, 1, tzinfo=UTC))
        plain, _ = look(book.rules, saved(tmp_path, plain=True), None, datetime(2027, 1, 1, tzinfo=UTC))
        if not wild:
            assert [(one.rule, one.key, one.opened_at, one.ended_at) for one in gated.findings] == [
                (one.rule, one.key, one.opened_at, one.ended_at) for one in plain.findings
            ]


def picture(folder: Path) -> dict[str, tuple]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            path.lstat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_dry_run_leaves_no_trace_anywhere(tmp_path):
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    case = SAMPLES / "database-broken" / "fires-state-header-0.19.0"
    for name in ("gateway.log", "agent.log"):
        shutil.copy2(case / name, home / "logs")
    shutil.copy2(case / "state.db", home)
    (tmp_path / "user").mkdir()
    before = picture(tmp_path)
    env = {
        "HOME": str(tmp_path / "user"),
        "PATH": os.environ["PATH"],
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "watchdog", "check", "--dry-run", "--json", "--home", str(home), "--now", "2026-11-16 01:45:00"],
        capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert '"rule": "database-broken"' in done.stdout
    assert picture(tmp_path) == before


def test_a_chat_that_was_worked_on_for_hours_and_then_hangs_is_found(book, home):
    """Its inbound message lies far outside every window; what still waits is read from its beginning."""
    gateway = (
        "08:00:00,000 INFO gateway.run: inbound message: platform=telegram user=A chat=42 msg='build it'\n"
    )
    agent = (
        gateway
        + "08:00:01,000 INFO [s1] run_agent: conversation turn: session=s1 model=m provider=p platform=telegram history=0 msg='build it'\n"
    )
    agent += "".join(
        f"{8 + minute // 60:02d}:{minute % 60:02d}:00,000 INFO [s1] run_agent: tool terminal completed (600.00s, 5 chars)\n"
        for minute in range(10, 150, 10)
    )
    folder = home(gateway, agent)
    found = walk(
        book,
        folder,
        timedelta(minutes=15),
        datetime(2026, 5, 19, 8, 1, tzinfo=UTC),
        datetime(2026, 5, 19, 10, 50, tzinfo=UTC),
    )
    assert found == {("session-stuck", "telegram/42")}


def test_a_detector_that_keeps_events_can_be_copied():
    """A doubtful record is shown to a copy of the detector; records without facts share one read-only mapping."""
    kept = [Event(NOW, "gateway.log", "seen")]
    assert deepcopy(kept) == kept

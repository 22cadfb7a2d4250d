"""Faults that operators meet, caused on real gateways: each is told under its own rule and key, and nothing else is."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from . import parts
from .conftest import both, needs
from .gateway import UNIT, Gateway
from .test_docker import EATS
from .waiting import until
from .watchdog import later

pytestmark = pytest.mark.thorough
QQ = ("telegram", "qqbot")
NEWER = [version for version in parts.VERSIONS if version != "0.13.0"]
newer = pytest.mark.parametrize("version", NEWER)


def found(it, *later: str) -> dict[tuple[str, str], dict]:
    """What a check that only looks says: the incidents by rule and key."""
    report = it.watchdog.json("check", "--dry-run", *later)
    print(it.watchdog("check", "--dry-run", *later).text)  # shown where a scenario fails
    return {(one["rule"], one["key"]): one for one in report["incidents"] if one["status"] != "resolved"}


def only(it, rule: str, key: str, *later: str) -> dict:
    """The one incident that a check finds: this one, and nothing else."""
    incidents = found(it, *later)
    assert list(incidents) == [(rule, key)], incidents
    return incidents[rule, key]


def running(lab, version: str, chat: int = 42, systemd: bool = False, **more):
    """A gateway that has just answered somebody."""
    it = lab(version, systemd=systemd, **more)
    it.gateway.start_and_answer(chat)
    return it


def add_job(it, every: str, name: str, *words: str) -> None:
    """A job of Hermes' own clock."""
    create = [*it.gateway.command, "cron", "create", every, f"{name} please", "--name", name, *words]
    it.machine.run(create, it.gateway.environment, check=True)


def error(message: str, kind: str, code: str | None = None) -> dict:
    return {"error": {"message": message, "type": kind, "code": code or kind}}


REFUSALS = {
    "key": (401, error("Incorrect API key provided: sk-lab****", "invalid_request_error", "invalid_api_key")),
    "money": (402, error("Insufficient Balance", "unknown_error", "invalid_request_error")),
    "forbidden": (403, error("Your account is not allowed to use this API", "forbidden")),
    "model": (404, error("The model `lab-model` does not exist", "invalid_request_error", "model_not_found")),
    "quota": (429, error("You exceeded your current quota, please check your plan", "insufficient_quota")),
    "length": (
        400,
        error(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9311 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
    ),
}
RULES = {
    "key": ("provider-auth", "custom"),
    "money": ("provider-quota", "custom"),
    "forbidden": ("provider-auth", "custom"),
    "model": ("provider-model", "custom"),
    "quota": ("provider-quota", "custom"),
    "length": ("context-too-long", "telegram/42"),
}


@both
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_the_provider_refuses_is_named(lab, version, refusal):
    it = running(lab, version, chat=41)
    status, body = REFUSALS[refusal]
    it.world.do("llm", "behave", match="please", do="refuse", status=status, body=body)
    it.gateway.tell("please do it")
    it.gateway.wait_for(
        "response ready: platform=telegram chat=42|Agent error in session agent:main:telegram:dm:42"
    )
    incident = only(it, *RULES[refusal])
    assert incident["recipe"] in (None, ""), incident


@pytest.mark.thorough
@both
def test_an_account_with_money_again_is_known_by_any_chat_that_is_answered(lab, version):
    it = running(lab, version)
    status, body = REFUSALS["money"]
    it.world.do("llm", "behave", match="please", do="refuse", status=status, body=body)
    it.gateway.tell("please do it")
    it.gateway.wait_for("response ready: platform=telegram chat=42", times=2)
    failed = time.monotonic()
    it.gateway.answers("how are you?", chat=43)
    assert list(found(it)) == [RULES["money"]], "this answer may have been under way"

    def works_again() -> bool:
        it.gateway.answers("and now?", chat=43)
        return not found(it)

    until(works_again, "the account has money again", within=300, every=15)
    assert time.monotonic() - failed >= 100


ANSWERS = {
    "empty": ({"do": "answer", "say": ""}, ("provider-errors", "custom")),
    "declined": ({"do": "answer", "say": "", "finish": "content_filter"}, ("content-filter-burst", "custom")),
}


@newer
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_without_words_is_a_failure_of_the_provider(lab, version, answer):
    it = running(lab, version, chat=41)
    behaviour, expected = ANSWERS[answer]
    it.world.do("llm", "behave", match="please", **behaviour)
    it.gateway.tell("please do it")
    it.gateway.wait_for("response ready: platform=telegram chat=42", within=200)
    only(it, *expected)


@newer
def test_messages_that_a_busy_chat_drops_are_told(lab, version):
    it = running(
        lab, version, chat=41, config="display: {busy_input_mode: queue, busy_text_mode: interrupt}\n"
    )
    it.world.do("llm", "behave", match="wait", do="hang")
    it.gateway.tell("wait for it")
    until(lambda: it.world.get("llm", "hanging"), "chat 42 waits", explain=it.gateway.explain)
    for number in range(40):
        it.gateway.tell(f"and number {number}")
        time.sleep(2)  # what comes sooner is joined to one message
    it.gateway.wait_for("Dropping busy-mode follow-up", name="agent.log")
    only(it, "messages-dropped", "telegram")


SENDS = {
    "gone": {"error_code": 400, "description": "Bad Request: chat not found"},
    "blocked": {"error_code": 403, "description": "Forbidden: bot was blocked by the user"},
    "broken": {"error_code": 500, "description": "Internal Server Error"},
    "flood": {
        "error_code": 429,
        "description": "Too Many Requests: retry after 3",
        "parameters": {"retry_after": 3},
    },
}


@both
@pytest.mark.parametrize("reason", SENDS)
def test_answers_that_telegram_does_not_take_are_told_by_chat(lab, version, reason):
    it = running(lab, version, chat=41)
    it.world.set("telegram", refusals={"42": SENDS[reason]})
    it.gateway.tell("are you there?")
    it.gateway.wait_for("response ready: platform=telegram chat=42")
    it.gateway.wait_for("Failed to deliver response", name="agent.log", within=240)
    incident = only(it, "reply-undelivered", "telegram/42")
    assert incident["severity"] == ("low" if reason == "blocked" else "high"), incident


@both
def test_answers_that_qq_does_not_take_are_told_by_chat(lab, version):
    it = lab(version, platforms=QQ, systemd=False)
    it.gateway.start()
    it.gateway.wait_for("Ready, session_id=")
    it.world.set("qq", refusal={"code": 22009, "message": "msg limit exceed"})
    it.world.do("qq", "say", text="are you there?")
    it.gateway.wait_for("response ready: platform=qqbot")
    it.gateway.wait_for("Failed to deliver response", name="agent.log", within=240)
    incident = only(it, "reply-undelivered", "qqbot/QQUSER1")
    assert "msg limit exceed" in incident["says"]


@both
def test_a_config_file_that_does_not_parse_is_named_with_its_line(lab, version):
    it = lab(version, systemd=False)
    config = it.gateway.home / "config.yaml"
    config.write_text(config.read_text() + "display:\n\tcolour: red\n")
    it.gateway.start()
    incident = only(it, "config-ignored", "config.yaml")
    assert f"line {len(config.read_text().splitlines())}" in incident["says"]


@both
def test_a_login_that_qq_refuses_each_time_is_told(lab, version):
    it = lab(version, platforms=QQ, systemd=False)
    it.gateway.start()
    it.gateway.wait_for("Ready, session_id=")
    it.world.do("qq", "play", script="refuse:4007")
    it.gateway.wait_for("WebSocket closed: code=4007", times=7)
    only(it, "qq-refused", "102000001")


@both
def test_a_token_that_is_revoked_while_the_gateway_runs_is_told(lab, version):
    it = running(lab, version, platforms=QQ)
    it.world.set("telegram", mode="rejected")
    it.gateway.wait_for("Invalid token", name="agent.log")
    incident = only(it, "telegram-refused", "telegram")
    assert incident["recipe"] in (None, "")


@newer
def test_credentials_that_are_rejected_at_the_start_are_the_reason_that_is_told(lab, version):
    it = lab(version, hurry=("platform-down",))
    it.world.set("telegram", mode="rejected")
    it.gateway.install()
    it.machine.systemctl("start", "--no-block", UNIT)
    if version == "0.19.0":
        it.gateway.wait_for("Gateway started with no connected platforms")
        assert it.watchdog.until_found("platform-down")["key"] == "telegram"
        return
    until(it.gateway.is_down, "it ends by itself", explain=it.gateway.explain)
    only(it, "startup-refused", "gateway")
    assert it.watchdog.json("check", "--dry-run")["plans"] == []


@both
def test_two_homes_with_one_bot_name_who_holds_it(lab, version):
    it = lab(version, systemd=False, hurry=("platform-down",))
    it.gateway.start()
    other = Gateway.__new__(Gateway)
    other.__dict__ |= it.gateway.__dict__ | {"home": it.machine.user_home / ".hermes-two"}
    other.home.mkdir()
    for name in ("config.yaml", ".env"):
        (other.home / name).write_text((it.gateway.home / name).read_text())
    other.process = it.machine.start([*other.command, "gateway", "run"], {"HERMES_HOME": str(other.home)})
    try:
        other.wait_for("already in use|Gateway exiting", name="agent.log")
        time.sleep(22)
        report = it.watchdog.json("check", "--dry-run", "--home", str(other.home))
        print(it.watchdog("check", "--dry-run", "--home", str(other.home)).text)
        told = {(one["rule"], one["key"]): one for one in report["incidents"]}
        assert list(told) in ([("platform-down", "telegram")], [("startup-refused", "gateway")]), told
        assert list(found(it)) == []
    finally:
        if other.process.poll() is None:
            other.process.kill()
        other.process.wait()


@both
def test_files_that_cannot_be_opened_are_told_and_a_restart_helps(lab, version):
    it = running(lab, version)
    pid = it.machine.inner_pids()[it.gateway.pid]

    def at_its_limit() -> bool:
        """It may close some that it needed for a moment: then it is not at its limit, and is counted again."""
        taken = len(os.listdir(f"/proc/{pid}/fd"))
        os.system(f"prlimit --pid {pid} --nofile={taken}:{taken}")
        return bool(found(it))

    until(at_its_limit, "it has as many files open as it may", explain=it.gateway.explain)
    only(it, "too-many-open-files", "gateway")
    for number in range(3):
        it.gateway.tell("and now?", chat=50 + number)
    it.gateway.wait_for("Too many open files", name="agent.log")
    incident = only(it, "too-many-open-files", "gateway")
    assert incident["recipe"] == "restart-gateway"


@both
def test_a_store_that_was_healed_by_hand_needs_a_restart(lab, version):
    it = running(lab, version)
    restart(it, lambda: overwrite(it.gateway.home / "state.db", b"SQLit\x17"))
    only(it, "database-broken", "state.db")
    overwrite(it.gateway.home / "state.db", b"SQLite")
    only(it, "session-store-off", "state.db")


@both
def test_a_store_that_another_process_keeps_locked_is_told(lab, version):
    it = running(lab, version)
    db = sqlite3.connect(it.gateway.home / "state.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    it.gateway.tell("are you there?", chat=43)
    it.watchdog.until_found("history-not-saved", within=200)
    told = found(it)
    db.close()
    assert list(told) == [("history-not-saved", "state.db")], told


@both
def test_a_store_that_the_gateway_may_not_write_is_told(lab, version):
    needs("dbus-user-session")
    it = running(lab, version, systemd=True, user=True)
    it.gateway.systemctl("stop", UNIT)
    for file in it.gateway.home.glob("state.db*"):
        os.chown(file, 0, 0)
        file.chmod(0o644)
    it.gateway.systemctl("start", UNIT)
    it.gateway.wait_until_running(starts=2)
    it.gateway.tell("are you there?", chat=43)
    said = it.watchdog.until_found("history-not-saved", within=200)["says"]
    assert "state.db" in said, said
    assert list(found(it)) == [("history-not-saved", "state.db")]


@both
def test_a_database_that_began_anew_is_missed(lab, version):
    it = running(lab, version)
    it.watchdog("check")
    restart(it, lambda: begin_anew(it.gateway.home))
    it.gateway.answers("hello again")
    it.watchdog("check")
    incident = only(it, "history-lost", "state.db")
    assert incident["recipe"] == "restore-history"


@both
def test_a_gateway_that_was_stopped_on_purpose_is_told_once_after_twelve_hours(lab, version):
    it = running(lab, version, systemd=True)
    it.machine.systemctl("stop", UNIT)
    assert list(found(it)) == []
    only(it, "stopped-long", "gateway", *later(hours=13))


@newer
def test_a_chat_that_waits_for_its_user_is_not_stuck(lab, version):
    it = running(lab, version, chat=41, hurry=("session-stuck",), config="approvals: {mode: manual}\n")
    ask = {"question": "Which report do you want?", "choices": ["sales", "costs"]}
    it.world.do("llm", "behave", match="a report", do="tools", tool="clarify", arguments=ask)
    it.world.do("llm", "behave", match="tidy up", do="tools", command="rm -rf /srv/data/x")
    it.gateway.tell("make a report", chat=42)
    it.gateway.tell("tidy up", chat=43)
    until(lambda: it.gateway.told(42), "the question", explain=it.gateway.explain)
    until(lambda: it.gateway.told(43), "the approval prompt", explain=it.gateway.explain)
    print(it.gateway.told(42), it.gateway.told(43))
    time.sleep(30)
    assert list(found(it)) == []
    explained = it.watchdog("explain", "session-stuck").text
    print(explained)
    assert "waiting for the user" in explained


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
grouped = pytest.mark.skipif(
    not (MEMORY_GROUPS / "memory.limit_in_bytes").exists(), reason="no cgroup v1 for memory"
)
# Takes memory until the process has as many megabytes as the file `take` says.
TAKES = """
import os, pathlib, threading, time

def take():
    wanted, kept = pathlib.Path(os.environ["HERMES_HOME"], "take"), []
    while True:
        time.sleep(0.2)
        target = int(wanted.read_text() or 0) if wanted.exists() else 0
        while int(open("/proc/self/statm").read().split()[1]) * 4096 < target << 20:
            kept.append(bytearray(b"x") * 2_000_000)

if "gateway" in " ".join(open("/proc/self/cmdline").read().split(chr(0))):
    threading.Thread(target=take, daemon=True).start()
"""


@contextlib.contextmanager
def small(it, megabytes: int, with_code: str):
    """The gateway, started in a memory group of this size, with this code in it."""
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    ours = next(line.split(":", 2)[2].strip("/") for line in groups if ":memory:" in line)
    it.machine.kill()
    (it.machine.folder / "host-cgroups").touch()  # the machine sees the groups of the host
    it.machine.boot()
    it.machine.run(["mount", "--bind", MEMORY_GROUPS / ours, MEMORY_GROUPS], check=True)
    group = MEMORY_GROUPS / ours / it.machine.cgroup.name
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
    eats = it.machine.folder / "eats"
    eats.mkdir()
    (eats / "sitecustomize.py").write_text(with_code)
    it.gateway.process = it.machine.start(
        [
            *("sh", "-c", f'echo $$ > {MEMORY_GROUPS}/{group.name}/cgroup.procs; exec "$@"', "sh"),
            *(*it.gateway.command, "gateway", "run"),
        ],
        {**it.gateway.environment, "PYTHONPATH": str(eats)},
    )
    try:
        it.gateway.wait_until_running()
        it.gateway.answers("hello")
        yield
    finally:
        it.machine.kill()
        until(lambda: not (group / "cgroup.procs").read_text().strip(), "the group is empty")
        group.rmdir()


@grouped
@both
def test_a_gateway_that_the_kernel_kills_for_memory_is_told_as_that(lab, version):
    it = lab(version, systemd=False)
    with small(it, 400, EATS.replace("/opt/data", str(it.gateway.home))):
        it.watchdog("check")
        (it.gateway.home / "eat").touch()
        it.gateway.process.wait(120)
        told = found(it)
    assert set(told) == {("oom-killed", "gateway"), ("gateway-down", "gateway")}, told


@grouped
@both
def test_a_gateway_whose_memory_grows_towards_its_limit_is_told_before_it_dies(lab, version):
    needs("faketime")
    it = lab(version, systemd=False)
    with small(it, 700, TAKES):
        for quarter, megabytes in enumerate((0, 0, 440, 520, 600)):
            (it.gateway.home / "take").write_text(str(megabytes))
            until(lambda target=megabytes: resident(it) >= target, f"the gateway has {megabytes} MB")
            it.watchdog("check", env=minutes_later(15 * quarter))
        only(it, "memory-pressure", "gateway", *later(minutes=61))


def resident(it) -> int:
    pid = it.machine.inner_pids()[it.gateway.pid]
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20


def minutes_later(minutes: int) -> dict[str, str]:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return {"LD_PRELOAD": str(library), "FAKETIME": f"+{minutes}m", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@both
def test_a_full_disk_is_told_with_what_fills_it(lab, version):
    it = lab(version, systemd=False)
    home = it.gateway.home
    files = {name: (home / name).read_text() for name in ("config.yaml", ".env")}
    it.machine.kill()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", home], check=True)
    try:
        for name, text in files.items():
            (home / name).write_text(text)
        it.machine.boot()
        it.gateway.start_and_answer()
        room = os.statvfs(home).f_bavail * os.statvfs(home).f_frsize
        (home / "state.db.malformed-backup-1").write_bytes(bytes(room - (14 << 20)))
        told = found(it)
        assert [rule for rule, _ in told] == ["disk-low"], told
        assert "malformed-backup" in next(iter(told.values()))["says"]
        with contextlib.suppress(OSError), (home / "full").open("wb", buffering=0) as rest:
            while True:
                rest.write(bytes(1 << 16))
        it.gateway.tell("and now?")
        it.watchdog.until_found("disk-full")
        told = found(it)
        assert [rule for rule, _ in told if rule != "history-not-saved"] == ["disk-full"], told
        assert it.watchdog.json("check", "--dry-run")["plans"] == []
    finally:
        it.machine.kill()
        subprocess.run(["umount", "-l", home], check=True)


@pytest.mark.takes_at_most(500)
@both
def test_jobs_of_the_clock_that_fail_or_do_not_run_are_named(lab, version):
    it = running(lab, version)
    it.world.do(
        "llm", "behave", match="weather", do="refuse", status=500, body=error("broken", "server_error")
    )
    add_job(it, "every 1m", "weather")
    add_job(it, "every 1m", "news", "--deliver", "telegram:99")
    it.world.set("telegram", refusals={"99": SENDS["gone"]})
    it.gateway.wait_for("Job 'weather' failed", times=2, name="agent.log", within=450)
    it.watchdog.until_found("cron-failing")
    told = found(it)
    assert ("cron-failing", "weather") in told and ("cron-undelivered", "news") in told, told


def restart(it, between) -> None:
    """Ended by a signal, something done to the home, started again."""
    starts = it.gateway.starts()
    process = it.gateway.process
    it.machine.run(["kill", "-TERM", str(it.gateway.pid)], as_root=True)
    process.wait(60)
    between()
    it.gateway.start()
    it.gateway.wait_until_running(starts + 1)


def overwrite(file, start: bytes) -> None:
    with file.open("r+b") as db:
        db.write(start)


def begin_anew(home) -> None:
    for name in ("state.db", "state.db-wal", "state.db-shm", "state.db-journal"):
        (home / name).unlink(missing_ok=True)
    (home / "state.db").touch()


BLOCKS = """
import asyncio, gc, os, pathlib, threading, time

def wait():
    file = pathlib.Path(os.environ.get("HERMES_HOME", "/nowhere"), "block")
    time.sleep(40)  # its own guard begins after the start
    while True:
        time.sleep(0.5)
        objects = gc.get_objects() if file.exists() else []
        if loops := [o for o in objects if isinstance(o, asyncio.BaseEventLoop) and o.is_running()]:
            for loop in loops:
                loop.call_soon_threadsafe(time.sleep, 600)
            return

if "gateway" in " ".join(open("/proc/self/cmdline").read().split(chr(0))):
    threading.Thread(target=wait, daemon=True).start()
"""


def with_a_loop_that_stands(lab, version):
    """A gateway that has answered, and whose loop stands from now on, after each start again."""
    it = lab(version)
    blocks = it.machine.folder / "blocks"
    blocks.mkdir()
    (blocks / "sitecustomize.py").write_text(BLOCKS)
    it.gateway.install(extra=f"[Service]\nEnvironment=PYTHONPATH={blocks}\n")
    it.gateway.start_and_answer()
    (it.gateway.home / "block").touch()
    return it


@pytest.mark.takes_at_most(1200)
@pytest.mark.parametrize("version", [version for version in NEWER if version != "0.19.0"])
def test_a_gateway_that_ends_itself_because_its_loop_stands_is_a_crash_loop_when_it_does_so_each_time(
    lab, version
):
    it = with_a_loop_that_stands(lab, version)
    for number in (1, 2, 3):
        it.gateway.wait_for_restarts(number, within=300)
        if number == 1:
            assert [rule for rule, _ in found(it)] == [], "once is no loop"
    incident = only(it, "crash-loop", "gateway")
    assert "75" in incident["says"]


@pytest.mark.thorough
@pytest.mark.takes_at_most(1200)
def test_a_loop_that_stands_without_a_guard_is_frozen_when_two_witnesses_agree_and_not_before(lab):
    """A loop that waits for ever is no busy process: an old heartbeat alone (3 minutes) says nothing, five minutes
    without a line beside it do. In 0.20.5, with its guard off, a thread beside the loop goes on writing each minute.
    """
    it = with_a_loop_that_stands(lab, "0.19.0")
    stood = time.monotonic()
    told = until(lambda: found(it), "the gateway is called frozen", within=540, every=15)
    assert list(told) == [("gateway-wedged", "gateway")], told
    assert time.monotonic() - stood >= 270, "one witness is not enough"


@newer
def test_a_gateway_that_a_signal_halts_is_called_frozen(lab, version):
    it = running(lab, version)
    it.gateway.freeze(timedelta(minutes=6))
    told = found(it, *later(minutes=6))
    it.machine.kill(it.gateway.process)
    assert list(told) == [("gateway-wedged", "gateway")], told


@both
def test_jobs_that_a_held_lock_keeps_from_running_are_overdue(lab, version):
    it = running(lab, version)
    add_job(it, "every 5m", "news")
    only(it, "cron-overdue", "news", *later(minutes=45))

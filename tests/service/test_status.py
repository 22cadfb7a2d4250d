"""status: one traffic light, true for what it knows, in both languages, on a page too."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import BOOK, finish_check, where
from pages import Page

from watchdog.approval.record import ask, disarm
from watchdog.cli import main
from watchdog.cli.context import job_of
from watchdog.gateway.machine import GatewayProcess, Machine
from watchdog.gateway.reasons import Name
from watchdog.gateway.supervisor import DOCKER, SYSTEM, Supervisor
from watchdog.job import Job
from watchdog.model import Change, Hold, Incident, Plan, Reason, plain
from watchdog.notify.translate import in_english
from watchdog.plan.limits import Disarmed
from watchdog.reports import history
from watchdog.reports.language import reader_of
from watchdog.reports.page import status_page
from watchdog.reports.status import (
    BackupAge,
    GatewaySeen,
    LastAnswer,
    Light,
    Status,
    as_json,
    headline,
    signals,
)
from watchdog.reports.status_text import as_text, gateway_text
from watchdog.service.install import Entry, cron_entry
from watchdog.service.status import entry_of, gateway_seen, gather, schedule_of
from watchdog.store.incidents import save_changes
from watchdog.store.messages import Silence
from watchdog.text import size

NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ENGLISH, CHINESE = (reader_of(language, BOOK, NOW) for language in ("en", "zh"))
CRON = Reason("schedule.cron", {"fields": "*/15 * * * *"})
UNIT_NAME = Reason(Name.SYSTEM_UNIT, {"unit": "hermes-gateway.service"})
WELL = Status(
    "/home/me/.hermes",
    NOW,
    gateway=GatewaySeen(True, 812, NOW - timedelta(hours=3), UNIT_NAME),
    answer=LastAnswer(NOW - 2 * MINUTE, "telegram", "42"),
    last=NOW - 4 * MINUTE,
    next=NOW + 11 * MINUTE,
    schedule=CRON,
    free=12_300_000_000,
    backups=(BackupAge("state.db", NOW - timedelta(hours=5), 1248), BackupAge("kanban.db")),
    expects_backups=True,
)
STUCK = Incident(
    7, "session-stuck", "telegram/42", "high", "open", "A chat is waiting", "telegram chat 42 has waited 26 minutes",
    NOW - 26 * MINUTE, NOW - 11 * MINUTE, NOW,
)  # fmt: skip
HELD = Plan(
    "Restart the gateway", ("session-stuck telegram/42",), ("restart-gateway",), (), (plain("restart"),), "d",
    hold=Hold(plain("maintenance"), NOW + timedelta(hours=1)),
)  # fmt: skip
PAUSE = Silence(3, "*", NOW + timedelta(hours=1), "new disk", "me", NOW)


@pytest.mark.parametrize(
    ("change", "light", "says"),
    [
        ({}, Light.GREEN, "the gateway runs and nothing is wrong"),
        ({"open": (STUCK,)}, Light.RED, "telegram chat 42 has waited 26 minutes"),
        ({"open": (STUCK, STUCK)}, Light.RED, "(2 open problems)"),
        ({"open": (replace(STUCK, severity="low"),)}, Light.YELLOW, "telegram chat 42 has waited 26 minutes"),
        ({"interrupted": (5,)}, Light.RED, "plan 5 was interrupted and waits for you"),
        ({"last_error": "disk full"}, Light.RED, "the last check failed: disk full"),
        ({"store_error": "cannot read the store x"}, Light.RED, "cannot read the store x"),
        ({"gateway": GatewaySeen(False)}, Light.YELLOW, "the gateway is not running"),
        ({"gateway": GatewaySeen(None)}, Light.YELLOW, "the gateway cannot be seen from here"),
        ({"unasked": (HELD,)}, Light.YELLOW, "a plan is on hold"),
        ({"disarmed": Disarmed(NOW, "me", plain("moving"))}, Light.YELLOW, "the watchdog is disarmed: moving"),
        ({"maintenance": PAUSE}, Light.YELLOW, "maintenance until 2026-05-19"),
        ({"blind": (("gateway.log", "no such file"),)}, Light.YELLOW, "cannot read gateway.log"),
        ({"problem": "rules/a.yaml:3: no"}, Light.YELLOW, "has a mistake and is not used"),
        ({"last": None, "schedule": None}, Light.YELLOW, "no check has been made yet"),
        ({"schedule": None, "late": True}, Light.YELLOW, "the last check was 4 minutes ago"),
        ({"schedule": None}, Light.GREEN, "the gateway runs"),  # something that we do not know makes checks
        ({"low_disk": True}, Light.YELLOW, "only 12.3 GB free"),
        ({"backups": (BackupAge("state.db", NOW - timedelta(days=4)),)}, Light.YELLOW, "3 days old: state.db"),
        ({"silences": (replace(PAUSE, what="tls-burst"),)}, Light.GREEN, "the gateway runs"),
    ],
)  # fmt: skip
def test_the_light_and_its_sentence(change: dict, light: Light, says: str) -> None:
    status = replace(WELL, **change)
    assert status.light is light and says in headline(status, ENGLISH)
    assert as_json(status, ENGLISH)["light"] == str(light)
    assert headline(status, CHINESE) and all(signal.why.key in CHINESE.texts for signal in signals(status))


def test_the_worst_comes_first() -> None:
    status = replace(WELL, open=(STUCK,), gateway=GatewaySeen(False), blind=(("journal", "no"),))
    assert [signal.light for signal in signals(status)] == [Light.RED, Light.YELLOW, Light.YELLOW]


def test_every_fact_has_its_line() -> None:
    status = replace(
        WELL, open=(STUCK,), unasked=(HELD,), interrupted=(5,), maintenance=PAUSE, blind=(("journal", "permission denied"),),
        silences=(replace(PAUSE, id=4, what="tls-burst"),), disarmed=Disarmed(NOW, "me", plain("looking")), suspected=1,
        problem="rules/a.yaml:3: no", last_error="disk full", at_work="a check (pid 9)",
    )  # fmt: skip
    text = as_text(status, ENGLISH)
    for part in (
        "● Problem  telegram chat 42",
        "running since 2026-05-19", "(3 hours ago), pid 812, system unit hermes-gateway.service",
        "(2 minutes ago), telegram chat 42",
        "(4 minutes ago)",
        "(in 11 minutes), by cron (*/15 * * * *)",
        "session-stuck: telegram chat 42",
        "Restart the gateway, until 2026-05-19", "maintenance",
        "plan 5", "then resume or abandon",
        "journal: permission denied",
        "disarmed since 2026-05-19", "by me: looking; re-arm with: hermes-watchdog arm",
        "(1 hour left), by me: new disk",
        "tls-burst until 2026-05-19",
        "12.3 GB free",
        "state.db: 2026-05-19", "(5 hours ago)", "kanban.db: none",
        "rules/a.yaml:3: no", "disk full", "a check (pid 9)",
    ):  # fmt: skip
        assert part in text, part
    assert "0 seconds" not in text and "\x1b" not in text
    assert "\x1b[1;31m● Problem" in as_text(status, replace(ENGLISH, colour=True))


def test_chinese_readers_get_chinese_in_even_columns() -> None:
    status = replace(WELL, unasked=(HELD,), open=(replace(STUCK, severity="low"),))
    text = as_text(status, CHINESE)
    assert text.startswith("● 注意  ")
    for part in ("运行中，启动于 2026-05-19", "telegram 会话 42", "由 cron 运行", "剩余 12.3 GB", "暂缓"):
        assert part in text, part


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (64_000_000, "64 MB"), (12_345_000_000, "12.3 GB")]
)  # fmt: skip
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size(count) == text


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    logs = tmp_path / "home" / "logs"
    logs.mkdir(parents=True)
    line = "2026-05-19 09:5{}:00,000 INFO gateway.run: response ready: platform=telegram chat={} time=3.1s api_calls=2 response=1 chars\n"
    for name in ("gateway.log", "agent.log"):
        (logs / name).write_text(line.format(2, 41) + line.format(8, 42))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.yaml").write_text("timezone: UTC\n")
    (tmp_path / "config" / "settings.yaml").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    args = argparse.Namespace(
        home=str(tmp_path / "home"), config=str(tmp_path / "config"), state=str(tmp_path / "state")
    )
    return job_of(args, NOW)


def machine(job: Job) -> Machine:
    who = Supervisor(SYSTEM, "hermes-gateway.service", "me")
    return Machine(job.home, job.state, who, GatewayProcess(True, 812, 1, started_at=NOW), free=10**10)


def crontab(job: Job) -> str:
    return cron_entry(Entry(job.home, "/usr/bin/python3"))


def test_it_is_gathered_from_the_store_the_log_the_crontab_and_the_machine(job: Job) -> None:
    with job.store() as store:
        finish_check(store, NOW - 15 * MINUTE, NOW, {}, ("session-stuck",))
    status = gather(job, machine, lambda: crontab(job), lambda: True)
    assert status.last == NOW - 15 * MINUTE and status.next == NOW + 15 * MINUTE and not status.late
    assert in_english(status.schedule) == "by cron (*/15 * * * *)"
    assert status.gateway == GatewaySeen(True, 812, NOW, UNIT_NAME)
    assert status.answer == LastAnswer(NOW - 2 * MINUTE, "telegram", "42")
    assert status.light is Light.GREEN


def test_a_crontab_without_a_cron_daemon_makes_no_next_check(job: Job) -> None:
    status = gather(job, machine, lambda: crontab(job), lambda: False)
    assert status.next is None and status.schedule.key == "schedule.no-cron" and status.light is Light.YELLOW


def test_a_gateway_that_has_not_answered_yet_is_told_so() -> None:
    silent = replace(WELL, answer=None)
    assert "no answer yet" in as_text(silent, ENGLISH)
    assert "还没有回复" in as_text(silent, CHINESE)


def test_a_plan_that_waits_for_the_next_check_only_is_told() -> None:
    ready = replace(WELL, unasked=(replace(HELD, hold=None),))
    assert "asked at the next check" in as_text(ready, ENGLISH)
    assert "下次检查时征求同意" in as_text(ready, CHINESE)
    assert ready.held == () and as_json(ready, ENGLISH)["plans_ready"][0]["recipes"] == list(HELD.recipes)


def test_a_plan_on_hold_is_told_with_its_reason_and_an_asked_one_with_its_end(job: Job) -> None:
    with job.store() as store:
        save_changes(store, [Change("opened", replace(STUCK, id=0, recipe="restart-gateway"))])
        disarm(store, plain("moving house"), NOW - MINUTE)
        status = gather(job, machine, lambda: "")
        (held,) = status.held
        assert held.title == "Restart the gateway" and "moving house" in ENGLISH.reason(held.hold.reason)
        ask(store, replace(held, hold=None), NOW)
    status = gather(job, machine, lambda: "")
    assert status.held == () and [stored.id for stored in status.asked] == [1]
    assert "Restart the gateway: waits for your answer until 2026-05-19" in as_text(status, ENGLISH)


def test_a_check_that_should_have_been_made_is_late(job: Job) -> None:
    assert schedule_of(job, NOW - timedelta(hours=1), lambda: crontab(job))["late"]
    assert not schedule_of(job, NOW - 14 * MINUTE, lambda: crontab(job))["late"]
    assert schedule_of(job, NOW - timedelta(days=2), lambda: "")["late"]


def test_the_cron_entry_of_this_home_is_found_and_no_other(job: Job) -> None:
    assert entry_of(job, lambda: crontab(job)) == (CRON, "*/15 * * * *")
    assert entry_of(job, lambda: "0 4 * * * backup\n") == (None, "")


def test_a_store_that_cannot_be_read_is_red_and_the_rest_is_still_told(job: Job) -> None:
    job.store_path.parent.mkdir(parents=True)
    job.store_path.write_bytes(b"noise" * 1000)
    status = gather(job, machine, lambda: "")
    assert status.light is Light.RED and "cannot read the store" in headline(status, ENGLISH)
    assert status.gateway is not None and status.gateway.alive


def test_all_profiles_are_told_one_by_one(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    (job.home / "profiles" / "work" / "logs").mkdir(parents=True)
    for command in ("status", "doctor", "report"):
        main([command, "--all-profiles", *where(job)])
        out = capsys.readouterr().out
        assert f"{job.home}" in out and f"{job.home}/profiles/work" in out, command
    main(["status", "--all-profiles", "--json", *where(job)])
    assert [one["home"] for one in json.loads(capsys.readouterr().out)] == [
        str(job.home),
        str(job.home / "profiles" / "work"),
    ]


HOSTILE = "<script>alert(1)</script>\"' onload=x \x1b[31m \u202e {{ 7*7 }} token=abcdef123456"


@pytest.mark.parametrize("reader", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_the_page_says_the_same_and_hostile_text_stays_text(reader) -> None:
    bad = replace(STUCK, rule=HOSTILE, key=HOSTILE, says=HOSTILE, title=HOSTILE)
    status = replace(
        WELL, home=HOSTILE, open=(bad,), unasked=(replace(HELD, title=HOSTILE, recipes=()),), blind=((HOSTILE, HOSTILE),),
        answer=LastAnswer(NOW, HOSTILE, HOSTILE), backups=(BackupAge(HOSTILE, NOW, 1),),
    )  # fmt: skip
    past = history.Past(HOSTILE, NOW - timedelta(days=7), NOW, 1, watched=((NOW, NOW),))
    page = status_page(status, past, reader)
    seen = Page(page)
    assert seen.open == [] and seen.bad == [] and seen.loads == []
    assert "&lt;script&gt;" in page and "{{ 7*7 }}" in page
    assert "\x1b" not in page and "\u202e" not in page and "abcdef123456" not in page
    assert "default-src 'none'" in page and reader("page.light.red") in page
    assert len(page) < 100_000


def test_the_page_is_written_for_its_owner_alone(job: Job, tmp_path: Path, capsys) -> None:
    assert main(["status", "--html", str(tmp_path / "s.html"), *where(job)]) == 1
    assert (tmp_path / "s.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("language", "since", "words"),
    [
        ("en", None, "running in container hermes-gateway (process 4711 outside)"),
        ("en", NOW - timedelta(hours=3), "in container hermes-gateway (process 4711 outside)"),
        ("zh", None, "运行中，在容器 hermes-gateway 中（宿主机进程 4711）"),
    ],
)
def test_a_gateway_in_a_container_is_named_with_its_process_outside(language, since, words):
    name = Reason(Name.CONTAINER, {"container": "hermes-gateway"})
    place = Supervisor(DOCKER, container="hermes-gateway").place(4711)
    seen = GatewaySeen(True, 4711, since, name, "hermes-gateway", place)
    status = replace(WELL, gateway=seen)
    assert words in gateway_text(status, ENGLISH if language == "en" else CHINESE)


def test_a_home_without_any_sign_of_a_gateway_is_unseen_and_not_down(job: Job) -> None:
    (job.home / "logs" / "gateway.log").unlink()
    seen = gateway_seen(replace(machine(job), gateway=GatewayProcess(False)))
    assert seen.alive is None
    status = Status(str(job.home), NOW, gateway=seen)
    text = as_text(status, ENGLISH)
    assert "cannot be seen: no gateway.pid and no readable gateway.log" in text and "not running" not in text
    assert "看不到：没有 gateway.pid" in as_text(status, CHINESE)

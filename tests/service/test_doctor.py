"""doctor and status: true answers, each with what helps; and the bad inputs of everyday use, each with a
clear message.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import finish_check, let_others_in, where

from watchdog.approval.record import disarm
from watchdog.cli import main
from watchdog.cli.context import job_of
from watchdog.gateway.machine import GatewayProcess
from watchdog.gateway.machine import Machine as RealMachine
from watchdog.gateway.supervisor import DOCKER, PROCESS, SYSTEM, Supervisor
from watchdog.gateway.supervisor import UNKNOWN as NOTHING
from watchdog.job import Job
from watchdog.model import Reason, plain
from watchdog.reports.status import Status
from watchdog.service import doctor
from watchdog.service import doctor as selfcheck
from watchdog.service.doctor import BAD, OK, UNKNOWN, Check, examine
from watchdog.system.commands import Ran

NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
LINE = "2026-05-19 09:58:00,000 INFO gateway.run: Gateway running with 1 platform(s)\n"
ROOT = os.getuid() == 0


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    logs = tmp_path / "home" / "logs"
    logs.mkdir(parents=True)
    for name in ("gateway.log", "agent.log"):
        (logs / name).write_text(LINE)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.yaml").write_text(
        "timezone: UTC\nnotify:\n  targets:\n    - {name: phone, url: 'json://127.0.0.1:9/'}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    args = argparse.Namespace(
        home=str(tmp_path / "home"), config=str(tmp_path / "config"), state=str(tmp_path / "state")
    )
    return job_of(args, NOW)


def world(job: Job, **more: object) -> RealMachine:
    who = Supervisor(SYSTEM, "hermes-gateway.service", "me", found=plain("the unit file names this home"))
    made = RealMachine(
        job.home,
        job.state,
        who,
        GatewayProcess(True, 812, 1, started_at=NOW),
        ask=lambda *_: Ran(0, "a line"),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def answers(job: Job, **more: object) -> dict[str, Check]:
    return {one.name: one for one in examine(job, lambda _: world(job, **more), lambda: "")}


def test_a_well_kept_gateway_gets_good_answers_and_nothing_is_written(job: Job, tmp_path: Path) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    found = answers(job)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    wrong = {name for name, one in found.items() if one.state == BAD}
    assert wrong <= {"schedule", "locale"}
    assert found["gateway"].says.startswith("running as pid 812, since ")
    assert found["unit"].says == "system unit hermes-gateway.service (the unit file names this home)"
    assert found["schedule"].fix.endswith(f" --config {job.config} install --cron")


def test_no_hermes_at_all_is_the_first_thing_said(job: Job) -> None:
    job = replace(job, home_dir="/nowhere/.hermes")
    found = answers(job)
    assert found["home"].state == BAD and found["home"].says.startswith("no Hermes at /nowhere/.hermes")
    assert "gateway.log" not in found


def test_a_log_that_is_missing_or_unreadable_is_told_with_its_rules(job: Job) -> None:
    (job.home / "logs" / "gateway.log").unlink()
    (job.home / "logs" / "agent.log").unlink()
    (job.home / "logs" / "agent.log").mkdir()
    found = answers(job)
    assert "no such file" in found["gateway.log"].says
    assert "is not a regular file; its rules are not checked" in found["agent.log"].says


def test_a_database_that_may_not_be_read_is_told(job: Job) -> None:
    (job.home / "state.db").mkdir()
    (job.home / "kanban.db").touch()
    found = answers(job)
    assert found["state.db"].state == BAD and "its rules are not checked" in found["state.db"].says
    assert "kanban.db" not in found


def test_a_watchdog_that_is_disarmed_cannot_work(job: Job) -> None:
    with job.store() as store:
        disarm(store, "health is not better", NOW)
    told = answers(job)["acting"]
    assert told.state == BAD and told.fix.endswith(" arm")


def test_who_may_not_restart_is_given_the_exact_line_for_sudoers(job: Job) -> None:
    line = "me ALL=(root) NOPASSWD: /usr/bin/systemctl restart hermes-gateway.service"
    who = Supervisor(
        SYSTEM,
        "hermes-gateway.service",
        may_act=False,
        why_not=plain("me may not manage it"),
        sudoers_line=line,
    )
    found = answers(job, supervisor=who)
    assert found["restart"].state == BAD and found["restart"].fix == f"sudo visudo    # add: {line}"


def test_a_gateway_that_nothing_supervises_and_one_that_hides(job: Job) -> None:
    bare = answers(
        job, supervisor=Supervisor(PROCESS, found=plain("gateway.pid")), gateway=GatewayProcess(False)
    )
    assert bare["journal"].says == "not needed: no unit runs this gateway" and bare["gateway"].state == OK
    hidden = answers(job, gateway=GatewayProcess(None))
    assert "cannot be seen" in hidden["gateway"].says and hidden["gateway"].state == BAD
    lost = answers(
        job, supervisor=Supervisor(NOTHING, may_act=False, why_not=plain("nothing tells how it is started"))
    )
    assert lost["unit"].state == BAD and "restart" not in lost


@pytest.mark.parametrize(
    ("ran", "says"),
    [
        (Ran(1, "Failed to open journal"), "cannot be read: Failed to open journal"),
        (Ran(0, "Hint: You are currently not seeing messages from other users"), "may not be read"),
    ],
)
def test_a_journal_that_may_not_be_read_names_the_group(job: Job, ran: Ran, says: str) -> None:
    found = answers(job, ask=lambda *_: ran)
    assert (
        found["journal"].state == BAD
        and says in found["journal"].says
        and "systemd-journal" in found["journal"].fix
    )


def test_a_log_from_the_future_means_a_wrong_clock_or_zone(job: Job) -> None:
    (job.home / "logs" / "gateway.log").write_text(LINE.replace("09:58", "17:58"))
    told = answers(job)["clock"]
    assert told.state == BAD and "is 'timezone' right?" in told.says and "settings.yaml" in told.fix


def test_every_answer_is_said_in_chinese_and_every_command_names_this_home(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--language", "zh", *where(job)])
    lines = capsys.readouterr().out.splitlines()
    says = [line for line in lines if line and "→" not in line]
    assert len(says) > 10 and all(re.search("[\u4e00-\u9fff]", line) for line in says), lines
    fixes = [line for line in lines if "→" in line and "hermes-watchdog" in line]
    assert fixes and all(f"--home {job.home}" in line for line in fixes), fixes


def test_a_last_check_in_the_future_means_that_the_clock_was_set_back(job: Job) -> None:
    with job.store() as store:
        finish_check(store, NOW + timedelta(days=2), NOW, {}, ())
    assert "the clock was set back" in answers(job)["clock"].says


def test_broken_rules_and_settings_are_told_with_their_lines_and_exit_code_two(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.config / "settings.yaml").write_text("backups: perhaps\n")
    (job.config / "detect").mkdir()
    (job.config / "detect" / "mine.yaml").write_text("id: mine\ntitel: x\n")
    found = answers(job)
    assert "settings.yaml:1: backups: 'perhaps' is neither true nor false" in found["settings"].says
    assert "mine.yaml:2" in found["rules"].says and found["rules"].fix.endswith(" rules lint")
    assert found["targets"].state == UNKNOWN
    assert main(["doctor", *where(job)]) == 2
    assert "checks failed" in capsys.readouterr().out


def test_a_recipe_that_may_run_by_itself_and_does_not_exist_is_told(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.config / "settings.yaml").write_text("approval: {auto: [add-missing-colums]}\n")
    says = "approval: auto: there is no recipe 'add-missing-colums'; did you mean 'add-missing-columns'?"
    told = answers(job)["settings"]
    assert told.state == BAD and says in told.says
    assert main(["rules", "lint", f"--config={job.config}", f"--state={job.state}"]) == 2
    assert says in capsys.readouterr().out


def test_a_target_whose_secret_is_missing_or_that_failed_is_told_without_its_address(job: Job) -> None:
    (job.config / "settings.yaml").write_text(
        "notify:\n  targets:\n    - {name: phone, url_env: NO_SUCH_VARIABLE}\n    - {name: room, url: 'json://u:hunter2@h/'}\n"
    )
    with job.store() as store:
        store.db.execute(
            "INSERT INTO targets (name, failures, says) VALUES ('room', 3, 'the server answered 500')"
        )
    found = answers(job)
    assert "NO_SUCH_VARIABLE is not set" in found["target phone"].says
    assert found["target room"].says == "did not take the last 3 messages: the server answered 500"
    assert "hunter2" not in str(found)


def test_nobody_to_tell_is_a_bad_answer(job: Job) -> None:
    (job.config / "settings.yaml").unlink()
    assert answers(job)["targets"].says.startswith("no notification target")


def test_a_store_from_a_newer_version_is_left_alone_and_said(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    with job.store() as store:
        store.db.execute("PRAGMA user_version=99")
    found = answers(job)
    assert (
        "was written by a newer hermes-watchdog (tables 99" in found["store"].says
        and found["store"].state == BAD
    )
    assert main(["plans", *where(job)]) == 2
    assert "upgrade this installation or give another folder with --state DIR" in capsys.readouterr().err


def test_a_full_disk_is_said_before_it_hurts(job: Job) -> None:
    (told,) = doctor.store(job, lambda folder: 3_000_000)
    assert told.state == BAD and "only 3 MB free; findings could not be remembered" in told.says


@pytest.mark.skipif(not ROOT or not shutil.which("unshare"), reason="needs a small disk of its own")
def test_a_disk_that_is_full_ends_the_check_with_what_to_do_and_no_traceback(
    job: Job, tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    words = [
        sys.executable,
        "-P",
        "-m",
        "watchdog",
        "check",
        "--home",
        str(job.home),
        "--state",
        str(tmp_path / "small" / "state"),
    ]
    mount = 'mount -t tmpfs -o size=16k tmpfs "$0" && { cat /dev/zero > "$0/rest" 2>/dev/null; exec "$@"; }'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, str(tmp_path / "small"), *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "is full; free space there, or give another folder with --state DIR" in done.stderr


@pytest.mark.skipif(not ROOT, reason="needs to become somebody else")
def test_a_home_of_another_user_is_said_with_the_command_to_run(job: Job, tmp_path: Path) -> None:
    job.home.chmod(0o700)
    let_others_in(tmp_path)
    code = (
        # All is loaded before: the interpreter itself may live where nobody may look.
        "import os, sys, pwd, shutil, difflib, watchdog.cli.service, watchdog.cli.parser, watchdog.errors\n"
        "from watchdog.cli import main\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"sys.exit(main(['install', '--cron', '--dry-run', '--home', {str(job.home)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 2, done.stderr
    assert (
        f"{job.home} belongs to root and may not be read; run this as that user: sudo -u root" in done.stderr
    )


def test_no_home_variable_is_no_trouble_as_under_cron_or_systemd(job: Job) -> None:
    words = [
        sys.executable,
        "-P",
        "-m",
        "watchdog",
        "status",
        "--home",
        str(job.home),
        "--state",
        str(job.home.parent / "state"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and re.search("last check +none yet", done.stdout), done.stderr


def test_a_locale_that_is_not_utf8_gives_a_question_mark_and_no_traceback(job: Job) -> None:
    words = [
        sys.executable,
        "-P",
        "-m",
        "watchdog",
        "doctor",
        "--home",
        str(job.home),
        "--state",
        str(job.home.parent / "state"),
    ]
    surroundings = {
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "POSIX",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    done = subprocess.run(words, capture_output=True, timeout=60, env=surroundings)
    assert b"bad     locale" in done.stdout and b"? export LC_ALL=C.UTF-8" in done.stdout
    assert b"Traceback" not in done.stderr


def test_no_terminal_means_no_colour_and_no_pause(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", *where(job)])
    assert "\x1b" not in capsys.readouterr().out


def test_a_read_only_state_folder_is_said(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck.os, "access", lambda path, mode, **_: not mode & os.W_OK)
    found = answers(job)
    assert found["store"].state == BAD and "may not be written by" in found["store"].says
    assert "it cannot be written, so databases in it cannot be healed" in found["home"].says


def test_the_json_of_doctor_and_status_is_json(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("doctor", "status"):
        main([command, "--json", *where(job)])
        assert isinstance(json.loads(capsys.readouterr().out), dict)


def with_settings(job: Job, text: str) -> Job:
    (job.config / "settings.yaml").write_text(text)
    folders = {"home": str(job.home), "config": str(job.config), "state": str(job.state)}
    return job_of(argparse.Namespace(**folders), NOW)


TELEGRAM = """
replies:
  channels:
    - telegram: {{token: '{token}', approvers: [{{name: anna, id: '{id}'}}]}}
"""
TOKEN = "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc"


def test_the_gateways_own_bot_is_no_reply_channel(job: Job) -> None:
    (job.home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    told = answers(with_settings(job, TELEGRAM.format(token=TOKEN, id=1111)))["replies telegram"]
    assert told.state == BAD and "the bot of the gateway itself" in told.says and TOKEN not in told.says


@pytest.mark.parametrize("number", ["@anna", "anna", "-1001234", "0"])
def test_an_approver_who_can_match_no_answer_is_named(job: Job, number: str) -> None:
    told = answers(with_settings(job, TELEGRAM.format(token=TOKEN, id=number)))["replies telegram"]
    assert told.state == BAD and f"anna ({number})" in told.says


def test_a_reply_channel_that_can_work_is_well(job: Job) -> None:
    told = answers(with_settings(job, TELEGRAM.format(token=TOKEN, id=1111)))["replies telegram"]
    assert told.state == OK and told.says == "answers by anna"


def test_an_address_that_apprise_does_not_know_is_told_and_not_shown(job: Job, capfd) -> None:
    text = "notify: {targets: [{name: phone, url: 'telegrm://123:secret/42'}]}"
    told = answers(with_settings(job, text))["target phone"]
    assert told.state == BAD and "not an address that Apprise knows" in told.says
    assert "secret" not in told.says + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("runs", "state", "says"),
    [
        (True, OK, "by cron (*/15 * * * *)"),
        (False, BAD, "no cron daemon runs here"),
        (None, UNKNOWN, "cannot be seen from here"),
    ],
)
def test_a_crontab_entry_counts_only_with_a_cron_daemon(
    job: Job, runs: bool | None, state: str, says: str
) -> None:
    entry = Status(str(job.home), NOW, last=NOW, schedule=Reason("schedule.cron", {"fields": "*/15 * * * *"}))
    told = doctor.schedule(job, entry, lambda: runs)
    assert told.state == state and says in told.says


def test_a_gateway_in_a_container_that_is_known_is_not_called_unseen(job: Job) -> None:
    inside = Supervisor(DOCKER, "hermes", "me", container="hermes-gateway", found=plain("its volume"))
    hidden = GatewayProcess(None, 0, 0)
    shown = GatewayProcess(True, 812, 1)
    told = answers(job, supervisor=inside, gateway=hidden, look=lambda: shown)["gateway"]
    assert told.state == OK and told.says == "running in container hermes-gateway (process 812 outside)"


@pytest.mark.parametrize("words", [["doctor"], ["check", "--dry-run"]])
def test_looking_leaves_no_file_where_podman_would_make_some(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Asked for the first time, podman makes its folders in the user's home."""
    tools = tmp_path / "bin"
    tools.mkdir()
    podman = tools / "podman"
    podman.write_text(f"#!/bin/sh\n/bin/mkdir -p {tmp_path}/.local/share/containers\n")
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if ROOT and Path("/var/lib/containers/storage").is_dir():
        pytest.skip("podman is in use on this machine")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    main([*words, "--home", str(job.home), "--config", str(job.config), "--state", str(job.state)])
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before

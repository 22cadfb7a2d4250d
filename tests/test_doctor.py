"""doctor and status: true answers, each with what helps; and the bad inputs of everyday use, each with a clear message."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchdog import selfcheck
from watchdog.cli import main
from watchdog.cli.common import Context
from watchdog.running import Ran
from watchdog.selfcheck import BAD, OK, UNKNOWN, Check, examine, hermes_release
from watchdog.status import Status, as_text, entry_of, gather
from watchdog.store.incidents import finish_check
from watchdog.supervisor import PROCESS, SYSTEM, Supervisor
from watchdog.supervisor import UNKNOWN as NOTHING
from watchdog.world import Gateway, World

NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
LINE = "2026-05-19 09:58:00,000 INFO gateway.run: Gateway running with 1 platform(s)\n"
ROOT = os.getuid() == 0


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    logs = tmp_path / "home" / "logs"
    logs.mkdir(parents=True)
    for name in ("gateway.log", "agent.log"):
        (logs / name).write_text(LINE)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.yaml").write_text(
        "timezone: UTC\nnotify:\n  targets:\n    - {name: phone, url: 'json://127.0.0.1:9/'}\n"
    )
    monkeypatch.setattr("watchdog.status._crontab", lambda: "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_HOME", raising=False)
    args = argparse.Namespace(home=str(tmp_path / "home"), config=str(tmp_path / "config"), state=str(tmp_path / "state"))
    return Context(args, NOW)


def world(ctx: Context, **more: object) -> World:
    who = Supervisor(SYSTEM, "hermes-gateway.service", "me", found="the unit file names this home")
    made = World(ctx.home, ctx.state, who, Gateway(True, 812, 1, started_at=NOW), run=lambda *_: Ran(0, "a line"))
    return replace(made, **more)  # type: ignore[arg-type]


def answers(ctx: Context, **more: object) -> dict[str, Check]:
    return {one.name: one for one in examine(ctx, lambda _: world(ctx, **more))}


def test_a_well_kept_gateway_gets_good_answers_and_nothing_is_written(ctx: Context, tmp_path: Path) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    found = answers(ctx)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    wrong = {name for name, one in found.items() if one.state == BAD}
    assert wrong <= {"schedule", "locale"}
    assert found["gateway"].says.startswith("running as pid 812, since ")
    assert found["unit"].says == "system unit hermes-gateway.service (the unit file names this home)"
    assert found["schedule"].fix == "hermes-watchdog install --cron"


def test_no_hermes_at_all_is_the_first_thing_said(ctx: Context) -> None:
    ctx.args.home = "/nowhere/.hermes"
    found = answers(ctx)
    assert found["home"].state == BAD and found["home"].says.startswith("no Hermes at /nowhere/.hermes")
    assert "gateway.log" not in found


def test_a_log_that_is_missing_or_unreadable_is_told_with_its_rules(ctx: Context) -> None:
    (ctx.home / "logs" / "gateway.log").unlink()
    (ctx.home / "logs" / "agent.log").unlink()
    (ctx.home / "logs" / "agent.log").mkdir()
    found = answers(ctx)
    assert "no such file" in found["gateway.log"].says
    assert "is not a regular file; rules on it are not checked" in found["agent.log"].says


def test_who_may_not_restart_is_given_the_exact_line_for_sudoers(ctx: Context) -> None:
    line = "me ALL=(root) NOPASSWD: /usr/bin/systemctl restart hermes-gateway.service"
    who = Supervisor(SYSTEM, "hermes-gateway.service", may_act=False, why_not="me may not manage it", sudoers_line=line)
    found = answers(ctx, supervisor=who)
    assert found["restart"].state == BAD and found["restart"].fix == f"sudo visudo    # add: {line}"


def test_a_gateway_that_nothing_supervises_and_one_that_hides(ctx: Context) -> None:
    bare = answers(ctx, supervisor=Supervisor(PROCESS, found="gateway.pid"), gateway=Gateway(False))
    assert bare["journal"].says == "not needed: no unit runs this gateway" and bare["gateway"].state == OK
    hidden = answers(ctx, gateway=Gateway(None))
    assert "cannot be seen in /proc" in hidden["gateway"].says and hidden["gateway"].state == BAD
    lost = answers(ctx, supervisor=Supervisor(NOTHING, may_act=False, why_not="nothing tells how it is started"))
    assert lost["unit"].state == BAD and "restart" not in lost


@pytest.mark.parametrize(
    ("ran", "says"),
    [
        (Ran(1, "Failed to open journal"), "cannot be read: Failed to open journal"),
        (Ran(0, "Hint: You are currently not seeing messages from other users"), "may not be read"),
    ],
)
def test_a_journal_that_may_not_be_read_names_the_group(ctx: Context, ran: Ran, says: str) -> None:
    found = answers(ctx, run=lambda *_: ran)
    assert found["journal"].state == BAD and says in found["journal"].says and "systemd-journal" in found["journal"].fix


def test_a_log_from_the_future_means_a_wrong_clock_or_zone(ctx: Context) -> None:
    (ctx.home / "logs" / "gateway.log").write_text(LINE.replace("09:58", "17:58"))
    told = answers(ctx)["clock"]
    assert told.state == BAD and "is 'timezone' right?" in told.says and "settings.yaml" in told.fix


def test_a_last_check_in_the_future_means_that_the_clock_was_set_back(ctx: Context) -> None:
    with ctx.store() as store:
        finish_check(store, NOW + timedelta(days=2), NOW, {}, ())
    assert "the clock was set back" in answers(ctx)["clock"].says


def test_broken_rules_and_settings_are_told_with_their_lines_and_exit_code_two(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (ctx.config / "settings.yaml").write_text("backups: perhaps\n")
    (ctx.config / "detect").mkdir()
    (ctx.config / "detect" / "mine.yaml").write_text("id: mine\ntitel: x\n")
    found = answers(ctx)
    assert "settings.yaml:1: backups: 'perhaps' is neither true nor false" in found["settings"].says
    assert "mine.yaml:2" in found["rules"].says and found["rules"].fix == "hermes-watchdog rules lint"
    assert found["targets"].state == UNKNOWN
    where = [f"--{name}={getattr(ctx.args, name)}" for name in ("home", "config", "state")]
    assert main(["doctor", *where]) == 2
    assert "keep the watchdog from working" in capsys.readouterr().out


def test_a_recipe_that_may_run_by_itself_and_does_not_exist_is_told(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    (ctx.config / "settings.yaml").write_text("approval: {auto: [add-missing-colums]}\n")
    says = "approval: auto: there is no recipe 'add-missing-colums'; did you mean 'add-missing-columns'?"
    told = answers(ctx)["settings"]
    assert told.state == BAD and says in told.says
    assert main(["rules", "lint", f"--config={ctx.config}", f"--state={ctx.state}"]) == 2
    assert says in capsys.readouterr().out


def test_a_target_whose_secret_is_missing_or_that_failed_is_told_without_its_address(ctx: Context) -> None:
    (ctx.config / "settings.yaml").write_text(
        "notify:\n  targets:\n    - {name: phone, url_env: NO_SUCH_VARIABLE}\n    - {name: room, url: 'json://u:hunter2@h/'}\n"
    )
    with ctx.store() as store:
        store.db.execute("INSERT INTO targets (name, failures, says) VALUES ('room', 3, 'the server answered 500')")
    found = answers(ctx)
    assert "NO_SUCH_VARIABLE is not set" in found["target phone"].says
    assert found["target room"].says == "did not take the last 3 messages: the server answered 500"
    assert "hunter2" not in str(found)


def test_nobody_to_tell_is_a_bad_answer(ctx: Context) -> None:
    (ctx.config / "settings.yaml").unlink()
    assert answers(ctx)["targets"].says.startswith("nobody is told")


def test_a_store_from_a_newer_version_is_left_alone_and_said(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    with ctx.store() as store:
        store.db.execute("PRAGMA user_version=99")
    found = answers(ctx)
    assert "was written by a newer hermes-watchdog (tables 99" in found["store"].says and found["store"].state == BAD
    where = [f"--{name}={getattr(ctx.args, name)}" for name in ("home", "config", "state")]
    assert main(["status", *where]) == 2
    assert "upgrade this installation or give another folder with --state DIR" in capsys.readouterr().err


def test_a_full_disk_is_said_before_it_hurts(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchdog.world.free_bytes", lambda folder: 3_000_000)
    told = answers(ctx)["store"]
    assert told.state == BAD and "only 3 MB free; what is found could not be remembered" in told.says


@pytest.mark.skipif(not ROOT or not shutil.which("unshare"), reason="needs a small disk of its own")
def test_a_disk_that_is_full_ends_the_check_with_what_to_do_and_no_traceback(ctx: Context, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    words = [sys.executable, "-P", "-m", "watchdog", "check", "--home", str(ctx.home), "--state", str(tmp_path / "small" / "state")]
    mount = 'mount -t tmpfs -o size=16k tmpfs "$0" && { cat /dev/zero > "$0/rest" 2>/dev/null; exec "$@"; }'
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount, str(tmp_path / "small"), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "free space or give another folder with --state DIR" in done.stderr


@pytest.mark.skipif(not ROOT, reason="needs to become somebody else")
def test_a_home_of_another_user_is_said_with_the_command_to_run(ctx: Context, tmp_path: Path) -> None:
    ctx.home.chmod(0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(0o755)
    code = (
        # All is loaded before: the interpreter itself may live where nobody may look.
        "import os, sys, pwd, shutil, difflib, watchdog.install, watchdog.cli.daily, watchdog.cli.parsing, watchdog.cli.place, watchdog.errors\n"
        "from watchdog.cli import main\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"sys.exit(main(['install', '--cron', '--dry-run', '--home', {str(ctx.home)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 2, done.stderr
    assert f"{ctx.home} belongs to root and may not be read; run this as that user: sudo -u root" in done.stderr


def test_no_home_variable_is_no_trouble_as_under_cron_or_systemd(ctx: Context) -> None:
    words = [sys.executable, "-P", "-m", "watchdog", "status", "--home", str(ctx.home), "--state", str(ctx.args.state)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and "last check   none yet" in done.stdout, done.stderr


def test_a_locale_that_is_not_utf8_gives_a_question_mark_and_no_traceback(ctx: Context) -> None:
    words = [sys.executable, "-P", "-m", "watchdog", "doctor", "--home", str(ctx.home), "--state", str(ctx.args.state)]
    surroundings = {"PATH": "/usr/bin:/bin", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, timeout=60, env=surroundings)
    assert b"bad     locale" in done.stdout and b"? export LC_ALL=C.UTF-8" in done.stdout
    assert b"Traceback" not in done.stderr


def test_no_terminal_means_no_colour_and_no_pause(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    where = [f"--{name}={getattr(ctx.args, name)}" for name in ("home", "config", "state")]
    main(["status", *where])
    assert "\x1b" not in capsys.readouterr().out


def test_a_read_only_state_folder_is_said(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck.os, "access", lambda path, mode, **_: not mode & os.W_OK)
    found = answers(ctx)
    assert found["store"].state == BAD and "may not be written by" in found["store"].says
    assert "it cannot be written, so databases in it cannot be healed" in found["home"].says


def test_the_release_is_told_from_where_hermes_is_installed(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.11" / "site-packages" / "hermes_agent-0.19.0.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hermes").write_text("")
    assert hermes_release((str(tmp_path / "bin" / "python"), "-m")) == ("Hermes 0.19.0", str(tmp_path))
    assert hermes_release((str(tmp_path / "bin" / "hermes"), "gateway", "run"))[0] == "Hermes 0.19.0"
    assert hermes_release(("python",))[0] == ""


def test_status_tells_last_and_next_check_what_is_open_and_whether_it_may_act(ctx: Context) -> None:
    told = Status(
        "/home/me/.hermes", NOW, "cron (*/15 * * * *)", NOW - timedelta(minutes=4), NOW + timedelta(minutes=11),
        open=(("high", "session-stuck", "telegram chat 42 has waited 26 minutes"),), waiting=(7,), cut_off=(5,),
        disarmed="since 09:00 by me: looking at it", problem="rules/a.yaml:3: no", last_error="disk full",
    )  # fmt: skip
    text = as_text(told)
    for part in ("(4 minutes 0 seconds ago)", "(in 11 minutes), by cron (*/15 * * * *)", "disarmed since 09:00", "plan 5; see",
                 "plan 7 waits for an answer", "session-stuck: telegram chat 42", "rules/a.yaml:3: no", "disk full"):  # fmt: skip
        assert part.replace(" 0 seconds", "") in text.replace(" 0 seconds", ""), part
    assert not told.well and Status("h", NOW).well


def test_status_finds_the_cron_entry_of_this_home_and_its_next_time(ctx: Context) -> None:
    from watchdog.install import Entry, cron_entry

    crontab = cron_entry(Entry(ctx.home, "/usr/bin/python3"))
    assert entry_of(ctx, lambda: crontab) == ("cron (*/15 * * * *)", NOW + timedelta(minutes=15))
    assert entry_of(ctx, lambda: "0 4 * * * backup\n") == ("", None)


def test_status_reads_what_a_check_left(ctx: Context) -> None:
    with ctx.store() as store:
        finish_check(store, NOW - timedelta(minutes=15), NOW, {}, ("session-stuck",))
        from watchdog.approval import disarm

        disarm(store, "health is not better", NOW - timedelta(minutes=1))
    told = gather(ctx)
    assert told.last == NOW - timedelta(minutes=15) and "health is not better" in told.disarmed and not told.well


def test_the_json_of_doctor_and_status_is_json(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    where = [f"--{name}={getattr(ctx.args, name)}" for name in ("home", "config", "state")]
    for command in ("doctor", "status"):
        main([command, "--json", *where])
        assert isinstance(json.loads(capsys.readouterr().out), dict)

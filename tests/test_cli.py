"""The command line as a person or a script meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from homes import SAMPLES

from watchdog.cli import COMMANDS, main, parser

STUCK = SAMPLES / "session-stuck" / "fires-another-chat-was-answered"


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch, tmp_path):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HERMES_HOME", "HERMES_WATCHDOG_CONFIG", "HERMES_WATCHDOG_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


def run(capsys, *argv: str) -> tuple[int, str, str]:
    try:
        code = main(list(argv))
    except SystemExit as leave:
        code = int(leave.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_replay_tells_what_when_and_why(capsys):
    code, out, _ = run(capsys, "replay", str(STUCK), "--until", "2026-05-19 10:41:00")
    assert code == 1
    assert "session-stuck: telegram chat 42 has waited 26 minutes for an answer (limit 15 minutes)" in out
    assert "true from 2026-05-19 10:30:00 and it was not over at the end" in out
    assert "gateway.log:3" in out


def test_the_json_of_a_replay_is_the_documented_contract(capsys):
    code, out, _ = run(capsys, "replay", str(STUCK), "--until", "2026-05-19 10:41:00", "--json", "--every", "15m")
    told = json.loads(out)
    assert code == 1 and set(told) >= {"incidents", "blind", "from", "to"}
    (incident,) = told["incidents"]
    assert incident["rule"] == "session-stuck" and incident["key"] == "telegram/42"
    assert (incident["severity"], incident["status"], incident["recipe"], incident["resolved_at"]) == ("high", "open", "restart-gateway", None)
    assert incident["opened_at"] == "2026-05-19T10:30:00.000+00:00"
    assert incident["evidence"][0] == {
        "where": "gateway.log:3", "at": "2026-05-19T10:15:00.000+00:00", "text": "inbound message: platform=telegram user=… chat=42",
    }  # fmt: skip
    assert told["from"].endswith("+00:00") and told["to"] == "2026-05-19T10:41:00.000+00:00"


def test_every_field_of_the_contract_is_in_the_documentation(capsys):
    _, out, _ = run(capsys, "replay", str(STUCK), "--json")
    told = json.loads(out)
    page = (Path(__file__).parent.parent / "docs" / "json.md").read_text("utf-8")
    names = {*told, *(told["incidents"][0] if told["incidents"] else ())}
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_a_dry_run_of_a_quiet_home_says_so_and_exits_with_0(capsys, home):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:16:00,000 INFO gateway.run: Received SIGTERM — initiating shutdown\n10:16:01,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)")
    code, out, _ = run(capsys, "check", "--dry-run", "--home", str(folder), "--now", "2026-05-19 10:41:00")
    assert code == 0 and "Nothing is wrong" in out


def test_what_cannot_be_seen_is_told_first(capsys, home):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    (folder / "logs" / "agent.log").unlink()
    _, out, _ = run(capsys, "check", "--dry-run", "--home", str(folder), "--now", "2026-05-19 10:41:00")
    lines = out.splitlines()
    assert lines[1].startswith("cannot see  agent.log: no such file")
    assert "not checked for that reason: content-filter-burst" in lines[2]


def test_a_home_that_is_not_there_is_a_clear_message(capsys, tmp_path):
    code, _, err = run(capsys, "check", "--dry-run", "--home", str(tmp_path / "nowhere"))
    assert code == 2 and "no such folder; give --home DIR or set HERMES_HOME" in err


def test_a_folder_without_logs_is_a_clear_message(capsys, tmp_path):
    code, _, err = run(capsys, "replay", str(tmp_path))
    assert code == 2 and "nothing to replay" in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["chek"], "did you mean 'check'?"),
        (["replay"], "DIR"),
        (["replay", ".", "--every", "soon"], "'soon' is not a duration; write 90s, 15m or 2h"),
        (["check", "--dry-run", "--now", "yesterday"], "is not a time; write"),
        (["explain", "session-stuk"], "did you mean 'session-stuck'?"),
        (["rules", "show", "nothing"], "there is no rule or recipe 'nothing'"),
        (["incident", "7"], "there is no incident 7"),
        (["check", "--now", "2026-05-19 10:41:00"], "--now goes with --dry-run"),
        (["check", "--config", "/nonexistent-folder", "--dry-run", "--home", "/"], "no such folder"),
    ],
)
def test_a_mistake_in_the_arguments_says_what_to_write_instead(capsys, argv, says):
    code, _, err = run(capsys, *argv)
    assert code == 2 and says in err


def test_explain_tells_how_far_a_rule_is_from_firing(capsys):
    code, out, _ = run(capsys, "explain", "session-stuck", "--home", str(STUCK), "--now", "2026-05-19 10:25:00", "--gateway", "running")
    assert code == 0
    assert "gap: does not hold" in out and "telegram/42: waiting for 10 minutes (limit 15 minutes)" in out
    assert "gateway: holds" in out and "does not fire" in out


def test_explain_tells_what_a_line_means(capsys):
    line = "2026-05-19 10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=Eve chat=42 msg='secret words'"
    code, out, _ = run(capsys, "explain", line)
    assert code == 0 and "secret words" not in out and "Eve" not in out
    assert "session-stuck (gap, opened, in gateway.log): platform=telegram, chat=42" in out


def test_a_check_remembers_and_incidents_show_it(capsys, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...", state_dot_db=b"SQLit\x17 format 3\0" + b"\1" * 5000)
    state = str(tmp_path / "state")
    code, _, err = run(capsys, "check", "--home", str(folder), "--state", state)
    assert code == 1, err
    code, out, _ = run(capsys, "incidents", "--home", str(folder), "--state", state, "--json")
    (incident,) = [one for one in json.loads(out) if one["rule"] == "database-broken"]
    assert code == 1 and incident["key"] == "state.db"
    code, out, _ = run(capsys, "incident", str(incident["id"]), "--home", str(folder), "--state", state)
    assert code == 1 and "state.db is not readable" in out


def test_a_quiet_check_prints_nothing_when_nothing_changed(capsys, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:16:00,000 INFO gateway.run: Received SIGTERM — initiating shutdown\n10:16:01,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)")
    for _ in range(2):
        code, out, err = run(capsys, "check", "--quiet", "--home", str(folder), "--state", str(tmp_path / "state"))
    assert (code, out, err) == (0, "", "")


def test_broken_rules_of_the_user_are_told_with_exit_2(capsys, tmp_path, home):
    (tmp_path / "config" / "detect").mkdir(parents=True)
    (tmp_path / "config" / "detect" / "mine.yaml").write_text("id: mine\ntitel: x\n")
    code, _, err = run(capsys, "check", "--dry-run", "--home", str(home("")), "--config", str(tmp_path / "config"))
    assert code == 2 and "unknown key 'titel'; did you mean 'title'?" in err


def test_every_command_teaches_with_help(capsys):
    for name in COMMANDS:
        code, out, err = run(capsys, name, "--help")
        assert code == 0 and f"hermes-watchdog {name}" in out, (name, err)


def test_every_command_of_the_table_exists_and_no_other():
    everything = parser()
    actions = [action for action in everything._actions if hasattr(action, "choices") and action.choices]
    assert set(actions[0].choices) == set(COMMANDS)


def test_python_m_works_and_so_does_a_locale_that_is_not_utf8(tmp_path):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TZ": "UTC"}
    done = subprocess.run([sys.executable, "-m", "watchdog", "replay", str(STUCK)], capture_output=True, env=env, timeout=60, check=False)
    assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, done.stderr


def test_no_colour_where_nobody_can_see_it(capsys):
    _, out, _ = run(capsys, "replay", str(STUCK), "--until", "2026-05-19 10:41:00")
    assert "\x1b[" not in out

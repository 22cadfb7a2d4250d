"""The command line as a person or a script meets it."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from homes import SAMPLES

from watchdog.cli.main import COMMANDS
from watchdog.cli.parser import HINTS, PARTS, command_first, make_parser
from watchdog.demo import home as demo_home
from watchdog.job import find_job
from watchdog.system.procfs import start_time_of

STUCK = SAMPLES / "session-stuck" / "fires-another-chat-was-answered"


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch, tmp_path):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_replay_tells_what_when_and_why(typed):
    code, out, _ = typed("replay", str(STUCK), "--until", "2026-05-19 10:41:00")
    assert code == 1
    assert "session-stuck: telegram chat 42 has waited 26 minutes for an answer (limit 15 minutes)" in out
    assert "true from 2026-05-19 10:30:00, and not over at the end" in out
    assert "gateway.log:3" in out


def test_the_json_of_a_replay_is_the_documented_contract(typed):
    code, out, _ = typed("replay", str(STUCK), "--until", "2026-05-19 10:41:00", "--json", "--every", "15m")
    told = json.loads(out)
    assert code == 1 and set(told) >= {"incidents", "blind", "from", "to"}
    (incident,) = told["incidents"]
    assert incident["rule"] == "session-stuck" and incident["key"] == "telegram/42"
    assert (incident["severity"], incident["status"], incident["recipe"], incident["resolved_at"]) == (
        "high",
        "open",
        None,  # old logs without their state.db: the chat may have waited for its user, so no restart
        None,
    )
    assert incident["opened_at"] == "2026-05-19T10:30:00.000+00:00"
    assert incident["evidence"][0] == {
        "where": "gateway.log:3", "at": "2026-05-19T10:15:00.000+00:00", "text": "inbound message: platform=telegram user=… chat=42",
    }  # fmt: skip
    assert told["from"].endswith("+00:00") and told["to"] == "2026-05-19T10:41:00.000+00:00"


def test_every_field_of_the_contract_is_in_the_documentation(typed):
    _, out, _ = typed("replay", str(STUCK), "--json")
    told = json.loads(out)
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
    names = {*told, *(told["incidents"][0] if told["incidents"] else ())}
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_a_dry_run_of_a_quiet_home_says_so_and_exits_with_0(typed, home):
    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:16:00,000 INFO gateway.run: Received SIGTERM — initiating shutdown\n10:16:01,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)"
    )
    code, out, _ = typed("check", "--dry-run", "--home", str(folder), "--now", "2026-05-19 10:41:00")
    assert code == 0 and "Nothing is wrong" in out


def test_what_cannot_be_seen_is_told_first(typed, home):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    (folder / "logs" / "agent.log").unlink()
    _, out, _ = typed("check", "--dry-run", "--home", str(folder), "--now", "2026-05-19 10:41:00")
    lines = out.splitlines()
    assert lines[1].startswith("cannot see  agent.log: no such file")
    assert "not checked for that reason: content-filter-burst" in lines[2]


def test_a_home_that_is_not_there_is_a_clear_message(typed, tmp_path):
    code, _, err = typed("check", "--dry-run", "--home", str(tmp_path / "nowhere"))
    assert code == 2 and "no such folder; give --home DIR or set HERMES_HOME" in err


def test_a_folder_without_logs_is_a_clear_message(typed, tmp_path):
    code, _, err = typed("replay", str(tmp_path))
    assert code == 2 and "nothing to replay" in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["chek"], "did you mean 'check'?"),
        (["rules", "lnit"], "did you mean 'lint'?"),
        (["approve", "--home", "/nowhere"], "/nowhere: no such folder"),
        (["replay"], "DIR"),
        (["replay", ".", "--every", "soon"], "'soon' is not a duration; write 90s, 15m or 2h"),
        (["check", "--dry-run", "--now", "yesterday"], "is not a time; write"),
        (["explain", "session-stuk"], "did you mean 'session-stuck'?"),
        (["rules", "show", "nothing"], "there is no rule or recipe 'nothing'"),
        (["incident", "7"], "there is no incident 7"),
        (["check", "--now", "2026-05-19 10:41:00"], "--now goes with --dry-run"),
        (["check", "--fix"], "there is no option '--fix'; what is proposed: "),
        (["check", "--port", "1"], "there is no option '--port'; there are --help, --dry-run"),
        (["serve", "--port", "1"], "did you mean '--listen'?"),
        (["disarm", "--reason", "x"], "did you mean '--because'?"),
        (["gateway", "restart"], "What runs it here, to do it yourself"),
        (["logs"], "hermes-watchdog replay ~/.hermes"),
        (["plan"], "PLAN is missing; see: "),
        (["incident"], " incidents"),
        (["unsilence"], " silences"),
        (["rules", "show"], " rules list"),
        (["notify", "test"], "did you mean '--test'?"),
        (["notify", "--send"], "did you mean '--test'?"),
        (["report", "--html"], "did you mean '--format html'?"),
        (["uninstall", "--cron"], "it removes whatever is installed"),
        (["run", "--once"], "one check: "),
        (["completion"], "bash|zsh|fish is missing"),
        (["settings"], "write show"),
        (["maintenance", "2h"], "did you mean 'on --for 2h'?"),
        (["maintenance", "stop"], "did you mean 'off'?"),
        (["db", "repair", "state.db"], "did you mean 'heal'?"),
        (["replay", __file__], "give a Hermes home or a folder with gateway.log in it"),
        (["db"], "write one of check, heal, undo"),
        (["db", "--home", "/h"], "write one of check, heal, undo"),
        (["serve", "--host", "0.0.0.0", "--home", "/"], "where to listen is --listen 0.0.0.0:8790"),
        (["check", "--config", "/nonexistent-folder", "--dry-run", "--home", "/"], "no such folder"),
    ],
)
def test_a_mistake_in_the_arguments_says_what_to_write_instead(typed, argv, says):
    code, _, err = typed(*argv)
    assert code == 2 and says in err


def test_explain_tells_how_far_a_rule_is_from_firing(typed):
    code, out, _ = typed(
        "explain",
        "session-stuck",
        "--home",
        str(STUCK),
        "--now",
        "2026-05-19 10:25:00",
        "--gateway",
        "running",
    )
    assert code == 0
    assert "gap: not met" in out and "telegram/42: waiting for 10 minutes (limit 15 minutes)" in out
    assert "gateway: met" in out and "does not fire" in out


def test_explain_tells_what_a_line_means(typed):
    line = "2026-05-19 10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=Eve chat=42 msg='secret words'"
    code, out, _ = typed("explain", line)
    assert code == 0 and "secret words" not in out and "Eve" not in out
    assert "session-stuck (gap, opened, in gateway.log): platform=telegram, chat=42" in out


def test_a_check_remembers_and_incidents_show_it(typed, home, tmp_path):
    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...",
        state_dot_db=b"SQLit\x17 format 3\0" + b"\1" * 5000,
    )
    state = str(tmp_path / "state")
    code, _, err = typed("check", "--home", str(folder), "--state", state)
    assert code == 1, err
    code, out, _ = typed("incidents", "--home", str(folder), "--state", state, "--json")
    (incident,) = [one for one in json.loads(out) if one["rule"] == "database-broken"]
    assert code == 1 and incident["key"] == "state.db"
    code, out, _ = typed("incident", str(incident["id"]), "--home", str(folder), "--state", state)
    assert code == 1 and "state.db is not readable" in out


def test_a_quiet_check_prints_nothing_when_nothing_changed(typed, home, tmp_path):
    folder = home(
        "10:15:00,000 INFO gateway.run: Starting Hermes Gateway...\n10:16:00,000 INFO gateway.run: Received SIGTERM — initiating shutdown\n10:16:01,000 INFO gateway.run: Gateway stopped (total teardown 0.1s)"
    )
    for _ in range(2):
        code, out, err = typed("check", "--quiet", "--home", str(folder), "--state", str(tmp_path / "state"))
    assert (code, out, err) == (0, "", "")


# What takes long to load: typing alone takes a quarter of a start of Python.
SLOW_TO_LOAD = {
    "argparse",
    "asyncio",
    "dataclasses",
    "hashlib",
    "pathlib",
    "regex",
    "ssl",
    "subprocess",
    "typing",
    "yaml",
}


def test_a_quiet_check_loads_nothing_that_takes_long(home, tmp_path):
    record = {
        "pid": os.getpid(),
        "argv": ["hermes", "gateway", "run"],
        "start_time": start_time_of(os.getpid()),
    }
    folder = home(gateway_dot_pid=json.dumps(record))
    words = ["check", "--quiet", "--home", str(folder), "--state", str(tmp_path / "state")]
    code = (
        "import sys; before = {*sys.modules}; from watchdog.cli import main; "
        f"code = main({words!r}); print(code, *({{*sys.modules}} - before))"
    )
    with (folder / "gateway.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(2):  # the first reads the rules and makes the store
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, *loaded = done.stdout.split()
    assert (code, done.stderr) == ("0", "") and SLOW_TO_LOAD & {*loaded} == set()


def test_broken_rules_of_the_user_are_told_with_exit_2(typed, tmp_path, home):
    (tmp_path / "config" / "detect").mkdir(parents=True)
    (tmp_path / "config" / "detect" / "mine.yaml").write_text("id: mine\ntitel: x\n")
    code, _, err = typed("check", "--dry-run", "--home", str(home("")), "--config", str(tmp_path / "config"))
    assert code == 2 and "unknown key 'titel'; did you mean 'title'?" in err


def test_every_command_teaches_with_help(typed):
    for name in COMMANDS:
        code, out, err = typed(name, "--help")
        assert code == 0 and f"hermes-watchdog {name}" in out, (name, err)


def test_every_command_of_the_table_exists_and_no_other():
    everything = make_parser()
    actions = [action for action in everything._actions if hasattr(action, "choices") and action.choices]
    assert set(actions[0].choices) == set(COMMANDS)


def test_python_m_works_and_so_does_a_locale_that_is_not_utf8(tmp_path):
    env = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "ascii",
        "TZ": "UTC",
    }
    done = subprocess.run(
        [sys.executable, "-m", "watchdog", "replay", str(STUCK)],
        capture_output=True,
        env=env,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, done.stderr


def test_no_colour_where_nobody_can_see_it(typed):
    _, out, _ = typed("replay", str(STUCK), "--until", "2026-05-19 10:41:00")
    assert "\x1b[" not in out


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["--home", "/h", "status"], ["status", "--home", "/h"]),
        (["--json", "--home", "/h", "check", "--quiet"], ["check", "--json", "--home", "/h", "--quiet"]),
        (["--home", "check", "status"], ["status", "--home", "check"]),  # a home may have any name
        (["rules", "--json", "list"], ["rules", "list", "--json"]),
        (["--config", "c", "rules", "test", "list"], ["rules", "test", "--config", "c", "list"]),
        (["store", "--home", "/h", "check"], ["store", "check", "--home", "/h"]),
        (["silence", "rules", "--for", "1h"], ["silence", "rules", "--for", "1h"]),
        (["explain", "check"], ["explain", "check"]),
        (["--help"], ["--help"]),
    ],
)
def test_options_may_stand_before_the_command(typed, read):
    assert command_first(typed) == read


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("logs", "hermes-watchdog incidents"),
        ("restart", "hermes-watchdog plans"),
        ("config", "hermes-watchdog settings show"),
        ("start", "hermes-watchdog run"),
        ("heal", "hermes-watchdog db heal FILE"),
        ("undo", "hermes-watchdog db undo FILE"),
        ("stop", "hermes-watchdog uninstall"),
        ("mute", "hermes-watchdog silence"),
        ("yes", "hermes-watchdog approve"),
        ("test", "hermes-watchdog notify --test"),
        ("statsu", "did you mean 'status'?"),
    ],
)
def test_a_guess_gets_the_right_hint(typed, word, hint):
    code, _, err = typed(word)
    assert code == 2 and f"there is no command '{word}'" in err and hint in err


def test_every_hint_names_commands_that_exist_and_no_guess_is_a_command():
    for guesses, hint in HINTS.items():
        assert not set(guesses) & set(COMMANDS)
        named = [
            words.split()
            for words in re.sub("[,;.] ", " ", hint.partition("pipx")[0]).split("hermes-watchdog ")[1:]
        ]
        for words in named:
            assert words[0] in COMMANDS, hint
            if words[0] in PARTS:
                assert words[1] in PARTS[words[0]], hint


@pytest.mark.parametrize(
    "command", ["status", "plans", "incidents", "audit", "report", "silences", "store check"]
)
def test_a_home_that_is_not_one_is_an_error(typed, tmp_path, command):
    code, out, err = typed(*command.split(), "--home", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "") and "no such folder; give --home DIR" in err


NOISE = {
    "noise": bytes(range(256)) * 40,
    "cut off": b"SQLite format 3\0" + b"\0" * 84,
    "text": b"this is no database\n" * 100,
    "another database": b"",
}


@pytest.mark.parametrize("damage", NOISE)
@pytest.mark.parametrize(
    "command",
    ["status", "status --json", "plans", "plan 1", "incidents", "incident 1", "audit", "report", "silences",
     "maintenance", "check", "check --dry-run", "doctor", "store check", "store export", "explain session-stuck",
     "approve AAAAAAAA", "arm", "completion bash --list plans"],
)  # fmt: skip
def test_a_damaged_store_never_prints_a_traceback(typed, home, tmp_path, damage, command):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    path = find_job(str(folder), None, str(tmp_path / "state")).store_path
    path.parent.mkdir(parents=True)
    path.write_bytes(NOISE[damage])
    path.chmod(0o600)
    if damage == "another database":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE mine (x)")
            db.execute("PRAGMA user_version = 1")
        db.close()
    code, out, err = typed(*command.split(), "--home", str(folder), "--state", str(tmp_path / "state"))
    assert "Traceback" not in out + err and code in (0, 1, 2, 3), (code, out, err)
    if command in ("plans", "incidents", "audit", "report", "silences"):
        assert code in (2, 3) and "hermes-watchdog: " in err and "store" in err
    if command == "status":
        assert code == 1 and out.startswith("● Problem") and "store" in out


def test_a_damaged_store_is_set_aside_and_the_new_one_is_disarmed(typed, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    where = ("--home", str(folder), "--state", str(tmp_path / "state"))
    typed("check", *where)
    (path,) = (tmp_path / "state").glob("*/watchdog.db")
    assert typed("store", "check", *where)[0] == 0
    assert "is well; nothing was changed" in typed("store", "repair", *where)[1]
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    before = path.read_bytes()
    code, out, _ = typed("store", "check", *where)
    assert code == 1 and "damaged" in out and "store repair" in out
    told = typed("status", *where)[1]
    assert f"--home {folder} --state {tmp_path / 'state'}" in told and "{watchdog}" not in told, told
    assert "would set" in typed("store", "repair", "--dry-run", *where)[1] and path.read_bytes() == before
    code, out, _ = typed("store", "repair", *where)
    assert code == 1 and "It is disarmed" in out
    (aside,) = path.parent.glob("watchdog.db.damaged-*")
    assert aside.read_bytes() == before
    code, out, _ = typed("plans", *where)
    assert code == 1 and out.startswith("disarmed by hermes-watchdog: the old memory was damaged")
    assert typed("store", "check", *where)[0] == 0


def test_a_store_of_a_newer_version_is_not_damaged_and_stays(typed, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    where = ("--home", str(folder), "--state", str(tmp_path / "state"))
    typed("check", *where)
    (path,) = (tmp_path / "state").glob("*/watchdog.db")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert typed("store", "check", *where)[0] == 1
    code, _, err = typed("store", "repair", *where)
    assert code == 2 and "newer hermes-watchdog" in err and list(path.parent.glob("*damaged*")) == []


def test_an_export_holds_every_row_and_no_code(typed, home, tmp_path):
    folder = home("10:15:00,000 INFO gateway.run: Starting Hermes Gateway...")
    where = ("--home", str(folder), "--state", str(tmp_path / "state"))
    typed("check", *where)
    code, out, _ = typed("store", "export", *where)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and {"checks", "incidents"} <= {row["table"] for row in rows}
    assert not any({"hash", "salt"} & set(row) for row in rows)


def test_settings_show_prints_every_default_with_its_meaning(typed, tmp_path):
    code, out, _ = typed("settings", "show", "--home", str(tmp_path))
    assert code == 0 and "per_hour: 3               # starts and restarts" in out
    assert "settings.yaml is not there: the defaults are in use" in out


LINE = "2026-05-19 10:15:00,123 ERROR tools.mcp: server 'files' crashed (exit 137) after 3.2s path=/srv/x id=9f86d081"


def test_a_pasted_line_becomes_a_rule_with_two_cases_that_hold(typed, tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    code, out, err = typed(
        "new-rule", LINE, "--config", str(config), "--id", "mcp-crashed", "--in", "agent.log"
    )
    assert code == 0 and "2 cases as expected, 0 not." in out, err
    text = (config / "detect" / "mcp-crashed.yaml").read_text()
    assert "server '[^']*' crashed \\\\(exit [\\\\d.]+\\\\) after [\\\\d.]+s path=\\\\S+ id=\\\\S+" in text
    assert typed("rules", "lint", "--config", str(config))[0] == 0
    other = LINE.replace("137", "1").replace("3.2", "77").replace("files", "mail")
    assert "mcp-crashed" in typed("explain", other, "--config", str(config))[1]
    code, _, err = typed("new-rule", LINE, "--config", str(config), "--id", "mcp-crashed")
    assert code == 2 and "there is a rule 'mcp-crashed' already" in err
    code, _, err = typed("new-rule", LINE, "--config", str(config), "--id", "../x")
    assert code == 2 and "write small letters" in err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("no log line", "begins with a time"),
        ("2026-05-19 10:15:00,123 ERROR x: 42", "too few words"),
    ],
)
def test_a_line_that_can_be_no_rule_says_why(typed, tmp_path, line, says):
    code, _, err = typed("new-rule", line, "--dry-run", "--home", str(tmp_path))
    assert code == 2 and says in err


def test_a_quiet_case_whose_log_cannot_be_read_fails(typed, tmp_path):
    folder = tmp_path / "cases" / "session-stuck" / "quiet-blind"
    folder.mkdir(parents=True)
    (folder / "case.yaml").write_text("now: 2026-05-19 10:41:00\n")
    code, out, _ = typed("rules", "test", "--samples", str(tmp_path / "cases"), "session-stuck")
    assert code == 1 and "session-stuck was not checked" in out


# what a command with --json needs; what is not here needs nothing
JSON_WORDS = {
    ("replay",): ["{home}"],
    ("explain",): ["session-stuck"],
    ("rules", "show"): ["session-stuck"],
    ("rules", "test"): ["session-stuck", "--samples", str(SAMPLES)],
    ("rules", "lines"): ["--from", "{home}/logs/agent.log"],
    ("new-rule",): ["2026-05-19 10:15:00,000 ERROR gateway.run: the cat is on fire"],
    ("db", "check"): ["{home}/kanban.db"],
    ("db", "heal"): ["{home}/state.db", "--dry-run"],
    ("db", "migrate"): ["{home}/kanban.db", "--dry-run"],
    ("db", "backup"): ["{home}/kanban.db"],
    ("silence",): ["session-stuck", "--for", "1h", "--because", "a test"],
    ("unsilence",): ["1"],
    ("install",): ["--cron", "--dry-run"],
    ("uninstall",): ["--dry-run"],
}
# a target, an open plan, another machine or an earlier heal: their own tests ask them
NOT_HERE = {"drill", "plan", "incident", "approve", "refuse", "resume", "abandon", "fleet", "notify"}
NOT_HERE_PARTS = {("db", "undo"), ("db", "accept")}


def json_commands(parser, words=()):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from json_commands(below, (*words, name))
        elif "--json" in action.option_strings:
            yield words, "--home" in parser._option_string_actions


def test_every_command_with_json_prints_json_and_nothing_else(typed, tmp_path):
    home = demo_home.build(tmp_path, datetime.now(UTC))
    wrong = []
    for words, has_home in json_commands(make_parser()):
        if words[0] in NOT_HERE or words in NOT_HERE_PARTS:
            continue
        more = [word.format(home=home) for word in JSON_WORDS.get(words, ())]
        more += ["--home", str(home)] if has_home else []
        code, out, _ = typed(*words, *more, "--json")
        try:
            ends = [json.loads(line) for line in out.splitlines()] if words == ("audit",) else json.loads(out)
            assert ends is not None and code in (0, 1)
        except (ValueError, AssertionError):
            wrong.append((words, code, out[:200]))
    assert wrong == []

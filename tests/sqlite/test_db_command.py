"""The commands: their contract for scripts, their exit codes, their words."""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import inject
import pytest

from watchdog.cli import db


def run(capsys, *args: str) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser(prog="hermes-watchdog")
    db.add_arguments(parser.add_subparsers(required=True))
    code = db.run(parser.parse_args(["db", *args]))
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture(autouse=True)
def no_hermes_here(monkeypatch):
    from watchdog.sqlite import installed

    monkeypatch.setattr(installed, "installed", lambda home=None, python="": None)


def test_check_as_json_is_a_list_with_the_promised_keys(patient, capsys):
    code, out, _ = run(capsys, "check", "--json", str(patient("state")), str(patient("kanban", "magic byte")))
    first, second = json.loads(out)
    assert code == 1
    assert {"path", "grade", "fault", "detail", "sqlite"} <= first.keys()
    assert (first["grade"], second["grade"]) == ("well", "broken")


def test_check_of_a_well_home_is_zero(patient, capsys):
    path = patient("state")
    code, out, _ = run(capsys, "check", "--home", str(path.parent))
    assert code == 0
    assert out.startswith("well")
    assert "\033[" not in out


def test_heal_as_json_is_one_object_with_the_promised_keys(patient, capsys):
    path = patient("state", "leaf page")
    code, out, _ = run(capsys, "heal", "--json", "--yes", str(path))
    report = json.loads(out)
    assert code == 1, "healed, but rows are lost"
    assert (report["before"], report["after"], report["rung"]) == ("damaged", "well", "page scan")
    assert report["tables"]["messages"].keys() >= {"there", "saved", "lost", "reconstructed"}
    assert Path(report["quarantine"]).is_dir()


def test_a_heal_without_loss_is_zero_and_undo_puts_it_back(patient, capsys):
    path = patient("kanban", "first 100 bytes zero")
    damaged = path.read_bytes()
    assert run(capsys, "heal", "--yes", str(path))[0] == 0
    assert run(capsys, "check", "--deep", str(path))[0] == 0
    assert run(capsys, "undo", str(path))[0] == 0
    assert path.read_bytes() == damaged


def test_heal_asks_before_it_acts(patient, capsys):
    path = patient("kanban", "magic byte")
    damaged = path.read_bytes()
    code, _, err = run(capsys, "heal", str(path))
    assert code == 1
    assert "--yes" in err
    assert path.read_bytes() == damaged


def test_a_refusal_is_one_with_the_reason(patient, capsys):
    path = patient("kanban", "magic byte")
    with open(path, "rb") as held:
        child = subprocess.Popen(["sleep", "60"], stdin=held)
    try:
        code, _, err = run(capsys, "heal", "--yes", str(path))
    finally:
        child.kill()
        child.wait()
    assert code == 1
    assert f"process {child.pid} (sleep)" in err


def test_migrate_takes_a_release_and_says_which(tmp_path, capsys):
    path = inject.make(tmp_path / "kanban.db", "kanban", "0.13.0", size=3)
    code, _, err = run(capsys, "migrate", str(path))
    assert (code, "--hermes" in err) == (1, True)
    code, out, _ = run(capsys, "migrate", "--hermes", "0.19.0", str(path))
    assert code == 0
    assert "added tasks.session_id TEXT" in out
    assert "Hermes 0.19.0, known release" in out


def test_backup_writes_a_checked_copy(patient, capsys):
    code, out, _ = run(capsys, "backup", "--json", str(patient("state")))
    assert code == 0
    assert json.loads(out)[0]["ok"] is True


def test_no_file_is_all_of_the_home_or_a_usage_error(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "nowhere"))
    assert run(capsys, "check")[0] == 2
    (tmp_path / "hermes").mkdir()
    sqlite3.connect(tmp_path / "hermes" / "kanban.db").close()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    assert str(tmp_path / "hermes" / "kanban.db") in run(capsys, "check")[1]
    assert run(capsys, "check", "--home", str(tmp_path))[0] == 2


def test_names_with_newlines_stay_on_one_line(patient, capsys):
    path = patient("state")
    odd = path.with_name("a\nb'c.db")
    path.rename(odd)
    code, out, _ = run(capsys, "check", str(odd))
    assert code == 0
    assert len(out.splitlines()) == 3


def test_help_costs_no_heavy_import():
    code = (
        "import sys; import watchdog.cli.db\n"
        "print([name for name in sys.modules if name.startswith('watchdog.sqlite') or name == 'sqlite3'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[]"

"""`hermes-watchdog fleet` where there is no mailbox to talk to."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from watchdog.cli.main import main


def where(tmp_path: Path, settings: str = "") -> list[str]:
    for name in ("home/logs", "config"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / "logs" / "gateway.log").touch()
    path = tmp_path / "config" / "settings.yaml"
    path.write_text(settings)
    path.chmod(0o600)
    return [word for name in ("home", "config", "state") for word in (f"--{name}", str(tmp_path / name))]


@pytest.mark.parametrize("words", [["status"], ["plans"], ["approve", "K7MNPQRS"], ["refuse", "-"], ["init"]])
def test_without_an_address_it_says_where_to_write_one(tmp_path: Path, capsys, words: list[str], monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("K7MNPQRS"))
    assert main(["fleet", *words, *where(tmp_path)]) == 2
    assert "fleet: {postgres: …}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("host=127.0.0.1 port=9 password=hunter2", "refused"),
        ("postgresql://u:hunter2@127.0.0.1:9/x", "refused"),
        ("hunter2 nonsense", "cannot be read"),
        ("host=db.example.org sslmode=prefer password=hunter2", "unencrypted"),
    ],
)
def test_a_mailbox_that_cannot_be_reached_is_told_without_the_password(
    tmp_path: Path, capsys, address: str, told: str
):
    assert main(["fleet", "status", *where(tmp_path, f"fleet: {{postgres: '{address}'}}\n")]) == 2
    said = capsys.readouterr().err
    assert told in said and "hunter2" not in said


def test_metrics_are_printed_after_the_first_check(tmp_path: Path, capsys):
    arguments = where(tmp_path, "backups: false\n")
    assert main(["fleet", "metrics", *arguments]) == 2
    assert "never checked" in capsys.readouterr().err
    main(["check", "--quiet", *arguments])
    capsys.readouterr()
    assert main(["fleet", "metrics", *arguments]) == 0
    assert 'hermes_watchdog_armed{profile="home"} 1.0' in capsys.readouterr().out

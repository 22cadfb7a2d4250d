"""Completion for three shells, made by shtab from the parser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watchdog.cli.completion import script
from watchdog.cli.main import COMMANDS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_its_options_are_known(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert name in text
    for flag in ("home", "dry-run", "systemd-timer", "since"):
        assert flag in text
    if tool := shutil.which(shell):
        done = subprocess.run([tool, "-n"], input=text, text=True, capture_output=True, timeout=20)
        assert done.returncode == 0, done.stderr


def complete(words: list[str], folder: Path) -> list[str]:
    """What bash offers; `hermes-watchdog` itself is this checkout's."""
    program = folder / "hermes-watchdog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watchdog "$@"\n')
    program.chmod(0o755)
    typed = " ".join(f"'{word}'" for word in words)
    asked = (
        f"PATH={folder}:$PATH\n{script('bash')}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}\n"
        "_shtab_hermes_watchdog; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", asked], text=True, capture_output=True, timeout=60, cwd=folder)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["hermes-watchdog", "inst"], "install"),
        (["hermes-watchdog", "install", "--sys"], "--systemd-timer"),
        (["hermes-watchdog", "report", "--format", "ht"], "html"),
        (["hermes-watchdog", "rules", "li"], "lint"),
        (["hermes-watchdog", "status", "--language", "z"], "zh"),
        (["hermes-watchdog", "explain", "session-st"], "session-stuck"),
        (["hermes-watchdog", "rules", "show", "gateway-d"], "gateway-down"),
    ],
)
def test_bash_completes_what_people_type(typed: list[str], expected: str, tmp_path: Path) -> None:
    assert expected in complete(typed, tmp_path)


def test_lists_are_empty_when_there_is_nothing_to_complete(tmp_path, capsys) -> None:
    where = ["--home", str(tmp_path), "--state", str(tmp_path / "state")]
    for name in ("plans", "incidents", "silences"):
        assert main(["completion", "bash", "--list", name, *where]) == 0
        assert capsys.readouterr().out.strip() == ""

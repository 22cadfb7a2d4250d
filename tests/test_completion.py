"""Completion for three shells, made from the parser."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from watchdog.cli import COMMANDS, main, parser
from watchdog.completion import commands, script


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


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["hermes-watchdog", "inst"], "install"),
        (["hermes-watchdog", "install", "--sys"], "--systemd-timer"),
        (["hermes-watchdog", "report", "--format", "ht"], "html"),
        (["hermes-watchdog", "rules", "li"], "lint"),
    ],
)
def test_bash_completes_what_people_type(typed: list[str], expected: str) -> None:
    words = " ".join(f"'{word}'" for word in typed)
    asked = f"{script('bash', parser())}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _hermes_watchdog; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], text=True, capture_output=True, timeout=20)
    assert expected in done.stdout.split(), done.stderr


def test_every_command_has_a_line_of_help() -> None:
    assert all(one.says for one in commands(parser()))

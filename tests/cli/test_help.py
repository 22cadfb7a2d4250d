"""What --help promises: every example is a command line that the program understands."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from watchdog.cli.main import COMMANDS, main, overview
from watchdog.cli.parser import make_parser


def examples() -> list[str]:
    commands = next(
        action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    texts = [overview(), *(one.epilog or "" for one in commands.choices.values())]
    return sorted(
        {
            line.strip()
            for text in texts
            for line in text.splitlines()
            if line.strip().startswith("hermes-watchdog ")
        }
    )


@pytest.mark.parametrize("line", examples())
def test_an_example_is_understood(line: str) -> None:
    # Words for people follow after two spaces, or begin with a capital; what is piped elsewhere is not ours.
    command = re.split(r"\s{2,}|\s[|>]\s|\s(?=[A-Z][\w']*[a-z]['\w]* )", line)[0]
    arguments = make_parser().parse_args(shlex.split(command)[1:])
    assert callable(arguments.run)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_with_an_example(name: str) -> None:
    commands = next(
        action for action in make_parser(name)._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert f"hermes-watchdog {name}" in (commands.choices[name].epilog or "")


def test_help_may_be_asked_for_as_a_word(capsys):
    assert main(["help"]) == 0
    assert capsys.readouterr().out == overview()
    with pytest.raises(SystemExit) as ended:
        main(["help", "replay"])
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("usage: hermes-watchdog replay")

"""The argument parser, for every call but the one that cron makes all day."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from watchdog import __version__
from watchdog.cli import COMMANDS, EXAMPLES


class Teacher(argparse.ArgumentParser):
    """An argument parser whose errors say what to write instead."""

    def error(self, message: str) -> None:  # type: ignore[override]
        from difflib import get_close_matches

        if "invalid choice" in message:
            word = message.partition("invalid choice: ")[2].split(" ")[0].strip("'\"")
            near = get_close_matches(word, COMMANDS, n=1)
            if near and self.prog == "hermes-watchdog":
                message = f"there is no command '{word}'; did you mean '{near[0]}'?"
        self.exit(2, f"{self.prog}: {message}\nTry '{self.prog} --help'.\n")


def make_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser for one command, or for all of them (for --help)."""
    top = Teacher(
        prog="hermes-watchdog",
        description="Reads what the Hermes gateway left behind, decides what is wrong, proposes the exact fix, "
        "does it only when allowed, checks that it worked, and tells a person.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hermes-watchdog {__version__}")
    commands: Any = top.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Teacher)
    modules = [COMMANDS[wanted][0]] if wanted else dict.fromkeys(module for module, _ in COMMANDS.values())
    for name in modules:
        import_module(f"watchdog.cli.{name}").add_arguments(commands)
    return top

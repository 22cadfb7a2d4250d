"""demo: the whole story on a gateway of its own in a temporary folder."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from watchdog.cli.context import colours
from watchdog.cli.main import main
from watchdog.cli.parser import add_command
from watchdog.demo.story import Stage, run

EXAMPLES = """\
Nothing outside the temporary folder is touched, and it is removed afterwards.

examples:
  hermes-watchdog demo
  hermes-watchdog demo --fast               without pauses for reading
  hermes-watchdog demo --keep               keep the folder for a look around"""


def add_arguments(commands: Any) -> None:
    demo = add_command(commands, "demo", run_demo, EXAMPLES)
    demo.add_argument("--fast", action="store_true", help="no pauses for reading")
    demo.add_argument("--keep", action="store_true", help="keep the temporary folder")


def run_demo(args: argparse.Namespace) -> int:
    pause = 0.0 if args.fast or not sys.stdout.isatty() else 0.7
    return run(Stage(main, colours(), pause), args.keep)

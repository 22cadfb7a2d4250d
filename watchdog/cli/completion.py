"""completion: scripts for bash, zsh and fish, made by shtab from the parser; plan numbers and the like are asked for."""

from __future__ import annotations

import argparse
from typing import Any

import shtab

from watchdog.cli.command import choice, command
from watchdog.cli.context import WELL, job_of
from watchdog.cli.parser import make_parser
from watchdog.errors import PROGRAM, WatchdogError
from watchdog.job import Job
from watchdog.store import plans as rows
from watchdog.store.incidents import all_incidents
from watchdog.store.messages import silences

SHELLS = ("bash", "zsh", "fish")
LISTS = ("rules", "plans", "incidents", "silences")

# What stands for what in the help, and which list completes it.
METAVARS = {
    "DIR": shtab.DIRECTORY,
    "FILE": shtab.FILE,
    "PATH": shtab.FILE,
    "RULE": "rules",
    "RULE|KEY": "rules",
    "RULE|LINE": "rules",
    "PLAN": "plans",
    "INCIDENT": "incidents",
    "SILENCE": "silences",
}


@command(
    "completion",
    choice("shell", SHELLS, "for which shell", metavar="|".join(SHELLS)),
    # Called by the scripts themselves; the home is that of the environment.
    choice("--list", LISTS, argparse.SUPPRESS),
    json=False,
)
def run(args: argparse.Namespace) -> int:
    """
    Knows commands, options, files, your rules, and the numbers of plans, incidents and silences. Codes are not completed:
    only their hashes are stored.

    examples:
      source <(hermes-watchdog completion bash)          for this shell; put it into ~/.bashrc to keep it
      source <(hermes-watchdog completion zsh)
      hermes-watchdog completion fish > ~/.config/fish/completions/hermes-watchdog.fish
    """
    if args.list:
        print("\n".join(candidates(args.list, job_of(args))))
    else:
        print(script(args.shell), end="")
    return WELL


def candidates(wanted: str, job: Job) -> list[str]:
    """What may stand here; nothing when it cannot be read, because a shell is no place for an error."""
    try:
        if wanted == "rules":
            return [rule.id for rule in job.book.rules]
        store = job.look_at_store()
        if store is None:
            return []
        if wanted == "plans":
            return [str(stored.id) for stored in rows.newest(store, 30)]
        if wanted == "incidents":
            return [str(incident.id) for incident in all_incidents(store)][-30:]
        return [str(silence.id) for silence in silences(store, job.now)]
    except WatchdogError:
        return []


def script(shell: str) -> str:
    """The completion script of one shell."""
    parser = make_parser()
    _mark(parser)
    functions = "\n".join(
        f"_hermes_watchdog_{name}() {{\n"
        + (
            f'  compgen -W "$({PROGRAM} completion bash --list {name} 2>/dev/null)" -- "$1"\n}}'
            if shell == "bash"
            else f'  local -a found=(${{(f)"$({PROGRAM} completion zsh --list {name} 2>/dev/null)"}})\n  compadd -a found\n}}'
        )
        for name in LISTS
    )
    text = shtab.complete(parser, shell, preamble="" if shell == "fish" else functions)
    # shtab's zsh script is written for a file in $fpath; sourced, it must register itself.
    return text.rstrip("\n") + "\n"


def _mark(parser: argparse.ArgumentParser) -> None:
    """Tell shtab what completes each argument, by the word that stands for it in the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                _mark(part)
        elif isinstance(action.metavar, str) and action.metavar in METAVARS:
            action.complete = _completer(METAVARS[action.metavar])  # type: ignore[attr-defined]


def _completer(wanted: Any) -> dict[str, str]:
    if not isinstance(wanted, str):
        return dict(wanted)
    return {
        "bash": f"_hermes_watchdog_{wanted}",
        "zsh": f"_hermes_watchdog_{wanted}",
        "fish": f"({PROGRAM} completion fish --list {wanted} 2>/dev/null)",
    }

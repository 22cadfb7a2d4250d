"""Arguments in, exit code out. Only the module of the wanted command is loaded: cron pays for nothing else."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import SimpleNamespace

from watchdog import __version__, reports
from watchdog.errors import PROGRAM, ConfigError, WatchdogError
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

# Which module of this package knows a command, and its line in --help.
COMMANDS = {
    "setup": ("setup", "first steps: find the gateway, choose a phone, schedule checks, try a question"),
    "check": ("check", "look once and say what is wrong; this is what cron runs"),
    "status": ("status", "one traffic light: gateway, checks, open problems, plans, backups"),
    "replay": ("check", "old logs in their own time: what would have been found"),
    "explain": ("explain", "why a rule fires or does not; what a log line means to the rules"),
    "rules": ("rules", "list, show, lint and test the rules"),
    "new-rule": ("rules", "write a rule and its two test cases from a pasted log line"),
    "incidents": ("incidents", "what was found over time"),
    "incident": ("incidents", "one incident, with its evidence"),
    "plans": ("plans", "what is proposed, asked, on hold and done"),
    "plan": ("plans", "one plan: its exact steps, and a code to approve it"),
    "approve": ("plans", "say yes to a plan; it is carried out at once"),
    "refuse": ("plans", "say no to a plan"),
    "arm": ("plans", "let the watchdog act again"),
    "disarm": ("plans", "watch and notify only, until armed again"),
    "resume": ("plans", "continue a plan that was interrupted"),
    "abandon": ("plans", "give up a plan that was interrupted"),
    "audit": ("store", "who did what, when and why"),
    "db": ("db", "check, heal, back up and migrate a database"),
    "notify": ("notify", "where messages go; --test sends a real one to each target"),
    "silence": ("notify", "no messages about a rule or a key for a while"),
    "silences": ("notify", "what is silenced, until when, and who did it"),
    "unsilence": ("notify", "end a silence"),
    "maintenance": ("notify", "no messages, questions or actions for a while"),
    "drill": ("setup", "a harmless real question to your phone, answered end to end"),
    "settings": ("setup", "show every setting with its default and meaning"),
    "fleet": ("fleet", "many gateways: status, plans and answers through PostgreSQL"),
    "report": ("incidents", "what happened over days: text, Markdown, HTML, JSON"),
    "run": ("service", "checks on a clock of its own, until stopped"),
    "serve": ("service", "the status page, live, on this machine; answer plans there"),
    "install": ("service", "schedule checks: cron, systemd timer or service"),
    "uninstall": ("service", "remove that schedule"),
    "doctor": ("status", "can the watchdog see, act, remember and notify here?"),
    "store": ("store", "check, repair or export the watchdog's own memory"),
    "demo": ("setup", "a broken gateway found, asked about, healed; 20 seconds"),
    "completion": ("completion", "tab completion for bash, zsh and fish"),
}

EXAMPLES = """\
first steps:
  hermes-watchdog setup                      a few questions, then it watches
  hermes-watchdog check --dry-run            look at ~/.hermes and change nothing
  hermes-watchdog replay ~/.hermes           what would have been found in the logs so far
  hermes-watchdog explain session-stuck      why it fires, or how far from firing it is

exit codes: 0 well · 1 something is wrong · 2 bad configuration or arguments · 3 watchdog failed
"""

WHERE = {"--home": "home", "--config": "config", "--state": "state"}


def entry() -> None:
    """The console script. A command runs for a moment: memory is left for the end of the process to free."""
    gc.set_threshold(200_000)
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    # Modules that brought something to do at the end, and threads that are still at work, get the usual end.
    threading = sys.modules.get("threading")
    at_work = threading is not None and any(
        not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
    )
    if not at_work and not sys.modules.keys() & {"atexit", "multiprocessing"}:
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 well, 1 something is wrong, 2 bad configuration or arguments, 3 our fault."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"], ["-v"], ["version"]):
        print(f"hermes-watchdog {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets a '?', not a traceback.
        if getattr(stream, "encoding", None) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if words[:1] == ["help"]:  # as people type it
        words = [*words[1:], "--help"]
    if not words or words in (["--help"], ["-h"]):
        print(overview(), end="")
        return 0
    arguments = plain_check(words) or parsed(words)
    return guarded(arguments)


def overview() -> str:
    """`--help` of the whole, without loading a single command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return (
        "usage: hermes-watchdog COMMAND [options]\n\n"
        "Reads what the Hermes gateway left behind, decides what is wrong, proposes the exact fix,\n"
        "does it only when allowed, checks that it worked, and tells a person.\n\n"
        "commands (every command has --help):\n" + "\n".join(lines) + "\n\n"
        "options:\n  --help     this page\n  --version  which version this is\n\n" + EXAMPLES
    )


def plain_check(words: list[str]) -> SimpleNamespace | None:
    """What cron writes, `check --quiet --home DIR …`, read without argparse, which takes a tenth of a check.

    None for anything else.
    """
    if words[:1] != ["check"]:
        return None
    given = SimpleNamespace(
        command="check", now=None, all_profiles=False, quiet=False, dry_run=False, json=False
    )
    given.home = given.config = given.state = given.language = None
    rest = iter(words[1:])
    for word in rest:
        if word in ("--quiet", "--dry-run", "--json"):
            setattr(given, word[2:].replace("-", "_"), True)
        elif word in WHERE and (value := next(rest, "-")) and not value.startswith("-"):
            setattr(given, WHERE[word], value)
        else:
            return None
    given.run = module("check").run_check
    return given


def module(name: str) -> SimpleNamespace:
    """The one place where a command's module is loaded: a command pays for its own imports and for no other's."""
    return import_module(f"watchdog.cli.{name}")  # type: ignore[return-value]


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments as argparse reads them; a mistake ends the program with exit code 2 and a hint."""
    result: argparse.Namespace = module("parser").parse(words)
    return result


def guarded(arguments: argparse.Namespace | SimpleNamespace) -> int:
    """The exit code of the command; what can go wrong becomes a message and an exit code."""
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except WatchdogError as error:
        print(f"hermes-watchdog: {error.calling(_command(arguments))}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nothing is lost
        return 0
    except KeyboardInterrupt:
        print(
            "hermes-watchdog: interrupted; if a plan was being carried out, the next check says where it stopped",
            file=sys.stderr,
        )
        return 130
    except Exception as error:
        if (sqlite3 := sys.modules.get("sqlite3")) and isinstance(error, sqlite3.Error):
            command = _command(arguments)
            print(
                f"hermes-watchdog: the watchdog's own memory cannot be used: {error}; look at it with: "
                f"{command} store check, and start anew with: {command} store repair",
                file=sys.stderr,
            )
            return 3
        sys.excepthook(*sys.exc_info())
        print(
            "hermes-watchdog: this is a fault of the watchdog itself; please report the lines above",
            file=sys.stderr,
        )
        return 3


def _command(arguments: argparse.Namespace | SimpleNamespace) -> str:
    """How a person calls this watchdog for the home of these arguments."""
    try:
        return str(reports.command_of(module("context").job_of(arguments)))
    except WatchdogError:
        return PROGRAM

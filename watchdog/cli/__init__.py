"""Arguments in, exit code out. Only the module of the wanted command is loaded, so that cron pays for nothing else."""

from __future__ import annotations

import gc
import os
import sys
from types import SimpleNamespace

from watchdog import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

# Which module of this package knows a command, and its line in --help.
COMMANDS = {
    "check": ("check", "one pass: what is wrong now; what cron runs"),
    "replay": ("check", "old logs in their own time: what would have been found"),
    "explain": ("explain", "why a rule fires or does not; what a log line means to the rules"),
    "rules": ("rules", "list, show, lint and test the rules"),
    "incidents": ("incidents", "what was found over time"),
    "incident": ("incidents", "one of them, with its evidence"),
    "plans": ("plans", "what is proposed, asked, done"),
    "plan": ("plans", "one plan: its exact steps, and a code to approve it"),
    "approve": ("plans", "say yes to a plan; it is carried out at once"),
    "refuse": ("plans", "say no to a plan"),
    "arm": ("plans", "let the watchdog act again"),
    "disarm": ("plans", "let it only watch and tell"),
    "resume": ("plans", "go on with a plan that was cut off"),
    "abandon": ("plans", "leave a plan that was cut off"),
    "audit": ("plans", "who did what, when and why"),
    "db": ("db", "check, heal, back up and migrate a database"),
    "notify": ("notify", "who is told; --test sends a real message to each"),
    "silence": ("notify", "say nothing about a rule or a key for a while"),
    "silences": ("notify", "what is silenced, by whom and until when"),
    "unsilence": ("notify", "hear of it again"),
    "maintenance": ("notify", "planned work: tell, ask and do nothing for a while"),
    "run": ("daily", "checks on a clock of its own, until stopped"),
    "status": ("daily", "last and next check, what is open, armed or not"),
    "report": ("daily", "what happened over days: text, Markdown, HTML, JSON"),
    "install": ("daily", "make checks happen: cron, systemd timer or service"),
    "uninstall": ("daily", "take that away again"),
    "doctor": ("daily", "can the watchdog see, act, remember and tell here?"),
    "demo": ("daily", "a broken gateway found, asked about, healed; 20 seconds"),
    "completion": ("daily", "completion for bash, zsh and fish"),
}

EXAMPLES = """\
first steps:
  hermes-watchdog check --dry-run            look at ~/.hermes and touch nothing
  hermes-watchdog replay ~/.hermes           what would have been found in the logs so far
  hermes-watchdog explain session-stuck      why it fires, or how far from firing it is
  hermes-watchdog check                      the same and remember; put this into cron

exit codes: 0 well · 1 something is wrong · 2 the configuration or the arguments are · 3 the watchdog is
"""


def parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser for one command, or for all of them (for --help)."""
    from watchdog.cli.parsing import make_parser

    return make_parser(wanted)


def plain_check(argv: list[str]) -> SimpleNamespace | None:
    """What cron writes, `check --quiet --home DIR …`, read by hand; None for anything that needs a real parser."""
    if argv[:1] != ["check"]:
        return None
    flags = {"--quiet": "quiet", "--dry-run": "dry_run", "--json": "json"}
    places = {"--home": "home", "--config": "config", "--state": "state"}
    given = SimpleNamespace(
        command="check", now=None, all_profiles=False, **dict.fromkeys(flags.values(), False), **dict.fromkeys(places.values())
    )
    words = iter(argv[1:])
    for word in words:
        if word in flags:
            setattr(given, flags[word], True)
        elif word in places and (value := next(words, "-")) and not value.startswith("-"):
            setattr(given, places[word], value)
        else:
            return None
    from watchdog.cli.check import run_check

    given.run = run_check
    return given


def entry() -> None:
    """The console script: a command lives for a moment, so nothing is tidied that the end of the process tidies anyway."""
    gc.set_threshold(50_000)
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    # Whatever brought threads or something to do at the end gets the usual end.
    if not sys.modules.keys() & {"threading", "atexit", "multiprocessing"}:
        os._exit(code)
    sys.exit(code)


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 well, 1 something is wrong, 2 the configuration is, 3 the watchdog is."""
    argv = sys.argv[1:] if argv is None else argv
    if argv in (["--version"], ["-V"]):
        print(f"hermes-watchdog {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets a '?', not a traceback.
        if getattr(stream, "encoding", None) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if argv[:1] == ["help"]:  # as people type it
        argv = [*argv[1:], "--help"]
    wanted = next((word for word in argv if not word.startswith("-")), None)
    if not argv or argv in (["--help"], ["-h"]):
        print(overview(), end="")
        return 0
    arguments = plain_check(argv) or parser(wanted if wanted in COMMANDS else None).parse_args(argv)
    if not getattr(arguments, "run", None):
        print(overview(), end="")
        return 2
    return guarded(arguments)


def overview() -> str:
    """`--help` of the whole, without loading a single command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {says}" for name, (_, says) in COMMANDS.items()]
    return (
        "usage: hermes-watchdog COMMAND [options]\n\n"
        "Reads what the Hermes gateway left behind, decides what is wrong, proposes the exact fix,\n"
        "does it only when allowed, checks that it worked, and tells a person.\n\n"
        "commands ('hermes-watchdog COMMAND --help' teaches each):\n" + "\n".join(lines) + "\n\n"
        "options:\n  --help     this page\n  --version  which version this is\n\n" + EXAMPLES
    )


def guarded(arguments: argparse.Namespace | SimpleNamespace) -> int:
    """Run the command; turn what can go wrong into a message and an exit code."""
    from watchdog.errors import ConfigError, WatchdogError

    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except WatchdogError as error:
        print(f"hermes-watchdog: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nothing is lost
        return 0
    except KeyboardInterrupt:
        print("hermes-watchdog: interrupted; if a plan was being carried out, the next check tells where it stopped", file=sys.stderr)
        return 130
    except Exception:
        import traceback

        traceback.print_exc()
        print("hermes-watchdog: this is a fault of the watchdog itself; please report the lines above", file=sys.stderr)
        return 3

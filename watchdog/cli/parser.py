"""The argument parser: every command with its options, and hints for words that are no command."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from watchdog import __version__
from watchdog.cli import command
from watchdog.cli.main import COMMANDS, WHERE, module, overview
from watchdog.errors import PROGRAM, WatchdogError
from watchdog.notify.context import own_command

# Commands whose first word is a command of its own.
PARTS = {
    "rules": ("list", "show", "lint", "test", "lines"),
    "db": ("check", "heal", "undo", "migrate", "backup", "accept"),
    "store": ("check", "repair", "export"),
    "settings": ("show",),
    "fleet": ("init", "status", "plans", "approve", "refuse", "metrics"),
}

# What people type who have not read --help, and what they are probably looking for.
HINTS = {
    ("log", "logs", "tail"): "what the logs mean: hermes-watchdog incidents, or hermes-watchdog replay ~/.hermes; "
    "the logs themselves are in ~/.hermes/logs",
    ("restart", "reload", "kill", "gateway"): "the watchdog restarts the gateway only by a plan that you approve: "
    "hermes-watchdog plans. What runs it here, to do it yourself: hermes-watchdog doctor",
    ("start", "daemon", "watch", "monitor"): "to watch in this terminal: hermes-watchdog run; "
    "to watch always: hermes-watchdog install --cron. The gateway itself: hermes gateway run",
    ("stop", "disable", "quit"): "no more checks: hermes-watchdog uninstall; watch but do not act: "
    "hermes-watchdog disarm; a pause: hermes-watchdog maintenance on --for 2h",
    ("pause", "mute", "snooze", "ack"): "for one rule: hermes-watchdog silence RULE --for 2h --because WHY; "
    "for everything: hermes-watchdog maintenance on --for 2h",
    ("enable", "schedule", "cron", "timer"): "hermes-watchdog install --cron",
    ("config", "configure", "configuration", "setting", "options", "set", "edit"): "every setting and its default: "
    "hermes-watchdog settings show; a guided start: hermes-watchdog setup; to edit yours: hermes-watchdog doctor names the file",
    ("init", "wizard", "onboard"): "hermes-watchdog setup",
    ("heal", "repair", "fix", "recover"): "a database: hermes-watchdog db heal FILE --dry-run; "
    "the watchdog's own memory: hermes-watchdog store repair; a proposed plan: hermes-watchdog approve",
    ("undo", "rollback", "revert"): "hermes-watchdog db undo FILE puts back what a heal replaced",
    ("backup", "backups"): "hermes-watchdog db backup --home ~/.hermes; the newest ones: hermes-watchdog status",
    ("migrate",): "hermes-watchdog db migrate FILE --dry-run",
    ("yes", "accept", "allow", "confirm", "ok", "do"): "hermes-watchdog approve shows the plan and asks",
    ("no", "deny", "reject", "decline", "cancel"): "hermes-watchdog refuse CODE",
    ("list", "ls", "show", "problems", "alerts", "events"): "hermes-watchdog incidents, plans, or rules list",
    ("history", "stats", "summary", "week"): "hermes-watchdog report --since 7d",
    ("test", "ping", "try"): "a message to each target: hermes-watchdog notify --test; a whole question: "
    "hermes-watchdog drill; the rules: hermes-watchdog rules test",
    ("lint", "validate", "verify"): "hermes-watchdog rules lint, or audit",
    ("health", "info", "state", "ps"): "hermes-watchdog status",
    ("diagnose", "debug", "why"): "hermes-watchdog doctor, or explain RULE",
    ("page", "dashboard", "html", "web", "ui"): "live: hermes-watchdog serve; a file after each check: page: in the settings; "
    "once: hermes-watchdog status --html status.html",
    ("server", "port", "listen"): "hermes-watchdog serve",
    ("update", "upgrade"): "pipx upgrade hermes-watchdog, or: uv tool upgrade hermes-watchdog",
    ("remove", "delete"): "hermes-watchdog uninstall, or unsilence ID",
    ("rule",): "hermes-watchdog rules show ID, or new-rule 'LINE'",
    ("silenced",): "hermes-watchdog silences",
    ("message", "send", "target", "targets"): "hermes-watchdog notify --test",
}  # fmt: skip


# Options that people guess, and what the option is called here.
ACTING = ("--fix", "--repair", "--apply", "--force", "--auto")
SYNONYMS = {
    **dict.fromkeys(("--reason", "--why", "--comment", "--message"), ("--because",)),
    **dict.fromkeys(("--from", "--days", "--last", "--hours"), ("--since", "--now")),
    **{
        name: (f"--format {form}",)
        for name, form in (("--html", "html"), ("--markdown", "markdown"), ("--md", "markdown"))
    },
    "--send": ("--test",),
    **dict.fromkeys(("--port", "--bind", "--address"), ("--listen",)),
    **dict.fromkeys(("--duration", "--until"), ("--for",)),
    **dict.fromkeys(("--profile", "--dir", "--path"), ("--home",)),
    **dict.fromkeys(("--out", "--file"), ("--output",)),
    **dict.fromkeys(("--at", "--time"), ("--now",)),
}

PART_SYNONYMS = {
    **dict.fromkeys(("repair", "fix", "recover", "rebuild"), "heal"),
    **dict.fromkeys(("restore", "rollback", "revert"), "undo"),
    **dict.fromkeys(("upgrade", "update"), "migrate"),
    **dict.fromkeys(("start", "yes"), "on"),
    **dict.fromkeys(("stop", "end", "no"), "off"),
}
INSTEAD = {  # (command, option): what to do without it
    **{
        ("uninstall", kind): "it removes whatever is installed"
        for kind in ("--cron", "--systemd-timer", "--daemon")
    },
    ("run", "--once"): "one check: {program} check",
}
NUMBERS = {
    "PLAN": "plans",
    "INCIDENT": "incidents",
    "SILENCE": "silences",
    "RULE": "rules list",
}  # what lists them

# What argparse says, and what people understand.
_BETTER = (
    (r"^the following arguments are required: (\S+)$", r"\1 is missing"),
    (r"^argument (\S+): invalid int value: (.*)$", r"\1: \2 is not a whole number"),
    (r"^the following arguments are required: (.*)$", r"missing: \1"),
    (r"^one of the arguments (.*) is required$", r"write one of \1"),
    (r"^argument (\S+): expected one argument$", r"\1 needs a value"),
    (r"^argument \S+: (?='.*' is not)", ""),
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors say what to write instead."""

    def error(self, message: str) -> None:  # type: ignore[override]
        for pattern, better in _BETTER:
            message = re.sub(pattern, better, message)
        if (what := message.removesuffix(" is missing")) in NUMBERS:
            message += f"; see: {program()} {NUMBERS[what]}"
        if self._subparsers is not None and message.endswith(" is missing"):
            parts = PARTS[self.prog.rpartition(" ")[2]]
            message = f"write {'one of ' * (len(parts) > 1)}{', '.join(parts)}"
        self.exit(2, f"{self.prog}: {message}\nTry '{self.prog.replace(PROGRAM, program(), 1)} --help'.\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, but what a command does not know is its own mistake, with its own help.

        A misspelt option comes before what is missing: it is probably what was meant.
        """
        known = self._option_string_actions
        for word in (args or []) if self._subparsers is None else []:
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                self.error(self._not_known(name))
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._not_known(unknown[0]))
        return found, unknown

    def _not_known(self, word: str) -> str:
        if not word.startswith("-"):
            command = self.prog.rpartition(" ")[2].removesuffix("s")
            instead = (
                f"; did you mean '{command} {word}'?"
                if word.isdigit() and command in ("plan", "incident")
                else ""
            )
            if f"--{word}" in self._option_string_actions:
                instead = f"; did you mean '--{word}'?"
            return f"'{word}' is one word too many{instead}"
        name = word.partition("=")[0]
        if why := INSTEAD.get((self.prog.rpartition(" ")[2], name)):
            return f"there is no option '{name}'; {why.format(program=program())}"
        if name in ACTING:
            return f"there is no option '{name}'; what is proposed: {program()} plans; to say yes: {program()} approve"
        own = [option for option in self._option_string_actions if option.startswith("--")]
        near = [option for option in SYNONYMS.get(name, ()) if option.partition(" ")[0] in own]
        near = near or _nearest(name, own, 0.7)
        instead = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(own)}"
        return f"there is no option '{name}'; {instead}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            near = [part for part in (PART_SYNONYMS.get(str(value)),) if part in choices]
            near = near or _nearest(str(value), choices)
            if choices == ["show"] and not near:  # of settings: a file, which people edit
                self.error(
                    f"there is no '{value}' here; see: {program()} settings show; yours are in settings.yaml"
                )
            if "on" in choices and re.fullmatch(r"\d+[smhd]", str(value)):
                near = [f"on --for {value}"]
            instead = (
                f"did you mean '{near[0]}'?"
                if near
                else f"write {'one of ' * (len(choices) > 1)}{', '.join(choices)}"
            )
            self.error(f"there is no '{value}' here; {instead}")


def _nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The word that was meant, if any is near; before all others one whose letters are the same: 'lnit' is 'lint'."""
    near = get_close_matches(word, known, cutoff=cutoff)
    return sorted(near, key=lambda other: sorted(other) != sorted(word))[:1]


def parse(words: list[str]) -> argparse.Namespace:
    """The arguments of one command; exits with 2 and a hint when they cannot be understood."""
    words = command_first(words)
    first = words[0]
    if first.partition("=")[0] in WHERE:
        _refuse("the command is missing")
    if not first.startswith("-") and first not in COMMANDS:
        _refuse(hint(first))
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        near = get_close_matches(first, ("--help", "--version"), n=1)
        _refuse(f"there is no option '{first}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    return make_parser(first if first in COMMANDS else None).parse_args(words)


def _refuse(message: str) -> NoReturn:
    print(f"{PROGRAM}: {message}\nTry '{program()} --help'.", file=sys.stderr)
    sys.exit(2)


def make_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser for one command, or for all of them."""
    top = Parser(prog=PROGRAM)
    top.print_help = lambda file=None: print(overview(), end="")  # type: ignore[method-assign]
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands: Any = top.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser, required=True
    )
    for name in [wanted] if wanted else COMMANDS:
        add_command(commands, name, COMMANDS[name][1])
    return top


def add_command(commands: Any, name: str, about: str) -> None:
    """A command as its module notes it, or a part of one (`rules list`), with its options and its help."""
    named = module(COMMANDS[name.split()[0]][0])
    if hasattr(named, "add_arguments"):
        named.add_arguments(commands)
        return
    known = command.COMMANDS[name]
    made: argparse.ArgumentParser = commands.add_parser(
        name.split()[-1],
        help=about,
        description=known.about if name in PARTS and known.about else about[0].upper() + about[1:] + ".",
        epilog=known.text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if parts := PARTS.get(name):
        below = made.add_subparsers(dest="part", metavar="|".join(parts), required=True)
        for part in parts:
            add_command(below, f"{name} {part}", command.COMMANDS[f"{name} {part}"].about)
        return
    made.set_defaults(run=known.run)
    for option in known.options:
        if isinstance(option, command.OneOf):
            group = made.add_mutually_exclusive_group(required=option.required)
            for alternative in option.options:
                _add(group, alternative)
        else:
            _add(made, option)
    if known.where:
        where = made.add_argument_group("where")
        for option in command.WHERE:
            _add(where, option)
        for option in (command.LANGUAGE, command.JSON)[: 1 + known.json]:
            _add(made, option)


def _add(parser: Any, option: command.Option) -> None:
    more = dict(option.more)
    if "type" in more:
        more["type"] = _read_by(more["type"])
    parser.add_argument(option.name, **more)


def _read_by(read: Callable[[str], object]) -> Callable[[str], object]:
    """What a word means; a mistake is told as argparse tells its own."""

    def reading(text: str) -> object:
        try:
            return read(text)
        except WatchdogError as error:
            raise argparse.ArgumentTypeError(error.calling(program())) from None

    return reading


def command_first(words: list[str]) -> list[str]:
    """The same words with the command (and its part, `rules list`) in front: options may stand before it."""
    bare = _bare(words)
    if not bare:
        return words
    first = next((place for place in bare if words[place] in COMMANDS), bare[0])
    rest = words[:first] + words[first + 1 :]
    part = next(iter(_bare(rest)), None)
    if part is not None and rest[part] in PARTS.get(words[first], ()):
        rest = [rest[part], *rest[:part], *rest[part + 1 :]]
    if part is None and words[first] in PARTS and not {"-h", "--help"} & set(rest):
        rest = []  # what is missing is the part, whatever options are there
    return [words[first], *rest]


def _bare(words: list[str]) -> list[int]:
    """Where words stand that are neither an option nor the value of --home, --config or --state."""
    return [
        place
        for place, word in enumerate(words)
        if not word.startswith("-") and (place == 0 or words[place - 1] not in WHERE)
    ]


def program() -> str:
    """How this program is called: by its name where that is found, else by its path."""
    return own_command("", "", "").program


def hint(word: str) -> str:
    """What to type instead of a word that is no command."""
    for guesses, instead in HINTS.items():
        if word.lower() in guesses:
            return f"there is no command '{word}'; {instead.replace(PROGRAM, program())}"
    near = _nearest(word, COMMANDS)
    return f"there is no command '{word}'" + (f"; did you mean '{near[0]}'?" if near else "")

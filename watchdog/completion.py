"""Completion scripts for bash, zsh and fish, made from the parser itself, so that they never lag behind it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

SHELLS = ("bash", "zsh", "fish")
FILES = ("DIR", "FILE", "PATH", "DB")  # metavars that a path may stand for


@dataclass(frozen=True)
class Option:
    flags: tuple[str, ...]
    says: str
    choices: tuple[str, ...]
    value: str  # metavar; '' for a flag


@dataclass(frozen=True)
class Command:
    name: str
    says: str
    options: tuple[Option, ...]
    words: tuple[str, ...]  # choices of positional arguments, subcommands among them


def commands(parser: argparse.ArgumentParser) -> list[Command]:
    """Every command with its options, read from the parser."""
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    return [_command(name, helps.get(name, ""), one) for name, one in subparsers.choices.items()]


def _command(name: str, says: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if action.option_strings:
            value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
            options.append(Option(tuple(action.option_strings), (action.help or "").split(";")[0].split("(")[0].strip(), choices, value))
        else:
            words += choices
            if isinstance(action, argparse._SubParsersAction):
                options += [one for sub in action.choices.values() for one in _command("", "", sub).options]
    unique = {one.flags: one for one in options}
    return Command(name, says, tuple(unique.values()), tuple(words))


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    known = commands(parser)
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](known)


def bash(known: list[Command]) -> str:
    cases, values = [], set()
    for one in known:
        words = " ".join([*one.words, *(flag for option in one.options for flag in option.flags)])
        cases.append(f"    {one.name}) words='{words}' ;;")
        values |= {(flag, option.choices) for option in one.options if option.choices for flag in option.flags}
    chosen = "\n".join(
        f"    {flag}) COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$cur\")); return ;;" for flag, choices in sorted(values)
    )
    names = " ".join(one.name for one in known)
    return f"""\
# bash completion for hermes-watchdog; use it with: source <(hermes-watchdog completion bash)
_hermes_watchdog() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words
  case $prev in
{chosen}
    --home|--config|--state|--output) COMPREPLY=($(compgen -f -- "$cur")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{names} --help --version' -- "$cur")); return
  fi
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _hermes_watchdog hermes-watchdog
"""


def zsh(known: list[Command]) -> str:
    def plain(text: str) -> str:
        return text.replace("'", "’").replace("[", "(").replace("]", ")").replace(":", " ")

    names = "\n".join(f"    '{one.name}:{plain(one.says)}'" for one in known)
    cases = []
    for one in known:
        specs = []
        for option in one.options:
            for flag in option.flags:
                value = (
                    f":{option.value}:({' '.join(option.choices)})" if option.choices else f":{option.value}:_files" if option.value else ""
                )
                specs.append(f"'{flag}[{plain(option.says)}]{value}'")
        if one.words:
            specs.append(f"'1:what:({' '.join(one.words)})'")
        cases.append(f"    {one.name}) _arguments {' '.join(specs)} '*:file:_files' ;;")
    return f"""\
#compdef hermes-watchdog
# zsh completion for hermes-watchdog; use it with: source <(hermes-watchdog completion zsh)
_hermes_watchdog() {{
  local -a names
  names=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command names
    return
  fi
  local name=$words[2]
  shift words; (( CURRENT-- ))
  case $name in
{chr(10).join(cases)}
  esac
}}
compdef _hermes_watchdog hermes-watchdog
"""


def fish(known: list[Command]) -> str:
    def plain(text: str) -> str:
        return text.replace("\\", "\\\\").replace("'", "\\'")

    lines = ["# fish completion for hermes-watchdog; use it with: hermes-watchdog completion fish | source"]
    for one in known:
        lines.append(f"complete -c hermes-watchdog -n __fish_use_subcommand -a {one.name} -d '{plain(one.says)}'")
        seen = f"-n '__fish_seen_subcommand_from {one.name}'"
        for word in one.words:
            lines.append(f"complete -c hermes-watchdog {seen} -a '{plain(word)}'")
        for option in one.options:
            names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if option.value else ""
            lines.append(f"complete -c hermes-watchdog {seen} {names}{value} -d '{plain(option.says)}'")
    return "\n".join(lines) + "\n"

"""The command line that starts a gateway, recognised word by word: who writes gateway.pid chooses it."""

from __future__ import annotations

import os

from watchdog.later import regex

VENVS = ("venv", ".venv")  # where a checkout keeps its interpreter; from 0.20 that is the normal install
_PYTHON = regex(r"python[\d.]*")
_PROFILE = regex(r"[a-z0-9][a-z0-9_-]{0,63}")
_FLAGS = frozenset({"--replace", "-v", "-vv", "--verbose", "-q", "--quiet"})


def gateway_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts this gateway; () unless it is one: a forged file starts nothing else."""
    if not argv or not argv[0].startswith("/") or any("\x00" in word or "\n" in word for word in argv):
        return ()
    words = list(argv)
    if argv[0].split("/")[-2:] == ["hermes_cli", "main.py"]:  # sys.argv of `python -m hermes_cli.main`
        words = [_python_of(argv[0]), "-m", "hermes_cli.main", *words[1:]]
    rest = words[1:]
    if _PYTHON.fullmatch(os.path.basename(words[0])):
        if rest[:2] == ["-m", "hermes_cli.main"]:
            rest = rest[2:]
        elif rest and rest[0].startswith("/") and os.path.basename(rest[0]) == "hermes":
            rest = rest[1:]
        else:
            return ()
    elif os.path.basename(words[0]) != "hermes":
        return ()
    if rest[:1] in (["--profile"], ["-p"]) and len(rest) > 1 and _PROFILE.fullmatch(rest[1]):
        rest = rest[2:]
    return tuple(words) if rest[:2] == ["gateway", "run"] and set(rest[2:]) <= _FLAGS else ()


def folder_for(command: tuple[str, ...]) -> str:
    """The checkout that this command runs from, which Python looks for `hermes_cli` in; '' when it is no checkout."""
    if command[1:3] != ("-m", "hermes_cli.main"):
        return ""
    root = os.path.dirname(os.path.dirname(os.path.dirname(command[0])))
    return root if os.path.isfile(os.path.join(root, "hermes_cli", "main.py")) else ""


def _python_of(program: str) -> str:
    """The interpreter of an environment, or of the checkout that hermes_cli/main.py lies in; '' when it has none."""
    *above, site, _, _ = program.split("/")
    if site == "site-packages":  # root/lib/pythonX.Y/site-packages/hermes_cli/main.py
        return "/".join([*above[:-2], "bin", "python"]) if len(above) > 2 else ""
    root = "/".join([*above, site])
    pythons = (os.path.join(root, venv, "bin", "python") for venv in VENVS)
    return next((python for python in pythons if os.path.isfile(python)), "")

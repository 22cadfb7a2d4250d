"""The command line that starts a gateway: recognised word by word, because who writes gateway.pid chooses what we would run."""

from __future__ import annotations

import re
from pathlib import PurePath


def gateway_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts this gateway; () when it is not recognisably one, so that a forged file starts nothing else."""
    if not argv or not argv[0].startswith("/") or any("\x00" in word or "\n" in word for word in argv):
        return ()
    words, program = list(argv), PurePath(argv[0])
    if program.parts[-2:] == ("hermes_cli", "main.py") and "lib" in program.parts:
        root = PurePath(*program.parts[: program.parts.index("lib")])  # sys.argv of `python -m hermes_cli.main`
        words = [str(root / "bin" / "python"), "-m", "hermes_cli.main", *words[1:]]
    rest = words[1:]
    if re.fullmatch(r"python[\d.]*", PurePath(words[0]).name):
        if rest[:2] == ["-m", "hermes_cli.main"]:
            rest = rest[2:]
        elif rest and rest[0].startswith("/") and PurePath(rest[0]).name == "hermes":
            rest = rest[1:]
        else:
            return ()
    elif PurePath(words[0]).name != "hermes":
        return ()
    if rest[:1] in (["--profile"], ["-p"]) and len(rest) > 1 and re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", rest[1]):
        rest = rest[2:]
    flags = {"--replace", "-v", "-vv", "--verbose", "-q", "--quiet"}
    return tuple(words) if rest[:2] == ["gateway", "run"] and set(rest[2:]) <= flags else ()

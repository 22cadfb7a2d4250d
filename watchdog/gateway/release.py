"""Where the Hermes behind a command line is installed, and which release it is."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from watchdog.gateway.command import VENVS
from watchdog.system.files import read_text


@dataclass(frozen=True)
class Install:
    version: str
    root: Path  # the environment or checkout it lies in


def install_of(argv: tuple[str, ...], search: bool = False) -> Install | None:
    """The installation behind a command line; `search` also takes the `hermes` that PATH finds."""
    names = [*argv[:2], shutil.which("hermes") or ""] if search else [*argv[:2]]
    for root in (root for name in names if name.startswith("/") for root in _roots(name)):
        # Not by the methods of Path: those raise where we may not look, as into another user's or container's folder.
        pattern = os.path.join(glob.escape(str(root)), "lib/python*/site-packages/hermes_agent-*.dist-info")
        for info in sorted(glob.glob(pattern)):
            return Install(os.path.basename(info).split("-")[1].removesuffix(".dist"), root)
        if os.path.isdir(root / "hermes_cli"):
            given = re.search(r'(?m)^version\s*=\s*"([\w.+-]{1,40})"', read_text(root / "pyproject.toml"))
            if given:
                return Install(given[1], root)
    return None


def _roots(name: str) -> Iterator[Path]:
    """The environment or checkout that a program may be installed in, also behind a link."""
    for program in dict.fromkeys((name, os.path.realpath(name))):
        path = Path(program)
        if "site-packages" in path.parts and len(path.parents) > 4:
            yield path.parents[4]
        root = path.parent.parent
        yield root
        if root.name in VENVS:
            yield root.parent


def drain_of(home: Path, argv: tuple[str, ...]) -> timedelta | None:
    """How long this Hermes waits for running turns before it stops: its setting, else what its release does."""
    given = re.search(
        r"(?m)[\s{,]restart_drain_timeout:\s*([\d.]+)\s*(?:[,}#].*)?$", read_text(home / "config.yaml")
    )
    if given:
        with suppress(ValueError, OverflowError):
            return timedelta(seconds=float(given[1]))
    install = install_of(argv)
    version = re.match(r"(\d+)\.(\d+)", install.version) if install else None
    if version is None:
        return None
    return timedelta(seconds=180) if (int(version[1]), int(version[2])) < (0, 15) else timedelta(0)

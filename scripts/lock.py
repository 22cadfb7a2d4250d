#!/usr/bin/env python3
"""Write the files that fix versions.

    python scripts/lock.py pins VENV …     constraints.txt: what is installed in these environments
    python scripts/lock.py hashes          requirements/install.txt: what the package needs, with hashes

Both hold names, versions and hashes, and no address of a server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
INSTALL = ROOT / "requirements" / "install.txt"
PINS_HEAD = (
    "# The versions that `make` and CI install: names and versions only. `make pins` writes this file anew.\n"
)
HASHES_HEAD = """\
# What hermes-watchdog needs, each version with its hashes; `make hashes` writes this file from constraints.txt.
#     pip install --require-hashes -r requirements/install.txt
#     pip install --no-deps hermes_watchdog-*.whl
"""
NOT_OURS = {"pip", "hermes-watchdog"}


def pins(venvs: list[str]) -> int:
    found: dict[str, str] = {}
    for venv in venvs:
        command = [Path(venv, "bin", "python"), "-m", "pip", "freeze", "--all", "--exclude-editable"]
        frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in frozen.splitlines():
            name, same, version = line.partition("==")
            if not same or name in NOT_OURS:
                continue
            if name == "setuptools" and int(version.split(".")[0]) < 77:
                continue  # the one that a new environment brings; nothing is built with it
            if found.setdefault(name, version) != version:
                sys.exit(f"{name} is installed as {found[name]} and as {version}")
    CONSTRAINTS.write_text(
        PINS_HEAD + "".join(f"{name}=={found[name]}\n" for name in sorted(found, key=str.lower)), "ascii"
    )
    print(f"{CONSTRAINTS.name}: {len(found)} versions")
    return 0


def hashes() -> int:
    command = [Path(sys.executable).parent / "pip-compile", "--quiet", "--generate-hashes", "--strip-extras"]
    command += [
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-emit-trusted-host",
    ]
    command += [
        "--no-build-isolation",
        "--constraint",
        CONSTRAINTS,
        "--output-file",
        INSTALL,
        "pyproject.toml",
    ]
    INSTALL.unlink(missing_ok=True)
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"CUSTOM_COMPILE_COMMAND": "make hashes"})
    text = INSTALL.read_text("utf-8")
    if "://" in text:
        sys.exit(f"{INSTALL.name}: an address of a server is in it")
    INSTALL.write_text(HASHES_HEAD + text, "utf-8")
    print(f"{INSTALL.name}: {len(re.findall('==', text))} versions, {text.count('--hash=')} hashes")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pins", *venvs] if venvs:
            sys.exit(pins(venvs))
        case ["hashes"]:
            sys.exit(hashes())
    sys.exit(__doc__)

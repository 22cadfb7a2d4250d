"""How many instructions a process runs, which no load of the machine disturbs: valgrind counts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}


def missing() -> str:
    return "" if shutil.which("valgrind") else "not counted: valgrind is not installed"


def instructions(command: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT) -> int:
    """Of the process itself, without its children."""
    counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(
        counted, capture_output=True, text=True, env=dict(environment), timeout=900, check=False
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None or done.returncode > 1:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(found[1])

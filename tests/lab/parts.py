"""The real parts the lab runs: which are here, how to get the rest, and why one is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("HERMES_WATCHDOG_LAB") or "~/.cache/hermes-watchdog-lab").expanduser()
VERSIONS = ("0.13.0", "0.19.0")
HERMES_EXTRAS = ("aiohttp", "python-telegram-bot[webhooks]==22.6", "anthropic==0.87.0")
PACKAGES = {
    "systemd": Path("/lib/systemd/systemd"),
    "iproute2": Path("/sbin/ip"),
    "util-linux": Path("/usr/bin/nsenter"),
    "cron": Path("/usr/sbin/cron"),
    "curl": Path("/usr/bin/curl"),
}
VENVS = {
    **{f"hermes-{v}": (f"hermes-agent=={v}", *HERMES_EXTRAS) for v in VERSIONS},
    "synapse": ("matrix-synapse==1.163.2",),
}
INSTALL_LIMIT = 900
COMMAND = Path(os.environ.get("LAB_WATCHDOG") or Path(sys.executable).parent / "hermes-watchdog")


def venv(name: str) -> Path:
    return CACHE / name


def hermes(version: str) -> Path:
    return venv(f"hermes-{version}")


def certificates() -> list[Path]:
    """The lists of authorities that the programs of a machine trust."""
    venvs = (*(venv(name) for name in VENVS), COMMAND.parent.parent)
    found = [file for folder in venvs for file in sorted(folder.glob("lib/python3*/site-packages/certifi/cacert.pem"))]
    return [*found, *(file for file in (Path("/etc/ssl/certs/ca-certificates.crt"),) if file.exists())]


def missing() -> dict[str, str]:
    """Each part that is not here, with the reason."""
    lacking = {}
    if sys.platform != "linux":
        return {"linux": "the lab needs Linux namespaces"}
    if os.geteuid() != 0:
        lacking["root"] = "namespaces and a private systemd need root"
    for package, file in PACKAGES.items():
        if not file.exists():
            lacking[package] = f"{file} is not there; apt-get install {package}"
    for name in VENVS:
        if not (venv(name) / ".ready").exists():
            lacking[name] = f"{venv(name)} is not there; run: python tests/lab/parts.py"
    if not COMMAND.exists():
        lacking["hermes-watchdog"] = f"{COMMAND} is not there; pip install the project into this environment"
    return lacking


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str) -> str:
    """The error's last line, or nothing when it went well."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT,
                              env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]


def _install_packages() -> dict[str, str]:
    wanted = [name for name, file in PACKAGES.items() if not file.exists()]
    if not wanted:
        return {}
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return dict.fromkeys(wanted, "needs root and apt-get")
    problem = _run("apt-get", "update", "-q") or _run(
        "apt-get", "install", "-yq", "--no-install-recommends", *wanted)
    return dict.fromkeys(wanted, problem) if problem else {}


def _install_venv(name: str) -> str:
    folder = venv(name)
    if (folder / ".ready").exists():
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    problem = _run(sys.executable, "-m", "venv", str(folder)) or _run(
        str(folder / "bin/python"), "-m", "pip", "install", "-q", *VENVS[name])
    if not problem:
        (folder / ".ready").touch()     # written last: a broken install is made anew
    return problem


def install() -> dict[str, str]:
    """Get every missing part; what could not be had, with the reason."""
    if not missing():
        return {}
    with _one_at_a_time():
        problems = _install_packages()
        for name in VENVS:
            if problem := _install_venv(name):
                problems[name] = problem
    return {**missing(), **problems}


if __name__ == "__main__":
    lacking = install()
    for part, reason in lacking.items():
        print(f"missing: {part}: {reason}")
    print(f"the parts are kept in {CACHE}")
    sys.exit(1 if lacking else 0)

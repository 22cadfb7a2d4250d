"""Commands of the documents that stay, write outside of a home or ask: run as they stand, on a machine made for that.

`demo` is run by tests/demo.
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_docs import OURS, SAMPLE, only_looks

WITHIN = 60  # seconds; the machine may be busy
ALL = {line for _, line in OURS}
INSTALLS = sorted(
    line
    for line in ALL
    if shlex.split(line)[0] in ("install", "uninstall") and not only_looks(shlex.split(line))
)
CRONTAB = """#!/bin/sh
file=$HOME/crontab
case $1 in -l) cat "$file" 2>/dev/null || { echo "no crontab for $USER" >&2; exit 1; };; -r) rm "$file";; *) cat > "$file";; esac
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A home folder with a Hermes home, a profile, a crontab of her own, and hermes-watchdog on the PATH."""
    for home in (".hermes", ".hermes/profiles/work"):
        shutil.copytree(SAMPLE, tmp_path / home / "logs")
    (tmp_path / ".config/hermes-watchdog-work").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hermes-watchdog").symlink_to(Path(sys.executable).with_name("hermes-watchdog"))
    (tmp_path / "bin/crontab").write_text(CRONTAB)
    for name in ("systemctl", "loginctl"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    (tmp_path / "crontab").write_text("# mine\n")
    return tmp_path


def environment(user: Path) -> dict[str, str]:
    own = {"HOME": str(user), "USER": "ann", "LANG": "C.UTF-8", "TERM": "dumb"}
    return {**own, "PATH": f"{user}/bin:/usr/bin:/bin"}


def shell(user: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line],
        env=environment(user),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )


@pytest.mark.parametrize("line", INSTALLS)
def test_a_schedule_is_installed_and_removed_as_the_documents_say(line: str, user: Path) -> None:
    command = f"hermes-watchdog {line}".replace("'~", "~").replace("work'", "work")
    if os.geteuid() == 0 and "--cron" not in line and not line.startswith("uninstall"):
        command += " --dry-run"  # root's units would go to /etc
    done = shell(user, command)
    assert done.returncode == 0, done.stdout + done.stderr
    crontab = (user / "crontab").read_text()
    assert crontab.startswith("# mine\n")
    if "--cron" in line:
        count = 2 if "--all-profiles" in line else 1
        assert crontab.count(" check --quiet") == count, crontab
        # what cron runs, as cron runs it
        entry = (
            next(line for line in crontab.splitlines() if " check --quiet" in line)
            .split(None, 5)[5]
            .replace(r"\%", "%")
        )
        ran = subprocess.run(
            ["/bin/sh", "-c", entry],
            env={"HOME": str(user), "LOGNAME": "ann", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
        assert ran.returncode in (0, 1) and not ran.stderr, ran.stdout + ran.stderr
        home = ["--home", f"{user}/.hermes/profiles/work"] if "profiles/work" in line else ["--all-profiles"]
        assert shell(user, shlex.join(["hermes-watchdog", "uninstall", *home])).returncode == 0
        assert (user / "crontab").read_text() == "# mine\n"


@pytest.fixture
def started(user: Path) -> Iterator[list[subprocess.Popen]]:
    running: list[subprocess.Popen] = []
    yield running
    for process in running:
        process.kill()
        process.wait()


def first_line(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], WITHIN)
    assert ready, "nothing was printed"
    return process.stdout.readline()


@pytest.mark.parametrize("line", ["run", "serve"])
def test_what_keeps_running_says_that_it_does_and_ends_when_it_is_told_to(
    line: str, user: Path, started: list[subprocess.Popen]
) -> None:
    assert line in ALL
    more = ["--listen", "127.0.0.1:0"] if line == "serve" else []  # the usual port may be taken here
    process = subprocess.Popen(
        [user / "bin/hermes-watchdog", line, *more],
        env=environment(user), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    started.append(process)
    said = first_line(process)
    assert str(user / ".hermes") in said or "http://" in said, said
    if line == "serve":
        address = next(word for word in said.split() if word.startswith("http://")).rstrip(".,;")
        with urllib.request.urlopen(address, timeout=WITHIN) as answer:
            assert answer.status == 200 and b"<html" in answer.read()
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=WITHIN)
    assert process.returncode in (0, -signal.SIGTERM) and "Traceback" not in rest, rest


def test_setup_asks_on_a_terminal_and_the_drill_it_names_runs(user: Path) -> None:
    assert "setup" in ALL
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        [user / "bin/hermes-watchdog", "setup"],
        env=environment(user), cwd="/", stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
    )  # fmt: skip
    os.close(inner)
    said, until = "", time.monotonic() + WITHIN
    answers = iter(["", "4", *[""] * 20])
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if ready:
            try:
                said += os.read(terminal, 65536).decode()
            except OSError:  # it has ended
                break
        elif process.poll() is None:
            os.write(terminal, f"{next(answers)}\n".encode())
    os.close(terminal)
    process.kill()
    assert process.wait() == 0, said
    print(said)
    settings = user / ".config/hermes-watchdog/settings.yaml"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert " check --quiet" in (user / "crontab").read_text(), said

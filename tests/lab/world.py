"""The world outside the machine: a network namespace with the fakes in it.

It survives a reboot of the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from . import parts
from .waiting import until

HERE = Path(__file__).parent
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")  # a run that is cut off leaves no process behind


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class World:
    def __init__(self) -> None:
        # not under /tmp: Hermes 0.19.0 installs no unit for a home there
        runs = parts.CACHE / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="", dir=runs))
        self.output = (self.folder / "fakes.out").open("w")
        self.process = subprocess.Popen(
            [
                *DIES_WITH_US,
                "unshare",
                "-n",
                "sh",
                "-c",
                'ip link set lo up && exec "$@"',
                "sh",
                str(parts.hermes("0.19.0") / "bin/python"),
                str(HERE / "fakes"),
                str(self.folder),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.others: list[subprocess.Popen] = []
        until(
            (self.folder / "control.sock").exists,
            "the fakes listen",
            explain=lambda: (self.folder / "fakes.out").read_text(),
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def _ask(self, **request) -> object:
        connection = _UnixConnection(self.folder / "control.sock")
        try:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise AssertionError(f"the fakes refused {request}: {text}")
        return json.loads(text)

    def do(self, part: str, verb: str, **how) -> object:
        return self._ask(part=part, do=verb, **{"with": how})

    def get(self, part: str, name: str, of: str | None = None) -> object:
        return self._ask(part=part, get=name, **({"of": of} if of else {}))

    def set(self, part: str, **values) -> None:
        self._ask(part=part, set=values)

    def start(self, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen:
        """A server of the outside world, in the same network."""
        process = subprocess.Popen(
            [*DIES_WITH_US, "nsenter", "-t", str(self.pid), "-n", *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.others.append(process)
        return process

    def end(self) -> None:
        for process in (*self.others, self.process):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        self.output.close()
        if not os.environ.get("LAB_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

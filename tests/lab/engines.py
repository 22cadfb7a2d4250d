"""Real engines of a fleet on loopback: Prometheus, Alertmanager, node_exporter, PostgreSQL; each ends by its pid."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from . import parts, waiting
from .conftest import lacks


def needs(*packages: str) -> None:
    """Skip with the reason where an engine cannot be had; LAB_REQUIRED=1 makes that a failure."""
    lacking = [name for name in packages if not parts.PACKAGES[name].exists()]
    if lacking:
        reason = (
            f"the lab lacks {', '.join(lacking)}; apt-get install --no-install-recommends {' '.join(lacking)}"
        )
        lacks(reason)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def until(true: Callable[[], Any], what: str, within: float = 60) -> Any:
    """The first answer that is true; an engine that gives none, or none yet, is asked again."""

    def asked() -> Any:
        with suppress(OSError, ValueError, KeyError):
            return true()

    return waiting.until(asked, what, within)


def get(url: str, limit: float = 5) -> Any:
    with urllib.request.urlopen(url, timeout=limit) as answer:
        body = answer.read()
    with suppress(ValueError):
        return json.loads(body)
    return body.decode()


def send(url: str, value: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        body = answer.read()
    return json.loads(body) if body else None


class Program:
    """A process in a session of its own, with its output kept beside its data."""

    def __init__(self, folder: Path, argv: Sequence[str | Path], user: str = ""):
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                user=user or None,
                cwd="/",
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(30)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that the engines' users may enter; gone afterwards."""
    made = Path(tempfile.mkdtemp(prefix="hermes-fleet-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class Postgres:
    """A server of its own on loopback, with password logins as a real one has."""

    def __init__(self, base: Path):
        newest = max(Path("/usr/lib/postgresql").iterdir(), key=lambda path: int(path.name))
        self.bin, self.data, self.port = newest / "bin", base / "pg", free_port()
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.base = base / "pgrun"
        for made in (self.data, self.base):
            made.mkdir(mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(made, self.user)
        self._run(self.bin / "initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "-N")
        (self.data / "pg_hba.conf").write_text(
            "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        self.start()

    def _run(self, *argv: str | Path) -> None:
        done = subprocess.run(
            [str(word) for word in argv],
            user=self.user if os.geteuid() == 0 else None,
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        self.program = Program(
            self.base.parent / "pglog",
            [self.bin / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.base,
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"],
            user=self.user if os.geteuid() == 0 else "",
        )  # fmt: skip
        until(lambda: self._ready(), "PostgreSQL takes connections")

    def _ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.dsn("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def stop(self) -> None:
        self.program.kill(signal.SIGINT)

    def dsn(self, user: str, password: str = "", database: str = "postgres") -> str:
        secret = f" password={password}" if password else ""
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user}{secret}"


class Alertmanager:
    """One instance; with `peers` one of a cluster."""

    def __init__(self, base: Path, config: Path, name: str, peers: Sequence[Alertmanager] = ()):
        self.port, self.gossip = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.place, self.config, self.peers = base / name, config, peers
        self.start()

    def start(self) -> None:
        self.program = Program(
            self.place,
            ["prometheus-alertmanager", f"--config.file={self.config}", f"--storage.path={self.place}",
             f"--web.listen-address=127.0.0.1:{self.port}", f"--cluster.listen-address=127.0.0.1:{self.gossip}",
             "--cluster.settle-timeout=5s", "--cluster.gossip-interval=100ms", "--cluster.pushpull-interval=2s",
             *(f"--cluster.peer=127.0.0.1:{peer.gossip}" for peer in self.peers)],
        )  # fmt: skip
        until(lambda: get(f"{self.url}/-/ready"), "Alertmanager is ready")

    def learn(self) -> None:
        """Wait until it knows all that its peers have sent by now: two exchanges, as one may be under way."""
        enough = self._exchanges() + 2
        until(lambda: self._exchanges() >= enough, "the instances have told each other what they sent")

    def _exchanges(self) -> int:
        metric = 'alertmanager_cluster_messages_received_total{msg_type="full_state"} '
        lines: list[str] = get(f"{self.url}/metrics").splitlines()
        return next(int(line.removeprefix(metric)) for line in lines if line.startswith(metric))

    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = get(f"{self.url}/api/v2/alerts")
        return found


def prometheus(base: Path, config: str) -> tuple[Program, str]:
    port = free_port()
    (base / "prometheus.yml").write_text(config)
    program = Program(
        base / "prom",
        ["prometheus", f"--config.file={base / 'prometheus.yml'}", f"--storage.tsdb.path={base / 'prom' / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"],
    )  # fmt: skip
    until(lambda: get(f"http://127.0.0.1:{port}/-/ready"), "Prometheus is ready")
    return program, f"http://127.0.0.1:{port}"


def node_exporter(base: Path, textfiles: Path) -> tuple[Program, int]:
    port = free_port()
    program = Program(
        base / f"node-{port}",
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults",
         "--collector.textfile", f"--collector.textfile.directory={textfiles}", "--collector.time"],
    )  # fmt: skip
    until(lambda: get(f"http://127.0.0.1:{port}/metrics"), "node_exporter answers")
    return program, port

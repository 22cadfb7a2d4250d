"""A home with a store, the settings of a fleet, and a small Alertmanager that answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from watchdog.config.fleet_settings import FleetSettings
from watchdog.config.settings import Secret, Settings
from watchdog.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state" / "watchdog.db") as made:
        yield made


@pytest.fixture
def fleet() -> Callable[..., Settings]:
    """fleet(textfile=…, alertmanagers=(url,), …) → settings"""

    def make(alertmanagers: tuple[str, ...] = (), postgres: str = "", **more: Any) -> Settings:
        urls = tuple(Secret(value=url) for url in alertmanagers)
        given = {"instance": "web1", **more, "alertmanagers": urls}
        if postgres:
            given["postgres"] = Secret(value=postgres)
        return Settings(fleet=FleetSettings(**given))

    return make


class FakeAlertmanager(ThreadingHTTPServer):
    """Takes what is posted; `status`, `clock` and `body` are what it answers with."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.posted: list[list[dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.clock: datetime | None = None
        self.body: Iterator[bytes] | bytes = b""
        self.over = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeAlertmanager

    def date_time_string(self, timestamp: float | None = None) -> str:
        return format_datetime(self.server.clock or datetime.now(UTC), usegmt=True)

    def do_GET(self) -> None:
        self._answer(200, b"OK")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(body)
        self.server.headers.append(dict(self.headers))
        self._answer(self.server.status, self.server.body)

    def _answer(self, status: int, body: Iterator[bytes] | bytes) -> None:
        self.send_response(status)
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for part in body:
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def alertmanager() -> Iterator[FakeAlertmanager]:
    server = FakeAlertmanager()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()

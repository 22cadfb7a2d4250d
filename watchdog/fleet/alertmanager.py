"""Alerts to one Alertmanager, within its time whatever it answers."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urlsplit

from watchdog.fleet.alerts import Alert
from watchdog.fleet.errors import FleetError

READ = 16_384  # bytes of an answer; more is not read
CLOCKS = timedelta(seconds=60)  # difference of two clocks from which on times are corrected


class Post:
    """Alerts on their way to one instance; `stop` ends it from another thread."""

    def __init__(self, url: str, alerts: Sequence[Alert], now: datetime, limit: float):
        self.parts = urlsplit(url)
        self.tls = self.parts.scheme == "https"
        self.name = f"alertmanager {self.parts.hostname}:{self.parts.port or (443 if self.tls else 80)}"
        self.alerts, self.now, self.limit = alerts, now, limit
        self.sockets: list[socket.socket] = []

    def run(self) -> str:
        """Post; a line about a clock that is off, else ''. FleetError when it did not work."""
        self.began = time.monotonic()
        make = http.client.HTTPSConnection if self.tls else http.client.HTTPConnection
        self.connection = make(self.parts.hostname or "", self.parts.port, timeout=self.limit)
        try:
            behind = self._behind()
            body = json.dumps([_wire(alert, behind) for alert in self.alerts]).encode()
            status, _ = self._ask("POST", "/api/v2/alerts", body)
        except TimeoutError:
            raise FleetError(f"no answer within {self.limit:g} s") from None
        except ConnectionRefusedError:
            raise FleetError("the connection was refused") from None
        except socket.gaierror:
            raise FleetError("its name cannot be resolved") from None
        except ssl.SSLError as error:
            raise FleetError(f"the encrypted connection failed ({type(error).__name__})") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The text of these may hold the address; their kind says enough.
            raise FleetError(f"the connection failed ({type(error).__name__})") from None
        finally:
            self.connection.close()
        if status != 200:
            raise FleetError(f"it answered {status}")
        if not behind:
            return ""
        side = "behind" if behind > timedelta(0) else "ahead of"
        minutes = abs(behind).total_seconds() / 60
        return f"this host's clock is {minutes:.0f} minutes {side} that of {self.name}, whose time was used"

    def stop(self) -> None:
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _behind(self) -> timedelta:
        """How far our clock is behind the instance's; zero within a minute.

        Asked before alerts are posted: from a clock an hour behind, `endsAt` would lie in the past, and an open
        incident would be taken for resolved.
        """
        _, date = self._ask("GET", "/-/healthy")
        with suppress(TypeError, ValueError, IndexError, OverflowError):
            ours = self.now + timedelta(seconds=time.monotonic() - self.began)
            behind = parsedate_to_datetime(date) - ours
            if CLOCKS < abs(behind) < timedelta(days=3650):
                return behind
        return timedelta(0)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        left = self.limit - (time.monotonic() - self.began)
        if left <= 0:
            raise TimeoutError
        if self.connection.sock is None:
            self.connection.timeout = left
            self.connection.connect()
        plug: socket.socket = self.connection.sock
        self.sockets.append(plug)
        plug.settimeout(left)
        headers = {"User-Agent": "hermes-watchdog", "Content-Type": "application/json"}
        if self.parts.username:
            login = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self.connection.request(method, self.parts.path.rstrip("/") + path, body, headers)
        with self.connection.getresponse() as answer:
            answer.read(READ)
            if not answer.isclosed():
                self.connection.close()  # the rest of a long answer is not read; the next request connects anew
            return answer.status, answer.getheader("Date", "")


def _wire(alert: Alert, behind: timedelta) -> dict[str, object]:
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": (alert.starts_at + behind).isoformat(),
        "endsAt": (alert.ends_at + behind).isoformat(),
    }

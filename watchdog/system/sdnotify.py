"""systemd's readiness and watchdog protocol: datagrams to the socket it names; without one, nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


def notify(**words: object) -> bool:
    """READY=1, STATUS=…, WATCHDOG=1, STOPPING=1; whether systemd listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket has no file
    message = "\n".join(
        f"{key}={str(value).splitlines()[0] if str(value) else ''}" for key, value in words.items()
    )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.sendto(message.encode("utf-8", "replace"), address)
        return True
    except OSError:
        return False  # systemd's trouble is not the gateway's


def watchdog_seconds(surroundings: Mapping[str, str] | None = None) -> float | None:
    """How often systemd wants a sign of life: half of its limit; None when it wants none of this process."""
    environment = os.environ if surroundings is None else surroundings
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return max(int(environment["WATCHDOG_USEC"]) / 2e6, 0.5)
    except (KeyError, ValueError):
        return None

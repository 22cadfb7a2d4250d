"""The dead-man ping: an address that notices when checks stop."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

from watchdog.config.settings import NotifySettings
from watchdog.errors import WatchdogError


def ping(settings: NotifySettings, what: str) -> str:
    """Call the dead-man address with `start`, `ok` or `fail`; empty when that worked, else what failed."""
    if settings.ping is None:
        return ""
    result = ["ping: no answer in time"]
    try:
        url = settings.ping.reveal().rstrip("/")
    except WatchdogError as error:
        return str(error)
    if not url.startswith(("https://", "http://")):
        return "ping: not an address that starts with https://"
    seconds = settings.ping_limit.total_seconds()

    def call() -> None:
        try:
            with urllib.request.urlopen(
                url + {"ok": "", "start": "/start", "fail": "/fail"}[what], timeout=seconds
            ):
                result[0] = ""
        except urllib.error.HTTPError as error:
            result[0] = f"ping: it answered {error.code}"
            error.close()
        except Exception as error:  # the text of an error may hold the address
            result[0] = f"ping: it did not work ({type(getattr(error, 'reason', error)).__name__})"

    # A thread, because a server may drip one byte at a time and no socket time-out ends that.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return result[0]

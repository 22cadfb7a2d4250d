"""The child process that talks to Apprise: jobs on standard input, one line per message on standard output.

It runs apart from the check so that a target which hangs can be ended at its time limit, and so that the
addresses, which are secrets, are in no argument list. It imports nothing of the package and is run as a plain
file.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Only these keys leave this process about a failure: what Apprise logs may hold the address. The sentences
# are in locale/, below `undelivered`.
_WHYS = (
    (r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", "certificate"),
    (r"SSLError|SSL:", "encryption"),
    (r"NameResolutionError|Name or service not known|getaddrinfo", "name"),
    (r"Connection refused", "refused"),
    (r"(?i)timed? ?out", "slow"),
    (r"RemoteDisconnected|Connection aborted|ConnectionReset", "cut"),
    (r"error=(?P<status>\d{3})\b", "status"),
    (r"(?i)unauthori[sz]ed|authentication|login", "login"),
    (r"(?i)connection error", "no-connection"),
)


def why(log: str) -> dict[str, Any]:
    """The key and fields of what a log of Apprise says."""
    for pattern, key in _WHYS:
        if found := re.search(pattern, log):
            return _why(key, **found.groupdict())
    return _why("rejected")


def _why(key: str, **fields: str) -> dict[str, Any]:
    return {"key": f"undelivered.{key}", "fields": fields}


class LogCapture(logging.Handler):
    """What Apprise logs, kept apart by thread, which is by target."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.lines[record.thread] = (self.lines.get(record.thread, "") + record.getMessage() + "\n")[-20_000:]


def wanted(plugin: Any) -> str:
    """The format that a target shows best: the one its address names, plain text where it takes that."""
    found = plugin.resolve_format("text") if hasattr(plugin, "resolve_format") else plugin.notify_format
    form = str(getattr(found, "value", found))
    return form if form in ("markdown", "html") else "text"


def send(job: dict[str, Any], heard: LogCapture, say: Callable[[dict[str, Any]], None]) -> None:
    """All messages of one target, one after the other."""
    import apprise

    asset = apprise.AppriseAsset(
        app_id="Hermes watchdog", app_desc="Hermes watchdog", async_mode=False, secure_logging=True
    )
    if hasattr(asset, "_allow_templates"):
        asset._allow_templates = False  # a message is text, never a template
    plugins: list[Any] = [apprise.Apprise.instantiate(url, asset=asset) for url in job["urls"]]
    for message in job["messages"]:
        began = time.monotonic()
        heard.lines.pop(threading.get_ident(), None)
        failed = None if plugins and all(plugins) else _why("unknown-address")
        for plugin in plugins if not failed else ():
            form = job["format"] if job["format"] != "auto" else wanted(plugin)
            try:
                # The plugin itself and not Apprise's list of them, which works in threads of its own, whose
                # log lines could not be told apart, and treats bodies as templates when it is asked to.
                accepted = plugin.notify(
                    body=message["bodies"][form],
                    title=message["title"],
                    notify_type=message["type"],
                    body_format=form,
                )
            except Exception as error:  # a plugin may fail in any way; its text may hold the address
                failed = _why("plugin", error=type(error).__name__)
                break
            if not accepted:
                failed = why(heard.lines.get(threading.get_ident(), ""))
                break
        took = time.monotonic() - began
        say({"target": job["target"], "id": message["id"], "why": failed, "took": took})


def main() -> int:
    jobs = json.load(sys.stdin)
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with lock:
            print(json.dumps(line), flush=True)

    import apprise  # once, before the threads

    heard = LogCapture()
    apprise.logger.handlers[:] = [heard]
    apprise.logger.setLevel(logging.DEBUG)
    apprise.logger.propagate = False
    say({"ready": True})
    threads = [threading.Thread(target=send, args=(job, heard, say), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The child process that talks to Apprise: jobs on standard input, one line per message on standard output.

It runs apart from the check so that a target which hangs can be ended at its time limit, and so that the addresses,
which are secrets, are in no argument list. It imports nothing of the package and is run as a plain file.
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

# Only these words leave this process about a failure: what Apprise logs may hold the address.
_WHYS = (
    (r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", "its certificate is not trusted"),
    (r"SSLError|SSL:", "the encrypted connection failed"),
    (r"NameResolutionError|Name or service not known|getaddrinfo", "its name cannot be resolved"),
    (r"Connection refused", "the connection was refused"),
    (r"(?i)timed? ?out", "it did not answer in time"),
    (r"RemoteDisconnected|Connection aborted|ConnectionReset", "the connection was cut"),
    (r"error=(\d{3})\b", r"it answered \1"),
    (r"(?i)unauthori[sz]ed|authentication|login", "the login was refused"),
    (r"(?i)connection error", "no connection"),
)


def why(log: str) -> str:
    """A log of Apprise in our words."""
    for pattern, says in _WHYS:
        if found := re.search(pattern, log):
            return found.expand(says) if "\\" in says else says
    return "it was not taken"


class Heard(logging.Handler):
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


def send(job: dict[str, Any], heard: Heard, say: Callable[[dict[str, Any]], None]) -> None:
    """All messages of one target, one after the other."""
    import apprise

    asset = apprise.AppriseAsset(app_id="Hermes watchdog", app_desc="Hermes watchdog", async_mode=False, secure_logging=True)
    if hasattr(asset, "_allow_templates"):
        asset._allow_templates = False  # a message is text, never a template
    plugins: list[Any] = [apprise.Apprise.instantiate(url, asset=asset) for url in job["urls"]]
    for message in job["messages"]:
        began, said = time.monotonic(), ""
        heard.lines.pop(threading.get_ident(), None)
        if not plugins or not all(plugins):
            said = "it is not an address that Apprise knows"
        for plugin in plugins if not said else ():
            form = job["format"] if job["format"] != "auto" else wanted(plugin)
            body = message["bodies"][form]
            try:
                # The plugin itself, and not Apprise's list of them: that one works in threads of its own, whose log
                # lines could not be told apart, and treats bodies as templates when it is asked to.
                taken = bool(plugin.notify(body=body, title=message["title"], notify_type=message["type"], body_format=form))
            except Exception as error:  # a plugin may fail in any way; its text may hold the address
                taken, said = False, f"its plugin failed ({type(error).__name__})"
            if not taken:
                said = said or why(heard.lines.get(threading.get_ident(), ""))
                break
        say(
            {
                "target": job["target"],
                "id": message["id"],
                "ok": not said,
                "says": said,
                "took": time.monotonic() - began,
            }
        )


def main() -> int:
    jobs = json.load(sys.stdin)
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with lock:
            print(json.dumps(line), flush=True)

    import apprise  # once, before the threads

    heard = Heard()
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

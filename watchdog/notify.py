"""Notices → targets, through Apprise in a child process that can be ended; and the ping of the dead man's switch."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.message import render
from watchdog.model import SEVERITIES, Notice
from watchdog.store.messages import TargetState
from watchdog.targets import NotifySettings, Target
from watchdog.text import redact
from watchdog.values import dataclass

FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(hours=6)
_START = 10.0  # seconds that the child itself may need before a target's time begins
_TYPES = {"info": "info", "low": "info", "medium": "warning", "high": "warning", "critical": "failure"}


@dataclass(frozen=True)
class Letter:
    """One notice for one target; the text may differ by target, because codes do."""

    id: int
    title: str
    body: str
    severity: str
    good: bool = False  # something healed, or is only said


@dataclass(frozen=True)
class Sent:
    """What became of one letter."""

    target: str
    id: int
    ok: bool
    says: str = ""
    took: timedelta = timedelta(0)


def wants(target: Target, notice: Notice, settings: NotifySettings) -> bool:
    """Does this target want this notice?"""
    waits = set(target.tags) & set(settings.escalate_to)
    if waits and notice.reason not in ("reminder", "disarmed", "healed by us", "not verified", "not healed", "test"):
        return False  # the next in line hears of it when nobody answered
    return SEVERITIES.index(notice.severity) >= SEVERITIES.index(target.at_least) or notice.reason in ("test", "daily")


def letter(number: int, notice: Notice, more: Sequence[str] = ()) -> Letter:
    good = notice.reason in ("healed by us", "healed by itself", "test", "daily")
    body = "\n".join([notice.body, *more])
    # The second redaction: whatever got this far does not get further. Codes are ours and look like no secret.
    return Letter(number, redact(notice.title), redact(body), notice.severity, good)


def send(letters: Mapping[Target, Sequence[Letter]]) -> tuple[Sent, ...]:
    """Everything at once, each target within its own time limit; never raises, always one answer per letter."""
    sent: list[Sent] = []
    jobs: list[dict[str, Any]] = []
    for target, own in letters.items():
        try:
            urls = target.url.lines()
        except WatchdogError as error:
            sent += [Sent(target.name, each.id, False, str(error)) for each in own]
            continue
        jobs.append({"target": target.name, "urls": urls, "format": target.format, "messages": [_message(each) for each in own]})
    if not jobs:
        return tuple(sent)
    names = {job["target"] for job in jobs}
    waiting = {(target.name, each.id): target for target, own in letters.items() if target.name in names for each in own}
    for answer in _answers(jobs, {target.name: target.time_limit.total_seconds() for target in letters}):
        if waiting.pop((answer.target, answer.id), None):
            sent.append(answer)
    for (name, number), target in waiting.items():
        sent.append(Sent(name, number, False, f"no answer within {target.time_limit.total_seconds():g} s"))
    return tuple(sent)


def after(state: TargetState, ok: bool, says: str, now: datetime) -> TargetState:
    """How a target stands after one more try: each failure doubles the pause before the next."""
    if ok:
        return TargetState(state.name)
    pause = min(FIRST_PAUSE * 2 ** min(state.failures, 10), LONGEST_PAUSE)
    return TargetState(state.name, state.failures + 1, now + pause, says, state.since or now)


def due(state: TargetState | None, now: datetime) -> bool:
    return state is None or state.next_try_at is None or state.next_try_at <= now


def ping(settings: NotifySettings, what: str) -> str:
    """Tell the dead man's switch `start`, `ok` or `fail`; empty when it went well, else what did not."""
    if settings.ping is None:
        return ""
    said = ["ping: no answer in time"]
    try:
        url = settings.ping.reveal().rstrip("/")
    except WatchdogError as error:
        return str(error)
    if not url.startswith(("https://", "http://")):
        return "ping: not an address that starts with https://"
    seconds = settings.ping_limit.total_seconds()

    def call() -> None:
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(url + {"ok": "", "start": "/start", "fail": "/fail"}[what], timeout=seconds):
                said[0] = ""
        except urllib.error.HTTPError as error:
            said[0] = f"ping: it answered {error.code}"
            error.close()
        except Exception as error:  # the text of an error may hold the address
            said[0] = f"ping: it did not work ({type(getattr(error, 'reason', error)).__name__})"

    # A thread, because a server may drip one byte at a time and no socket time-out ends that.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return said[0]


def _message(each: Letter) -> dict[str, Any]:
    bodies = {form: render(each.body, form) for form in ("text", "markdown", "html")}
    kind = "success" if each.good else _TYPES[each.severity]
    return {"id": each.id, "title": each.title, "bodies": bodies, "type": kind}


def _answers(jobs: list[dict[str, Any]], limits: Mapping[str, float]) -> Iterator[Sent]:
    """The child's lines as they come, until all came or the time of the slowest target is over."""
    # -P keeps the package's own folder off the path: a module of ours must not stand in for one of Apprise's.
    command = [sys.executable, "-P", str(Path(__file__).with_name("sender.py"))]
    slowest = max(limits[job["target"]] for job in jobs)
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        return  # what has no answer is told as such by the caller
    with child:
        ends = _end(child, _START + slowest)
        began: float | None = None
        try:
            assert child.stdin and child.stdout
            child.stdin.write(json.dumps(jobs).encode())
            child.stdin.close()
            for line in child.stdout:
                said = json.loads(line)
                if said.get("ready"):  # from here on the targets' own time runs
                    began = time.monotonic()
                    ends.cancel()
                    ends = _end(child, slowest)
                elif said["ok"] or began is None or time.monotonic() - began <= limits[said["target"]] + 0.5:
                    yield Sent(said["target"], said["id"], said["ok"], said["says"], timedelta(seconds=said["took"]))
        except (OSError, ValueError, KeyError):
            pass
        finally:
            ends.cancel()
            child.kill()


def _end(child: subprocess.Popen[bytes], seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, child.kill)
    timer.daemon = True
    timer.start()
    return timer

"""Work on a foreign database in a process of its own: limited in time, memory and files, without our rights.

Whatever runs a foreign schema or decodes a foreign file goes through here. The child is a new Python; it
imports what it needs while it may still read this program, gives up root for good, and only then looks at the
file. Its answer is JSON: nothing that it says is ever executed or unpickled.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import pickle
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.model import as_phrase, packed, unpacked
from watchdog.sqlite.refusals import Obstacle, why_of

MEMORY = 1 << 30  # bytes of address space: a few times what any database needs
FILES = 256
GRACE = 300.0  # seconds, whatever the size
PER_GIGABYTE = 900.0


class ChildFailed(WatchdogError):
    """The child gave no answer; the text is the reason."""


class TookTooLong(ChildFailed):
    """The child was ended because its time was over."""


@dataclass(frozen=True)
class ChildLimits:
    seconds: float = GRACE
    written: int = 1 << 34  # bytes that one file may grow to


def limits_for(size: int) -> ChildLimits:
    """The limits for a database of this size."""
    return ChildLimits(GRACE + PER_GIGABYTE * size / (1 << 30), 4 * size + (64 << 20))


def run(name: str, argument: object, limits: ChildLimits, tick: Callable[[str], None] | None = None) -> dict:
    """What `module:function` answers to this argument, run in a child; its progress goes to `tick`.

    Raises ChildFailed when it gave no answer, WatchdogError with its own reason, and OSError for what the system
    refused it.
    """
    root = os.getuid() == 0 != os.geteuid()
    whose = (os.geteuid(), os.getegid(), os.getgroups()) if root else None
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    child = subprocess.Popen(
        # Without site: the child needs the standard library and this package alone.
        [sys.executable, "-S", "-c", "from watchdog.sqlite.sandbox import main; main()"],
        cwd="/",
        env={**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        user=0 if root else None,
        group=0 if root else None,
        start_new_session=True,  # Ctrl-C is for us: we end the child, and clean up
    )
    try:
        assert child.stdin and child.stdout
        try:
            child.stdin.write(pickle.dumps((name, whose, limits, argument)))
            child.stdin.close()
        except BrokenPipeError:
            raise ChildFailed(Obstacle.DIED()) from None
        return _answer(child.stdout.fileno(), limits.seconds, tick or (lambda text: None))
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()
        if child.stdin:
            child.stdin.close()


def _answer(fd: int, seconds: float, tick: Callable[[str], None]) -> dict:
    end, content = time.monotonic() + seconds, b""
    while True:
        if not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TookTooLong(Obstacle.SLOW(seconds=f"{seconds:.0f}"))
        more = os.read(fd, 1 << 16)
        if not more:
            raise ChildFailed(Obstacle.DIED())
        content += more
        while b"\n" in content:
            line, content = content.split(b"\n", 1)
            message = json.loads(line)
            if "tick" in message:
                tick(str(message["tick"]))
            elif "refused" in message:
                raise WatchdogError(as_phrase(unpacked(message["refused"])))
            elif "system" in message:
                raise OSError(*message["system"])
            else:
                return dict(message["answer"])


def main() -> None:
    """The child: imports, limits, no more rights, work, answer."""
    out = sys.stdout.fileno()
    name, whose, limits, argument = pickle.load(sys.stdin.buffer)
    module, _, function = name.partition(":")
    work = getattr(importlib.import_module(module), function)
    _preload()
    if whose is not None:
        os.setgroups(whose[2])
        os.setgid(whose[1])
        os.setuid(whose[0])
    _limit(limits)

    def say(**message: object) -> None:
        os.write(out, json.dumps(message).encode() + b"\n")

    try:
        answer = work(argument, lambda text: say(tick=text))
        data = json.dumps({"answer": answer}).encode() + b"\n"
        while data:
            data = data[os.write(out, data) :]
    except (WatchdogError, OSError, MemoryError, sqlite3.Error) as error:
        say(**reason_of(error))


def reason_of(error: Exception) -> dict[str, Any]:
    """Why the child gave up, for its parent."""
    match error:
        case OSError():
            return {"system": [error.errno or 0, error.strerror or str(error)]}
        case MemoryError():
            return {"refused": packed(Obstacle.MEMORY())}
        case sqlite3.Error() if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            return {"system": [errno.ENOSPC, os.strerror(errno.ENOSPC)]}
        case sqlite3.Error():
            return {"refused": packed(why_of(error))}
    return {"refused": packed(str(error))}


def _preload() -> None:
    """What the standard library would only import later, when it may lie where we can no longer read."""
    codecs = "encodings.utf_16_le encodings.utf_16_be encodings.latin_1 encodings.idna encodings.ascii"
    for name in f"shutil tempfile random zlib gzip {codecs} traceback linecache _strptime".split():
        importlib.import_module(name)


def _limit(limits: ChildLimits) -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, int(limits.seconds) + 5),
        (resource.RLIMIT_FSIZE, limits.written),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails with an error that is told

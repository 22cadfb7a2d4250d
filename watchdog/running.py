"""One way to run a command: an argument list, a time limit, bounded output, no shell, nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from watchdog.values import dataclass

KEPT = 16_000  # bytes of the beginning and as many of the end; a person reads no more
NOT_THERE, TOO_LONG = 127, 124  # as the shell and timeout(1) say it


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and what it printed, cut in the middle when long."""

    code: int
    output: str


class Runner(Protocol):
    def __call__(self, argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran: ...


class Kept:
    """The beginning and the end of a stream, whatever its length."""

    def __init__(self) -> None:
        self.head, self.tail, self.total = bytearray(), bytearray(), 0

    def __call__(self, chunk: bytes | str) -> None:
        data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
        self.total += len(data)
        room = max(KEPT - len(self.head), 0)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 4 * KEPT:
            del self.tail[:-KEPT]

    def text(self) -> str:
        tail = self.tail[-KEPT:]
        cut = self.total - len(self.head) - len(tail)
        middle = f"\n… {cut} bytes left out …\n" if cut > 0 else ""
        return self.head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")


def run(argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran:
    """Run it to its end or to the time limit; when it is late, all of its session ends with it."""
    import sh

    surroundings = dict(os.environ if env is None else env)
    program = shutil.which(argv[0], path=surroundings.get("PATH", os.defpath))
    if program is None:
        return Ran(NOT_THERE, f"{argv[0]}: not there, or not a program that we may run")
    kept = Kept()
    try:
        # Its own session, so that one signal ends all of it; sh keeps nothing itself, so that 1 GB costs no memory.
        command = sh.Command(program)(
            *argv[1:],
            _bg=True,
            _bg_exc=False,
            _new_session=True,
            _in="",
            _out=kept,
            _err_to_out=True,
            _no_out=True,
            _no_pipe=True,
            _decode_errors="replace",
            _out_bufsize=65536,
            _env=surroundings,
            _tty_out=False,
        )
    except (sh.CommandNotFound, sh.ForkException, OSError) as error:
        return Ran(NOT_THERE, f"{argv[0]}: {error}")
    code = _exit_code(command, timeout)
    if code is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, number)
            if _exit_code(command, 2) is not None:
                command.process.wait()
                break
        return Ran(TOO_LONG, f"{kept.text()}\n{argv[0]}: not done after {timeout:g} s; ended".lstrip())
    # The exit is known before the last output is; this waits for it, at most two seconds when a child of the
    # command went on living with the pipe in its hands.
    command.process.wait()
    return Ran(code, kept.text())


def _exit_code(command: Any, seconds: float) -> int | None:
    import sh

    try:
        command.wait(timeout=seconds)
        return 0
    except sh.ErrorReturnCode as error:
        return int(error.exit_code)
    except sh.TimeoutException:
        return None

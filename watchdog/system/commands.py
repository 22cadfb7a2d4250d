"""Two ways to run a command, both with an argument list, a time limit, bounded output and no shell.

`run` carries out a step of a recipe, through `sh`. `ask` and `capture` read something quickly, through
subprocess: `sh` loads asyncio and ssl, which costs as much as six starts of Python.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from watchdog.values import dataclass

KEPT = 16_000  # bytes of the beginning and as many of the end; a person reads no more
ASKED = 1_000_000  # bytes of an answer that are read
QUICK = 10  # seconds for an answer, which takes a tenth of one; what hangs must not hold a check
NOT_THERE, NOT_ALLOWED, TOO_LONG = 127, 126, 124  # as the shell and timeout(1) say it


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and what it printed, cut in the middle when long."""

    code: int
    output: str


class Runner(Protocol):
    def __call__(self, argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran: ...


@dataclass(frozen=True)
class Captured:
    """What a quick command printed, apart; a command that was too long or too late has what came until then."""

    code: int
    output: bytes = b""
    errors: str = ""


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


def ask(argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran:
    """What a quick command answers, its complaints after it; its whole session ends with the time limit."""
    answer = capture(argv, timeout, env=env)
    return Ran(answer.code, answer.output.decode("utf-8", "replace") + answer.errors)


def capture(
    argv: Sequence[str],
    timeout: float,
    limit: int = ASKED,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Captured:
    """What a quick command prints when it is given this on its standard input: at most `limit` bytes of it.

    A command that prints more is ended there; so is one that is late.
    """
    # Not at the top: only a check with something to ask pays for it.
    import selectors
    import subprocess

    output, errors, code = bytearray(), bytearray(), TOO_LONG
    fd = os.memfd_create("given", os.MFD_CLOEXEC) if given else -1
    try:
        if given:
            os.write(fd, given)
            os.lseek(fd, 0, os.SEEK_SET)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            list(argv),
            stdin=fd if given else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        code = NOT_THERE if isinstance(error, FileNotFoundError) else NOT_ALLOWED
        return Captured(code, b"", f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
    finally:
        if given:
            os.close(fd)
    end = time.monotonic() + timeout
    with process, selectors.DefaultSelector() as streams:
        assert process.stdout is not None and process.stderr is not None
        streams.register(process.stdout, selectors.EVENT_READ, (output, limit))
        streams.register(process.stderr, selectors.EVENT_READ, (errors, KEPT))
        while streams.get_map() and len(output) < limit and (left := end - time.monotonic()) > 0:
            for key, _ in streams.select(left):
                kept, most = key.data
                chunk = os.read(key.fd, 65536)
                kept += chunk[: most - len(kept)]
                if not chunk:
                    streams.unregister(key.fileobj)
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(max(end - time.monotonic(), 0) if len(output) < limit else 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
    return Captured(code, bytes(output), errors.decode("utf-8", "replace"))


def run(argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None) -> Ran:
    """Run it to its end or to the time limit; when it is late, all of its session ends with it."""
    import sh  # not at the top: only carrying out a step pays for it

    surroundings = dict(os.environ if env is None else env)
    program = shutil.which(argv[0], path=surroundings.get("PATH", os.defpath))
    if program is None:
        return Ran(NOT_THERE, f"{argv[0]}: not there, or not a program that we may run")
    kept = Kept()
    try:
        # Its own session, so that one signal ends all of it; sh keeps nothing itself, so that 1 GB costs no
        # memory.
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

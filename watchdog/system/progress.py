"""A sign of life for a person who waits."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from watchdog.values import Any


class Progress:
    """A line on standard error for anything that takes longer than two seconds.

    Where others do the work and this process waits, an alarm will do; a process without a second thread can
    be forked.
    """

    thread: Any = None

    def __init__(self, alarm: bool = False, patience: float = 2.0):
        self.began, self.text, self.patience, self.alarm = time.monotonic(), "", patience, alarm

    def __enter__(self) -> Progress:
        if self.alarm:
            self.before = signal.signal(signal.SIGALRM, lambda *_: self._say())
            signal.setitimer(signal.ITIMER_REAL, self.patience, self.patience)
            return self
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __call__(self, text: str) -> None:
        self.text = text

    def _watch(self) -> None:
        while not self.done.wait(self.patience):
            self._say()

    def _say(self) -> None:
        print(f"  {self.text} … {time.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.thread is None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
            return
        self.done.set()
        self.thread.join()


def on_a_terminal() -> AbstractContextManager[Callable[[str], None]]:
    """A sign of life where a person can see it, else none."""
    return Progress() if sys.stderr.isatty() else nullcontext(lambda text: None)

"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T],
    what: str,
    within: float = 90.0,
    every: float = 0.1,
    explain: Callable[[], str] = lambda: "",
) -> T:
    """The condition's first true value; what was awaited and the last sight of things when it never came."""
    deadline = time.monotonic() + within
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {what}\n{explain()}")
        time.sleep(every)

"""How many rounds a test with random input makes: few in every run, ten times as many with `make thorough`."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("HERMES_WATCHDOG_EFFORT", "1"))


def rounds(usual: int) -> int:
    return usual * EFFORT

"""`python -m watchdog.web.worker PLAN HOME CONFIG STATE`: carry out what was approved on the page, and tell."""

from __future__ import annotations

import sys
from contextlib import suppress

from watchdog.errors import WatchdogError
from watchdog.job import find_job
from watchdog.model import Outcome
from watchdog.notify.translate import in_english
from watchdog.service.answering import carry_out_now, tell_outcomes
from watchdog.store import Store


def say(outcome: Outcome) -> None:
    with suppress(OSError):  # the server, whose output this is, may be gone by now
        print(f"{in_english(outcome.what)}: {in_english(outcome.reason)}", flush=True)


def main(words: list[str]) -> int:
    number, home, config, state = words
    job = find_job(home, config if config else None, state)
    try:
        with Store.open(job.store_path) as store:
            outcomes, run = carry_out_now(job, store, int(number), say)
            for outcome in outcomes:
                say(outcome)
            tell_outcomes(outcomes, run)
    except WatchdogError as error:
        print(f"hermes-watchdog: plan {number}: {error}", file=sys.stderr)
        return error.exit_code if hasattr(error, "exit_code") else 2
    return 0 if outcomes and outcomes[-1].ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

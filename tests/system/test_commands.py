"""Commands: a list, a time limit, bounded output, nothing left behind."""

from __future__ import annotations

import time

from watchdog.system.commands import KEPT, NOT_THERE, TOO_LONG, run
from watchdog.system.procfs import start_time_of


def test_exit_code_and_both_streams_are_kept():
    told = run(("sh", "-c", "echo out; echo err >&2; exit 3"), 10)
    assert (told.code, told.output) == (3, "out\nerr\n")


def test_output_is_never_lost_however_short_the_command():
    assert all(run(("echo", "hello"), 10).output == "hello\n" for _ in range(20))


def test_a_command_that_is_not_there_is_told():
    assert run(("no-such-program",), 1).code == NOT_THERE
    assert run(("/etc/passwd",), 1).code == NOT_THERE


def test_a_command_that_hangs_is_ended_with_all_it_started():
    began = time.monotonic()
    told = run(("sh", "-c", "sleep 61.7 & echo $!; wait"), 1.5)
    assert told.code == TOO_LONG and "ended" in told.output and time.monotonic() - began < 20
    child = int(told.output.split()[0])
    for _ in range(100):
        if start_time_of(child) is None:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the child lives on")


def test_a_command_that_ignores_sigterm_is_killed():
    assert run(("sh", "-c", "trap '' TERM; sleep 60; sleep 60"), 0.3).code == TOO_LONG


def test_a_command_that_prints_without_end_keeps_only_beginning_and_end():
    told = run(("sh", "-c", "echo first; head -c 50000000 /dev/zero; echo; echo last"), 60)
    assert told.code == 0 and len(told.output) < 3 * KEPT
    assert (
        told.output.startswith("first\n")
        and told.output.endswith("last\n")
        and "bytes left out" in told.output
    )


def test_a_command_that_forks_away_does_not_hold_us():
    began = time.monotonic()
    told = run(("sh", "-c", "sleep 20 & echo started"), 30)
    assert told.code == 0 and told.output == "started\n" and time.monotonic() - began < 15


def test_a_command_reads_nothing_from_our_terminal():
    assert run(("cat",), 5).code == 0


def test_no_shell_sees_the_arguments():
    assert run(("echo", "$(id) `id` * ; rm -rf /"), 5).output == "$(id) `id` * ; rm -rf /\n"

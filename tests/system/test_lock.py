"""One check at a time per home, and none for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchdog.errors import WatchdogError
from watchdog.system.lock import NAME, Busy, TooLong, at_work, no_hurry, one_at_a_time, repairing, time_limit

NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)


def test_the_second_check_says_who_is_at_work_and_leaves_with_exit_code_zero(tmp_path: Path) -> None:
    with one_at_a_time(tmp_path, NOW):
        with pytest.raises(Busy) as told, one_at_a_time(tmp_path, NOW + timedelta(seconds=30)):
            pass
        who = f"a check (pid {os.getpid()}, begun 30 seconds ago)"
        assert str(told.value) == f"{who} is at work on this home; this one leaves it to it"
        assert told.value.exit_code == 0
        assert (
            at_work(tmp_path, NOW + timedelta(seconds=5))
            == f"a check (pid {os.getpid()}, begun 5 seconds ago)"
        )
    assert at_work(tmp_path, NOW) == ""
    with one_at_a_time(tmp_path, NOW):
        pass


def test_the_lock_of_a_killed_check_is_free_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from datetime import *; from pathlib import Path; from watchdog.system.lock import *\n"
        f"with one_at_a_time(Path({str(tmp_path)!r}), datetime.now(UTC)): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(Busy), one_at_a_time(tmp_path, NOW):
            pass
        holder.kill()
        holder.wait(10)
    with one_at_a_time(tmp_path, NOW):
        pass


def test_a_state_folder_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    says = r"cannot write .*/state/check.lock: .*; give another folder with --state DIR"
    with pytest.raises(WatchdogError, match=says), one_at_a_time(tmp_path / "state", NOW):
        pass


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(WatchdogError), one_at_a_time(tmp_path, NOW):
        pass
    assert (tmp_path / "precious").read_text() == "keep"


def test_a_check_that_passes_its_limit_is_given_up_with_a_message() -> None:
    says = (
        r"not done after 0\.05 seconds and was given up; the next one looks again at what it had not recorded"
    )
    with pytest.raises(TooLong, match=says) as told, time_limit(0.05):
        signal.pause()
    assert told.value.exit_code == 3
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_repair_stops_the_clock_of_the_limit() -> None:
    with time_limit(60):
        with no_hurry(), no_hurry():
            assert repairing()
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        assert not repairing()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    with no_hurry():
        assert not repairing()


def test_a_check_that_hangs_out_of_reach_ends_with_its_process(tmp_path: Path) -> None:
    # SIGALRM is blocked, as a system call that never returns would block it.
    code = (
        "import signal, time; from watchdog.system.lock import *\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
        "with time_limit(0.05, last_resort=0.1): time.sleep(30)"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.returncode == 3 and "hangs where it cannot be interrupted" in done.stderr
    assert time.monotonic() - began < 10

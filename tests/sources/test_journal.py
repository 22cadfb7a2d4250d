"""The journal: saved or asked, bounded, and believed only where journald vouches."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchdog.sources import journal

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def entry(message, at=1779184800000000, **more) -> bytes:
    return json.dumps({"__REALTIME_TIMESTAMP": str(at), "MESSAGE": message, "_PID": "1", **more}).encode() + b"\n"


def parsed(*lines: bytes):
    return list(journal.parse(lines, "journal", None, LATER))


def test_a_line_of_the_gateway_keeps_its_own_level_and_logger():
    (event,) = parsed(entry("WARNING gateway.run: it broke", _PID="812"))
    assert (event.level, event.logger, event.text) == ("WARNING", "gateway.run", "it broke")


def test_a_message_that_is_not_utf8_comes_as_bytes():
    (event,) = parsed(entry([104, 105, 255]))
    assert event.text == "hi�"


@pytest.mark.parametrize("line", [b"", b"not json\n", b"[]\n", b"{}\n", b'{"__REALTIME_TIMESTAMP": "x"}\n', b'{"__REALTIME_TIMESTAMP": "9e99", "MESSAGE": 1}\n', b"[" * 5000])
def test_what_is_no_entry_is_passed_over(line):
    assert parsed(line, entry("fine"))[-1].text == "fine"


@pytest.mark.parametrize(
    ("fields", "writer"),
    [({}, "systemd"), ({"_PID": "812", "_COMM": "systemd", "_EXE": "/tmp/evil"}, "process systemd"), ({"_PID": "900", "_EXE": "/usr/lib/systemd/systemd"}, "systemd")],
)
def test_only_journalds_own_fields_tell_who_wrote(fields, writer):
    assert parsed(entry("x", **fields))[0].logger == writer


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch):
    """A journalctl of our own on the PATH."""

    def make(script: str) -> None:
        program = tmp_path / "journalctl"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return make


def test_a_journal_that_may_not_be_read_is_blind_with_the_reason(journalctl):
    journalctl("echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1")
    with pytest.raises(journal.JournalBlind, match=r"insufficient permissions\.; run as a member of systemd-journal"):
        journal.from_journalctl(["a.service"], False, datetime(2026, 1, 1, tzinfo=UTC), LATER)


def test_an_endless_journal_is_cut_off(journalctl, monkeypatch):
    monkeypatch.setattr(journal, "MOST", 100_000)
    journalctl("exec yes '{\"__REALTIME_TIMESTAMP\":\"1779184800000000\",\"_PID\":\"1\",\"MESSAGE\":\"x\"}'")
    events = journal.from_journalctl(["a.service"], False, datetime(2026, 1, 1, tzinfo=UTC), LATER)
    assert 100 < len(events) < 5000


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ([entry("Stopped Hermes.", JOB_TYPE="stop"), entry("x: Scheduled restart job, restart counter is at 3.")], "stopped"),
        ([entry("Stopped Hermes.", JOB_TYPE="restart"), entry("x: Scheduled restart job, restart counter is at 3.")], "restarting"),
        ([entry("Started Hermes.", JOB_TYPE="start"), entry("x: Scheduled restart job, restart counter is at 3.")], ""),
        ([entry("Started Hermes.", JOB_TYPE="start", _BOOT_ID=journal._boot()), entry("x: Scheduled restart job, 3.")], "started"),
        ([entry("x: Main process exited, code=exited, status=1"), entry("Started Hermes.", _BOOT_ID=journal._boot())], "died"),
        ([entry("x: Failed with result 'exit-code'."), entry("Started Hermes.", at=1760000000000000)], ""),
        ([entry("Stopped Hermes.", JOB_TYPE="stop", _PID="812", _EXE="/bin/x"), entry("Started Hermes.", JOB_TYPE="start")], ""),
    ],
)
def test_the_last_word_of_systemd_tells_a_stop_from_a_crash(journalctl, tmp_path, lines, word):
    (tmp_path / "journal.txt").write_bytes(b"".join(lines))
    journalctl(f"cat {tmp_path}/journal.txt")
    assert journal.last_word([("a.service", False)], datetime(2026, 1, 1, tzinfo=UTC))[0] == word

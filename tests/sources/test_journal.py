"""The journal: saved or asked, bounded, and believed only where journald vouches."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from homes import chat_text

from watchdog.gateway import units_of
from watchdog.model import Line
from watchdog.sources import journal, read

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def entry(message, at=1779184800000000, **more) -> bytes:
    return (
        json.dumps({"__REALTIME_TIMESTAMP": str(at), "MESSAGE": message, "_PID": "1", **more}).encode()
        + b"\n"
    )


def parsed(*lines: bytes):
    return list(journal.parse(lines, "journal", chat_text(), until=LATER))


def test_a_line_of_the_gateway_keeps_its_own_level_and_logger():
    (event,) = parsed(entry("WARNING gateway.run: it broke", _PID="812"))
    assert (event.level, event.logger, event.text) == ("WARNING", "gateway.run", "it broke")


def test_a_message_that_is_not_utf8_comes_as_bytes():
    (event,) = parsed(entry([104, 105, 255]))
    assert event.text == "hi�"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json\n",
        b"[]\n",
        b"{}\n",
        b'{"__REALTIME_TIMESTAMP": "x"}\n',
        b'{"__REALTIME_TIMESTAMP": "9e99", "MESSAGE": 1}\n',
        b"[" * 5000,
    ],
)
def test_what_is_no_entry_is_passed_over(line):
    assert parsed(line, entry("fine"))[-1].text == "fine"


@pytest.mark.parametrize(
    ("fields", "writer"),
    [
        ({}, "systemd"),
        ({"_PID": "812", "_COMM": "systemd", "_EXE": "/tmp/evil"}, "process systemd"),
        ({"_PID": "900", "_EXE": "/usr/lib/systemd/systemd"}, "systemd"),
    ],
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
    with pytest.raises(
        journal.JournalBlind, match=r"insufficient permissions\.; run as a member of systemd-journal"
    ):
        journal.from_journalctl(["a.service"], False, datetime(2026, 1, 1, tzinfo=UTC), LATER, chat_text())


@pytest.mark.parametrize("systemd", [True, False])
def test_the_journal_is_asked_only_where_systemd_is_at_work(home, tmp_path, journalctl, monkeypatch, systemd):
    folder = home("")
    (tmp_path / "agent.service").write_text(f"{GATEWAY}Environment=HERMES_HOME={folder}\n")
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(tmp_path))
    monkeypatch.setattr(read, "SYSTEMD", str(tmp_path if systemd else tmp_path / "gone"))
    journalctl(f"cat {tmp_path}/journal.txt")
    (tmp_path / "journal.txt").write_bytes(entry("Started agent.service."))
    since = datetime(2026, 1, 1, tzinfo=UTC)
    with read.read_all(read.Sources(folder), {"journal": [Line("journal")]}, since, LATER) as reading:
        assert [event.text for event in reading.events] == ["Started agent.service."] * systemd


def test_an_endless_journal_is_cut_off(journalctl, monkeypatch):
    monkeypatch.setattr(journal, "MOST", 100_000)
    journalctl('exec yes \'{"__REALTIME_TIMESTAMP":"1779184800000000","_PID":"1","MESSAGE":"x"}\'')
    events = journal.from_journalctl(
        ["a.service"], False, datetime(2026, 1, 1, tzinfo=UTC), LATER, chat_text()
    )
    assert 100 < len(events) < 5000


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (
            [
                entry("Stopped Hermes.", JOB_TYPE="stop"),
                entry("x: Scheduled restart job, restart counter is at 3."),
            ],
            "stopped",
        ),
        (
            [
                entry("Stopped Hermes.", JOB_TYPE="restart"),
                entry("x: Scheduled restart job, restart counter is at 3."),
            ],
            "restarting",
        ),
        (
            [
                entry("Started Hermes.", JOB_TYPE="start"),
                entry("x: Scheduled restart job, restart counter is at 3."),
            ],
            "",
        ),
        (
            [
                entry("Started Hermes.", JOB_TYPE="start", _BOOT_ID=journal._boot()),
                entry("x: Scheduled restart job, 3."),
            ],
            "started",
        ),
        (
            [
                entry("x: Main process exited, code=exited, status=1"),
                entry("Started Hermes.", _BOOT_ID=journal._boot()),
            ],
            "died",
        ),
        ([entry("x: Failed with result 'exit-code'."), entry("Started Hermes.", at=1760000000000000)], ""),
        ([entry("x: Succeeded."), entry("Started Hermes.", _BOOT_ID=journal._boot())], "died"),
        (
            [entry("Failed to start Hermes.", JOB_TYPE="start"), entry("Stopped Hermes.", JOB_TYPE="stop")],
            "died",
        ),
        (
            [entry("Stopped Hermes.", JOB_TYPE="stop"), entry("Failed to start Hermes.", JOB_TYPE="start")],
            "stopped",
        ),
        (
            [
                entry("Stopped Hermes.", JOB_TYPE="stop", _PID="812", _EXE="/bin/x"),
                entry("Started Hermes.", JOB_TYPE="start"),
            ],
            "",
        ),
    ],
)
def test_the_last_word_of_systemd_tells_a_stop_from_a_crash(journalctl, tmp_path, lines, word):
    (tmp_path / "journal.txt").write_bytes(b"".join(lines))
    journalctl(f"cat {tmp_path}/journal.txt")
    assert journal.last_word([("a.service", False)], datetime(2026, 1, 1, tzinfo=UTC))[0] == word


GATEWAY = "[Service]\nExecStart=/v/bin/python -m hermes_cli.main gateway run --replace\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"my-agent": GATEWAY + "Environment=HERMES_HOME={home}\n"}, ["my-agent"]),
        ({"my-agent": GATEWAY}, ["my-agent"]),
        ({"my-agent": "[Service]\nExecStart=/v/bin/hermes \\\n  gateway run\n"}, ["my-agent"]),
        ({"my-agent": GATEWAY + 'Environment="HERMES_HOME=/srv/other"\n'}, []),
        ({"my-agent": GATEWAY + "User=nobody\n"}, []),
        ({"hermes-work": "[Service]\nExecStart=/v/bin/hermes --profile work gateway run\n"}, []),
        ({"my-agent": "[Service]\nExecStart=/opt/agent.sh\nEnvironment=HERMES_HOME={home}\n"}, ["my-agent"]),
        ({"hermes-gateway": "[Service]\nExecStart=/opt/agent.sh\n"}, ["hermes-gateway"]),
        ({"my-agent": "[Service]\nExecStart=/opt/hermes/agent.sh\n"}, []),
        # What only shares the home with the gateway tells nothing of the gateway.
        (
            {
                "a-page": "[Service]\nExecStart=/v/bin/hermes dashboard\nEnvironment=HERMES_HOME={home}\n",
                "my-agent": GATEWAY,
            },
            ["my-agent"],
        ),
        (
            {"hermes-page": "[Service]\nExecStart=/v/bin/hermes dashboard\nEnvironment=HERMES_HOME={home}\n"},
            [],
        ),
        (
            {
                "hermes-copy": "[Service]\nType=oneshot\nExecStart=/usr/bin/tar c {home}\nEnvironment=HERMES_HOME={home}\n"
            },
            [],
        ),
        (
            {
                "mine": "[Service]\nExecStart=/v/bin/python -P -m watchdog run --home {home}\nEnvironment=HERMES_HOME={home}\n"
            },
            [],
        ),
        ({"cron": "[Service]\nExecStart=/usr/sbin/cron\n"}, []),
    ],
)
@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
def test_the_gateways_unit_is_found_whatever_it_is_called(tmp_path, monkeypatch, files, found, user):
    home = tmp_path / ".hermes"
    folder = tmp_path / ".config/systemd/user" if user else tmp_path / "units"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.service").write_text(text.replace("{home}", str(home)))
    if not user:
        monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(folder))
    assert [one for one in units_of(home) if one[0] in {f"{name}.service" for name in files}] == [
        (f"{name}.service", user) for name in found
    ]


def test_a_unit_of_a_linked_home_is_its_units(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "agent.service").write_text(f"{GATEWAY}Environment=HERMES_HOME={tmp_path}/link\n")
    os.mkfifo(tmp_path / "pipe.service")
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(tmp_path))
    assert units_of(tmp_path / "real") == [("agent.service", False)]


def test_a_profiles_unit_is_known_by_the_profile_in_its_command(tmp_path, monkeypatch):
    (tmp_path / "agent.service").write_text("[Service]\nExecStart=/v/bin/hermes --profile work gateway run\n")
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(tmp_path))
    assert ("agent.service", False) in units_of(tmp_path / ".hermes/profiles/work")
    assert ("agent.service", False) not in units_of(tmp_path / ".hermes/profiles/play")

"""Entries for cron and systemd: right for cron's poor surroundings, put in once, taken away exactly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from watchdog.cli import main
from watchdog.config.fleet_settings import FleetSettings
from watchdog.config.settings import Settings
from watchdog.errors import WatchdogError
from watchdog.gateway.host_facts import HostFacts
from watchdog.gateway.reasons import MayNot
from watchdog.gateway.recognise import recognise
from watchdog.gateway.supervisor import DOCKER, PROCESS, SYSTEM, UNKNOWN, USER, Supervisor
from watchdog.job import profiles
from watchdog.service.hardening import Sandbox, sandbox_for, written_elsewhere
from watchdog.service.install import (
    DAEMON,
    TIMER,
    Entry,
    ask,
    calendar,
    cron_entry,
    cron_fields,
    interpreter,
    places,
    read_crontab,
    remove_units,
    unit_files,
    unit_name,
    with_entry,
    without_entry,
    write_crontab,
    write_units,
)
from watchdog.system.commands import Captured

HOME = Path("/home/me/.hermes")
DOCS = Path(__file__).parents[2] / "docs"
ENTRY = Entry(HOME, "/opt/venv/bin/python")


@pytest.mark.parametrize(
    ("every", "fields"),
    [
        ("15m", "*/15 * * * *"),
        ("1m", "* * * * *"),
        ("1h", "0 * * * *"),
        ("60m", "0 * * * *"),
        ("8h", "0 */8 * * *"),
        ("1d", "0 0 * * *"),
        ("0 8,14,22 * * *", "0 8,14,22 * * *"),
    ],
)
def test_a_pace_becomes_five_fields(every: str, fields: str) -> None:
    assert cron_fields(every) == fields


@pytest.mark.parametrize(
    ("every", "says"),
    [
        (
            "7m",
            "--every: cron cannot do '7m' evenly; write 5m, 10m, 15m, 30m, 1h or a cron expression in quotes",
        ),
        ("90s", "--every: cron cannot do '90s' evenly"),
        ("10s", "--every: '10s' is shorter than a minute, which cron cannot do"),
        ("soon", "--every: 'soon' is neither a duration"),
        ("99 * * * *", "--every: '99 * * * *' is not a cron expression: minute: '99'"),
    ],
)
def test_a_pace_that_cron_cannot_keep_is_refused_with_what_to_write(every: str, says: str) -> None:
    with pytest.raises(WatchdogError) as told:
        cron_fields(every)
    assert str(told.value).startswith(says)


def test_the_cron_line_says_all_that_cron_does_not_know() -> None:
    begin, line, end = cron_entry(ENTRY).splitlines()
    assert (
        begin == "# >>> hermes-watchdog /home/me/.hermes >>>"
        and end == "# <<< hermes-watchdog /home/me/.hermes <<<"
    )
    assert line == (
        "*/15 * * * * PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "
        "/opt/venv/bin/python -P -m watchdog check --quiet --home /home/me/.hermes"
    )


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        ({"HOME": "/home/me"}, ()),
        ({}, ()),
        ({"HOME": "/srv/my files"}, (("HOME", "/srv/my files"),)),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/var/state"}, (("XDG_STATE_HOME", "/var/state"),)),
    ],
)
def test_cron_is_told_where_settings_and_store_are_when_it_would_look_elsewhere(environment, given) -> None:
    assert places(environment, "/home/me") == given
    entry = replace(ENTRY, environment=given)
    set_there = "".join(f"{name}='{value}' " if " " in value else f"{name}={value} " for name, value in given)
    assert f"LC_ALL=C.UTF-8 {set_there}/opt/venv/bin/python" in cron_entry(entry)
    service = unit_files(entry, DAEMON)[0].text
    for name, value in given:
        assert f"Environment={name}={value}\n" in service or f'Environment="{name}={value}"\n' in service


@pytest.mark.parametrize("name", ["with space", "50%", "quote'd", 'dou"ble', "$HOME", "back\\slash", "中文"])
def test_odd_names_of_homes_reach_the_program_unchanged_through_cron_and_its_shell(
    name: str, tmp_path: Path
) -> None:
    home = tmp_path / name
    line = cron_entry(Entry(home, sys.executable)).splitlines()[1]
    command = line.split(" ", 5)[5].replace(r"\%", "%")  # as cron hands it to the shell
    printed = command.replace("-P -m watchdog", "-c 'import sys; print(sys.argv[-1])'")
    told = subprocess.run(["sh", "-c", printed], capture_output=True, text=True, timeout=20, encoding="utf-8")
    assert told.stdout == f"{home}\n"
    assert "%" not in line.replace(r"\%", "")


def test_a_home_with_a_newline_is_refused() -> None:
    with pytest.raises(WatchdogError, match="control character"):
        cron_entry(Entry(Path("/tmp/a\n* * * * * rm -rf /"), "/usr/bin/python3"))


OTHERS = "MAILTO=me\n# mine\n0 4 * * * /usr/bin/backup\n"


def test_an_entry_is_put_in_once_replaced_in_place_and_taken_away_exactly() -> None:
    first = with_entry(OTHERS, HOME, cron_entry(ENTRY))
    assert first == OTHERS + cron_entry(ENTRY)
    assert with_entry(first, HOME, cron_entry(ENTRY)) == first
    more = first + "5 5 * * * /usr/bin/later\n"
    hourly = cron_entry(Entry(HOME, "/opt/venv/bin/python", every="1h"))
    assert with_entry(more, HOME, hourly) == OTHERS + hourly + "5 5 * * * /usr/bin/later\n"
    assert without_entry(more, HOME) == (OTHERS + "5 5 * * * /usr/bin/later\n", cron_entry(ENTRY))
    assert without_entry(OTHERS, HOME) == (OTHERS, "")


def test_each_home_has_its_own_entry() -> None:
    other = Path("/home/me/.hermes/profiles/work")
    both = with_entry(
        with_entry("", HOME, cron_entry(ENTRY)), other, cron_entry(Entry(other, "/opt/venv/bin/python"))
    )
    left, gone = without_entry(both, HOME)
    assert left == cron_entry(Entry(other, "/opt/venv/bin/python")) and gone == cron_entry(ENTRY)
    assert unit_name(HOME) != unit_name(other)


def test_a_crontab_without_a_last_newline_keeps_its_last_line() -> None:
    assert with_entry("0 4 * * * x", HOME, "E\n") == "0 4 * * * x\nE\n"


@pytest.mark.parametrize("sign", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_newline_ends_a_line_of_a_crontab(sign: str) -> None:
    """Found by fuzzing: after any of these, cron sees one line where Python's splitlines sees two."""
    within = f"0 4 * * * x{sign}{cron_entry(ENTRY)}"
    assert without_entry(within, HOME) == (within, "")
    assert without_entry(with_entry(within, HOME, cron_entry(ENTRY)), HOME) == (within, cron_entry(ENTRY))


def test_an_entry_whose_end_was_edited_away_is_not_guessed_at() -> None:
    broken = OTHERS + "\n".join(cron_entry(ENTRY).splitlines()[:2]) + "\n0 9 * * * precious\n"
    with pytest.raises(
        WatchdogError, match=r"crontab line 4: the entry of /home/me/.hermes begins here but its end line"
    ):
        without_entry(broken, HOME)


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ("15m", "*-*-* *:0/15:00"),
        ("1h", "*-*-* *:0:00"),
        ("8h", "*-*-* 0/8:0:00"),
        ("0 8,14,22 * * *", "*-*-* 8,14,22:0:00"),
        ("*/10 8-18 * * *", "*-*-* 8..18:0/10:00"),
    ],
)
def test_a_pace_becomes_a_calendar_that_systemd_accepts(every: str, expected: str) -> None:
    assert calendar(every) == expected
    if tool := shutil.which("systemd-analyze"):
        assert subprocess.run([tool, "calendar", expected], capture_output=True, timeout=20).returncode == 0


def test_weekdays_in_a_systemd_timer_are_refused_with_what_to_write() -> None:
    with pytest.raises(WatchdogError, match="a systemd timer takes a duration or a daily cron expression"):
        calendar("0 8 * * 1")


@pytest.mark.parametrize(
    ("supervisor", "root", "expected"),
    [
        (
            Supervisor(SYSTEM, "h.service", restart=("/usr/bin/systemctl", "restart", "h.service")),
            True,
            Sandbox.FULL,
        ),
        (Supervisor(USER, "h.service", restart=("env", "systemctl")), False, Sandbox.LIGHT),
        (Supervisor(DOCKER, "h", restart=("docker", "restart", "h")), False, Sandbox.LIGHT),
        (Supervisor(SYSTEM, "h.service", restart=("sudo", "-n", "systemctl")), False, Sandbox.NONE_FOR_SUDO),
        (Supervisor(PROCESS, argv=("/v/bin/hermes", "gateway", "run")), True, Sandbox.NONE_FOR_PROCESS),
        (Supervisor(UNKNOWN, may_act=False), True, Sandbox.NONE_FOR_PROCESS),
    ],
)
def test_a_unit_is_locked_up_as_far_as_its_gateway_allows(
    supervisor: Supervisor, root: bool, expected: Sandbox
) -> None:
    assert sandbox_for(supervisor, root) is expected


def test_a_unit_of_root_may_write_only_in_the_home_and_its_own_folder() -> None:
    entry = replace(ENTRY, root=True, sandbox=Sandbox.FULL, writes=(HOME, Path("/var/lib/w")))
    for kind in (TIMER, DAEMON):
        text = unit_files(entry, kind)[0].text
        assert "ProtectSystem=strict\n" in text and "NoNewPrivileges=yes\n" in text
        assert f"ReadWritePaths=-{HOME}\nReadWritePaths=-/var/lib/w\n" in text and "PrivateTmp=yes\n" in text
    assert "PrivateTmp" not in unit_files(replace(entry, writes=(Path("/tmp/home"),)), DAEMON)[0].text


def test_a_unit_that_is_locked_up_may_write_where_the_settings_say(tmp_path: Path) -> None:
    """Under ProtectSystem=strict the page and the metrics would be lost; the lab saw that."""
    settings = Settings(page=f"{tmp_path}/hermes.html", fleet=FleetSettings(textfile="/nowhere"))
    assert written_elsewhere(settings) == (tmp_path,)
    assert written_elsewhere(replace(settings, page="", fleet=FleetSettings(textfile=str(tmp_path)))) == (
        tmp_path,
    )
    assert written_elsewhere(Settings()) == ()


RATED = {
    Sandbox.FULL: "3.4 OK",
    Sandbox.LIGHT: "6.4",
    Sandbox.NONE_FOR_SUDO: "9.6",
    Sandbox.NONE_FOR_PROCESS: "9.6",
}


@pytest.mark.parametrize("sandbox", list(Sandbox))
def test_systemd_rates_the_units_as_the_documents_say(sandbox: Sandbox, tmp_path: Path) -> None:
    """docs/security.md has these figures, made with systemd 252; another release may weigh otherwise."""
    tool = shutil.which("systemd-analyze")
    asked = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if "systemd 252" not in asked:
        pytest.skip("no systemd-analyze 252 here")
    entry = replace(ENTRY, root=True, sandbox=sandbox, writes=(HOME, Path("/var/lib/w")))
    (unit,) = unit_files(entry, DAEMON)
    (tmp_path / unit.name).write_text(unit.text)
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(tmp_path / unit.name)]
    rated = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.splitlines()[-1]
    assert f": {RATED[sandbox]}" in rated
    assert f"| {RATED[sandbox]}" in (DOCS / "security.md").read_text()


def test_a_watchdog_that_is_locked_up_starts_no_gateway_that_would_inherit_it() -> None:
    facts = HostFacts("/h", 1000, "me", "me", 1000, argv=("/v/bin/hermes", "gateway", "run"))
    assert recognise(facts).may_act
    locked = recognise(replace(facts, sandboxed=True))
    assert not locked.may_act and locked.why_not.key == MayNot.LOCKED_UP


@pytest.mark.parametrize("kind", [TIMER, DAEMON])
@pytest.mark.parametrize("sandbox", list(Sandbox))
@pytest.mark.parametrize("name", ["plain", "with space", '50% "q" $x 中'])
def test_systemd_finds_no_fault_in_the_units(kind: str, name: str, sandbox: Sandbox, tmp_path: Path) -> None:
    entry = Entry(tmp_path / name, sys.executable, sandbox=sandbox, writes=(tmp_path / name,))
    files = unit_files(entry, kind)
    for file in files:
        (tmp_path / file.name).write_text(file.text)
    if not (tool := shutil.which("systemd-analyze")):
        pytest.skip("no systemd-analyze here")
    told = subprocess.run(
        [tool, "verify", "--man=no", *(str(tmp_path / file.name) for file in files)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    mine = [line for line in told.stderr.splitlines() if "gateway-watchdog" in line]
    assert mine == [] and told.returncode == 0, told.stderr


def test_no_unit_of_ours_is_taken_for_a_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.gateway import units_of

    home = tmp_path / ".hermes"
    for file in unit_files(Entry(home, "/usr/bin/python3"), DAEMON):
        (tmp_path / file.name).write_text(file.text)
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(tmp_path))
    assert [name for name, _ in units_of(home) if "watchdog" in name] == []


def test_the_daemon_unit_gives_a_repair_the_time_to_finish() -> None:
    (unit,) = unit_files(ENTRY, DAEMON)
    assert "Type=notify\n" in unit.text and "WatchdogSec=120\n" in unit.text
    assert "TimeoutStopSec=630\n" in unit.text and "KillMode=process\n" in unit.text
    assert "WantedBy=default.target" in unit.text
    assert (
        "WantedBy=multi-user.target" in unit_files(Entry(HOME, "/usr/bin/python3", root=True), DAEMON)[0].text
    )


class Machine:
    """A crontab command and a systemctl that remember what they were asked."""

    def __init__(self, crontab: str | None = None):
        self.crontab, self.asked, self.fails = crontab, [], {}  # type: ignore[var-annotated]

    def __call__(self, words: Sequence[str], text: str = "") -> Captured:
        self.asked.append(" ".join(words))
        for start, says in self.fails.items():
            if " ".join(words).startswith(start):
                return Captured(1, b"", says)
        if words[0] == "crontab":
            if words[1] == "-l":
                if self.crontab is None:
                    return Captured(1, b"", "no crontab for me\n")
                return Captured(0, self.crontab.encode())
            self.crontab = text if words[1] == "-" else None
        return Captured(0)


def test_a_user_without_a_crontab_gets_one_and_loses_it_again() -> None:
    machine = Machine()
    assert read_crontab(machine) == ""
    write_crontab(cron_entry(ENTRY), machine)
    assert machine.crontab == cron_entry(ENTRY)
    write_crontab(without_entry(machine.crontab, HOME)[0], machine)
    assert machine.crontab is None


def test_a_user_who_may_not_use_cron_is_told() -> None:
    machine = Machine()
    machine.fails["crontab -l"] = "You (me) are not allowed to use this program (crontab)\n"
    with pytest.raises(WatchdogError, match=r"not allowed to use this program .*may this user use cron"):
        read_crontab(machine)


def test_no_crontab_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WatchdogError) as told:
        ask(["crontab", "-l"])
    assert str(told.value) == (
        f"there is no 'crontab' command on this machine (PATH is {tmp_path}); "
        "install cron (Debian: apt install cron) or use --systemd-timer"
    )


def test_units_are_written_enabled_and_removed_and_strangers_left_alone(tmp_path: Path) -> None:
    machine, files = Machine(), unit_files(ENTRY, TIMER)
    write_units(files, tmp_path, False, machine)
    assert machine.asked == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {unit_name(HOME)}.timer",
    ]
    (tmp_path / "hermes-gateway.service").write_text("[Unit]\n")
    gone = remove_units(HOME, tmp_path, False, machine)
    assert sorted(path.name for path in gone) == [f"{unit_name(HOME)}.service", f"{unit_name(HOME)}.timer"]
    assert [path.name for path in tmp_path.iterdir()] == ["hermes-gateway.service"]
    assert remove_units(HOME, tmp_path, False, machine) == []


def test_a_unit_of_that_name_which_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / f"{unit_name(HOME)}.service").write_text("[Unit]\nDescription=somebody's\n")
    with pytest.raises(WatchdogError, match="was not made by 'hermes-watchdog install'; move it away first"):
        write_units(unit_files(ENTRY, DAEMON), tmp_path, False, Machine())
    assert remove_units(HOME, tmp_path, False, Machine()) == []


def test_a_systemctl_that_refuses_is_quoted_with_the_way_out(tmp_path: Path) -> None:
    machine = Machine()
    machine.fails["systemctl --user daemon-reload"] = "Failed to connect to bus: No medium found"
    with pytest.raises(
        WatchdogError,
        match=r"No medium found; a user without a session needs once: sudo loginctl enable-linger",
    ):
        write_units(unit_files(ENTRY, DAEMON), tmp_path, False, machine)


def test_the_interpreter_is_absolute_and_no_shim() -> None:
    assert interpreter().startswith("/") and "/shims/" not in interpreter()
    real = interpreter("/home/me/.pyenv/shims/python3")
    assert "/shims/" not in real and Path(real).exists()


def test_profiles_are_homes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "profiles" / "work" / "logs").mkdir(parents=True)
    (tmp_path / "profiles" / "empty").mkdir()
    assert [Path(home) for home in profiles(tmp_path)] == [tmp_path, tmp_path / "profiles" / "work"]
    assert [Path(home) for home in profiles(tmp_path / "nowhere")] == [tmp_path / "nowhere"]


@pytest.mark.parametrize("name", ["a\x1b[31mred", "a\nb", "\u202egnp", "a\x07"])
def test_a_folder_whose_name_paints_on_a_terminal_is_no_profile(tmp_path: Path, name: str) -> None:
    (tmp_path / "profiles" / name / "logs").mkdir(parents=True)
    assert profiles(tmp_path) == [str(tmp_path)]


def test_the_example_crontab_has_the_two_paces_and_the_line_that_install_writes() -> None:
    text = (Path(__file__).parents[2] / "crontab.example").read_text()
    python, home = "/home/me/.local/share/pipx/venvs/hermes-watchdog/bin/python", Path("/home/me/.hermes")
    assert cron_entry(Entry(home, python)).splitlines()[1] in text
    assert "# " + cron_entry(Entry(home, python, every="0 8,14,22 * * *")).splitlines()[1] in text


@pytest.fixture
def fake_cron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A crontab command that keeps its table in a file, as cron's does."""
    table, tool = tmp_path / "table", tmp_path / "bin" / "crontab"
    tool.parent.mkdir()
    tool.write_text(
        f"#!/bin/sh\ncase $1 in -l) cat {table} 2>/dev/null || {{ echo 'no crontab for me' >&2; exit 1; }} ;;"
        f" -r) rm {table} ;; -) cat > {table} ;; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / ".hermes" / "logs").mkdir(parents=True)
    (tmp_path / ".hermes" / "profiles" / "work" / "logs").mkdir(parents=True)
    return table


def test_the_command_shows_writes_once_and_takes_away(
    fake_cron: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = fake_cron.parent / ".hermes"
    where = ["--home", str(home)]
    fake_cron.write_text(OTHERS)
    assert main(["install", "--cron", "--dry-run", *where]) == 0
    assert "nothing was written (dry run)" in capsys.readouterr().out and fake_cron.read_text() == OTHERS
    assert main(["install", "--cron", *where]) == 0
    shown = capsys.readouterr().out
    assert "written. See: " in shown and shown.rstrip().endswith(" status")
    written = fake_cron.read_text()
    assert main(["install", "--cron", *where]) == 0
    assert "already there; nothing changed" in capsys.readouterr().out and fake_cron.read_text() == written
    assert main(["install", "--cron", "--all-profiles", "--every", "1h", *where]) == 0
    assert fake_cron.read_text().count("0 * * * * ") == 2
    assert main(["uninstall", "--dry-run", *where]) == 0 and fake_cron.read_text().count("0 * * * * ") == 2
    assert main(["uninstall", "--all-profiles", *where]) == 0
    assert fake_cron.read_text() == OTHERS
    capsys.readouterr()
    assert main(["uninstall", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [], "written": True}


def test_without_a_home_or_a_crontab_command_nothing_is_written(
    fake_cron: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "--cron", "--home", "/nowhere/.hermes"]) == 2
    assert "/nowhere/.hermes: no such folder; give --home DIR or set HERMES_HOME" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["install", "--cron", "--home", str(fake_cron.parent / ".hermes")]) == 2
    assert "there is no 'crontab' command on this machine" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["install", "--home", str(fake_cron.parent)])
    assert "write one of --cron --systemd-timer --daemon" in capsys.readouterr().err

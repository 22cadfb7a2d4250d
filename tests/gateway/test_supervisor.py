"""Who runs the gateway: decided from facts, as tables of cases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from machines import ARGV, HOME
from machines import ROOT_FACTS as ROOT

from watchdog.gateway.command import folder_for, gateway_command
from watchdog.gateway.host_facts import HostFacts, Unit
from watchdog.gateway.loaded_units import systemd_span, units_from
from watchdog.gateway.machine import every_start
from watchdog.gateway.permission import lets, sudoers, with_permission
from watchdog.gateway.probe import Asked, find_supervisor
from watchdog.gateway.reasons import Found, MayNot, Warn
from watchdog.gateway.recognise import recognise
from watchdog.gateway.release import Install, drain_of, install_of
from watchdog.gateway.supervisor import PROCESS, SYSTEM, UNKNOWN, USER
from watchdog.gateway.unit_files import is_ours, names_of_hermes
from watchdog.model import Reason
from watchdog.notify.translate import in_english
from watchdog.system.commands import Ran

EXEC = "{ path=/opt/hermes/venv/bin/python ; argv[]=python -m hermes_cli.main gateway run }"
UNIT = Unit("hermes-gateway.service", SYSTEM, 812, EXEC, HOME, "hermes", timedelta(seconds=210))
OWN = replace(UNIT, scope=USER)


def in_unit(facts: HostFacts, unit: Unit, user: bool = False) -> HostFacts:
    path = (
        f"/user.slice/user-1000.slice/user@1000.service/app.slice/{unit.name}"
        if user
        else f"/system.slice/{unit.name}"
    )
    return replace(facts, cgroup=f"0::{path}\n", units=(unit,))


def test_a_system_unit_is_found_by_the_cgroup_of_the_process():
    found = recognise(in_unit(ROOT, UNIT))
    assert (found.kind, found.unit, found.may_act) == (SYSTEM, "hermes-gateway.service", True)
    assert found.restart == ("/usr/bin/systemctl", "restart", "hermes-gateway.service")
    assert found.stop_timeout == timedelta(seconds=210)


@pytest.mark.parametrize("name", ["hermes-gateway-work.service", "hermes-gateway-1a2b3c4d.service"])
def test_profile_and_hash_suffixed_units_are_found_too(name):
    assert recognise(in_unit(ROOT, replace(UNIT, name=name))).unit == name


def test_the_old_cgroup_layout_is_understood():
    facts = replace(
        ROOT,
        cgroup="12:pids:/system.slice/hermes-gateway.service\n1:name=systemd:/system.slice/hermes-gateway.service\n",
        units=(UNIT,),
    )
    assert recognise(facts).unit == "hermes-gateway.service"


def test_a_user_unit_gets_the_environment_that_cron_lacks():
    found = recognise(replace(in_unit(ROOT, OWN, user=True), uid=1000, user="hermes"))
    assert found.kind == USER
    assert found.restart == (
        "env",
        "XDG_RUNTIME_DIR=/run/user/1000",
        "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus",
        "/usr/bin/systemctl",
        "--user",
        "restart",
        "hermes-gateway.service",
    )


def test_root_manages_a_user_unit_as_its_user():
    assert recognise(in_unit(ROOT, OWN, user=True)).stop[:4] == ("runuser", "-u", "hermes", "--")


def test_a_user_unit_without_a_bus_names_the_cure():
    found = recognise(replace(in_unit(ROOT, OWN, user=True), bus=False))
    assert not found.may_act and "loginctl enable-linger hermes" in in_english(found.why_not)


def test_a_user_unit_of_someone_else_is_not_ours():
    found = recognise(replace(in_unit(ROOT, OWN, user=True), uid=1001, user="ann"))
    assert not found.may_act and found.why_not.key == MayNot.UNIT_OF_OTHER


def test_a_gateway_started_from_cron_does_not_make_cron_its_unit():
    cron = Unit("cron.service", SYSTEM, 400, "{ path=/usr/sbin/cron }", "/root/.hermes")
    found = recognise(in_unit(ROOT, cron))
    assert found.kind == PROCESS and found.argv == ARGV and found.stop == ()


def test_a_dead_gateway_is_found_by_the_unit_that_names_its_home():
    other = replace(
        UNIT, name="hermes-gateway-work.service", home="/home/hermes/.hermes/profiles/work", main_pid=0
    )
    found = recognise(replace(ROOT, pid=0, cgroup="", units=(replace(UNIT, main_pid=0), other)))
    assert found.unit == "hermes-gateway.service" and found.found.key == Found.UNIT_FILE


def test_a_dead_gateway_is_found_by_its_unit_whatever_that_is_called_but_never_by_ours(tmp_path):
    ours = Unit(
        "gateway-watchdog-1.service",
        SYSTEM,
        0,
        "{ path=/v/bin/python ; argv[]=/v/bin/python -P -m watchdog run ; }",
        HOME,
    )
    backup = Unit(
        "nightly.service",
        SYSTEM,
        0,
        "{ path=/usr/bin/tar ; argv[]=/usr/bin/tar cf /b/hermes.tar /home/hermes ; }",
        HOME,
    )
    found = recognise(
        replace(
            ROOT, pid=0, cgroup="", units=(ours, backup, replace(UNIT, name="assistant.service", main_pid=0))
        )
    )
    assert found.start[-2:] == ("start", "assistant.service")
    for name, text in (
        ("assistant.service", "[Service]\nExecStart=/v/bin/hermes gateway run\n"),
        ("cron.service", "[Service]\n"),
    ):
        (tmp_path / name).write_text(text)
    assert names_of_hermes((tmp_path, tmp_path / "none")) == {"assistant.service"}


def test_two_units_for_one_home_are_not_guessed_between():
    found = recognise(replace(ROOT, pid=0, cgroup="", units=(UNIT, OWN)))
    assert found.kind == UNKNOWN and not found.may_act and found.why_not.key == MayNot.SEVERAL


def test_the_settings_can_name_the_unit():
    other = replace(UNIT, name="my-hermes.service", home="")
    assert (
        recognise(replace(ROOT, pid=0, cgroup="", units=(UNIT, other), chosen="my-hermes")).unit
        == "my-hermes.service"
    )
    missing = recognise(replace(ROOT, pid=0, cgroup="", chosen="nope"))
    assert not missing.may_act and "'nope'" in in_english(missing.why_not)


def test_a_hand_started_gateway_beside_its_unit_file_is_a_process_with_a_warning():
    found = recognise(replace(ROOT, units=(replace(UNIT, main_pid=0),)))
    assert found.kind == PROCESS and found.warnings[0].key == Warn.OUTSIDE_UNIT


def test_a_bare_process_of_another_user_is_not_ours():
    found = recognise(replace(ROOT, uid=1001, user="ann"))
    assert not found.may_act and found.why_not.key == MayNot.PROCESS_OF_OTHER


def test_nothing_known_starts_nothing():
    found = recognise(replace(ROOT, pid=0, cgroup="", argv=()))
    assert found.kind == UNKNOWN and not found.may_act and found.why_not.key == MayNot.HOW_UNKNOWN


def test_a_watchdog_inside_the_gateway_may_not_act():
    found = recognise(replace(in_unit(ROOT, UNIT), inside=Reason(MayNot.CHILD_OF_GATEWAY, {"pid": 812})))
    assert not found.may_act and found.why_not.key == MayNot.CHILD_OF_GATEWAY


def test_without_sudo_the_exact_line_is_told_and_it_has_no_wildcard():
    facts = replace(in_unit(ROOT, UNIT), uid=1001, user="ann")
    found = recognise(facts)
    assert found.restart == ("sudo", "-n", "/usr/bin/systemctl", "restart", "hermes-gateway.service")
    refused = with_permission(found, "ann", lambda argv, timeout, env=None: Ran(1, "a password is required"))
    assert not refused.may_act and "sudo asks for a password" in in_english(refused.why_not)
    assert refused.sudoers_line == (
        "ann ALL=(root) NOPASSWD: /usr/bin/systemctl stop hermes-gateway.service, /usr/bin/systemctl start hermes-gateway.service, "
        "/usr/bin/systemctl restart hermes-gateway.service"
    )
    assert not set("*?[]!") & set(refused.sudoers_line)


def test_what_sudoers_reads_specially_is_escaped():
    found = recognise(replace(in_unit(ROOT, replace(UNIT, name="hermes:a@b.service")), uid=1001, user="ann"))
    assert "hermes\\:a@b.service" in sudoers("ann", found)


@pytest.mark.parametrize(
    "name", ["a b.service", "x;reboot.service", "--now.target", "*.service", "$(id).service"]
)
def test_a_unit_name_that_is_no_name_is_never_put_into_a_command(name):
    found = recognise(replace(ROOT, pid=0, cgroup="", units=(replace(UNIT, name=name),), chosen=name))
    assert not found.may_act and found.restart == ()


def test_a_stop_time_out_shorter_than_the_drain_is_reported():
    found = recognise(
        replace(
            in_unit(ROOT, replace(UNIT, stop_timeout=timedelta(seconds=90))), drain=timedelta(seconds=180)
        )
    )
    assert "its stop time-out (1 minute 30 seconds) is shorter than" in in_english(found.warnings[0])
    assert found.patience >= timedelta(seconds=330)
    assert recognise(replace(in_unit(ROOT, UNIT), drain=timedelta(seconds=180))).warnings == ()


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (ARGV, ARGV),
        (
            ("/x/venv/lib/python3.11/site-packages/hermes_cli/main.py", "gateway", "run"),
            ("/x/venv/bin/python", "-m", "hermes_cli.main", "gateway", "run"),
        ),
        (("/x/bin/python3.11", "/x/bin/hermes", "--profile", "work", "gateway", "run", "--replace"), None),
        (("/x/bin/python", "-m", "hermes_cli.main", "gateway", "run"), None),
        (("/bin/rm", "-rf", "/", "gateway", "run"), ()),
        (("/bin/sh", "-c", "hermes gateway run"), ()),
        (("hermes", "gateway", "run"), ()),
        (("/x/hermes", "gateway", "run", "--exec", "evil"), ()),
        (("/x/hermes", "gateway", "restart"), ()),
        (("/x/bin/python", "-c", "evil", "gateway", "run"), ()),
        (("/x/hermes\n", "gateway", "run"), ()),
        ((), ()),
    ],
)
def test_only_a_gateway_command_is_ever_started_from_the_pid_file(argv, command):
    assert gateway_command(argv) == (argv if command is None else command)


@pytest.mark.parametrize("venv", ["venv", ".venv"])
def test_a_checkout_with_its_own_interpreter_is_recognised_and_can_be_started(tmp_path, venv):
    checkout = tmp_path / "hermes-agent"
    (checkout / "hermes_cli").mkdir(parents=True)
    (checkout / "hermes_cli" / "main.py").touch()
    (checkout / "pyproject.toml").write_text('[project]\nname = "hermes-agent"\nversion = "0.20.5"\n')
    argv = (str(checkout / "hermes_cli" / "main.py"), "gateway", "run")
    assert gateway_command(argv) == ()  # nothing tells which interpreter
    python = checkout / venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    command = (str(python), "-m", "hermes_cli.main", "gateway", "run")
    assert gateway_command(argv) == command == gateway_command(command)
    assert folder_for(command) == str(checkout) and folder_for(ARGV) == ""
    for known in (argv, command):
        assert install_of(known) == Install("0.20.5", checkout)


def test_the_release_is_told_from_where_hermes_is_installed(tmp_path):
    (tmp_path / "lib" / "python3.11" / "site-packages" / "hermes_agent-0.19.0.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hermes").touch()
    for argv in (
        (str(tmp_path / "bin" / "python"), "-m"),
        (str(tmp_path / "bin" / "hermes"), "gateway", "run"),
        (str(tmp_path / "lib/python3.11/site-packages/hermes_cli/main.py"), "gateway", "run"),
    ):
        assert install_of(argv) == Install("0.19.0", tmp_path)
    assert install_of(("python",)) is None


def test_root_starts_no_program_that_others_can_replace():
    found = recognise(replace(ROOT, pid=0, cgroup="", owner="root", owner_uid=0, program_of_others=True))
    assert not found.may_act and found.why_not.key == MayNot.PROGRAM_OF_OTHERS


def test_what_systemctl_shows_is_read():
    shown = (
        "Id=hermes-gateway.service\nLoadState=loaded\nMainPID=812\nExecStart={ path=/x/hermes ; argv[]=/x/hermes gateway run }\n"
        'Environment=PATH=/usr/bin "HERMES_HOME=/home/h e/.hermes" A=b\nUser=hermes\nTimeoutStopUSec=3min 30s\nRestart=always\n'
        "ActiveState=active\nExecMainStatus=78\nNRestarts=4\n\nId=gone.service\nLoadState=not-found\nMainPID=0\n"
    )
    (unit,) = units_from(shown, SYSTEM)
    assert (unit.home, unit.main_pid, unit.stop_timeout, unit.exit_status) == (
        "/home/h e/.hermes",
        812,
        timedelta(seconds=210),
        78,
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("1min 30s", 90), ("infinity", None), ("", None), ("500ms", 0.5), ("1h 1min", 3660)]
)
def test_time_spans_of_systemd(text, seconds):
    assert systemd_span(text) == (None if seconds is None else timedelta(seconds=seconds))


def test_the_drain_is_the_setting_or_what_the_release_does(tmp_path):
    assert drain_of(tmp_path, ARGV) is None
    info = tmp_path / "venv/lib/python3.11/site-packages/hermes_agent-0.13.0.dist-info"
    info.mkdir(parents=True)
    argv = (str(tmp_path / "venv/bin/hermes"), "gateway", "run")
    assert drain_of(tmp_path, argv) == timedelta(seconds=180)
    (tmp_path / "config.yaml").write_text("agent:\n  restart_drain_timeout: 45  # short\n")
    assert drain_of(tmp_path, argv) == timedelta(seconds=45)


LISTING = """Matching Defaults entries for ann on lab:
    env_reset, secure_path=/usr/bin

User ann may run the following commands on lab:
    {rule}
"""
RESTART = "/usr/bin/systemctl restart hermes-gateway.service"


@pytest.mark.parametrize(
    ("rule", "free"),
    [
        (f"(root) NOPASSWD: {RESTART}", True),
        (f"(root) NOPASSWD: /usr/bin/systemctl stop hermes-gateway.service, {RESTART}", True),
        ("(ALL : ALL) NOPASSWD: ALL", True),
        ("(ALL : ALL) ALL", False),
        (f"(root) {RESTART}", False),
        (f"(root) NOPASSWD: /usr/bin/true, PASSWD: {RESTART}", False),
        (f"(backup) NOPASSWD: {RESTART}", False),
        ("(root) NOPASSWD: /usr/bin/systemctl restart other.service", False),
        (f"(ALL) NOPASSWD: ALL, !{RESTART}", False),
        ("(root) SETENV: NOPASSWD: /usr/bin/systemctl", True),
        ("", False),
    ],
)
def test_a_password_that_sudo_would_ask_for_is_seen_in_its_listing(rule, free):
    assert lets(LISTING.format(rule=rule), RESTART) is free


def test_permission_is_asked_for_without_doing_anything(tmp_path, monkeypatch):
    """As an ordinary user with a system unit: first sudo's listing, then polkit, then the line for visudo."""
    asked, answers = [], {"sudo": Ran(1, "a password is required"), "pkcheck": Ran(1, "")}

    def run(argv, timeout, env=None):
        asked.append(argv)
        if "list-unit-files" in argv:
            return Ran(0, "hermes-gateway.service enabled enabled\n")
        if "show" in argv:
            return Ran(
                0,
                f"Id=hermes-gateway.service\nLoadState=loaded\nExecStart=hermes gateway run\nEnvironment=HERMES_HOME={tmp_path}\n",
            )
        return answers.get(argv[0], Ran(1, ""))

    systemctl = tmp_path / "systemctl"
    systemctl.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    asker = Asked(tmp_path, tmp_path, uid=4321)
    found = find_supervisor(asker, run)
    assert (
        not found.may_act
        and f"4321 ALL=(root) NOPASSWD: {systemctl} stop hermes-gateway.service" in found.sudoers_line
    )
    assert not any({"stop", "start", "restart"} & set(argv) for argv in asked)
    answers["pkcheck"] = Ran(0, "")
    assert find_supervisor(asker, run).restart == (str(systemctl), "restart", "hermes-gateway.service")
    answers["sudo"] = Ran(127, "")
    answers["pkcheck"] = Ran(1, "")
    assert "sudo is not installed; run the watchdog as root" in in_english(
        find_supervisor(asker, run).why_not
    )


def test_our_own_service_is_known_by_its_program_and_not_by_a_word_in_a_path():
    assert is_ours(
        "{ path=/v/bin/python ; argv[]=/v/bin/python -P -m watchdog run --home /home/a/.hermes ; }"
    )
    assert is_ours("{ path=/v/bin/hermes-watchdog ; argv[]=/v/bin/hermes-watchdog run ; }")
    assert not is_ours(
        "{ path=/x/hermes-watchdog-lab/bin/python ; argv[]=/x/hermes-watchdog/bin/python -m hermes_cli.main gateway run ; }"
    )


def test_a_start_that_process_and_log_both_tell_of_is_one():
    began = datetime(2026, 5, 19, 10, tzinfo=UTC)
    said = (began - timedelta(minutes=9), began + timedelta(seconds=12))
    assert every_start(said, began) == said
    assert every_start(said[:1], began) == (said[0], began)
    assert every_start((), None) == ()

"""What a check leaves with the fleet: the file of metrics, the alerts, and a note about what did not work."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from homes import finish_check
from prometheus_client.parser import text_string_to_metric_families
from talk import NOW, incident, plan, report

from watchdog.approval import record as approval
from watchdog.fleet import publish
from watchdog.fleet.facts import gather, measured_interval, profile_of
from watchdog.fleet.metrics import exposition
from watchdog.model import Change
from watchdog.store import messages
from watchdog.store.incidents import save_changes
from watchdog.store.messages import TargetState
from watchdog.store.plans import begin_action, end_action
from watchdog.store.rows import plain
from watchdog.values import replace


def checked(store, *incidents, at=NOW, blind=None):
    """A finished check that found these."""
    save_changes(store, [Change("opened", replace_id(each)) for each in incidents])
    finish_check(store, at, at, blind or {}, ["session-stuck"])
    return report(at=at, home="/home/hermes/.hermes")


def replace_id(wrong):
    from watchdog.values import replace as changed

    return changed(wrong, id=0)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_file_has_every_metric_with_the_profile(store, fleet, tmp_path: Path):
    done = checked(store, incident(), incident(2, key="telegram/43"), blind={"journal": "no"})
    asked = replace(plan(incident()), id=approval.ask(store, plan(incident()), NOW))
    begin_action(store, replace_parts(asked), NOW)
    end_action(store, asked.id, "restart-gateway", "session-stuck telegram/42", "ok")
    messages.save_target(store, TargetState("phone", 4, NOW, plain("no"), NOW))
    publish(done, store, fleet(textfile=str(tmp_path)), NOW + timedelta(seconds=2))
    (path,) = tmp_path.glob("*.prom")
    assert path.name == "hermes_watchdog_default.prom"
    found = samples(path.read_text())
    profile = ("profile", "default")
    name = "hermes_watchdog_"
    assert found[name + "last_check_timestamp_seconds", (profile,)] == NOW.timestamp()
    assert found[name + "check_duration_seconds", (profile,)] == 2
    assert found[name + "check_interval_seconds", (profile,)] == 900
    labels = (profile, ("rule", "session-stuck"), ("severity", "high"))
    assert found[name + "incidents_open", labels] == 2
    assert found[name + "unseen_sources", (profile,)] == 1
    assert found[name + "plans_pending", (profile,)] == 1
    assert found[name + "armed", (profile,)] == 1
    acted = (("outcome", "ok"), profile, ("recipe", "restart-gateway"))
    assert found[name + "actions_total", acted] == 1
    assert found[name + "notifications_failed_total", (profile,)] == 4
    assert found[name + "gateway_up", (profile,)] == 0
    assert any(key[0] == name + "build_info" for key in found)


def replace_parts(asked):
    from watchdog.values import replace as changed

    return changed(asked, parts=(("restart-gateway", "session-stuck telegram/42", 0),))


def test_failed_messages_are_counted_ever_and_not_in_a_row(store, fleet, tmp_path: Path):
    settings = fleet(textfile=str(tmp_path))
    for failures in (2, 3, 0, 1):
        messages.save_target(store, TargetState("phone", failures, NOW, plain("no"), NOW))
        publish(checked(store), store, settings, NOW)
    (path,) = tmp_path.glob("*.prom")
    assert (
        samples(path.read_text())["hermes_watchdog_notifications_failed_total", (("profile", "default"),)]
        == 4
    )


def test_the_file_can_be_read_by_another_user_whatever_the_umask(store, fleet, tmp_path: Path):
    before = os.umask(0o077)
    try:
        publish(checked(store), store, fleet(textfile=str(tmp_path)), NOW)
    finally:
        os.umask(before)
    (path,) = tmp_path.glob("*.prom")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_names_from_outside_cannot_break_the_file(store, fleet, tmp_path: Path):
    wrong = incident(rule='evil"} 1\nup 0')
    checked(store, wrong)
    settings = fleet(textfile=str(tmp_path), profile='a/../b"\n')
    facts = gather(store, Path("/home/x\nup 0"), settings, {}, NOW)
    text = exposition(facts).decode()
    assert text.splitlines()[0] == "# home: /home/x\\nup 0"
    assert ("up", ()) not in samples(text)
    publish(report(home="/h"), store, settings, NOW)
    assert [path.name for path in tmp_path.glob("*.prom")] == ["hermes_watchdog_a_.._b__.prom"] or any(
        tmp_path.glob("hermes_watchdog_a_.._b*.prom")
    )


def test_two_homes_of_one_name_do_not_overwrite_each_other(store, fleet, tmp_path: Path):
    settings = fleet(textfile=str(tmp_path))
    assert publish(report(home="/home/anna/.hermes"), store, settings, NOW) == ()
    (path,) = tmp_path.glob("*.prom")
    before = path.read_bytes()
    (note,) = publish(report(home="/home/ben/.hermes"), store, settings, NOW)
    assert "is the file of another home" in note and path.read_bytes() == before


@pytest.mark.parametrize(
    "name",
    ["hermes_watchdog_hermes.prom", f".hermes_watchdog_hermes.prom.{os.getpid()}.new"],
    ids=["the file", "its new one"],  # the same in each worker, whose numbers differ
)
def test_a_link_in_the_folder_is_replaced_and_not_followed(store, fleet, tmp_path: Path, name: str):
    place, target = tmp_path / "textfiles", tmp_path / "precious"
    place.mkdir()
    target.write_text("precious")
    (place / name).symlink_to(target)
    home = "/srv/profiles/hermes"
    assert publish(report(home=home), store, fleet(textfile=str(place)), NOW) == ()
    assert target.read_text() == "precious"
    assert [each.name for each in place.iterdir()] == ["hermes_watchdog_hermes.prom"]
    assert not (place / "hermes_watchdog_hermes.prom").is_symlink()


@pytest.mark.parametrize("kind", ["missing", "a file", "full", "forbidden"])
def test_a_folder_that_cannot_be_written_is_a_note_and_the_old_file_stays(
    store, fleet, tmp_path: Path, kind: str
):
    place = tmp_path / "textfiles"
    if kind == "a file":
        place.write_text("")
    elif kind == "full":
        place = Path("/dev/full")
    elif kind == "forbidden":
        if os.geteuid() == 0:
            place = Path("/proc/1/fdinfo")  # even root makes no file there
        else:
            place.mkdir(0o500)
    (note,) = publish(checked(store), store, fleet(textfile=str(place)), NOW)
    assert "cannot write" in note


def test_every_alertmanager_gets_the_alerts_and_one_that_fails_is_told(store, fleet, alertmanager):
    settings = fleet(alertmanagers=(alertmanager.url, "http://127.0.0.1:9"))
    notes = publish(checked(store, incident()), store, settings, NOW)
    assert any("127[.]0[.]0[.]1" in note or "127.0.0.1:9" in note for note in notes)
    assert len(alertmanager.posted[0]) == 1


def test_a_service_that_fails_twice_is_told_like_a_target_and_forgotten_when_it_works(
    store, fleet, alertmanager
):
    settings = fleet(alertmanagers=(alertmanager.url,))
    alertmanager.status = 500
    publish(checked(store), store, settings, NOW)
    assert messages.targets(store) == {}
    publish(checked(store), store, settings, NOW)
    (state,) = messages.targets(store).values()
    assert state.failures == 2 and "500" in str(state.why)
    alertmanager.status = 200
    publish(checked(store), store, settings, NOW)
    assert messages.targets(store) == {}


def test_a_service_that_left_the_settings_is_forgotten(store, fleet, alertmanager, tmp_path: Path):
    alertmanager.status = 500
    for _ in range(2):
        publish(checked(store), store, fleet(alertmanagers=(alertmanager.url,)), NOW)
    publish(checked(store), store, fleet(textfile=str(tmp_path)), NOW)
    assert messages.targets(store) == {}


def test_a_mailbox_that_is_down_or_not_there_is_a_note(store, fleet):
    (note,) = publish(checked(store), store, fleet(postgres="host=127.0.0.1 port=9 password=hunter2"), NOW)
    assert note.startswith("mailbox of plans:") and "hunter2" not in note


def test_codes_never_travel_unencrypted_to_another_machine(store, fleet):
    (note,) = publish(checked(store), store, fleet(postgres="host=192.0.2.1 sslmode=disable"), NOW)
    assert "unencrypted" in note


def test_whatever_goes_wrong_a_check_that_is_recorded_does_not_end_in_an_error(store, fleet, tmp_path: Path):
    settings = replace_fleet(fleet(textfile=str(tmp_path)))
    (note,) = publish(checked(store), store, settings, NOW)
    assert note.startswith("fleet: nothing was published")


def replace_fleet(settings):
    from watchdog.values import replace as changed

    return changed(settings, fleet=changed(settings.fleet, interval="not a time span"))


def test_the_interval_is_measured_and_never_shorter_than_cron(store):
    assert measured_interval(store) == timedelta(minutes=15)
    for minutes in (0, 60, 120, 120.1, 180, 240):
        finish_check(store, NOW + timedelta(minutes=minutes), NOW, {}, [])
    assert measured_interval(store) == timedelta(minutes=60)
    for seconds in range(6):
        finish_check(store, NOW + timedelta(hours=5, seconds=seconds), NOW, {}, [])
    assert measured_interval(store) == timedelta(minutes=15)


@pytest.mark.parametrize(
    ("home", "name"),
    [
        ("/home/anna/.hermes", "default"),
        ("/home/anna/.hermes/profiles/work", "work"),
        ("/home/anna/.hermes/profiles/hermes", "hermes"),
        ("/srv/hermes-a", "hermes-a"),
    ],
)
def test_a_home_is_called_by_its_profile(home: str, name: str):
    assert profile_of(Path(home)) == name


def test_a_host_without_a_fleet_loads_nothing_of_it(tmp_path: Path):
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "gateway.log").write_text("")
    script = (
        "import sys; from watchdog.cli.main import main; "
        f"main(['check', '--quiet', '--home', {str(home)!r}, '--state', {str(tmp_path / 's')!r}]); "
        "print([name for name in sys.modules if 'fleet.' in name or name in ('psycopg', 'prometheus_client')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_without_the_extra_the_note_says_what_to_install(store, fleet, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    settings = fleet(textfile=str(tmp_path), postgres="host=/nowhere")
    notes = publish(checked(store), store, settings, NOW)
    assert sum("pipx install --force 'hermes-watchdog[fleet]'" in note for note in notes) == 2

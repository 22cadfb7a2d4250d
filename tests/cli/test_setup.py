"""The first hour: setup asks little and writes what it says; a drill goes out and its answer comes back."""

from __future__ import annotations

import argparse
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from talk import Ntfy, Server, incident, plan, running

from watchdog.approval import record
from watchdog.approval.replies import Patience
from watchdog.cli import main
from watchdog.cli.setup import Dialogue, run_setup
from watchdog.errors import WatchdogError
from watchdog.job import Job, find_job
from watchdog.notify.translate import read_words
from watchdog.reports.language import Reader
from watchdog.service import setup
from watchdog.service.drill import drill
from watchdog.service.setup import (
    find_homes,
    homes_in_units,
    ntfy,
    seen_homes,
    settings_text,
    telegram,
    write_settings,
)
from watchdog.store import questions

pytestmark = pytest.mark.usefixtures("quick_codes")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".hermes" / "logs").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LANG", "C.UTF-8")
    return tmp_path / ".hermes"


def job(home: Path, settings: str) -> Job:
    path = home.parent / ".config" / "hermes-watchdog" / "settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(settings)
    path.chmod(0o600)
    return find_job(str(home))


def replies(server: Ntfy) -> str:
    return f"replies:\n  channels:\n    - ntfy: {{server: '{server.url}', approvers: [{{name: ann, topic: secret-topic-of-ann}}]}}\n"


@pytest.mark.parametrize(("button", "yes"), [(0, True), (1, False)])
def test_a_drill_goes_out_as_a_question_and_the_tap_comes_back(home: Path, button: int, yes: bool) -> None:
    with running(Ntfy()) as server:
        made = job(home, replies(server))
        taps = [button]

        def sleep(_: float) -> None:
            if taps:
                server.tap("secret-topic-of-ann", taps.pop())

        result = drill(made, timedelta(seconds=60), patience=Patience(timedelta(seconds=60), sleep=sleep))
        assert result.answered and result.yes is yes and result.by == "ann" and result.problems == ()
        (question,) = server.questions("secret-topic-of-ann")
        assert "Fire drill" in question["title"] and "Nothing will be done" in question["message"]
        until = made.now.astimezone() + timedelta(minutes=1)
        assert f"Answer by {until:%H:%M}" in question["message"], "as long as the drill waits, and no longer"
        *before, end = [message for message in server.messages if message["topic"] == "secret-topic-of-ann"]
        assert before == [question], "the answer is confirmed once, and nothing is said to have begun"
        assert end["title"] == "Fire drill: your answer arrived"
        assert "ann answered via ntfy" in end["message"] and "nothing was done" in end["message"]
    assert not made.state.exists(), "no plan, budget or audit of the home knows of it"


def test_what_was_answered_to_a_drill_is_no_answer_to_the_next_one_or_to_a_check(home: Path) -> None:
    with running(Ntfy()) as server:
        made = job(home, replies(server))
        with made.store() as store:  # a check has been made here
            assert not questions.cursor(store, "ntfy")
        for _ in range(2):
            tap = iter([0])

            def sleep(_: float, tap: Iterator[int] = tap) -> None:
                for button in tap:
                    server.tap("secret-topic-of-ann", button)

            result = drill(made, timedelta(seconds=60), patience=Patience(timedelta(seconds=60), sleep=sleep))
            assert result.answered and result.problems == ()
        titles = [message.get("title", "") for message in server.messages]
        assert "Your answer had no effect" not in titles, titles
        last = [message for message in server.messages if message["topic"].endswith("-answer")][-1]["id"]
        with made.store() as store:
            assert last in questions.cursor(store, "ntfy"), "a check begins after the answers to a drill"


def test_while_a_real_question_waits_there_is_no_drill(home: Path) -> None:
    with running(Ntfy()) as server:
        made = job(home, replies(server))
        with made.store() as store:
            record.ask(store, plan(incident()), made.now)
        with pytest.raises(WatchdogError, match="a real question waits"):
            drill(made, timedelta(0))
        assert server.messages == []


def test_a_drill_that_nobody_answers_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(Ntfy()) as server:
        job(home, replies(server))
        assert main(["drill", "--wait", "0s", "--home", str(home)]) == 1
    assert "No answer arrived" in capsys.readouterr().out


def test_without_a_way_back_the_code_is_typed_into_the_drill(home: Path) -> None:
    with running(Server()) as server:
        made = job(
            home, f"notify:\n  targets:\n    - {{name: phone, url: 'json://127.0.0.1:{server.port}/'}}\n"
        )

        def read_code() -> str:
            text = server.bodies[0]["message"]
            assert "approve " not in text, "the real store knows no such code"
            return text.rpartition("the drill runs: ")[2][:8]

        result = drill(made, timedelta(0), read_code)
        assert result.answered and result.sent == ("target phone",)
        assert drill(made, timedelta(0), lambda: "WRONGONE").answered is False


def test_a_drill_without_anybody_to_ask_is_an_error(home: Path) -> None:
    with pytest.raises(WatchdogError, match="no target and no reply channel"):
        drill(job(home, "backups: true\n"), timedelta(0))


@dataclass
class Script:
    """Answers in their order; what was said is kept."""

    answers: list[str]
    schedules: list[str] = field(default_factory=list)  # that the machine offers
    said: list[str] = field(default_factory=list)
    ran: list[list[str]] = field(default_factory=list)

    def ask(self, question: str) -> str:
        self.said.append(question)
        return self.answers.pop(0)

    def dialogue(self, words: Reader) -> Dialogue:
        return Dialogue(
            words,
            self.ask,
            self.ask,
            self.said.append,
            homes=lambda home: find_homes(home, ()),
            schedules=lambda: self.schedules,
            run=self.ran.append,
        )


def arguments(**more: object) -> argparse.Namespace:
    return argparse.Namespace(
        **{"home": None, "config": None, "state": None, "language": None, "dry_run": False, **more}
    )


def test_setup_asks_three_questions_for_the_phone_and_writes_settings_that_hold(home: Path) -> None:
    # ntfy, its server, the name; subscribed; no schedule; no drill
    script = Script(["1", "", "ann", "", "1", "n"])
    assert run_setup(arguments(), script.dialogue) == 0
    config = home.parent / ".config" / "hermes-watchdog"
    text = (config / "settings.yaml").read_text()
    assert text.count("#") > 8 and "name: ann" in text
    for path in config.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    settings = find_job(str(home)).settings
    assert settings.notify.targets[0].url.reveal().startswith("ntfys://ntfy.sh/hermes-")
    (channel,) = settings.notify.replies.channels
    assert channel.approvers[0].topic.reveal() in settings.notify.targets[0].url.reveal()
    assert settings.notify.targets[0].url.reveal() not in "\n".join(script.said)
    assert main(["rules", "lint"]) == 0


@pytest.mark.parametrize("name", ["Brien, Ann", "ann: x} # y", "安娜", "no", 'o\'ann "x"'])
def test_whatever_a_person_is_called_the_settings_hold(home: Path, name: str) -> None:
    assert run_setup(arguments(), Script(["1", "", name, "", "1", "n"]).dialogue) == 0
    (channel,) = find_job(str(home)).settings.notify.replies.channels
    assert channel.approvers[0].name == name and channel.approvers[0].topic.reveal()


def test_setup_and_its_settings_speak_the_language_of_the_terminal(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    script = Script(["1", "", "安娜", "", "1", "n"])
    assert run_setup(arguments(), script.dialogue) == 0
    assert not [
        said
        for said in script.said
        if re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", said.partition(": #")[0]) and "#" not in said
    ]
    text = (home.parent / ".config" / "hermes-watchdog" / "settings.yaml").read_text()
    assert "language: zh" in text and "修改之后请检查" in text
    assert find_job(str(home)).settings.notify.language == "zh"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["explain", "session-stuck"], "未检查：agent.log：文件不存在"),
        (["audit"], "还没有任何记录"),
        (["audit", "--verify"], "完整：共 0 行"),
        (["store", "check"], "第一次检查时会建立"),
        (["silences"], "没有静音"),
        (["maintenance"], "不在维护中"),
        (["uninstall"], "没有为"),
        (["db", "check"], "完好"),
    ],
)
def test_daily_commands_speak_the_language_of_the_settings(
    home: Path, capsys: pytest.CaptureFixture[str], command: list[str], says: str
) -> None:
    job(home, "notify: {language: zh}\n")
    sqlite3.connect(home / "state.db").execute("CREATE TABLE t (a)").connection.close()
    (home / "logs" / "gateway.log").touch()
    main(command)
    shown = capsys.readouterr().out
    assert says in shown
    main([*command, "--language", "en"])
    assert says not in capsys.readouterr().out


def test_setup_replaces_nothing_and_a_dry_run_writes_nothing(home: Path) -> None:
    script = Script(["1", "", "", ""])
    assert run_setup(arguments(dry_run=True), script.dialogue) == 0
    assert not (home.parent / ".config").exists() and "dry run" in script.said[-1]
    phone = ntfy(home, "https://ntfy.sh", "me")
    write_settings(home / "c", phone, settings_text(phone, read_words("en"), home / "c"))
    with pytest.raises(WatchdogError, match="is there already and is not replaced"):
        write_settings(home / "c", phone, "other")


def test_an_answer_that_cannot_be_is_asked_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Telegram with a token that is none, then Telegram as it should be
    script = Script(["2", "nonsense", "me", "2", "123456:AAHsecret", "4711"])
    assert run_setup(arguments(dry_run=True), script.dialogue) == 0
    assert "a bot's token looks like" in capsys.readouterr().err
    assert "AAHsecret" not in "\n".join(script.said)


def test_setup_needs_a_terminal_and_a_home(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    assert main(["setup"]) == 2 and "run it in a terminal" in capsys.readouterr().err
    monkeypatch.setenv("HERMES_HOME", str(home / "nowhere"))
    (home / "logs").rmdir()
    with pytest.raises(WatchdogError, match="no Hermes home was found"):
        run_setup(arguments(), Script([]).dialogue)


def test_homes_are_found_by_folder_by_unit_and_by_profile(home: Path, tmp_path: Path) -> None:
    (home / "profiles" / "work" / "logs").mkdir(parents=True)
    other = tmp_path / "srv"
    (other / "logs").mkdir(parents=True)
    unit = f'[Service]\nEnvironment="HERMES_HOME={other}"\nExecStart=/v/bin/hermes gateway run\n'
    found = find_homes(home, homes_in_units([("hermes-gateway.service", unit)]))
    assert found[:3] == [home, home / "profiles" / "work", other]


def test_a_home_elsewhere_is_found_by_the_lock_that_its_gateway_holds(home: Path, tmp_path: Path) -> None:
    with (tmp_path / "gateway.lock").open("w"):
        assert tmp_path in seen_homes()
    assert tmp_path not in seen_homes()


def test_setup_offers_to_schedule_every_profile(home: Path) -> None:
    (home / "profiles" / "work" / "logs").mkdir(parents=True)
    # no phone; cron; for both profiles
    script = Script(["4", "1", "y"], ["cron"])
    assert run_setup(arguments(home=str(home)), script.dialogue) == 0
    assert script.ran == [["install", "--cron", "--home", str(home), "--all-profiles"]]
    assert f"For all 2 profiles of {home}? [Y/n] " in script.said


def test_a_telegram_phone_keeps_its_token_in_a_file(home: Path) -> None:
    phone = telegram(home, "123456:AAHsecret", "4711")
    assert "AAHsecret" not in settings_text(phone, read_words("en"), home)
    assert phone.files == {"phone.token": "123456:AAHsecret"}


def test_an_ntfy_server_that_the_settings_would_refuse_is_refused_by_the_wizard(tmp_path: Path) -> None:
    with pytest.raises(WatchdogError, match="unencrypted"):
        setup.ntfy(tmp_path, "http://ntfy.example.org", "anna")
    assert setup.ntfy(tmp_path, "http://127.0.0.1:8085", "anna").target

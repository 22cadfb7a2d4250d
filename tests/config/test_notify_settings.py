"""The settings about telling people: what they mean, and what is said about mistakes (never a secret)."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from watchdog.config.read_settings import load_settings, read_notify
from watchdog.config.settings import CHANNELS, NotifySettings, Secret, Weekly
from watchdog.config.yaml import read_documents
from watchdog.errors import ConfigError, Problem, WatchdogError


def read(text: str) -> tuple[NotifySettings, list[str]]:
    problems: list[Problem] = []
    (section,) = read_documents("settings.yaml", text.encode(), problems)
    found = read_notify(section.section("notify", None), section.section("replies", None))
    return found, [str(problem) for problem in problems]


def test_everything_that_can_be_said():
    found, problems = read("""
notify:
  language: zh
  quote_logs: true
  per_hour: 4
  quiet_hours: 23:00-07:00
  daily_summary: 09:00
  weekly_summary: sunday 20:30
  host: box
  timezone: Asia/Shanghai
  ping_env: PING
  escalate_to: [duty]
  targets:
    - name: phone
      url_file: ~/phone.url
      tags: [ops]
      at_least: high
    - name: boss
      url: mailto://u:p@example.org
      tags: duty
      format: html
      time_limit: 5s
replies:
  wait: 90s
  channels:
    - ntfy:
        server: https://ntfy.example.org/
        approvers:
          - {name: anna, topic_env: TOPIC}
    - telegram:
        token_file: ~/bot.token
        escalation: true
        approvers: [{name: anna, id: 1111}]
    - matrix:
        server: https://chat.example.org
        token_env: MX
        room: '#ops:example.org'
        approvers: [{name: anna, id: '@anna:example.org'}]
""")
    assert problems == []
    assert (found.language, found.quote_logs, found.per_hour, found.host) == ("zh", True, 4, "box")
    assert found.quiet and (found.quiet.start, found.quiet.end) == (time(23), time(7))
    assert str(found.zone) == str(found.quiet.zone) == "Asia/Shanghai"
    assert found.weekly_summary == Weekly(6, time(20, 30))
    assert found.daily_summary == time(9) and found.escalate_to == ("duty",)
    assert [(one.name, one.at_least, one.format, one.tags) for one in found.targets] == [
        ("phone", "high", "auto", ("ops",)),
        ("boss", "info", "html", ("duty",)),
    ]
    assert found.targets[1].time_limit == timedelta(seconds=5)
    assert [(one.kind, one.server, one.escalation) for one in found.replies.channels] == [
        ("ntfy", "https://ntfy.example.org", False),
        ("telegram", "https://api.telegram.org", True),
        ("matrix", "https://chat.example.org", False),
    ]
    assert found.replies.wait == timedelta(seconds=90)
    assert "p@example" not in repr(found)


def test_every_mistake_has_its_line_and_no_secret():
    _, problems = read("""
notify:
  languge: zh
  quiet_hours: nights
  timezone: Shanghai
  escalate_to: nobody
  targets:
    - url: tgram-secret
      at_least: hi
      url_env: X
    - name: two
replies:
  wait: 5h
  channels:
    - ntfy: {server: 'http://ntfy.example.org', approvers: []}
    - pigeon: {}
    - matrix: {server: chat, token: syt_secret, room: ops, approvers: [{name: a/b, id: x}]}
""")
    assert problems == [
        "settings.yaml:13: replies: wait: a check may wait 30m at most; the answer counts at the next check anyway",
        "settings.yaml:15: channels: ntfy: server: codes would travel unencrypted; write https://",
        "settings.yaml:15: channels: ntfy: approvers: nobody may answer here; list at least one",
        "settings.yaml:16: channels: unknown channel 'pigeon'; there are " + ", ".join(CHANNELS),
        "settings.yaml:17: channels: matrix: server: write its address, such as https://chat.example.org",
        "settings.yaml:17: channels: matrix: room: write the room's id or alias, such as '#ops:example.org'",
        "settings.yaml:17: approvers: name: a name has no '/'",
        "settings.yaml:8: targets: url and url_env say the same; keep one",
        "settings.yaml:8: targets: url: not an Apprise URL; it starts like ntfy://, tgram:// or mailto:// (the value is not shown)",
        "settings.yaml:9: targets: at_least: 'hi' is not one of info, low, medium, high, critical; did you mean 'high'?",
        "settings.yaml:11: targets: 'url' is missing; write url, url_env or url_file",
        "settings.yaml:5: notify: timezone: 'Shanghai' is not a time zone; write local, UTC or a name such as Asia/Shanghai",
        "settings.yaml:4: notify: quiet_hours: 'nights' is not a span of the day; write '23:00-07:00'",
        "settings.yaml:6: notify: escalate_to: no target has the tag 'nobody'",
        "settings.yaml:3: notify: unknown key 'languge'; did you mean 'language'?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "targets: tgram://secret",
        "targets: [tgram://secret]",
        "targets: [[tgram://secret]]",
        "targets: {url: 'tgram://secret'}",
    ],
)
def test_a_target_in_the_wrong_place_is_not_quoted_back(text: str):
    _, problems = read(f"notify:\n  {text}\n")
    assert len(problems) == 1 and "secret" not in problems[0]


def test_without_settings_one_variable_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_WATCHDOG_NOTIFY", "json://a json://b")
    (target,) = read_notify(None).targets
    assert target.url.lines() == ("json://a", "json://b")
    monkeypatch.delenv("HERMES_WATCHDOG_NOTIFY")
    assert read_notify(None) == NotifySettings()


def test_settings_behind_a_link_to_nowhere_are_not_the_defaults(tmp_path):
    (tmp_path / "settings.yaml").symlink_to(tmp_path / "dotfiles" / "settings.yaml")
    with pytest.raises(ConfigError, match=r"settings\.yaml: cannot be read: No such file"):
        load_settings(tmp_path)


def test_a_secret_is_never_shown():
    secret = Secret("tgram://token", where="here")
    assert "token" not in f"{secret} {secret!r} {[secret]}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_file_that_others_may_open_is_refused(tmp_path, mode: int):
    path = tmp_path / "url"
    path.write_text("json://x")
    path.chmod(mode)
    with pytest.raises(WatchdogError, match="chmod 600"):
        Secret(file=str(path), where="here").reveal()


def test_a_file_that_is_not_there_empty_or_no_file_is_said(tmp_path):
    (tmp_path / "empty").touch(0o600)
    for name, says in (("gone", "cannot read"), ("empty", "the value is empty"), (".", "is not a file")):
        with pytest.raises(WatchdogError, match=says):
            Secret(file=str(tmp_path / name), where="here").reveal()


@pytest.mark.parametrize(
    ("server", "allowed"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://127.9.9.9", True),
        ("http://localhost:8008", True),
        ("http://[::1]:8008", True),
        ("https://ntfy.example", True),
        ("http://localhost.evil.example", False),
        ("http://[::1]evil.example", False),
        ("http://localhost#@evil.example", False),
        ("http://loc\nalhost", False),
        ("http://127.0.0.1.nip.io", False),
        ("http://[::ffff:127.0.0.1]", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://127.0.0.1@evil.example", False),
        ("http://localhost:x@evil.example", False),
        ("http://127.evil.example", False),
        ("http://evil.example/127.0.0.1", False),
        ("http://[::1", False),
    ],
)
def test_codes_travel_unencrypted_only_on_this_machine(server: str, allowed: bool):
    text = f"replies: {{channels: [{{ntfy: {{server: '{server}', approvers: [{{name: anna, topic: t}}]}}}}]}}"
    assert ("unencrypted" in str(read(text)[1])) is not allowed

"""notify, silence, silences, unsilence, maintenance: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from talk import Server, Telegram, running

from watchdog.cli.parser import make_parser
from watchdog.errors import ConfigError


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run a command in a home of its own: exit code, standard output, standard error."""
    (tmp_path / "home" / "logs").mkdir(parents=True)
    (tmp_path / "config").mkdir()

    def command(*words: str, settings: str = "") -> tuple[int, str, str]:
        if settings:
            (tmp_path / "config" / "settings.yaml").write_text(settings)
        where = [
            "--home",
            str(tmp_path / "home"),
            "--config",
            str(tmp_path / "config"),
            "--state",
            str(tmp_path / "state"),
        ]
        args = make_parser(words[0]).parse_args([words[0], *where, *words[1:]])
        code = args.run(args)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


def test_a_test_message_says_per_target_what_happened(run):
    with running(Server()) as good, running(Server()) as bad:
        bad.broken = lambda: (500, b"")
        settings = f"""
notify:
  host: box
  targets:
    - {{name: phone, url: 'json://127.0.0.1:{good.port}/PLANTED', tags: [ops]}}
    - {{name: mail, url: 'json://127.0.0.1:{bad.port}/PLANTED', at_least: critical}}
"""
        code, out, err = run("notify", "--test", settings=settings)
        assert code == 1 and "PLANTED" not in out + err
        assert out.splitlines()[0].startswith("reached  target phone: sent in")
        assert out.splitlines()[1] == "FAILED   target mail: it answered 500"
        assert good.bodies[0]["title"] == "Test message"
        assert good.bodies[0]["message"] == "If you can read this, messages from box reach you here."
        code, out, _ = run("notify", "--test", "--tag", "ops", "--json")
        assert code == 0 and [(one["to"], one["ok"]) for one in json.loads(out)["sent"]] == [
            ("target phone", True)
        ]
    code, out, _ = run("notify")
    assert code == 0 and "target mail: critical and above" in out and "PLANTED" not in out


def test_a_test_also_tries_the_ways_back(run, tmp_path: Path):
    token = "1234567890:AAHsecretsecretsecretsecretsecret12"
    with running(Telegram()) as server:
        settings = f"""
replies:
  channels:
    - telegram: {{server: '{server.url}', token: '{token}', approvers: [{{name: anna, id: 1111111}}]}}
"""
        code, out, _ = run("notify", "--test", settings=settings)
        assert (code, out) == (0, "reached  answers by telegram/anna: sent in 0.0 s\n")
        (tmp_path / "home" / ".env").write_text(f"TELEGRAM_BOT_TOKEN={token}")
        code, out, _ = run("notify", "--test")
    assert code == 1 and "the bot of the gateway itself" in out and token not in out


def test_without_a_target_the_way_to_one_is_shown(run):
    code, _, err = run("notify", "--test")
    assert code == 2 and "settings.yaml" in err and "targets:" in err
    code, _, err = run("notify", "--test", "--tag", "ops")
    assert code == 2 and "with the tag 'ops'" in err


def test_a_mistake_in_the_settings_shows_no_address(run):
    with pytest.raises(ConfigError) as wrong:
        run("notify", settings="notify: {targets: [{url: 'PLANTED', nmae: x}]}")
    assert "PLANTED" not in str(wrong.value) and "did you mean 'name'" in str(wrong.value)


def test_a_silence_has_an_owner_a_reason_and_an_end(run):
    code, out, err = run("silence", "provider-errors", "--for", "2h", "--because", "their status page knows")
    assert code == 0 and out.startswith("silence 1: provider-errors until ") and "(2 hours left), by " in out
    assert ": their status page knows\nundo: " in out and out.endswith(" unsilence 1\n") and err == ""
    code, out, _ = run("silences", "--json")
    (one,) = json.loads(out)["silences"]
    assert (one["id"], one["what"], one["because"]) == (1, "provider-errors", "their status page knows")
    assert run("unsilence", "1")[:2] == (
        0,
        "silence 1 has ended; what is still wrong is reported at the next check\n",
    )
    code, _, err = run("unsilence", "1")
    assert code == 2 and "there is no silence 1 in force" in err
    assert run("silences")[:2] == (0, "Nothing is silenced.\n")


def test_a_name_that_nobody_knows_is_silenced_and_said(run):
    code, _, err = run("silence", "provider-erors", "--for", "2h", "--because", "x")
    assert code == 0 and "no rule or key is called 'provider-erors' so far" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--for", "2h"),
        ("--because", "x"),
        ("--for", "soon", "--because", "x"),
        ("--for", "90d", "--because", "x"),
    ],
)
def test_a_silence_without_an_end_or_a_reason_is_refused(run, words):
    with pytest.raises(SystemExit) as refused:
        run("silence", "provider-errors", *words)
    assert refused.value.code == 2


def test_maintenance_goes_on_and_off(run):
    assert run("maintenance")[:2] == (0, "No maintenance.\n")
    assert run("maintenance", "on")[0] == 2
    code, out, _ = run("maintenance", "on", "--for", "2h", "--because", "new disk")
    assert code == 0 and out.startswith("maintenance until ") and out.endswith(" maintenance off\n")
    run("maintenance", "on", "--for", "3h")
    code, out, _ = run("maintenance", "--json")
    assert json.loads(out)["maintenance"]["because"] == "planned work", (
        "the later word counts, and there is one at a time"
    )
    assert run("maintenance", "off")[:2] == (0, "No maintenance.\n")
    assert run("maintenance")[:2] == (0, "No maintenance.\n")
    assert run("silence", "*", "--for", "1h", "--because", "x")[0] == 2

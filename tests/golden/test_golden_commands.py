"""What needs no history: help, rules, explanations, completions, and the words for mistakes."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from freezegun import freeze_time
from goldens import SAMPLES, TOP, Golden, Shell, copied

STUCK = SAMPLES / "session-stuck" / "fires-another-chat-was-answered"
NOW = "2026-05-19 10:41:00"
PARTS = {
    "rules": ("list", "show", "lint", "test"),
    "db": ("check", "heal", "undo", "migrate", "backup"),
    "store": ("check", "repair", "export"),
    "settings": ("show",),
}
EXPLAINED = (
    "cron-failing", "database-broken", "disk-low", "gateway-down", "memory-pressure", "missing-column", "oom-killed",
    "provider-auth", "provider-errors", "qq-resume-loop", "session-stuck", "too-many-open-files",
)  # fmt: skip
LINES = (
    "2026-05-19 10:15:00,000 INFO gateway.run: inbound message: platform=telegram user=Eve chat=42 msg='secret words'",
    "2026-05-19 10:15:00,123 INFO gateway.run: response ready: platform=telegram chat=42 time=3.1s api_calls=2 response=312 chars",
    "2026-05-19 10:15:00,000 WARNING gateway.platforms.qqbot.adapter: [QQBot:1903] WebSocket closed: code=4009 reason=Session timed out",
    "2026-05-19 10:15:00,000 ERROR gateway.run: kanban dispatcher: tick failed on board default",
    "2026-05-19 10:15:00,000 INFO gateway.run: Starting Hermes Gateway...",
    "2026-05-19 10:15:00,000 INFO somebody.else: nothing that a rule knows",
    "no log line at all, only words",
)

AS_ARGPARSE_SAYS = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="kept as Python 3.11 words it; others word usage and choices otherwise",
)


def names(shell: Shell) -> list[str]:
    """The commands, as the overview lists them."""
    listed = shell.run("--help").out.partition("has --help):\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


@AS_ARGPARSE_SAYS
def test_every_command_gives_the_same_help(shell: Shell, golden: Golden) -> None:
    shell.type("--help")
    shell.type("--version")
    shell.type()
    for name in names(shell):
        shell.type(name, "--help")
        for part in PARTS.get(name, ()):
            shell.type(name, part, "--help")
    golden.same("commands/help.txt", shell.transcript)


def test_the_rules_are_listed_shown_and_tested_in_the_same_words(shell: Shell, golden: Golden) -> None:
    listed = shell.run("rules", "list").out.partition("gateway-wedged")[0].partition("gateway-down")
    shell.note("".join(listed[1:]))  # one entry: a new rule changes nothing here
    entries = json.loads(shell.run("rules", "list", "--json").out)
    shell.note(json.dumps([entry for entry in entries if entry["id"] == "gateway-down"], indent=1) + "\n")
    for words in (
        ("show", "session-stuck"),
        ("show", "session-stuck", "--json"),
        ("show", "restart-gateway"),
        ("show", "restart-gateway", "--json"),
        ("lint",),
        ("lint", "--json"),
        ("test", "--samples", "samples/logs", "telegram-down"),
        ("test", "--samples", "samples/logs", "telegram-down", "--json"),
    ):
        shell.type("rules", *words)
    golden.same("commands/rules.txt", shell.transcript)


def test_a_rule_of_every_kind_is_explained_in_the_same_words(shell: Shell, golden: Golden) -> None:
    home = ("--home", str(copied(STUCK, shell.folder / "home", NOW)), "--gateway", "running")
    for rule in EXPLAINED:
        shell.type("explain", rule, *home, "--now", NOW)
    for words in ((), ("--json",)):
        shell.type("explain", "session-stuck", *home, "--now", "2026-05-19 10:25:00", *words)
    golden.same("commands/explain-rules.txt", shell.transcript)


def test_a_log_line_is_explained_in_the_same_words(shell: Shell, golden: Golden) -> None:
    for line in LINES:
        shell.type("explain", line)
    shell.type("explain", LINES[0], "--json")
    golden.same("commands/explain-lines.txt", shell.transcript)


@pytest.mark.skipif(
    os.getuid() != 0, reason="the entries that are kept are those of the system, which root makes"
)
def test_the_entries_of_an_installation_are_the_same(shell: Shell, golden: Golden) -> None:
    """Shown only: a dry run writes nothing."""
    (shell.folder / "home" / "logs").mkdir(parents=True)
    for how in ("--cron", "--systemd-timer", "--daemon"):
        for more in ((), ("--every", "5m"), ("--json",)):
            shell.type("install", how, "--dry-run", "--home", str(shell.folder / "home"), *more)
    golden.same("commands/install.txt", shell.transcript)


def test_a_home_that_was_just_made_gets_the_same_doctor(shell: Shell, golden: Golden) -> None:
    (shell.folder / "home" / "logs").mkdir(parents=True)
    with freeze_time(NOW):
        for command in (
            "doctor",
            "status",
            "notify",
            "plans",
            "incidents",
            "audit",
            "report",
            "silences",
            "maintenance",
            "store check",
            "settings show",
            "check",
        ):
            shell.type(
                *command.split(), "--home", str(shell.folder / "home"), "--state", str(shell.folder / "state")
            )
    golden.same("commands/new-home.txt", shell.transcript)


@AS_ARGPARSE_SAYS
def test_mistakes_in_the_arguments_are_told_in_the_same_words(shell: Shell, golden: Golden) -> None:
    (shell.folder / "logs").mkdir()
    home = ("--home", str(shell.folder))
    for words in (
        ("chek",),
        ("logs",),
        ("restart",),
        ("config",),
        ("start",),
        ("heal",),
        ("undo",),
        ("replay",),
        ("replay", str(shell.folder)),
        ("replay", ".", "--every", "soon"),
        ("replay", str(STUCK), "--gateway", "ill"),
        ("check", "--dry-run", "--now", "yesterday"),
        ("check", "--now", NOW),
        ("check", "--dry-run", "--home", "/nowhere"),
        ("check", "--dry-run", "--home", "/", "--config", "/nowhere"),
        ("check", "--jsn"),
        ("check", "--dry-run", "--home", "/usr"),
        ("plan", "seven", *home),
        ("status", "extra", *home),
        ("--versoin",),
        ("explain", "session-stuk"),
        ("explain",),
        ("rules",),
        ("rules", "lnt"),
        ("rules", "show", "nothing"),
        ("rules", "lint", "/nowhere.yaml"),
        ("rules", "test", "--samples", "/nowhere"),
        ("rules", "test", "nothing"),
        ("incident", "7", *home),
        ("incident", "x", *home),
        ("plan", "9", *home),
        ("plan", "x", *home),
        ("resume", "9", *home),
        ("abandon", "9", *home),
        ("approve", "AAAAAAAA", *home),
        ("approve", "short", *home),
        ("approve", *home),
        ("refuse", *home),
        ("new-rule", "no log line", *home),
        ("store", "mend", *home),
        ("silence", "provider-errors", "--for", "2h", *home),
        ("silence", "provider-errors", "--for", "soon", "--because", "x", *home),
        ("silence", "provider-errors", "--for", "90d", "--because", "x", *home),
        ("silence", "*", "--for", "1h", "--because", "x", *home),
        ("unsilence", "1", *home),
        ("maintenance", "on", *home),
        ("notify", "--test", *home),
        ("notify", "--test", "--tag", "ops", *home),
        ("install", *home),
        ("install", "--cron", "--every", "soon", "--dry-run", *home),
        ("report", "--since", "soon", *home),
        ("report", "--format", "pdf", *home),
        ("db", "check", "/nowhere.db"),
        ("db", "heal", "/nowhere.db"),
        ("completion", "tcsh"),
    ):
        shell.type(*words)
    golden.same("commands/mistakes.txt", shell.transcript)


def test_mistakes_in_rules_and_recipes_are_told_in_the_same_words(shell: Shell, golden: Golden) -> None:
    for path in sorted((TOP / "tests" / "bad").glob("*/*.yaml")):
        shell.type("rules", "lint", str(path.relative_to(TOP)))
    shell.type("rules", "lint", "tests/bad/rules", "--json")
    golden.same("commands/bad-rules.txt", shell.transcript)


SETTINGS = {
    "unknown key": "timezon: UTC\n",
    "unknown zone": "timezone: Mars\n",
    "target without an address": "notify: {targets: [{name: x}]}\n",
    "mistyped target": "notify: {targets: [{url: 'PLANTED', nmae: x}]}\n",
    "unknown language": "notify: {language: fr}\n",
    "unknown recipe": "approval: {auto: [restart-gatway]}\n",
    "no duration": "time_limit: soon\n",
    "a list": "- a\n- b\n",
    "not YAML": "notify: {targets: [\n",
    "two documents": "unit: a\n---\nunit: b\n",
    "a channel without approvers": "replies: {channels: [{telegram: {token: PLANTED}}]}\n",
    "nothing wrong": "timezone: Asia/Shanghai\n",
}


def test_mistakes_in_the_settings_are_told_in_the_same_words(shell: Shell, golden: Golden) -> None:
    path = shell.folder / "config" / "settings.yaml"
    path.parent.mkdir()
    where = ("--home", str(copied(STUCK, shell.folder / "home", NOW)), "--config", str(path.parent))
    for name, text in SETTINGS.items():
        path.write_text(text)
        path.chmod(0o600)
        shell.note(f"━━ {name}\n{text}")
        shell.type("rules", "lint", "--config", str(path.parent))
        shell.type("check", "--dry-run", "--now", NOW, *where)
    path.chmod(0o666)
    shell.note("━━ open to others\n")
    shell.type("check", "--dry-run", "--now", NOW, *where)
    assert "PLANTED" not in re.sub(r"(?m)^(notify|replies): .*$", "", shell.transcript)
    golden.same("commands/bad-settings.txt", shell.transcript)

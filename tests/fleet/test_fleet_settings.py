"""What settings.yaml may say about a fleet, and what is told about mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdog.config.read_settings import load_settings
from watchdog.config.settings import Settings
from watchdog.errors import ConfigError


def read(folder: Path, text: str) -> Settings:
    path = folder / "settings.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return load_settings(folder)


def test_a_host_without_the_sections_has_no_fleet_and_no_channel(tmp_path: Path):
    settings = read(tmp_path, "backups: false\n")
    assert settings.fleet is None and settings.notify.replies.channels == ()


def test_the_mailbox_is_a_channel_only_where_approvers_are_listed(tmp_path: Path):
    only_look = read(tmp_path, "fleet: {postgres: 'service=fleet'}\n")
    assert only_look.fleet and only_look.notify.replies.channels == ()
    host = read(tmp_path, "fleet: {postgres: 'service=fleet', approvers: [anna, ben]}\n")
    (channel,) = host.notify.replies.channels
    assert channel.kind == "postgres" and [each.id for each in channel.approvers] == ["anna", "ben"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metrics: {}", "'textfile' is missing"),
        ("metrics: {textfile: here}", "write the whole path"),
        ("metrics: {textfile: /x, tetxfile: /y}", "unknown key"),
        ("alertmanager: {urls: [am1:9093]}", "write addresses such as"),
        ("alertmanager: {urls: ['http://:9093']}", "write addresses such as"),
        ("alertmanager: {urls: ['http://a:99999']}", "write addresses such as"),
        ("alertmanager: {urls: ['http://a', 'http://a/']}", "there twice"),
        ("alertmanager: {}", "'urls' is missing"),
        ("fleet: {approvers: [anna]}", "they answer in PostgreSQL"),
        ("fleet: {postgres: x, approvers: [anna, anna]}", "two approvers have the same name"),
        ("fleet: {postgres: x, approvers: [a/b]}", "is not the name of a role"),
        ("fleet: {postgres: x, postgres_env: Y}", "say the same"),
        ("fleet: {interval: 5s}", "out of range"),
        ("fleet: {postgers: x}", "did you mean 'postgres'"),
    ],
)
def test_a_mistake_is_told_at_its_line(tmp_path: Path, text: str, problem: str):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text + "\n")
    assert problem in str(error.value) and "settings.yaml:1:" in str(error.value)


def test_a_password_in_an_address_is_never_printed(tmp_path: Path):
    text = "alertmanager: {urls: ['http://u:hunter2@a:1', 'http://u:hunter2@a:1']}\n"
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    assert "hunter2" not in str(error.value)
    settings = read(tmp_path, "fleet: {postgres: 'host=a password=hunter2'}\n")
    assert "hunter2" not in repr(settings)

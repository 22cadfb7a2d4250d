"""A variable that a dead gateway had can be named; its value was never kept."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from watchdog.gateway.last_life import FILE, last_container, missing, remember


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    home, state = tmp_path / "home", tmp_path / "state"
    home.mkdir()
    state.mkdir()
    return home, state


def test_names_are_kept_once_per_life_and_values_never(places):
    home, state = places
    remember(home, state)
    assert not (state / FILE).exists()  # nothing runs
    with (home / "gateway.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remember(home, state)
        kept = (state / FILE).read_text()
        assert '"PATH"' in kept and os.environ["PATH"] not in kept
        assert (state / FILE).stat().st_mode & 0o777 == 0o600
        before = (state / FILE).stat().st_ino
        remember(home, state)
        assert (state / FILE).stat().st_ino == before


def test_what_a_start_would_not_give_it_is_named_unless_its_env_file_does(places):
    home, state = places
    (state / FILE).write_text(
        '{"life": [1, 2], "names": ["API_KEY", "BOT_TOKEN", "PATH", "SSH_TTY", "TERM", "x; rm -rf /", 7]}'
    )
    (home / ".env").write_text("# keys\nexport BOT_TOKEN=abc\n")
    assert missing(home, state, {"PATH": "/bin"}) == ("API_KEY",)
    (state / FILE).write_text('{"life": [1, 2], "names": ["LANG", "PATH"]}')
    assert missing(home, state, {"LC_ALL": "C.UTF-8", "PATH": "/bin"}) == (), "LC_ALL overrules LANG"
    for broken in ("", "[]", '{"names": 7}', "{" * 10_000):
        (state / FILE).write_text(broken)
        assert missing(home, state, {}) == ()


@pytest.mark.parametrize("found", ["/{}", "docker-{}.scope", "{}/", "x", 5])
def test_a_container_that_is_remembered_is_an_id_and_nothing_else(places, found):
    _, state = places
    known = str(found).format("a" * 64) if isinstance(found, str) else found
    (state / FILE).write_text(json.dumps({"container": known}))
    assert last_container(state) == ("", "")
    (state / FILE).write_text(json.dumps({"container": "a" * 64, "container_name": "hermes"}))
    assert last_container(state) == ("a" * 64, "hermes")

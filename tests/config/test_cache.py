"""The kept rulebook: the same as the one that was read, believed only when it is ours, whole and up to date."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from effort import rounds

from watchdog.cli import main
from watchdog.config import cache, literals
from watchdog.config.cache import NAME
from watchdog.config.pattern import Pattern
from watchdog.config.read_settings import load_settings
from watchdog.config.rulebook import LineSelection, Rulebook
from watchdog.detect.evaluate import lines_by_source
from watchdog.errors import ConfigError
from watchdog.job import load_rules
from watchdog.model import Line
from watchdog.sources.prefilter import literals_of

RULE = "id: mine\ntitle: Mine\nseverity: low\nwhen:\n  - burst: {{in: agent.log, line: '{line}', at_least: 2, within: 15m}}\nsay: it\nadvice: none\n"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "config" / "detect").mkdir(parents=True)
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "config" / "detect" / "mine.yaml").write_text(RULE.format(line="first (?<what>\\S+) broke"))
    return tmp_path / "config", tmp_path / "state"


LOADS: list[int] = []


def load_cached(config: Path, state: Path, write: bool, remember: bool = False) -> Rulebook:
    def counted() -> Rulebook:
        LOADS.append(1)
        return load_rules(config)

    return cache.load_cached(config, state, counted, write, remember)


def count_loads(_: object = None) -> list[int]:
    LOADS.clear()
    return LOADS


def patterns_of(lines: Iterable[Line]) -> set[Pattern]:
    found: set[Pattern] = set()
    for pattern in (line.pattern for line in lines):
        if isinstance(pattern, LineSelection):
            found.update(pattern.patterns, *pattern.word.cause.values())
        elif pattern is not None:
            found.add(pattern)
    return found


def test_the_kept_rulebook_is_the_one_that_was_read(places, monkeypatch):
    config, state = places
    read = load_cached(config, state, write=True)
    loads = count_loads(monkeypatch)
    monkeypatch.setattr(literals, "KNOWN", {})
    kept = load_cached(config, state, write=False)
    assert not loads and kept.rules == read.rules == load_rules(config).rules
    assert dict(kept.recipes) == dict(read.recipes) and kept.off == read.off
    for lines in lines_by_source(kept.rules).values():
        for pattern in patterns_of(lines):
            fresh = literals._study(pattern.text)
            assert (pattern.study.words, pattern.study.heads) == (fresh.words, fresh.heads)
    mine = next(rule for rule in kept.rules if rule.id == "mine")
    assert mine.when[0].want.line[0].pattern.match("first disk broke today") == {"what": "disk"}


def test_rules_are_read_where_the_working_folder_was_deleted(places, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    config, state = places
    assert "mine" in {rule.id for rule in load_cached(config, state, write=True).rules}


def test_a_changed_new_or_removed_rule_file_is_seen(places, monkeypatch):
    config, state = places
    load_cached(config, state, write=True)
    (config / "detect" / "mine.yaml").write_text(RULE.format(line="second broke"))
    assert "second broke" in str(load_cached(config, state, write=True).rule("mine"))
    (config / "detect" / "mine.yaml").unlink()
    assert load_cached(config, state, write=True).rule("mine") is None


def test_who_waits_at_a_terminal_for_rules_that_are_not_kept_yet_is_told(places, monkeypatch, capsys):
    config, state = places
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    load_cached(config, state, write=True)
    assert "reading the rules" in capsys.readouterr().err
    load_cached(config, state, write=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 4000])
def test_a_damaged_file_is_ignored_and_made_again(places, monkeypatch, damage):
    config, state = places
    load_cached(config, state, write=True)
    good = (state / NAME).read_bytes()
    (state / NAME).write_bytes(damage)
    assert load_cached(config, state, write=True).rule("mine") is not None
    assert (state / NAME).read_bytes() == good


def test_a_file_with_one_bit_changed_anywhere_is_ignored(places):
    config, state = places
    load_cached(config, state, write=True)
    good = (state / NAME).read_bytes()
    for at in range(0, len(good), len(good) // rounds(8)):
        (state / NAME).write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert load_cached(config, state, write=False).rule("mine") is not None


def test_a_file_that_others_may_write_or_that_is_a_link_is_not_believed(places, monkeypatch):
    config, state = places
    load_cached(config, state, write=True)
    loads = count_loads(monkeypatch)
    (state / NAME).chmod(0o666)
    load_cached(config, state, write=False)
    (state / NAME).chmod(0o600)
    os.rename(state / NAME, state / "elsewhere")
    (state / NAME).symlink_to(state / "elsewhere")
    load_cached(config, state, write=False)
    assert len(loads) == 2


def test_nothing_is_written_unless_allowed_and_no_room_is_no_error(places):
    config, state = places
    load_cached(config, state, write=False)
    assert not list(state.iterdir())
    assert load_cached(config, state / "missing", write=True).rule("mine") is not None


def test_the_shipped_rules_alone_are_kept_with_the_program_whatever_the_configuration(tmp_path, monkeypatch):
    kept = tmp_path / "program"
    monkeypatch.setattr(cache, "_with_the_program", lambda: kept)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    loads = count_loads(monkeypatch)
    load_cached(tmp_path / "one", tmp_path / "state", write=False, remember=True)
    assert load_cached(tmp_path / "other", tmp_path / "state", write=False).rules == load_rules().rules
    assert len(loads) == 1 and not (tmp_path / "state").exists()
    kept.write_bytes(b"")  # damaged, and we may not write there
    (tmp_path / "state").mkdir(mode=0o700)
    for _ in range(2):
        load_cached(tmp_path / "one", tmp_path / "state", write=True)
    assert len(loads) == 2 and kept.read_bytes() == b"" and (tmp_path / "state" / NAME).exists()


def test_rules_of_ones_own_are_never_kept_with_the_program(places, tmp_path, monkeypatch):
    config, state = places
    monkeypatch.setattr(cache, "_with_the_program", lambda: tmp_path / "program")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert load_cached(config, state, write=False, remember=True).rule("mine") is not None
    assert not (tmp_path / "program").exists()
    load_cached(tmp_path / "none", state, write=False, remember=True)
    assert load_cached(config, state, write=False).rule("mine") is not None


@pytest.mark.parametrize(
    ("words", "written"),
    [(["check", "--dry-run"], False), (["check"], True), (["explain", "session-stuck"], True)],
)
def test_a_dry_run_keeps_nothing_with_the_program(tmp_path, monkeypatch, words, written):
    kept = tmp_path / "program"
    monkeypatch.setattr(cache, "_with_the_program", lambda: kept)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "home" / "logs").mkdir(parents=True)
    main(
        [
            *words,
            "--home",
            str(tmp_path / "home"),
            "--state",
            str(tmp_path / "state"),
            "--config",
            str(tmp_path),
        ]
    )
    assert kept.exists() == written


def test_mistakes_in_the_rules_are_told_every_time(places):
    config, state = places
    (config / "detect" / "mine.yaml").write_text("id: mine\n")
    for _ in range(2):
        with pytest.raises(ConfigError):
            load_cached(config, state, write=True)
    assert not list(state.iterdir())


def test_every_shipped_pattern_is_read_by_the_regex_package_as_by_re():
    for lines in lines_by_source(load_rules().rules).values():
        for one in patterns_of(lines):
            assert one.names == frozenset(one.compiled.groupindex), one
            assert (one.match("") is None) == (one.compiled.match("") is None), one


def test_no_shipped_line_makes_every_record_of_a_log_be_looked_at():
    for source, lines in lines_by_source(load_rules().rules).items():
        if source.endswith(".log"):
            unknown = [line.pattern for line in lines if literals_of(line)[0] is None]
            assert not unknown, f"{source}: nothing in these patterns stands in every line that they match"


def test_every_shipped_line_is_told_by_re_alone_because_the_regex_package_costs_more_than_a_check():
    words = load_rules().vocabulary.words.values()
    patterns = [pattern for word in words for tried in word.match.values() for pattern in tried]
    assert [pattern.text for pattern in patterns if not pattern.plain] == []


def test_why_a_call_failed_is_told_without_the_regex_package_where_no_time_of_a_reset_is_named():
    quota = load_rules().vocabulary.words["api-failed"]
    line = (
        "API call failed (attempt 1/3) error_type=E provider=p summary=Error code: 402 - insufficient_quota"
    )
    assert quota.find(line)[1] == "quota"
    assert not any("compiled" in vars(detail) for detail in quota.cause["quota"])


SETTINGS = "unit: one.service\nnotify:\n  targets: [{name: me, url: 'json://127.0.0.1:9/'}]\n"


@pytest.fixture
def settings(places: tuple[Path, Path]) -> Path:
    path = places[0] / "settings.yaml"
    path.write_text(SETTINGS)
    path.chmod(0o600)
    return path


def test_kept_settings_are_those_of_the_file(settings: Path, places: tuple[Path, Path]) -> None:
    config, state = places
    for _ in range(2):
        assert cache.load_cached_settings(config, state, write=True) == load_settings(config)
    assert (state / cache.SETTINGS_NAME).stat().st_mode & 0o077 == 0
    settings.write_text(SETTINGS.replace("one", "two"))
    assert cache.load_cached_settings(config, state, write=True).unit == "two.service"


def test_the_defaults_of_a_home_without_settings_are_kept_too(places: tuple[Path, Path]) -> None:
    config, state = places
    cache.load_cached_settings(config, state, write=True)
    assert (state / cache.SETTINGS_NAME).exists()
    assert cache.load_cached_settings(config, state, write=True) == load_settings(config)
    (config / "settings.yaml").write_text(SETTINGS)
    (config / "settings.yaml").chmod(0o600)
    assert cache.load_cached_settings(config, state, write=True).unit == "one.service"


def test_kept_settings_do_not_hide_a_file_that_others_may_write(
    settings: Path, places: tuple[Path, Path]
) -> None:
    config, state = places
    cache.load_cached_settings(config, state, write=True)
    settings.chmod(0o666)
    with pytest.raises(ConfigError, match="others may write"):
        cache.load_cached_settings(config, state, write=True)


def test_kept_settings_see_a_target_in_the_environment(
    settings: Path, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, state = places
    settings.write_text("unit: one.service\n")
    monkeypatch.delenv("HERMES_WATCHDOG_NOTIFY", raising=False)
    assert not cache.load_cached_settings(config, state, write=True).notify.targets
    monkeypatch.setenv("HERMES_WATCHDOG_NOTIFY", "json://127.0.0.1:9/")
    assert cache.load_cached_settings(config, state, write=True).notify.targets


def test_settings_with_a_mistake_are_not_kept(settings: Path, places: tuple[Path, Path]) -> None:
    config, state = places
    settings.write_text("unti: one.service\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="unti"):
            cache.load_cached_settings(config, state, write=True)
    assert not (state / cache.SETTINGS_NAME).exists()


def test_a_dry_run_keeps_no_settings(settings: Path, places: tuple[Path, Path]) -> None:
    config, state = places
    cache.load_cached_settings(config, state, write=False)
    assert list(state.iterdir()) == []


def gone(settings: Path) -> None:
    settings.unlink()


def mistaken(settings: Path) -> None:
    settings.write_text("unti: one.service\n")


def changed(settings: Path) -> None:
    settings.write_text("unit: two.service\n")


def open_to_others(settings: Path) -> None:
    settings.chmod(0o666)


@pytest.mark.parametrize("change", [gone, mistaken, changed, open_to_others])
def test_a_secret_that_left_the_settings_is_not_kept_beside_the_store(
    settings: Path, places: tuple[Path, Path], change: Callable[[Path], None]
) -> None:
    config, state = places
    settings.write_text(SETTINGS.replace("127.0.0.1:9", "opensesame"))
    cache.load_cached_settings(config, state, write=True)
    (state / f".{cache.SETTINGS_NAME}.part").write_bytes(b"opensesame, cut off by a kill")
    change(settings)
    with suppress(ConfigError):
        cache.load_cached_settings(config, state, write=True)
    assert not [path for path in state.iterdir() if b"opensesame" in path.read_bytes()]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o622])
def test_kept_settings_that_others_may_open_are_made_again_for_us_alone(
    settings: Path, places: tuple[Path, Path], mode: int
) -> None:
    config, state = places
    cache.load_cached_settings(config, state, write=True)
    kept = state / cache.SETTINGS_NAME
    kept.chmod(mode)
    cache.load_cached_settings(config, state, write=True)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_kept_settings_in_a_folder_that_others_may_write_are_not_believed(
    settings: Path, places: tuple[Path, Path]
) -> None:
    config, state = places
    cache.load_cached_settings(config, state, write=True)
    state.chmod(0o777)
    (state / cache.SETTINGS_NAME).chmod(0o400)
    cache.load_cached_settings(config, state, write=True)
    assert (state / cache.SETTINGS_NAME).stat().st_mode & 0o777 == 0o600, "it was used, not made again"

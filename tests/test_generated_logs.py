"""The benchmark's logs: every incident in them is found and nothing else, and the gate changes no verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from effort import rounds

from bench.generate import generate
from bench.randomlogs import drowsy_home, random_home
from watchdog.config.rulebook import Rulebook
from watchdog.pipeline import look
from watchdog.sources import logfile, records
from watchdog.sources.read import Sources, log_span

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def every_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs take the ways that pay in long ones only."""
    monkeypatch.setattr(records, "RARE", 1)


def found_in(book: Rulebook, home: Path, plain: bool = False) -> Counter[tuple[object, ...]]:
    """What a replay finds, with everything that a person would be told."""
    sources = Sources(home, zone=UTC, stated="running", plain=plain)
    _, last = log_span(sources)
    if last is None:
        return Counter()
    seen, _ = look(book.rules, sources, None, last)
    return Counter(
        (
            one.rule,
            one.key,
            one.first_at,
            one.opened_at,
            one.last_seen_at,
            one.ended_at,
            one.says,
            tuple(sorted(one.quotes.items())),
            tuple((event.where, event.text) for event in one.evidence),
        )
        for one in seen.findings
    )


@pytest.mark.parametrize("seed", [1, 7])
def test_a_replay_finds_exactly_the_incidents_of_a_generated_log_each_at_its_time(
    book: Rulebook, tmp_path: Path, seed: int
) -> None:
    expected = generate(tmp_path, 2_000_000, seed, hourly=80_000)
    assert len({one.rule for one in expected}) == 9
    found = sorted((opened, rule, key) for rule, key, _, opened, *_ in found_in(book, tmp_path).elements())
    assert [(rule, key) for _, rule, key in found] == [one.name for one in expected]
    for (opened, *_), one in zip(found, expected, strict=True):
        # A run that ended without a word before a crash loop counts as its first death, one turn early.
        assert abs(opened - one.at.replace(tzinfo=UTC)) <= timedelta(
            seconds=30 if one.rule == "crash-loop" else 1
        )


def test_a_generated_log_is_the_same_for_the_same_seed_and_another_for_another(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        generate(tmp_path / name, 300_000, seed, hourly=50_000)
    texts = [(tmp_path / name / "agent.log").read_bytes() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_hours_without_trouble_have_no_incident(book: Rulebook, tmp_path: Path) -> None:
    assert generate(tmp_path, 600_000, hourly=60_000, trouble=False) == []
    assert not found_in(book, tmp_path)


def test_a_log_can_end_at_any_minute(tmp_path: Path) -> None:
    until = datetime(2026, 11, 16, 10, 41, 30)
    generate(tmp_path, 200_000, hourly=100_000, until=until)
    last = (tmp_path / "agent.log").read_bytes().splitlines()[-1][:19].decode()
    assert until - timedelta(minutes=5) < datetime.fromisoformat(last) < until


def test_the_gate_finds_what_showing_every_record_to_every_pattern_finds_in_a_generated_log(
    book: Rulebook, tmp_path: Path
) -> None:
    generate(tmp_path, 1_200_000, 11, hourly=40_000)
    assert found_in(book, tmp_path) == found_in(book, tmp_path, plain=True)


SAMPLES = sorted({path.parent for path in (ROOT / "samples").rglob("*.log")})


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda folder: str(folder.relative_to(ROOT / "samples")))
def test_the_gate_finds_what_the_plain_reference_finds_in_every_sample(book: Rulebook, folder: Path) -> None:
    home = folder.parent if folder.name == "logs" else folder
    assert found_in(book, home) == found_in(book, home, plain=True)


@pytest.mark.parametrize("part", range(rounds(1)))
def test_the_gate_finds_what_the_plain_reference_finds_in_a_hundred_random_logs(
    book: Rulebook, tmp_path: Path, part: int
) -> None:
    for number in range(100):
        home = tmp_path / str(number)
        random_home(home, Random(f"{part}/{number}"))
        gated, plain = found_in(book, home), found_in(book, home, plain=True)
        assert gated == plain, f"part {part}, log {number}"


@pytest.mark.parametrize("size", [400, 1500, 6000])
@pytest.mark.parametrize("make", [random_home, drowsy_home])
def test_where_a_log_is_cut_into_blocks_changes_nothing(
    book: Rulebook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    make: Callable[[Path, Random], None],
) -> None:
    for number in range(rounds(5)):
        home = tmp_path / str(number)
        make(home, Random(f"blocks/{number}"))
        monkeypatch.setattr(logfile, "BLOCK", 1 << 18)
        whole = found_in(book, home, plain=True)
        monkeypatch.setattr(logfile, "BLOCK", size)
        assert found_in(book, home) == whole, f"log {number}"


def test_the_random_logs_hold_something_to_find(book: Rulebook, tmp_path: Path) -> None:
    rules: Counter[object] = Counter()
    for number in range(30):
        home = tmp_path / str(number)
        random_home(home, Random(f"0/{number}"))
        rules.update({finding[0] for finding in found_in(book, home)})
    assert len(rules) >= 6 and sum(rules.values()) >= 15

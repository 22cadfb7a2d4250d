"""Never exit 0 with a difference: a hundred databases made, damaged, healed and compared row by row."""

from __future__ import annotations

import generated
import pytest
from effort import rounds

ROUNDS = rounds(100)


def told_of(seeds: range, folder) -> None:
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        outcome = generated.play(seed, place)
        assert outcome.lies == [], f"seed {seed}: {outcome.label}, {outcome.faults}, {outcome.strategy}"


@pytest.mark.parametrize("seeds", [range(start, ROUNDS, 10) for start in range(10)], ids=str)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_says_is_true(tmp_path, seeds):
    told_of(seeds, tmp_path)


def test_what_a_heal_in_its_own_process_says_is_true(tmp_path):
    told_of(range(ROUNDS, ROUNDS + 3), tmp_path)


@pytest.mark.parametrize(
    "seed",
    [
        300283,  # a -wal with a bad frame, and a header whose two bytes for the journal mode differ
        101283,  # two indexes of two tables have exchanged their first pages
    ],
)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_once_said_wrongly_is_true_now(tmp_path, seed):
    told_of(range(seed, seed + 1), tmp_path)

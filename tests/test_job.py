"""Where everything that belongs to a home is."""

from __future__ import annotations

from pathlib import Path

from watchdog.job import find_state
from watchdog.system.files import short_digest


def test_two_homes_of_one_name_have_states_of_their_own(tmp_path: Path) -> None:
    homes = [tmp_path / name / ".hermes" for name in ("one", "two")]
    first, second = (find_state(home, str(tmp_path)) for home in homes)
    assert first != second and first == find_state(homes[0], str(tmp_path))


def test_the_state_that_an_earlier_version_made_for_a_home_is_used_on(tmp_path: Path) -> None:
    home = str(tmp_path / ".hermes")
    before = tmp_path / "states" / f"hermes-{short_digest(home)}"
    before.mkdir(parents=True)
    assert find_state(home, str(tmp_path / "states")) == str(before)

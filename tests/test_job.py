"""Where everything that belongs to a home is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from watchdog.job import find_job, find_state
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


def test_a_chat_that_hangs_beside_one_that_is_answered_takes_nothing_from_the_replies_in_progress(
    tmp_path: Path,
) -> None:
    """Hermes may have given up the turn that hangs and no longer count it; the logs tell of the other."""
    home = tmp_path / ".hermes"
    home.mkdir()
    (home / "state.db").touch()
    (home / "gateway_state.json").write_text(json.dumps({"gateway_state": "running", "active_agents": 1}))
    now = datetime(2026, 5, 19, 10, tzinfo=UTC)
    run = find_job(str(home), str(tmp_path), str(tmp_path / "state"), now).run(None, now)
    for at_work, replies in ((1, 1), (0, 0)):
        machine = run.machine(turns=at_work, hung=1)
        assert machine.replies(machine.gateway) == replies

"""A gateway without systemd: started by hand, found down, started again by the watchdog, which lives on
without it.
"""

from __future__ import annotations

import pytest

from . import parts, person
from .waiting import until

OTHERS = [pytest.param(version, marks=pytest.mark.thorough) for version in ("0.13.0", *parts.VERSIONS[2:])]


@pytest.mark.parametrize("version", ["0.19.0", *OTHERS])
def test_a_bare_gateway_that_was_killed_is_started_detached(lab, version):
    it = lab(version, systemd=False, settings=person.SETTINGS)
    it.gateway.start_and_answer()
    pid = it.gateway.pid
    it.gateway.kill()
    until(lambda: pid not in it.machine.inner_pids(), "the process is gone")
    question = person.asked(it, "gateway-down")
    assert "gateway" in question.text and "run" in question.text
    assert "gateway restart" not in question.text, "without a service that command never returns"
    person.approves(it, question)
    it.gateway.wait_until_running(starts=2)
    it.gateway.answers("are you back?")
    person.hears_the_end(it)
    person.is_quiet(it)

"""A chat that hangs is found, shown, and freed by an approved restart; a slow one is left alone."""

from __future__ import annotations

import pytest

from . import person
from .conftest import both
from .gateway import UNIT
from .waiting import until


@both
def test_a_hung_chat_is_restarted_away_while_a_slow_one_is_left_alone(lab, version):
    it = lab(version, settings=person.SETTINGS, hurry=("session-stuck",))
    it.gateway.start_and_answer()
    it.world.do("llm", "behave", match="never answer", do="hang")
    it.world.do("llm", "behave", match="work slowly", do="tools", steps=30, command="sleep 3")
    it.gateway.tell("please never answer", chat=42)
    it.gateway.tell("please work slowly", chat=43)
    # One member of a group hangs while another is answered: the log names only the group.
    # The words differ from the other hung chat's: two messages with the same words that arrive between
    # two records of the agent cannot be told apart, and the first is then "cannot see" (docs/security.md).
    it.gateway.tell("please never answer the team", chat=-100, user=7, title="Team")
    it.gateway.wait_for("inbound message: platform=telegram .*chat=-100")
    it.gateway.answers("and me?", chat=-100, user=8, title="Team")
    it.gateway.wait_for("tool terminal completed", times=2, name="agent.log")

    def stuck() -> list[dict]:
        return it.watchdog.json("check", "--dry-run")["incidents"]

    found = until(
        lambda: one if len(one := stuck()) >= 2 else None,
        "both hung chats are found",
        within=120,
        every=2,
        explain=lambda: it.watchdog("check", "--dry-run").text,
    )
    found = {one["key"].partition("/")[2].split(" ")[0]: one["says"] for one in found}
    assert set(found) == {"42", "-100"}, f"and not the slow one: {found}"
    assert "telegram chat 42 has waited" in found["42"]

    question = person.asked(it, "session-stuck")
    assert "systemctl restart hermes-gateway.service" in question.text
    assert "in progress" in question.text, question.text
    pid = it.gateway.pid
    it.world.do("llm", "calm")  # the provider is well again
    told = person.approves(it, question)
    assert it.gateway.pid != pid
    assert it.machine.show(UNIT, "ActiveState")["ActiveState"] == "active"
    assert "restart" in told.lower()
    it.gateway.answers("are you back?", chat=42)
    person.hears_the_end(it, "Gateway restarted")
    person.is_quiet(it)


@pytest.mark.thorough
def test_a_restart_that_does_not_help_is_not_called_a_cure(lab):
    """The provider still hangs: Hermes resumes the session after the restart and hangs again."""
    it = lab("0.19.0", settings=person.SETTINGS, hurry=("session-stuck",))
    it.gateway.start_and_answer()
    it.world.do("llm", "behave", match="", do="hang")
    it.gateway.tell("please never answer")
    question = person.asked(it, "session-stuck")
    done = it.watchdog("approve", question.code)
    it.gateway.wait_for("inbound message: platform=telegram .*msg=''")
    assert it.watchdog.until_found("session-stuck", within=35)["key"] == "telegram/42", done.text

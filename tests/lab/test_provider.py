"""Faults of the model provider: told, never answered with a restart."""

from __future__ import annotations

import pytest

from . import person


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        ("0.13.0", "openai"),
        ("0.19.0", "openai"),
        pytest.param("0.13.0", "anthropic", marks=pytest.mark.thorough),
        pytest.param("0.19.0", "anthropic", marks=pytest.mark.thorough),
    ],
)
def test_refused_content_and_broken_tls_are_told_and_no_restart_is_proposed(lab, version, dialect):
    it = lab(version, settings=person.SETTINGS, dialect=dialect)
    it.gateway.start_and_answer()
    it.world.do("llm", "behave", match="please sensitive", do="sensitive")
    it.world.do("llm", "behave", match="please tls", do="tls")
    faults = {"sensitive": (51, "content-filter-burst"), "tls": (52, "tls-burst")}
    for fault, chat in (("overloaded", 61), ("quota", 62), ("bad-key", 63), ("broken", 64)):
        it.world.do("llm", "behave", match=f"please {fault}", do=fault)
        faults[fault] = (chat, "provider-errors")
    for fault, (chat, _) in faults.items():
        it.gateway.tell(f"please {fault}", chat=chat)
    for chat, rule in faults.values():
        it.gateway.wait_for(f"response ready: platform=telegram chat={chat}")
        found = it.watchdog.until_found(rule)
        assert found["recipe"] in (None, "")
        assert "restart" in found["advice"]
    done = it.watchdog("check")
    assert done.returncode == 1
    assert it.watchdog.json("check", "--dry-run")["plans"] == []
    told = "\n".join(person.messages(it))
    assert "refused the content" in told and "encrypted connection" in told
    assert "approve" not in told
    sent = len(person.messages(it))
    it.watchdog("check")
    assert len(person.messages(it)) == sent, "told once"
    it.world.do("llm", "calm")
    it.gateway.answers("and now?")

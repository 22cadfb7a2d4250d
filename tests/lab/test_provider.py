"""Faults of the model provider: told, never answered with a restart."""

from __future__ import annotations

import pytest

from . import parts, person


@pytest.mark.parametrize("dialect", ("openai", "anthropic"))
@pytest.mark.parametrize("version", parts.VERSIONS)
def test_refused_content_and_broken_tls_are_told_and_no_restart_is_proposed(lab, version, dialect):
    it = lab(version, settings=person.SETTINGS, dialect=dialect)
    it.gateway.start()
    it.gateway.answers("hello")
    for number, (fault, rule) in enumerate((("sensitive", "content-filter-burst"), ("tls", "tls-burst"))):
        it.world.do("llm", "calm")
        it.world.do("llm", "behave", match="", do=fault)
        for chat in (51, 52):
            it.gateway.tell(f"please {fault}", chat=chat + 10 * number)
            it.gateway.wait_for(f"response ready: platform=telegram chat={chat + 10 * number}")
        found = it.watchdog.until_found(rule)
        assert found["recipe"] in (None, "")
        assert "restart" in found["advice"]
    done = it.watchdog("check")
    assert done.returncode == 1
    assert it.watchdog.json("check", "--dry-run")["plans"] == []
    told = "\n".join(person.messages(it))
    assert "1027" in told and "TLS" in told
    assert "approve" not in told
    sent = len(person.messages(it))
    it.watchdog("check")
    assert len(person.messages(it)) == sent, "told once"
    it.world.do("llm", "calm")
    it.gateway.answers("and now?")


@pytest.mark.parametrize("fault", ("overloaded", "quota", "bad-key"))
def test_a_failing_provider_is_told_and_no_restart_is_proposed(lab, fault):
    it = lab("0.19.0", settings=person.SETTINGS)
    it.gateway.start()
    it.world.do("llm", "behave", match="", do=fault)
    it.gateway.tell("hello")
    it.gateway.wait_for("response ready: platform=telegram chat=42")
    it.watchdog.until_found("provider-errors")
    assert it.watchdog.json("check", "--dry-run")["plans"] == []

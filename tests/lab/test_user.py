"""As most people run it: a user unit of an ordinary user, the watchdog in her crontab, her phone with
Telegram.
"""

from __future__ import annotations

import json

from . import person
from .conftest import needs
from .gateway import TOKEN
from .waiting import until

BOT = "9876543210:ABwatchdogWATCHDOGwatchdogWATCHDOG1"


def asks_by(token: str) -> str:
    return (
        person.SETTINGS
        + f"replies: {{wait: 60s, channels: [{{telegram: {{token: '{token}', approvers: [{{name: anna, id: 77}}]}}}}]}}\n"
    )


def test_a_user_unit_is_started_by_a_tap_in_telegram(lab):
    needs("dbus-user-session")
    it = lab("0.19.0", user=True, settings=asks_by(TOKEN))
    it.gateway.install(extra="[Service]\nRestart=no\n")
    it.gateway.start_and_answer()
    it.gateway.kill()
    until(it.gateway.is_down, "systemd saw it die")

    # Two checks confirm it, and a gateway that was just started gets its grace first.
    until(
        lambda: "this is the bot of the gateway itself" in it.watchdog("check").text,
        "the word that two readers of one bot knock each other off",
    )
    it.watchdog.forget()
    (it.watchdog.config / "settings.yaml").write_text(asks_by(BOT))
    it.watchdog("check")
    asking = it.watchdog.start("check")  # it asks, and waits for the answer

    def sent() -> list[dict]:
        return it.world.get("telegram", "bots", of=BOT)

    question = until(
        lambda: next((one for one in sent() if "reply_markup" in one), None),
        "a question in Telegram",
        within=120,
        explain=lambda: it.watchdog("check", "--dry-run").text,
    )
    assert (
        int(question["chat_id"]) == 77 and "systemctl --user start hermes-gateway.service" in question["text"]
    ), question
    markup = question["reply_markup"]
    ((yes, _),) = (json.loads(markup) if isinstance(markup, str) else markup)["inline_keyboard"]
    it.world.do("telegram", "press", token=BOT, data=yes["callback_data"], chat=78, user=78)  # eve may not
    it.world.do("telegram", "press", token=BOT, data=yes["callback_data"], chat=77, user=77)
    out, err = asking.communicate(timeout=200)
    assert not it.gateway.is_down(), out + err
    it.gateway.answers("are you back?")
    person.hears_the_end(it, "pproved by anna via Telegram")
    assert any(
        "verified" in one.get("text", "") or "started" in one.get("text", "").lower() for one in sent()[1:]
    ), sent()
    audit = it.watchdog("audit").text
    assert (
        "approved plan 1 by anna via Telegram" in audit and "by eve" not in audit and "by 78" not in audit
    ), audit
    person.is_quiet(it)

"""The person who is told and asked: what arrived, and the answer that goes back."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

from .waiting import until

# The shipped limits, scaled like the rules; messages go to a webhook of the outside world.
LIMITS = "limits: {grace: 6s, wait_for_turns: 3s}\n"
HOOK = "notify: {host: lab, per_hour: 60, targets: [{name: hook, url: 'json://127.0.0.1:8080/hook'}]}\n"
SETTINGS = LIMITS + HOOK
NTFY = (
    LIMITS
    + HOOK
    + """
replies:
  wait: 60s
  channels:
    - ntfy: {server: 'http://127.0.0.1:8085', approvers: [{name: anna, topic: secret-topic-of-anna}]}
"""
)
CODE = re.compile(r"\bapprove ([A-Z2-9]{8})\b")


def messages(lab: SimpleNamespace) -> list[str]:
    """Everything that was sent to the webhook, title and text."""
    told = (json.loads(one["body"] or "{}") for one in lab.world.get("hook", "got"))
    return [f"{one.get('title', '')}\n{one.get('message', '')}" for one in told]


def asked(lab: SimpleNamespace, rule: str, within: float = 120) -> SimpleNamespace:
    """Real checks, as cron would run them, until a question about the rule has arrived: its text and code."""
    lab.watchdog.until_found(rule, within)

    def check() -> SimpleNamespace | None:
        done = lab.watchdog("check")
        assert done.returncode == 1 or "suspected" in done.text, done.text
        for text in reversed(messages(lab)):
            if code := CODE.search(text):
                return SimpleNamespace(text=text, code=code[1], report=done.text)
        return None

    # two checks confirm a gateway that is down; a gateway that was just started gets its grace first
    return until(
        check,
        f"a question about {rule}",
        within=90,
        every=1,
        explain=lambda: "\n--\n".join((lab.watchdog("check", "--dry-run").text, *messages(lab))),
    )


def approves(lab: SimpleNamespace, question: SimpleNamespace, within: float = 240) -> str:
    """On the host: hermes-watchdog approve CODE, which acts at once."""
    done = lab.watchdog("approve", question.code, within=within)
    assert done.returncode == 0, done.text
    return done.text


def hears_the_end(lab: SimpleNamespace, *words: str) -> str:
    """The outcome arrives, at once or with the next check."""
    for look in (1, 2):
        for text in reversed(messages(lab)):
            if "pproved by" in text and all(word in text for word in words):
                return text
        if look == 1:
            lab.watchdog("check")
    raise AssertionError("nobody was told the end\n" + "\n--\n".join(messages(lab)))


def is_quiet(lab: SimpleNamespace, checks: int = 2, shipped: bool = True) -> None:
    """Nothing open, nothing proposed, nothing sent, check after check, with every rule as shipped."""
    if shipped:
        lab.watchdog.as_shipped()
    before = len(messages(lab))
    for _ in range(checks):
        report = lab.watchdog.json("check")
        assert open_rules(report) == [], report
        assert report["plans"] == [], report
    assert len(messages(lab)) == before, messages(lab)[before:]


def open_rules(report: dict) -> list[str]:
    return sorted(one["rule"] for one in report["incidents"] if one["status"] in ("open", "suspected"))


def presses(
    lab: SimpleNamespace, label: str, topic: str = "secret-topic-of-anna", within: float = 120
) -> None:
    """A tap on a button of the newest ntfy message: the phone sends the request that the button holds."""

    def button() -> dict | None:
        for message in reversed(lab.world.get("ntfy", "messages")):
            if message["topic"] == topic:
                for action in message.get("actions", []):
                    if label.lower() in action["label"].lower():
                        return action
        return None

    action = until(button, f"a question with a button {label!r} on ntfy", within=within)
    lab.world.do("ntfy", "put", topic=action["url"].rsplit("/", 1)[1], message=action["body"])

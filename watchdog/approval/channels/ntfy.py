"""ntfy: a question with two buttons on a secret topic; the tap posts to that person's answer topic, which we
poll.

Sent directly and not through Apprise, because Apprise logs the buttons, and with them the code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from watchdog.approval.channels.base import LONG, ChannelError, Collected, QuestionText, Reply
from watchdog.approval.channels.http import Request, fetch, mapping
from watchdog.config.settings import Approver, Channel

_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,57}")  # 64 with the ending of the answer topic
ANSWERS = "-answer"


def places(channel: Channel) -> tuple[str, ...]:
    return tuple(f"ntfy/{approver.name}" for approver in channel.approvers)


def start(channel: Channel, now: datetime) -> str:
    # A minute back: the server's clock may be behind ours, and an old answer holds no code of today.
    return json.dumps({approver.name: str(int(now.timestamp()) - 60) for approver in channel.approvers})


def ask(channel: Channel, place: str, asked: QuestionText) -> str:
    topic = _topic(channel, place)
    buttons = [
        {
            "action": "http",
            "label": label,
            "url": f"{channel.server}/{topic}{ANSWERS}",
            "method": "POST",
            "body": body,
            "clear": True,
        }
        for label, body in ((asked.approve_label, asked.approve), (asked.refuse_label, asked.refuse))
    ]
    message = {
        "topic": topic,
        "title": asked.title,
        "message": asked.body,
        "priority": 5 if asked.urgent else 4,
        "actions": buttons,
    }
    return _publish(channel, message)


def collect(channel: Channel, cursor: str, wait: float) -> Collected:
    """Everything posted to the answer topics; poll=1 returns at once, so `wait` is not used."""
    since = mapping(channel, cursor.encode() or b"{}")
    replies: list[Reply] = []
    strange = 0
    for approver in channel.approvers:
        place = f"ntfy/{approver.name}"
        topic = _topic(channel, place)
        url = f"{channel.server}/{topic}{ANSWERS}/json?poll=1&since={since.get(approver.name, '10m')}"
        answer = fetch(channel, Request("GET", url, token=channel.secret))
        for line in answer.splitlines()[:20_000]:
            try:
                entry = json.loads(line)
                if entry.get("event", "message") != "message":
                    continue
                text, at = str(entry["message"]), datetime.fromtimestamp(int(entry["time"]), UTC)
                if re.fullmatch(r"[A-Za-z0-9]{1,64}", str(entry["id"])):
                    since[approver.name] = entry["id"]
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, RecursionError):
                strange += 1
                continue
            replies.append(Reply(approver.name, place, text[: LONG + 1], at))
    notes = (f"ntfy: {strange} lines were not messages; ignored",) if strange else ()
    return Collected(tuple(replies), json.dumps(since), notes)


def tell(channel: Channel, place: str, receipt: str, text: str) -> None:
    title, _, body = text.partition("\n")
    message = {"topic": _topic(channel, place), "title": title, "message": body or title, "priority": 3}
    _publish(channel, message | {"actions": []})


def address(channel: Channel, place: str) -> tuple[str, ...]:
    return (_topic(channel, place),)


def _publish(channel: Channel, message: Mapping[str, object]) -> str:
    """The id that ntfy gave the message."""
    request = Request("POST", channel.server, message, channel.secret)
    return str(mapping(channel, fetch(channel, request)).get("id", ""))[:64]


def _topic(channel: Channel, place: str) -> str:
    approver: Approver = next(each for each in channel.approvers if f"ntfy/{each.name}" == place)
    topic = approver.topic.reveal() if approver.topic else ""
    if not _TOPIC.fullmatch(topic):
        raise ChannelError(f"{place}: a topic is up to 57 letters, digits, _ and - (the value is not shown)")
    return topic

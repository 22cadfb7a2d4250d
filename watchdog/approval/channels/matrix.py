"""Matrix: a question in a room, the answers from the room's own sync; the homeserver vouches for the sender."""

from __future__ import annotations

import html
import json
import re
import secrets
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from watchdog.approval.channels.base import LONG, ChannelError, Collected, QuestionText, Reply
from watchdog.approval.channels.http import Request, fetch, mapping
from watchdog.config.settings import Channel
from watchdog.notify.sanitize import render

NEWEST = 100  # messages of one sync; in a flood the newest count


def places(channel: Channel) -> tuple[str, ...]:
    return ("matrix",)


def start(channel: Channel, now: datetime) -> str:
    room = _room(channel)
    # first, so that what was said before is not news
    _call(channel, "POST", f"join/{quote(room, safe='')}", {})
    return str(_sync(channel, room, "", limit=1).get("next_batch", ""))[:2000]


def ask(channel: Channel, place: str, asked: QuestionText) -> str:
    return _send(channel, "m.text", asked.title, asked.body, {})


def collect(channel: Channel, cursor: str, wait: float) -> Collected:
    room = _room(channel)
    answer = _sync(channel, room, cursor, wait, limit=NEWEST)
    timeline = _timeline(answer, room)
    events = timeline.get("events", [])[-NEWEST:]
    replies: list[Reply] = []
    notes = []
    if timeline.get("limited") and cursor:
        notes.append("matrix: more messages than we read; only the newest 100 count")
        # The words of those who may answer are not lost in the talk of others.
        own = _sync(channel, room, cursor, limit=NEWEST, senders=[each.id for each in channel.approvers])
        known = {event.get("event_id") for event in events if isinstance(event, dict)}
        events = [
            *(
                event
                for event in _timeline(own, room).get("events", [])[-NEWEST:]
                if isinstance(event, dict) and event.get("event_id") not in known
            ),
            *events,
        ]
    for event in events:
        if not isinstance(event, dict):
            continue
        if event.get("type") == "m.room.encrypted":
            notes.append(
                "matrix: the room is encrypted and its messages cannot be read; ask in a room without encryption"
            )
        elif reply := _reply(event):
            replies.append(reply)
    return Collected(
        tuple(replies), str(answer.get("next_batch") or cursor)[:2000], tuple(dict.fromkeys(notes))
    )


def tell(channel: Channel, place: str, receipt: str, text: str) -> None:
    title, _, body = text.partition("\n")
    _send(channel, "m.notice", title, body, {"m.in_reply_to": {"event_id": receipt}} if receipt else {})


def address(channel: Channel, place: str) -> tuple[str, ...]:
    return (channel.room.lstrip("#!"),)


def _reply(event: dict[str, Any]) -> Reply | None:
    content, sender, at = event.get("content"), event.get("sender"), event.get("origin_server_ts")
    if (
        event.get("type") != "m.room.message"
        or not isinstance(content, dict)
        or not isinstance(at, int | float)
    ):
        return None
    relates = content.get("m.relates_to")
    if content.get("msgtype") != "m.text" or (
        isinstance(relates, dict) and relates.get("rel_type") == "m.replace"
    ):
        return None  # notices are for programs; an edited message is not a new answer
    body = str(content.get("body", ""))[: 20 * LONG]
    if isinstance(relates, dict) and "m.in_reply_to" in relates:
        # Clients put the message that is replied to in front, each line behind '>'; it is not the person's
        # own word.
        body = re.sub(r"\A(?:> ?[^\n]*\n)+\n?", "", body)
    try:
        return Reply(str(sender), "matrix", body[: LONG + 1], datetime.fromtimestamp(at / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _send(channel: Channel, kind: str, title: str, body: str, relates: dict[str, Any]) -> str:
    content: dict[str, Any] = {
        "msgtype": kind,
        "body": f"{title}\n{body}".strip(),
        "format": "org.matrix.custom.html",
        "formatted_body": f"<strong>{html.escape(title)}</strong>"
        + (f"<br/>\n{render(body, 'html')}" if body else ""),
        "m.mentions": {},  # no user is mentioned, whatever the text says
    }
    if relates:
        content["m.relates_to"] = relates
    room = quote(_room(channel), safe="")
    path = f"rooms/{room}/send/m.room.message/{secrets.token_hex(8)}"
    try:
        sent = _call(channel, "PUT", path, content)
    except ChannelError as error:
        if "answered 403" not in str(error):
            raise
        _call(channel, "POST", f"join/{room}", {})  # invited, but not in the room yet
        sent = _call(channel, "PUT", path, content)
    return str(sent.get("event_id", ""))[:255]


def _timeline(answer: dict[str, Any], room: str) -> dict[str, Any]:
    found: dict[str, Any] = answer.get("rooms", {}).get("join", {}).get(room, {}).get("timeline", {})
    return found


def _sync(
    channel: Channel, room: str, cursor: str, wait: float = 0.0, **wanted: int | list[str]
) -> dict[str, Any]:
    """What came since the cursor; `wanted` filters it: limit, senders."""
    none: dict[str, Any] = {"types": []}
    only = {
        "presence": none,
        "account_data": none,
        "room": {
            "rooms": [room],
            "state": none,
            "ephemeral": none,
            "account_data": none,
            "timeline": wanted,
        },
    }
    query = {"filter": json.dumps(only), "timeout": str(int(wait * 1000))} | (
        {"since": cursor} if cursor else {}
    )
    return _call(channel, "GET", f"sync?{urlencode(query)}", wait=wait)


def _room(channel: Channel) -> str:
    if channel.room.startswith("!"):
        return channel.room
    found = _call(channel, "GET", f"directory/room/{quote(channel.room, safe='')}")
    return str(found.get("room_id", ""))


def _call(channel: Channel, method: str, path: str, body: Any = None, wait: float = 0.0) -> dict[str, Any]:
    request = Request(method, f"{channel.server}/_matrix/client/v3/{path}", body, channel.secret, wait)
    return mapping(channel, fetch(channel, request))

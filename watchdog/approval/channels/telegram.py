"""Telegram, with a bot of our own: a question with two buttons, the answers by getUpdates.

Never with the gateway's bot: two programs that poll one bot knock each other off with 409.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from watchdog.approval.channels.base import LONG, ChannelError, Collected, QuestionText, Reply
from watchdog.approval.channels.http import Request, fetch, mapping
from watchdog.config.settings import Channel

PAGES = 20  # of a hundred messages each; the rest waits for the next check


def places(channel: Channel) -> tuple[str, ...]:
    return (
        ("telegram",)
        if channel.room
        else tuple(f"telegram/{approver.name}" for approver in channel.approvers)
    )


def start(channel: Channel, now: datetime) -> str:
    waiting = _call(channel, "getUpdates", offset=-1, limit=1, timeout=0)
    return str(waiting[-1]["update_id"] + 1) if waiting else ""


def ask(channel: Channel, place: str, asked: QuestionText) -> str:
    keys = [
        {"text": asked.approve_label, "callback_data": asked.approve},
        {"text": asked.refuse_label, "callback_data": asked.refuse},
    ]
    sent = _call(
        channel, "sendMessage", chat_id=_chat(channel, place), text=f"{asked.title}\n\n{asked.body}"[:4000],
        link_preview_options={"is_disabled": True}, reply_markup={"inline_keyboard": [keys]},
    )  # fmt: skip
    return str(int(sent["message_id"]))


def collect(channel: Channel, cursor: str, wait: float) -> Collected:
    replies: list[Reply] = []
    strange = 0
    for page in range(PAGES):
        updates = _call(
            channel, "getUpdates", offset=int(cursor or 0), limit=100, timeout=0 if page else int(wait),
            allowed_updates=["message", "callback_query"],
        )  # fmt: skip
        for update in updates[:100]:
            try:
                cursor = str(int(update["update_id"]) + 1)
                if reply := _reply(channel, update):
                    replies.append(reply)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
                strange += 1
        if len(updates) < 100:
            break
    return Collected(
        tuple(replies),
        cursor,
        (f"telegram: {strange} updates were not understood; ignored",) if strange else (),
    )


def tell(channel: Channel, place: str, receipt: str, text: str) -> None:
    if receipt.startswith("tap "):
        _call(channel, "answerCallbackQuery", callback_query_id=receipt[4:], text=text[:190])
        return
    more: dict[str, Any] = {}
    if receipt:
        more["reply_parameters"] = {"message_id": int(receipt), "allow_sending_without_reply": True}
        # When the buttons stay, their codes are used up all the same; the words below matter more.
        with suppress(ChannelError):
            chat = _chat(channel, place)
            _call(channel, "editMessageReplyMarkup", chat_id=chat, message_id=int(receipt), reply_markup={})
    _call(
        channel,
        "sendMessage",
        chat_id=_chat(channel, place),
        text=text[:4000],
        link_preview_options={"is_disabled": True},
        **more,
    )


def address(channel: Channel, place: str) -> tuple[str, ...]:
    return (channel.secret, _chat(channel, place))


def _reply(channel: Channel, update: dict[str, Any]) -> Reply | None:
    tap = update.get("callback_query")
    message = tap["message"] if tap else update.get("message")
    if not message or (not tap and any(key.startswith("forward_") for key in message)):
        return None  # a forwarded code belongs to another person
    who = str(int((tap or message)["from"]["id"]))
    chat = str(int(message["chat"]["id"]))
    if chat not in (channel.room, who):
        return None
    name = next((approver.name for approver in channel.approvers if approver.id == who), "")
    place = "telegram" if channel.room else f"telegram/{name}"
    text = str(tap["data"] if tap else message.get("text", ""))
    at = datetime.fromtimestamp(int(message["date"]), UTC)
    return Reply(who, place, text[: LONG + 1], at, f"tap {tap['id']}" if tap else "")


def _chat(channel: Channel, place: str) -> str:
    return channel.room or next(each.id for each in channel.approvers if f"telegram/{each.name}" == place)


def _call(channel: Channel, method: str, **fields: Any) -> Any:
    token = channel.secret
    if not re.fullmatch(r"\d{5,15}:[A-Za-z0-9_-]{20,80}", token):
        raise ChannelError(
            "telegram: the token does not look like one of @BotFather's (the value is not shown)"
        )
    url = f"{channel.server}/bot{token}/{method}"
    request = Request("POST", url, fields, wait=float(fields.get("timeout") or 0))
    answer = mapping(channel, fetch(channel, request))
    if not answer.get("ok"):
        raise ChannelError(f"telegram: {method} was refused")
    return answer.get("result")

"""Telegram's Bot API on loopback: one inbox and outbox per bot token."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time

from aiohttp import web

LONGEST_POLL = 3.0  # a real server holds 10 s and more; shorter keeps a stop from waiting on it


class Bot:
    def __init__(self, number: int) -> None:
        self.number = number
        self.updates: list[dict] = []
        self.sent: list[dict] = []
        self.poller = 0  # the newest getUpdates; an older one is thrown out with 409
        self.more = asyncio.Event()


class Telegram:
    def __init__(self) -> None:
        self.bots: dict[str, Bot] = {}
        self.mode = "up"  # up · down: the connection is cut · rejected: 401
        self.ids = itertools.count(1)
        self.refusals: dict[str, dict] = {}  # by chat: what every message to it is answered with

    def routes(self) -> list[web.RouteDef]:
        return [web.route("*", "/bot{token}/{method}", self.call)]

    def bot(self, token: str) -> Bot:
        return self.bots.setdefault(token, Bot(len(self.bots) + 1))

    # control

    def say(self, token: str, text: str, chat: int = 42, user: int = 0, title: str = "") -> int:
        """A person writes; in a group when it has a title."""
        number = next(self.ids)
        person = {"id": user or chat, "is_bot": False, "first_name": f"Person {user or chat}"}
        place = (
            {"id": chat, "type": "group", "title": title}
            if title
            else {"id": chat, "type": "private", "first_name": person["first_name"]}
        )
        message = {
            "message_id": number,
            "from": person,
            "chat": place,
            "date": int(time.time()),
            "text": text,
        }
        if text.startswith("/"):
            message["entities"] = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}]
        self._push(token, {"message": message})
        return number

    def press(self, token: str, data: str, chat: int = 42, user: int = 0) -> None:
        person = {"id": user or chat, "is_bot": False, "first_name": "Person"}
        self._push(
            token,
            {
                "callback_query": {
                    "id": str(next(self.ids)),
                    "from": person,
                    "chat_instance": "1",
                    "data": data,
                    "message": {
                        "message_id": 1,
                        "date": int(time.time()),
                        "chat": {"id": chat, "type": "private"},
                    },
                }
            },
        )

    def _push(self, token: str, update: dict) -> None:
        bot = self.bot(token)
        bot.updates.append({"update_id": next(self.ids), **update})
        bot.more.set()

    # requests

    async def call(self, request: web.Request) -> web.StreamResponse:
        if self.mode == "down":
            if request.transport:
                request.transport.abort()
            return web.Response()
        if self.mode == "rejected":
            return web.json_response(
                {"ok": False, "error_code": 401, "description": "Unauthorized"}, status=401
            )
        bot = self.bot(request.match_info["token"])
        method = request.match_info["method"].lower()
        asked = await arguments(request)
        if method == "getupdates":
            return await self.updates(bot, asked)
        result: object = True
        if method == "getme":
            result = {
                "id": 1000 + bot.number,
                "is_bot": True,
                "first_name": "Lab",
                "username": f"lab{bot.number}_bot",
                "can_join_groups": True,
                "can_read_all_group_messages": True,
                "supports_inline_queries": False,
            }
        elif refusal := self.refusals.get(str(asked.get("chat_id"))):
            return web.json_response({"ok": False, **refusal}, status=refusal["error_code"])
        elif method in ("sendmessage", "editmessagetext", "senddocument", "sendphoto"):
            bot.sent.append({"at": time.time(), "method": method, **asked})
            chat = int(asked.get("chat_id", 0) or 0)
            result = {
                "message_id": next(self.ids),
                "date": int(time.time()),
                "text": asked.get("text", ""),
                "chat": {"id": chat, "type": "group" if chat < 0 else "private"},
                "from": {"id": 1000 + bot.number, "is_bot": True, "first_name": "Lab"},
            }
        elif method == "getchat":
            result = {
                "id": int(asked["chat_id"]),
                "type": "private",
                "accent_color_id": 0,
                "max_reaction_count": 11,
            }
        elif method == "getwebhookinfo":
            result = {"url": "", "has_custom_certificate": False, "pending_update_count": 0}
        return web.json_response({"ok": True, "result": result})

    async def updates(self, bot: Bot, asked: dict) -> web.Response:
        bot.poller = mine = bot.poller + 1
        bot.more.set()
        offset = int(asked.get("offset") or 0)
        bot.updates = [u for u in bot.updates if u["update_id"] >= offset]
        until = time.monotonic() + min(float(asked.get("timeout") or 0), LONGEST_POLL)
        while not bot.updates and bot.poller == mine and (left := until - time.monotonic()) > 0:
            bot.more.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(bot.more.wait(), left)
        if bot.poller != mine:
            return web.json_response(
                {
                    "ok": False,
                    "error_code": 409,
                    "description": "Conflict: terminated by other getUpdates request",
                },
                status=409,
            )
        return web.json_response({"ok": True, "result": bot.updates[:100]})


async def arguments(request: web.Request) -> dict:
    if request.content_type == "application/json":
        return {**request.query, **json.loads(await request.text() or "{}")}
    return {
        **request.query,
        **{key: value for key, value in (await request.post()).items() if isinstance(value, str)},
    }

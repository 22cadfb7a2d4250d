"""An ntfy server, as far as its documented publish and poll interface goes."""

from __future__ import annotations

import itertools
import json
import time

from aiohttp import web


class Ntfy:
    def __init__(self) -> None:
        self.messages: list[dict] = []
        self.ids = itertools.count(1)
        self.mode = "up"  # up · broken: 500 to every publish

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route("*", "/", self.publish_json),
            web.get("/{topics}/json", self.poll),
            web.route("*", "/{topic}", self.publish),
        ]

    # control

    def put(self, topic: str, message: str, **more) -> dict:
        number = next(self.ids)
        entry = {
            "id": f"lab{number:09d}",
            "time": int(time.time()),
            "expires": int(time.time()) + 43200,
            "event": "message",
            "topic": topic,
            "message": message,
            **more,
        }
        self.messages.append(entry)
        return entry

    # requests

    async def publish_json(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text() or "{}")
        topic = body.pop("topic", "")
        if self.mode == "broken" or not topic:
            return web.json_response(
                {"code": 50001, "http": 500, "error": "internal server error"}, status=500
            )
        return web.json_response(self.put(topic, body.pop("message", "triggered"), **body))

    async def publish(self, request: web.Request) -> web.Response:
        if self.mode == "broken":
            return web.json_response(
                {"code": 50001, "http": 500, "error": "internal server error"}, status=500
            )
        headers = {key.lower().removeprefix("x-"): value for key, value in request.headers.items()}
        known = {
            key: headers[key] for key in ("title", "priority", "tags", "actions", "click") if key in headers
        }
        if "actions" in known:
            known["actions"] = parse_actions(known["actions"])
        return web.json_response(
            self.put(request.match_info["topic"], await request.text() or "triggered", **known)
        )

    async def poll(self, request: web.Request) -> web.Response:
        topics = request.match_info["topics"].split(",")
        since = request.query.get("since", "all" if "poll" in request.query else "none")
        found = [m for m in self.messages if m["topic"] in topics]
        if since == "none":
            found = []
        elif since.isdigit():
            found = [m for m in found if m["time"] >= int(since)]
        elif since != "all":
            ids = [m["id"] for m in found]
            if since in ids:  # an unknown id means everything, as in ntfy
                found = found[ids.index(since) + 1 :]
        return web.Response(
            text="".join(json.dumps(m) + "\n" for m in found), content_type="application/x-ndjson"
        )


def parse_actions(header: str) -> list[dict]:
    """The JSON form, or the short form `http, Label, url, method=POST, body=…`."""
    if header.lstrip().startswith("["):
        return json.loads(header)
    actions = []
    for part in header.split(";"):
        words = [word.strip() for word in part.split(",")]
        plain = [word for word in words if "=" not in word or word.startswith("http")]
        named = dict(word.split("=", 1) for word in words if word not in plain)
        actions.append({**dict(zip(("action", "label", "url"), plain, strict=False)), **named})
    return actions

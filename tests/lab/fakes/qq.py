"""QQ's bot platform on loopback: token, gateway address, WebSocket, and the ways it goes wrong.

Scripts for the WebSocket: `normal`; `stale-loop` (the sessions of now are dead: every resume of
one is accepted and cut at once, a new session works);
`close-4009` (one close with 4009, then normal); `dropped` (the socket is cut and the endpoint is gone);
`refuse:CODE` (what is open is closed, and so is each login, before it is ready);
`close:CODE:once` and `close:CODE:always` (closed with this code, the second also each time it is ready
again).
"""

from __future__ import annotations

import asyncio
import itertools
import time

from aiohttp import WSMsgType, web

ADDRESS = "wss://api.sgroup.qq.com/websocket"


class Qq:
    def __init__(self) -> None:
        self.script = "normal"
        self.sockets: list[web.WebSocketResponse] = []
        self.sent: list[dict] = []
        self.counts = {"identify": 0, "resume": 0}
        self.sequence = itertools.count(1)
        self.sessions: list[str] = []
        self.stale: list[str] = []
        self.refusal: dict = {}  # what every message is answered with, instead of being sent

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/app/getAppAccessToken", self.token),
            web.get("/gateway", self.gateway),
            web.get("/websocket", self.socket),
            web.post("/v2/{kind:users|groups}/{who}/messages", self.message),
        ]

    # control

    async def play(self, script: str) -> None:
        """Take up a script; those that begin with a break also break what is open."""
        self.script = script
        if script == "stale-loop":
            self.stale = list(self.sessions)
        for socket in list(self.sockets):
            if script == "close-4009":
                self.script = "normal"
                await socket.close(code=4009, message=b"Session timed out")
            elif script in ("stale-loop", "dropped"):
                cut(socket)
            elif script.startswith(("close:", "refuse:")):
                await socket.close(code=int(script.split(":")[1]), message=b"lab")
        if script.endswith(":once"):
            self.script = "normal"

    async def say(self, text: str, user: str = "QQUSER1") -> None:
        for socket in self.sockets:
            await self.dispatch(
                socket,
                "C2C_MESSAGE_CREATE",
                {
                    "id": f"ROBOT1.0_{time.time_ns()}",
                    "content": text,
                    "author": {"user_openid": user, "id": user},
                    "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
                },
            )

    # requests

    async def token(self, request: web.Request) -> web.StreamResponse:
        return self.gone(request) or web.json_response({"access_token": "qq-lab-token", "expires_in": "7200"})

    async def gateway(self, request: web.Request) -> web.StreamResponse:
        return self.gone(request) or web.json_response({"url": ADDRESS})

    def gone(self, request: web.Request) -> web.Response | None:
        if self.script != "dropped":
            return None
        if request.transport:
            request.transport.abort()
        return web.Response()

    async def message(self, request: web.Request) -> web.Response:
        if self.refusal:
            return web.json_response(self.refusal, status=400)
        self.sent.append({"at": time.time(), "to": request.match_info["who"], **await request.json()})
        return web.json_response({"id": f"m{len(self.sent)}", "timestamp": "0"})

    async def dispatch(self, socket: web.WebSocketResponse, kind: str, data: dict) -> None:
        await socket.send_json({"op": 0, "t": kind, "s": next(self.sequence), "d": data})

    async def socket(self, request: web.Request) -> web.StreamResponse:
        if refused := self.gone(request):
            return refused
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        try:
            await socket.send_json({"op": 10, "d": {"heartbeat_interval": 30000}})
            async for frame in socket:
                if frame.type == WSMsgType.TEXT:
                    await self.answer(socket, frame.json())
        finally:
            self.sockets.remove(socket)
        return socket

    async def answer(self, socket: web.WebSocketResponse, said: dict) -> None:
        match said.get("op"):
            case 1:
                await socket.send_json({"op": 11})
            case 2:
                self.counts["identify"] += 1
                if self.script.startswith("refuse:"):
                    await socket.close(code=int(self.script.split(":")[1]), message=b"identify rejected")
                    return
                self.sessions.append(f"lab-session-{len(self.sessions) + 1}")
                await self.dispatch(
                    socket,
                    "READY",
                    {
                        "version": 1,
                        "session_id": self.sessions[-1],
                        "user": {"id": "1", "username": "lab", "bot": True},
                        "shard": [0, 0],
                    },
                )
                await self.close_again(socket)
            case 6:
                self.counts["resume"] += 1
                await self.dispatch(socket, "RESUMED", {})
                await self.close_again(socket)
                if said.get("d", {}).get("session_id") in self.stale:
                    await asyncio.sleep(0.1)  # the client reads RESUMED before the line goes dead
                    cut(socket)

    async def close_again(self, socket: web.WebSocketResponse) -> None:
        if self.script.startswith("close:"):
            await asyncio.sleep(0.1)  # the client reads what came before it
            await socket.close(code=int(self.script.split(":")[1]), message=b"lab")


def cut(socket: web.WebSocketResponse) -> None:
    """No close frame: what a dead connection looks like."""
    if socket._req is not None and socket._req.transport is not None:
        socket._req.transport.abort()

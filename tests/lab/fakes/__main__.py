"""Everything a gateway talks to, on loopback, told what to do through a Unix socket.

The socket is a file, so a test outside this network namespace reaches it too.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from pathlib import Path

from aiohttp import web
from llm import Llm
from ntfy import Ntfy
from qq import Qq
from telegram import Telegram
from tls import HIDDEN_PORT, Tls

PORT, NTFY_PORT = 8080, 8085


class Hook:
    """A place for webhooks (Apprise's json:// and dead-man pings)."""

    def __init__(self) -> None:
        self.got: list[dict] = []

    def routes(self) -> list[web.RouteDef]:
        return [web.route("*", "/hook{rest:.*}", self.take)]

    async def take(self, request: web.Request) -> web.Response:
        self.got.append(
            {"at": time.time(), "path": request.path, "method": request.method, "body": await request.text()}
        )
        return web.json_response({})


async def main(folder: Path) -> None:
    tls = Tls(folder)
    parts = {"llm": Llm(), "telegram": Telegram(), "qq": Qq(), "ntfy": Ntfy(), "hook": Hook()}

    async def control(request: web.Request) -> web.Response:
        """{"part": "llm", "do": "behave", "with": {…}} calls; {"part": "llm", "get": "requests"} reads."""
        asked = await request.json()
        part = parts[asked["part"]]
        if "set" in asked:
            for name, value in asked["set"].items():
                setattr(part, name, value)
            return web.json_response(None)
        if "get" in asked:
            value = getattr(part, asked["get"])
            if "of" in asked:
                value = {"sent": value[asked["of"]].sent if asked["of"] in value else []}["sent"]
            return web.json_response(value)
        value = getattr(part, asked["do"])(**asked.get("with", {}))
        return web.json_response(await value if inspect.isawaitable(value) else value)

    async def serve(app: web.Application, site: type, *place, **more) -> None:
        app["tls"] = tls
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await site(runner, *place, **more).start()

    def app(*names: str) -> web.Application:
        made = web.Application(client_max_size=64 * 2**20)
        for name in names:
            made.add_routes(parts[name].routes())
        return made

    world = ("llm", "telegram", "qq", "hook")
    await serve(app(*world), web.TCPSite, "127.0.0.1", PORT)
    await serve(app(*world), web.TCPSite, "127.0.0.1", HIDDEN_PORT, ssl_context=tls.context())
    await serve(app("ntfy"), web.TCPSite, "127.0.0.1", NTFY_PORT)
    await tls.relay()
    steering = web.Application()
    steering.router.add_post("/", control)
    await serve(steering, web.UnixSite, str(folder / "control.sock"))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

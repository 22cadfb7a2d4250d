"""The server process: uvicorn on one socket, with bounds on how long and how many connections may stay."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from watchdog.web.app import Door, WebPages
from watchdog.web.view import View

LIFE = 20.0  # seconds of one connection; each answer takes far less, and who sends slowly gets no more
MOST = 64  # connections; the oldest goes when another comes


class ShortLived(H11Protocol):
    """HTTP that ends every connection after LIFE seconds (uvicorn waits for ever), or twice that while it answers."""

    born = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.born = self.loop.time()
        self.ending = self.loop.call_later(LIFE, self.end_of_life)
        others: Any = self.connections
        if len(others) > MOST:
            min(others, key=lambda other: (other.answering(), other.born)).transport.abort()

    def answering(self) -> bool:
        """Whether a whole request came: ended now, a browser might send it again by itself."""
        return self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)

    def end_of_life(self) -> None:
        if self.answering():
            self.ending = self.loop.call_later(LIFE, self.transport.abort)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ending.cancel()
        super().connection_lost(exc)


def make_server(view: View, door: Door) -> uvicorn.Server:
    """A server that is not yet running; `should_exit` ends it."""
    config = uvicorn.Config(
        WebPages(view, door).app(),
        http=ShortLived,
        ws="none",
        lifespan="off",
        access_log=False,  # it would only say which pages were read
        log_level="error",  # what strangers send is no news
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=16_384,
    )
    return uvicorn.Server(config)


def serve(view: View, door: Door, listener: socket.socket) -> None:
    """Answer until SIGTERM or SIGINT."""
    make_server(view, door).run(sockets=[listener])

"""HTTP as channels speak it: no redirects, within a time limit, and no address or token in any error."""

from __future__ import annotations

import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from watchdog.approval.channels.base import ChannelError
from watchdog.config.settings import Channel

BIG = 4_000_000  # bytes read of one answer; ten thousand messages fit


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry codes and tokens to an address that is not in the settings."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    body: Any = None  # sent as JSON
    token: str = ""
    wait: float = 0.0  # seconds that the server was asked to wait before it answers


def fetch(channel: Channel, request: Request) -> bytes:
    """The answer to one request, at most BIG bytes of it; ChannelError past the channel's time limit and the wait."""
    limit = channel.time_limit.total_seconds() + request.wait
    headers = {"User-Agent": "hermes-watchdog", "Content-Type": "application/json"}
    if request.token:
        headers["Authorization"] = f"Bearer {request.token}"
    data = None if request.body is None else json.dumps(request.body).encode()
    try:
        call = urllib.request.Request(request.url, data, headers, method=request.method)
        ends = time.monotonic() + limit
        with _opener(request.url).open(call, timeout=limit) as answer:
            read = bytearray()
            while len(read) < BIG and (part := answer.read1(65_536)):
                read += part
                if time.monotonic() > ends:
                    raise ChannelError(f"{channel.kind}: no full answer within {limit:g} s")
            return bytes(read[:BIG])
    except urllib.error.HTTPError as error:
        with error:
            raise ChannelError(f"{channel.kind}: the server answered {error.code}{_detail(error)}") from None
    except TimeoutError:
        raise ChannelError(f"{channel.kind}: no answer within {limit:g} s") from None
    except urllib.error.URLError as error:
        raise ChannelError(f"{channel.kind}: {_reason(error.reason, limit)}") from None
    except (OSError, ValueError, HTTPException) as error:
        # The text of these may hold the address; their kind says enough.
        raise ChannelError(f"{channel.kind}: the connection failed ({type(error).__name__})") from None


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Follows no redirect. An unencrypted address is one of this machine: a proxy would take its codes off it."""
    direct = () if url.startswith("https://") else (urllib.request.ProxyHandler({}),)
    return urllib.request.build_opener(_NoRedirect, *direct)


def mapping(channel: Channel, answer: bytes) -> dict[str, Any]:
    """An answer that should be one JSON object."""
    try:
        read = json.loads(answer)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise ChannelError(f"{channel.kind}: the server's answer is not JSON; is the address right?")
    return read


def _detail(error: Any) -> str:
    known = {
        401: "the token is wrong",
        403: "we may not do that there",
        404: "no such place",
        429: "too many requests",
    }
    known[409] = "another program reads the messages of this bot"
    return f": {known[error.code]}" if error.code in known else ""


def _reason(reason: object, limit: float) -> str:
    match reason:
        case ssl.SSLCertVerificationError():
            return "the server's certificate is not trusted"
        case ssl.SSLError():
            return "the encrypted connection failed"
        case TimeoutError():
            return f"no answer within {limit:g} s"
        case socket.gaierror():
            return "the server's name cannot be resolved"
        case ConnectionRefusedError():
            return "the connection was refused"
        case _:
            return f"the connection failed ({type(reason).__name__})"

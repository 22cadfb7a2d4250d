"""Who may ask the server for what: pure functions about one request's headers, and the session's token.

A web page of another site must be able neither to read this one nor to answer a plan: by its own name that
resolves to this machine (Host), by a form or script of another origin (Origin, Sec-Fetch-Site), or by riding on
the session (SameSite=Strict cookie, and a token in the form that only this page can read).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from hashlib import sha256

from watchdog.reports.page import style_hash

COOKIE = "hermes-session"
OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src {style}",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "manifest-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


def headers() -> dict[str, str]:
    """What every answer carries: nothing inline runs, nothing is framed, cached or sniffed."""
    return {
        "Content-Security-Policy": POLICY.format(style=style_hash()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",  # with no-referrer a browser sends Origin: null from our own form
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        # A browser sends a form again by itself when a connection that it used before ends under it.
        "Connection": "close",
    }


def name_of_host(host: str) -> str:
    """The name in a Host header, without the port; '' for what is none."""
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        name += bracket
        port = port.removeprefix(":") if port.startswith(":") or not port else "?"
    else:
        name, _, port = host.partition(":")
    return name.lower().rstrip(".") if not port or port.isdigit() else ""


def host_allowed(host: str, more: Collection[str]) -> bool:
    """Whether this server answers to that name. Any port: an ssh tunnel has its own."""
    return name_of_host(host) in {*OWN_NAMES, *(name.lower() for name in more)}


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent by our own page: its origin is the very host it was sent to."""
    origin, host = headers.get("origin", ""), headers.get("host", "")
    scheme, _, rest = origin.partition("://")
    if scheme not in ("http", "https") or rest.lower() != host.lower():
        return False
    return headers.get("sec-fetch-site", "same-origin") == "same-origin"


def new_session() -> str:
    return secrets.token_urlsafe(24)


def token_of(session: str, key: bytes) -> str:
    """The form's token: only who has the session's cookie and saw the page has both."""
    return hmac.new(key, session.encode(), sha256).hexdigest()


def token_fits(token: str, session: str, key: bytes) -> bool:
    return bool(session) and hmac.compare_digest(token.encode(), token_of(session, key).encode())

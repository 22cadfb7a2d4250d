"""The web application: six addresses, each guarded the same way."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watchdog.config.settings import LANGUAGES
from watchdog.errors import WatchdogError
from watchdog.reports.page import Live, message_page
from watchdog.text import harmless
from watchdog.web import guard
from watchdog.web.view import View

LARGEST = 4096  # bytes of a form
PATIENCE = 10.0  # seconds for the whole of it
TYPES = {"page.js": "text/javascript", "icon-192.png": "image/png", "icon-512.png": "image/png"}
MANIFEST = {
    "name": "Hermes Watchdog",
    "short_name": "Hermes",
    "start_url": "/",
    "scope": "/",
    "display": "standalone",
    "background_color": "#f3f5f8",
    "theme_color": "#176b3f",
    "icons": [
        {"src": f"/static/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png"}
        for size in (192, 512)
    ],
}


@dataclass(frozen=True)
class Door:
    """How the server is reached: further names it answers to, and the header in which a proxy says who is there."""

    names: tuple[str, ...] = ()
    login_header: str = ""
    key: bytes = field(
        default_factory=lambda: secrets.token_bytes(32)
    )  # of the forms; a restart makes them old


class Guarded:
    """Host and login before anything else, the same headers on every answer."""

    def __init__(self, app: ASGIApp, pages: WebPages):
        self.app, self.pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = guard.headers()
                kept = [
                    (name, value) for name, value in message["headers"] if name.decode().title() not in own
                ]
                message["headers"] = [*kept, *((name.encode(), text.encode()) for name, text in own.items())]
            await send(message)

        request, door = Request(scope), self.pages.door
        app = self.app
        if not guard.host_allowed(request.headers.get("host", ""), door.names):
            app = self.pages.refusal(request, "page.other-host", 421)
        elif door.login_header and not self.pages.person(request):
            app = self.pages.refusal(request, "page.no-login", 401)
        await app(scope, receive, with_headers)


@dataclass
class WebPages:
    """The answers to requests."""

    view: View
    door: Door

    def app(self) -> Starlette:
        routes = [
            Route("/", self.status),
            Route("/version", self.version),
            Route("/incidents", self.incidents),
            Route("/plans/{number:int}", self.plan, methods=["GET"]),
            Route("/plans/{number:int}", self.answer, methods=["POST"]),
            Route("/manifest.webmanifest", self.manifest),
            Route("/page.js", self.script),
            Route("/static/{name}", self.static),
        ]
        made = Starlette(
            routes=routes,
            exception_handlers={404: self.not_found, WatchdogError: self.failed, Exception: self.failed},
        )
        made.add_middleware(Guarded, pages=self)
        return made

    # What every answer needs.

    def language(self, request: Request) -> str | None:
        given = request.query_params.get("language") or request.cookies.get("language", "")
        return given if given in LANGUAGES else None

    def person(self, request: Request) -> str:
        """Who is there, as the proxy says; without a proxy there is only `page`."""
        if not self.door.login_header:
            return "page"
        return harmless(request.headers.get(self.door.login_header, ""), 60)

    def live(self, request: Request, message: str = "", wrong: bool = False) -> tuple[Live, str]:
        """(what a live page carries, its session)."""
        session = request.cookies.get(guard.COOKIE) or guard.new_session()
        token, version = guard.token_of(session, self.door.key), self.view.version()
        return Live(LANGUAGES, message, wrong, token, version), session

    def html(self, request: Request, text: str, session: str = "", status: int = 200) -> Response:
        response = HTMLResponse(text, status)
        secure = request.headers.get("x-forwarded-proto") == "https"
        rules = {"samesite": "strict", "httponly": True, "secure": secure, "path": "/"}
        if session and session != request.cookies.get(guard.COOKIE):
            response.set_cookie(guard.COOKIE, session, **rules)  # type: ignore[arg-type]
        if (chosen := request.query_params.get("language")) in LANGUAGES:
            response.set_cookie("language", chosen, max_age=31_536_000, **rules)  # type: ignore[arg-type]
        return response

    def refusal(self, request: Request, key: str, status: int, **fields: object) -> Response:
        reader = self.view.reader(self.language(request))
        return HTMLResponse(message_page(reader(key, **fields), reader, Live()), status)

    # The addresses. Plain functions run in a thread: a look at the machine takes a moment.

    def status(self, request: Request) -> Response:
        live, session = self.live(request)
        return self.html(request, self.view.status_page(self.language(request), live), session)

    def version(self, request: Request) -> Response:
        return JSONResponse({"version": self.view.version()})

    def incidents(self, request: Request) -> Response:
        given = request.query_params.get("page", "1")
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 7 else 1
        live, session = self.live(request)
        return self.html(request, self.view.incidents_page(number, self.language(request), live), session)

    def plan(self, request: Request) -> Response:
        return self.shown(request, request.path_params["number"])

    def shown(self, request: Request, number: int, message: str = "", status: int = 200) -> Response:
        """One plan, with what came of an answer above it."""
        stored = self.view.plan(number) if number < 2**62 else None
        if stored is None:
            return self.refusal(request, "page.no-plan", 404, plan=number)
        live, session = self.live(request, message, status >= 400)
        return self.html(request, self.view.plan_page(stored, self.language(request), live), session, status)

    async def answer(self, request: Request) -> Response:
        """A yes or no: from our own page, of this session, about the plan that was shown, with its code."""
        if not guard.same_origin(request.headers):
            return self.refusal(request, "page.other-origin", 403)
        form = await read_form(request)
        if form is None or form.get("answer") not in ("yes", "no"):
            return self.refusal(request, "page.not-understood", 400)
        return await run_in_threadpool(self.answered, request, form)

    def answered(self, request: Request, form: dict[str, str]) -> Response:
        number, reader = request.path_params["number"], self.view.reader(self.language(request))
        session = request.cookies.get(guard.COOKIE, "")
        if not guard.token_fits(form.get("token", ""), session, self.door.key):
            return self.shown(request, number, reader("page.old-form"), 403)
        stored = self.view.plan(number) if number < 2**62 else None
        if stored is None:
            return self.refusal(request, "page.no-plan", 404, plan=number)
        if form.get("digest") != stored.plan.digest:  # before any code is looked at: it costs no try
            return self.shown(request, number, reader("page.changed"), 409)
        yes = form["answer"] == "yes"
        answer, status = self.view.answer(form.get("code", ""), yes, self.person(request), stored.plan.digest)
        if answer.ok:
            return RedirectResponse(f"/plans/{number}", 303)
        return self.shown(request, number, reader.reason(answer.reason), status)

    def manifest(self, request: Request) -> Response:
        return JSONResponse(MANIFEST, media_type="application/manifest+json")

    def script(self, request: Request) -> Response:
        return self.file("page.js")

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self.file(name) if name in TYPES else self.not_found(request, None)

    def file(self, name: str) -> Response:
        return Response(static_file(name), media_type=TYPES[name])

    def not_found(self, request: Request, error: Exception | None) -> Response:
        return self.refusal(request, "page.not-found", 404)

    def failed(self, request: Request, error: Exception) -> Response:
        why = str(error) if isinstance(error, WatchdogError) else type(error).__name__
        return self.refusal(request, "page.failed", 500, why=harmless(why, 300))


async def read_form(request: Request) -> dict[str, str] | None:
    """The fields of a small form; None for one that is too long, too slow or something else."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return None
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST:
                    return None
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=8, keep_blank_values=True)
    except (TimeoutError, ValueError):
        return None
    return {name: values[0] for name, values in fields.items() if len(values) == 1}


@cache
def static_file(name: str) -> bytes:
    return (files("watchdog.web") / "static" / name).read_bytes()

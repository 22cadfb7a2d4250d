"""Helpers for tests about telling and hearing: values made short, and small servers on loopback."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from homes import BOOK

from watchdog import pipeline
from watchdog.approval import replies
from watchdog.config.rulebook import Rulebook
from watchdog.config.settings import NotifySettings, Settings
from watchdog.job import Run
from watchdog.model import (
    Change,
    Event,
    Hold,
    Incident,
    Notification,
    Outcome,
    OutcomeKind,
    Plan,
    Reason,
    Report,
    Step,
    Verify,
    plain,
)
from watchdog.model.plan_reasons import Cost, Describe
from watchdog.notify import MessageContext, Messenger, deliver
from watchdog.notify.deliver import Send
from watchdog.notify.translate import read_words, with_rules
from watchdog.plan.planner import digest_of
from watchdog.sources.read import Sources
from watchdog.steps.gateway import Args as GatewayArgs

NOW = datetime(2026, 5, 19, 8, 41, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STUCK = {"platform": "telegram", "chat": "42", "waited": 26 * MINUTE, "longer_than": 15 * MINUTE}


def incident(
    number: int = 1, rule: str = "session-stuck", key: str = "telegram/42", at: datetime = NOW, **more: Any
) -> Incident:
    base: dict[str, Any] = {
        "severity": "high",
        "status": "open",
        "title": "A chat is waiting and nothing is working on it",
        "says": "telegram chat 42 has waited 26 minutes for an answer (limit 15 minutes)",
        "first_at": at - 26 * MINUTE,
        "opened_at": at - 11 * MINUTE,
        "last_seen_at": at,
        "recipe": "restart-gateway",
        "fields": STUCK if rule == "session-stuck" and "says" not in more else {},
        "evidence": (Event(at - 26 * MINUTE, "gateway.log", "inbound message: platform=telegram chat=42"),),
    }
    return Incident(id=number, rule=rule, key=key, **{**base, **more})


def plan(
    *incidents: Incident, hold: Hold | None = None, home: str = "/home/hermes/.hermes", **more: Any
) -> Plan:
    about = incidents or (incident(),)
    made = Plan(
        title="Restart the gateway",
        incidents=tuple(one.name for one in about),
        recipes=("restart-gateway",),
        steps=(Step("gateway", GatewayArgs("restart")),),
        words=(
            Reason(
                Describe.RESTART_UNIT,
                {
                    "name": "hermes-gateway.service",
                    "command": "systemctl --user restart hermes-gateway.service",
                },
            ),
        ),
        digest="",
        hold=hold,
        verify=Verify(("session-stuck",)),
        costs=Reason(Cost.REPLIES, {"count": 1, "wait": 2 * MINUTE}),
        host="box",
        home=home,
        restarts=True,
        **more,
    )
    return replace(made, digest=digest_of(made))


def ended(
    digest: str, what: str, ok: bool, says: str | Reason, took: timedelta = timedelta(0), **more: Any
) -> Outcome:
    """What came of a plan or of a step, in words."""
    kinds = {"verify": OutcomeKind.VERIFICATION, "plan": OutcomeKind.PLAN}
    reason = plain(says) if isinstance(says, str) else says
    return Outcome(
        digest, kinds.get(what.split()[0], OutcomeKind.STEP), plain(what), ok, reason, took, **more
    )


def report(*changes: Change, at: datetime = NOW, **more: Any) -> Report:
    base: dict[str, Any] = {
        "start": at - timedelta(hours=1),
        "now": at,
        "home": "/home/hermes/.hermes",
        "blind": {},
        "notes": (),
        "not_checked": {},
        "findings": (),
        "changes": changes,
    }
    return Report(**{**base, **more})


def context(language: str = "en", book: Rulebook = BOOK, **more: Any) -> MessageContext:
    words = with_rules(read_words(language, more.pop("zone", None)), book.rules, book.recipes.values())
    return MessageContext(NOW, "box", words, {rule.id: rule for rule in book.rules}, **more)


def tell(
    told: Report,
    store: Any,
    settings: NotifySettings,
    at: datetime,
    book: Rulebook = BOOK,
    send: Send = deliver.send,
) -> tuple[tuple[Notification, ...], tuple[str, ...]]:
    """Close, choose, ask and send, as a check does; `send` stands in for the targets."""
    after = pipeline.tell(told, _run(store, settings, at, book, send))
    return after.notifications, after.notes[len(told.notes) :]


def hear(
    store: Any, settings: NotifySettings, at: datetime, wait: timedelta = timedelta(0), **pace: Any
) -> tuple[tuple[replies.ReplyResult, ...], tuple[str, ...]]:
    """The answers since the last look; with a pace of its own where a test gives one."""
    run = _run(store, settings, at, BOOK)
    if pace:
        return replies.hear(run.messenger(), None, replies.Patience(wait, **pace))
    return pipeline.hear(run, wait)


def _run(
    store: Any, settings: NotifySettings, at: datetime, book: Rulebook, send: Send = deliver.send
) -> Run:
    class Sending(Run):
        def messenger(self) -> Messenger:
            return replace(super().messenger(), send=send)

    sources = Sources(Path("/home/hermes/.hermes"), zone=UTC)
    return Sending(book, sources, Settings(notify=settings), store, at, book.rules)


class Server:
    """An HTTP server in a thread that remembers what it was asked; `answer(method, path, body) -> (status,
    bytes)`.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.broken: Callable[[], tuple[int, bytes]] | None = None  # every request is answered so
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, body))
                outer.headers = dict(self.headers)
                status, said = outer.broken() if outer.broken else outer.answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers: dict[str, str] = {}
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        return 200, b"{}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests if body]


class Ntfy(Server):
    """POST / with JSON or POST /topic publishes; GET /topic/json?poll=1&since= gives what came since."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        super().__init__()

    def post(self, topic: str, message: str, **more: Any) -> dict[str, Any]:
        entry = {
            "id": f"m{len(self.messages):010d}",
            "time": int(time.time()),
            "event": "message",
            "topic": topic,
            "message": message,
        }
        self.messages.append({**more, **entry})
        return self.messages[-1]

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(path)
        if method == "POST":
            told = json.loads(body) if url.path == "/" else {"topic": url.path[1:], "message": body.decode()}
            return 200, json.dumps(self.post(**told)).encode()
        topic, since = url.path.split("/")[1], parse_qs(url.query).get("since", ["all"])[0]
        found = [one for one in self.messages if one["topic"] == topic]
        if since.isdigit():
            found = [one for one in found if one["time"] >= int(since)]
        elif since in [one["id"] for one in found]:
            found = found[[one["id"] for one in found].index(since) + 1 :]
        return 200, b"".join(json.dumps(one).encode() + b"\n" for one in found)

    # a person with a phone

    def questions(self, topic: str) -> list[dict[str, Any]]:
        return [one for one in self.messages if one["topic"] == topic and one.get("actions")]

    def tap(self, topic: str, button: int, question: int = -1) -> None:
        """The phone posts the button's body to the button's address, as ntfy's apps do."""
        action = self.questions(topic)[question]["actions"][button]
        self.post(urlsplit(action["url"]).path[1:], action["body"])


class Telegram(Server):
    """getUpdates with offset, sendMessage and the rest of what we call; one bot."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.released: list[dict[str, Any]] = []
        self.numbers = itertools.count(500)
        super().__init__()

    def push(self, **update: Any) -> None:
        self.updates.append({"update_id": next(self.numbers), **update})

    def write(self, who: int, text: str, chat: int | None = None, **more: Any) -> None:
        message = {
            "message_id": next(self.numbers),
            "from": {"id": who},
            "chat": {"id": chat or who},
            "date": int(time.time()),
        }
        self.push(message={**message, "text": text, **more})

    def tap(self, who: int, data: str, chat: int | None = None) -> None:
        message = {"message_id": 1, "chat": {"id": chat or who}, "date": int(time.time())}
        self.push(
            callback_query={
                "id": str(next(self.numbers)),
                "from": {"id": who},
                "data": data,
                "message": message,
            }
        )

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        fields, call = json.loads(body or b"{}"), path.rsplit("/", 1)[1]
        result: Any = True
        if call == "getUpdates":
            offset = int(fields.get("offset") or 0)
            if offset < 0:
                self.updates = self.updates[offset:]
            else:
                self.updates = [one for one in self.updates if one["update_id"] >= offset]
            result = self.updates[: fields.get("limit", 100)]
        elif call == "sendMessage":
            self.sent.append(fields)
            result = {"message_id": next(self.numbers)}
        elif call == "answerCallbackQuery":
            self.released.append(fields)
        return 200, json.dumps({"ok": True, "result": result}).encode()


class Matrix(Server):
    """A room on a homeserver: send, sync, aliases; a stand-in for the fast suite (the lab asks a real
    Synapse).
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        super().__init__()

    def write(self, sender: str, body: str, **content: Any) -> None:
        told = {"msgtype": "m.text", "body": body, **content}
        stamp = int(time.time() * 1000)
        self.events.append(
            {
                "type": "m.room.message",
                "event_id": f"$e{len(self.events) + 1}",
                "sender": sender,
                "content": told,
                "origin_server_ts": stamp,
            }
        )

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(path)
        if "/directory/room/" in url.path:
            return 200, json.dumps({"room_id": "!ops:lab.local"}).encode()
        if "/join/" in url.path:
            return 200, b"{}"
        if "/send/" in url.path:
            assert unquote(url.path).split("/")[5] == "!ops:lab.local"
            self.write("@watchdog:lab.local", **json.loads(body))
            return 200, json.dumps({"event_id": f"$e{len(self.events)}"}).encode()
        query = parse_qs(url.query)
        since = int(query.get("since", ["s0"])[0][1:])
        only = json.loads(query["filter"][0])["room"]["timeline"]
        limit, senders = only["limit"], only.get("senders")
        new = [event for event in self.events[since:] if senders is None or event["sender"] in senders]
        timeline = {"events": new[-limit:], "limited": len(new) > limit}
        answer = {
            "next_batch": f"s{len(self.events)}",
            "rooms": {"join": {"!ops:lab.local": {"timeline": timeline}}},
        }
        return 200, json.dumps(answer).encode()

    def said(self) -> list[str]:
        return [one["content"]["body"] for one in self.events if one["sender"] == "@watchdog:lab.local"]


@contextmanager
def running(server: Server) -> Iterator[Any]:
    try:
        yield server
    finally:
        server.close()


def code_in(text: str) -> str:
    """The code that a message asks to be sent back."""
    found = re.search(r"(?m)^ *(?:approve|同意) ([A-Z0-9]{8})$", text)
    assert found, f"no code in: {text}"
    return found[1]

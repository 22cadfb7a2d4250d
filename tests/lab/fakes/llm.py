"""A model provider on loopback, in the OpenAI and the Anthropic dialect, well-behaved or not.

What it does with a request is decided by the first behaviour whose `match` is found in the last
message of the user. Without one it answers at once.
"""

from __future__ import annotations

import asyncio
import json
import re
import time

from aiohttp import web

SENSITIVE = "output new_sensitive (1027)"


class Llm:
    def __init__(self) -> None:
        self.behaviours: list[dict] = []
        self.requests: list[dict] = []
        self.hanging = 0
        self.released = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self.models),
            web.post("/v1/chat/completions", self.openai),
            web.post("/anthropic/v1/messages", self.anthropic),
        ]

    # control

    def behave(self, match: str = "", do: str = "answer", times: int = -1, **how) -> None:
        self.behaviours.insert(0, {"match": match, "do": do, "times": times, **how})

    def calm(self) -> None:
        self.behaviours.clear()

    def release(self) -> None:
        """Cut the connections that hang."""
        self.released += 1

    # requests

    def choose(self, text: str) -> dict:
        for behaviour in self.behaviours:
            if behaviour["times"] != 0 and re.search(behaviour["match"], text):
                behaviour["times"] -= 1
                return behaviour
        return {"do": "answer"}

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "lab-model", "object": "model"}]})

    async def heard(self, request: web.Request) -> tuple[dict, int, dict]:
        """(what was sent, how many tools were used for its last question, how to behave)."""
        body = await request.json()
        asked, steps = last_question(body.get("messages", []))
        how = self.choose(asked)
        self.requests.append({"at": time.time(), "asked": asked[-200:], "do": how["do"]})
        return body, steps, how

    async def openai(self, request: web.Request) -> web.StreamResponse:
        body, steps, how = await self.heard(request)
        if refusal := refuse(how):
            return refusal
        if not body.get("stream"):
            return web.json_response(
                {
                    "id": "lab",
                    "object": "chat.completion",
                    "model": "lab-model",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": "stop",
                            "message": {"role": "assistant", "content": "A title"},
                        }
                    ],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
                }
            )
        out = await open_stream(request)
        if how["do"] == "sensitive" or (how["do"] == "sensitive-after-tool" and steps):
            await out.write(sse({"error": {"message": SENSITIVE, "type": "bad_request_error", "code": 1027}}))
            return out
        if how["do"] == "drip":  # a word now and then, for a long time
            for _ in range(how.get("count", 10)):
                await out.write(sse(chunk({"role": "assistant", "content": "drop "})))
                await asyncio.sleep(how.get("every", 1))
        if how["do"] in ("hang", "reset", "tls"):
            return await self.misbehave(how, request, out, sse(chunk({"role": "assistant", "content": ""})))
        if (how["do"] == "tools" or how["do"] == "sensitive-after-tool") and steps < how.get("steps", 1):
            call = {
                "index": 0,
                "id": f"call_{time.time_ns()}",
                "type": "function",
                "function": {
                    "name": how.get("tool", "terminal"),
                    "arguments": json.dumps(how.get("arguments", {"command": how.get("command", "true")})),
                },
            }
            await out.write(sse(chunk({"role": "assistant", "tool_calls": [call]})))
            await out.write(sse(chunk({}, "tool_calls")))
        else:
            await asyncio.sleep(how.get("after", 0))
            await out.write(
                sse(chunk({"role": "assistant", "content": how.get("say", "Here is the answer.")}))
            )
            await out.write(sse(chunk({}, how.get("finish", "stop"))))
        await out.write(
            sse(
                {
                    **chunk({}),
                    "choices": [],
                    "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55},
                }
            )
        )
        await out.write(b"data: [DONE]\n\n")
        return out

    async def anthropic(self, request: web.Request) -> web.StreamResponse:
        body, steps, how = await self.heard(request)
        if refusal := refuse(how):
            return refusal
        whole = {
            "id": "msg_lab",
            "type": "message",
            "role": "assistant",
            "model": "lab-model",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 50, "output_tokens": 1},
        }
        if not body.get("stream"):
            return web.json_response(
                {**whole, "stop_reason": "end_turn", "content": [{"type": "text", "text": "A title"}]}
            )
        out = await open_stream(request)
        start = event("message_start", {"message": whole})
        if how["do"] == "sensitive" or (how["do"] == "sensitive-after-tool" and steps):
            await out.write(event("error", {"error": {"type": "api_error", "message": SENSITIVE}}))
            return out
        if how["do"] in ("hang", "reset", "tls"):
            return await self.misbehave(how, request, out, start)
        await out.write(start)
        if (how["do"] == "tools" or how["do"] == "sensitive-after-tool") and steps < how.get("steps", 1):
            block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "terminal", "input": {}}
            delta = {
                "type": "input_json_delta",
                "partial_json": json.dumps({"command": how.get("command", "true")}),
            }
            stop = "tool_use"
        else:
            await asyncio.sleep(how.get("after", 0))
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": how.get("say", "Here is the answer.")}
            stop = "end_turn"
        await out.write(event("content_block_start", {"index": 0, "content_block": block}))
        await out.write(event("content_block_delta", {"index": 0, "delta": delta}))
        await out.write(event("content_block_stop", {"index": 0}))
        await out.write(
            event(
                "message_delta",
                {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}},
            )
        )
        await out.write(event("message_stop", {}))
        return out

    async def misbehave(
        self, how: dict, request: web.Request, out: web.StreamResponse, first: bytes
    ) -> web.StreamResponse:
        match how["do"]:
            case "hang":  # a 200 with headers, then never a chunk
                self.hanging += 1
                since = self.released
                try:
                    while request.transport and not request.transport.is_closing() and since == self.released:
                        await asyncio.sleep(0.2)
                finally:
                    self.hanging -= 1
            case "reset":
                await out.write(first)
                if request.transport:
                    request.transport.abort()
            case "tls":  # the next record of this connection arrives damaged
                # but not the headers, which are still on their way through the relay
                await asyncio.sleep(0.2)
                request.app["tls"].damage(request)
                await out.write(first)
                await asyncio.sleep(0.5)
        return out


def refuse(how: dict) -> web.Response | None:
    match how["do"]:
        case "refuse":  # in the provider's own words
            return web.json_response(how["body"], status=how["status"])
        case "overloaded":
            return problem(503, "server_error", "The server is overloaded, try again later")
        case "broken":
            return problem(500, "internal_error", "Internal server error")
        case "quota":
            return problem(
                429, "insufficient_quota", "You exceeded your current quota, please check your plan"
            )
        case "bad-key":
            return problem(401, "invalid_request_error", "Incorrect API key provided: lab-****")
    return None


def problem(status: int, kind: str, message: str) -> web.Response:
    return web.json_response(
        {"type": "error", "error": {"message": message, "type": kind, "code": kind}}, status=status
    )


def last_question(messages: list[dict]) -> tuple[str, int]:
    """The last words of the user, and how many tool results came after them."""
    steps = 0
    for message in reversed(messages):
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if message.get("role") == "tool" or any(part.get("type") == "tool_result" for part in parts):
            steps += 1
        elif message.get("role") == "user":
            return " ".join(str(part.get("text", "")) for part in parts), steps
    return "", steps


async def open_stream(request: web.Request) -> web.StreamResponse:
    out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await out.prepare(request)
    return out


def chunk(delta: dict, finish: str | None = None) -> dict:
    return {
        "id": "lab",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": "lab-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def sse(data: dict) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def event(kind: str, data: dict) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()

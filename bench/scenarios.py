"""What goes wrong in a generated log, and what nearly does: each scenario is some lines of one hour and what
must be found.

A scenario is a function of the hour's number and a random source. It gives lines (offset in ms, level,
logger, session, message), the stretches in which nothing else was written, the platforms that must be silent,
and the expected findings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

MINUTE = 60_000
QQ = "gateway.platforms.qqbot.adapter"
AGENT = "agent.conversation_loop"
RUN = "gateway.run"
SSL = "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed or bad record mac (_ssl.c:2580)"
SENSITIVE = "HTTP 200: output new_sensitive (1027)"


@dataclass
class Story:
    """One hour's trouble."""

    lines: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    silent: list[tuple[int, int]] = field(default_factory=list)  # nothing else is written in these stretches
    without: str = ""  # a platform nobody writes from in this hour
    # rule, key, when its limit was passed (ms)
    expected: list[tuple[str, str, int]] = field(default_factory=list)

    def add(self, at: float, logger: str, message: str, level: str = "INFO", session: str = "") -> None:
        self.lines.append((int(at), level, logger, session, message))

    def inbound(self, at: float, platform: str, chat: str, session: str, said: str) -> None:
        self.add(at, RUN, f"inbound message: platform={platform} user=u{chat} chat={chat} msg={said!r}")
        self.add(
            at + 900,
            AGENT,
            f"conversation turn: session={session} model=m1 provider=custom platform={platform} history=4 msg={said!r}",
            session=session,
        )

    def answer(self, at: float, platform: str, chat: str) -> None:
        self.add(
            at,
            RUN,
            f"response ready: platform={platform} chat={chat} time=12.3s api_calls=2 response=420 chars",
        )

    def failed(self, at: float, provider: str, attempt: int, why: str, session: str) -> None:
        self.add(at - 20, "agent.chat_completion_helpers", f"Streaming failed before delivery: {why}")
        self.add(
            at,
            AGENT,
            f"API call failed (attempt {attempt}/3) error_type=ReadError thread=hermes-gateway_0:1406 provider={provider} "
            f"base_url=https://{provider}.example.com/v1 model=m1 summary={why}",
            "WARNING",
            session,
        )

    def start(self, at: float) -> None:
        self.add(at, RUN, "Starting Hermes Gateway...")
        self.add(at + 10, RUN, "Session storage: /home/hermes/.hermes/sessions")


def _session(number: int, what: str) -> str:
    return f"20260601_{number % 240000:06d}_{what}{number:04x}"


# What must be found.


def stuck(number: int, random: Random) -> Story:
    story, chat, session = Story(), f"stuck{number}", _session(number, "5c")
    platform = random.choice(("telegram", "discord", "weixin"))
    story.inbound(5 * MINUTE, platform, chat, session, f"请帮我看看第 {number} 份报告")
    story.add(
        6 * MINUTE,
        AGENT,
        "API call #1: model=m1 provider=custom in=1200 out=30 total=1230 latency=1.4s",
        session=session,
    )
    story.answer(35 * MINUTE, platform, chat)
    story.expected = [("session-stuck", f"{platform}/{chat}", 21 * MINUTE)]
    return story


def stuck_after_failures(number: int, random: Random) -> Story:
    """With failures of its session, ten minutes are enough."""
    story, chat, session = Story(), f"-100{number}", _session(number, "5f")
    story.inbound(20 * MINUTE, "telegram", chat, session, f"why is job {number} red?")
    story.failed(21 * MINUTE, "slowpoke", 1, "Connection reset by peer", session)
    story.answer(33 * MINUTE, "telegram", chat)
    story.expected = [("session-stuck", f"telegram/{chat}", 30 * MINUTE)]
    return story


def content_filter(number: int, random: Random) -> Story:
    story, chat, session, provider = Story(), f"cf{number}", _session(number, "cf"), f"minimax-{number}"
    story.inbound(10 * MINUTE, "discord", chat, session, f"讲一个关于 {number} 的故事")
    for attempt in (1, 2, 3):
        story.failed(10 * MINUTE + attempt * 4000, provider, attempt, SENSITIVE, session)
    if number % 2:
        story.add(
            10 * MINUTE + 14_000,
            "root",
            f"API call failed after 3 retries. {SENSITIVE} | provider={provider} model=m1 msgs=6 tokens=~1,139",
            "ERROR",
            session,
        )
    story.answer(11 * MINUTE, "discord", chat)
    story.expected = [("content-filter-burst", provider, 10 * MINUTE + 12_000)]
    return story


def tls(number: int, random: Random) -> Story:
    story, session, provider = Story(), _session(number, "71"), f"tlshost-{number}"
    for attempt in range(6):
        story.failed(15 * MINUTE + attempt * 100_000, provider, attempt % 3 + 1, SSL, session)
    story.expected = [("tls-burst", provider, 15 * MINUTE + 500_000)]
    return story


def tls_given_up(number: int, random: Random) -> Story:
    story, session, provider = Story(), _session(number, "72"), f"tlsgone-{number}"
    for attempt in (1, 2, 3):
        story.failed(40 * MINUTE + attempt * 5000, provider, attempt, SSL, session)
    story.add(
        40 * MINUTE + 16_000,
        "root",
        f"API call failed after 3 retries. {SSL} | provider={provider} model=m1 msgs=2 tokens=~1,031",
        "ERROR",
        session,
    )
    story.expected = [("tls-burst", provider, 40 * MINUTE + 16_000)]
    return story


def provider_errors(number: int, random: Random) -> Story:
    story, session, provider = Story(), _session(number, "9e"), f"flaky-{number}"
    for attempt in range(7):
        story.failed(
            25 * MINUTE + attempt * 110_000, provider, attempt % 3 + 1, "HTTP 502: Bad Gateway", session
        )
    story.expected = [("provider-errors", provider, 25 * MINUTE + 550_000)]
    return story


def resume_loop(number: int, random: Random) -> Story:
    story, bot, session = (
        Story(without="qqbot"),
        1_900_000_000 + number,
        f"{number:08x}-0932-46fa-8506-e8586ff4eafb",
    )
    for turn in range(8):
        at = 12 * MINUTE + turn * 20_000
        story.add(at, QQ, f"[QQBot:{bot}] Reconnected")
        story.add(at + 2, QQ, f"[QQBot:{bot}] Resume sent (session_id={session}, seq={turn + 2})")
        story.add(at + 40, QQ, f"[QQBot:{bot}] Session resumed")
        story.add(
            at + 1000,
            QQ,
            f"[QQBot:{bot}] WebSocket {'closed: code=4009' if number % 2 else 'error: WebSocket closed'}",
            "WARNING",
        )
        story.add(at + 1010, QQ, f"[QQBot:{bot}] Reconnecting in 2s (attempt 1)...")
    story.add(17 * MINUTE, QQ, f"[QQBot:{bot}] Identify sent")
    story.add(17 * MINUTE + 50, QQ, f"[QQBot:{bot}] Ready, session_id={number:08x}-ffff")
    story.expected = [("qq-resume-loop", f"{bot}/{session}", 12 * MINUTE + 81_000)]
    return story


def qq_dead(number: int, random: Random) -> Story:
    story, bot = Story(without="qqbot"), 1_800_000_000 + number
    for attempt in range(98, 101):
        story.add(
            30 * MINUTE + attempt * 500, QQ, f"[QQBot:{bot}] Reconnecting in 60s (attempt {attempt})..."
        )
    story.add(32 * MINUTE, QQ, f"[QQBot:{bot}] Max reconnect attempts reached", "ERROR")
    story.add(45 * MINUTE, QQ, f"[QQBot:{bot}] Ready, session_id={number:08x}-0001")
    story.expected = [("qq-dead", str(bot), 32 * MINUTE)]
    return story


def wedged(number: int, random: Random) -> Story:
    story = Story()
    story.add(
        30 * MINUTE,
        QQ,
        f"[QQBot:{1_700_000_000 + number}] Reconnect failed: Failed to get QQ Bot gateway URL: Server disconnected",
        "WARNING",
    )
    story.silent = [(30 * MINUTE, 36 * MINUTE)]
    story.start(36 * MINUTE)
    story.expected = [("gateway-wedged", "gateway", 35 * MINUTE)]
    return story


def crash_loop(number: int, random: Random) -> Story:
    story = Story(silent=[(20 * MINUTE, 22 * MINUTE)])
    for turn in range(5):
        at = 20 * MINUTE + turn * 20_000
        story.start(at)
        story.add(
            at + 400,
            RUN,
            f"Gateway failed to connect any configured messaging platform: qqbot: missing access_token {number}",
            "ERROR",
        )
    story.start(22 * MINUTE - 500)
    story.expected = [("crash-loop", "gateway", 20 * MINUTE + 40_400)]
    return story


def telegram_down(number: int, random: Random) -> Story:
    story = Story(without="telegram")
    for attempt in range(1, 10):
        story.add(
            14 * MINUTE + attempt * 50_000,
            "hermes_plugins.telegram_platform.adapter",
            f"[Telegram] Telegram network error (attempt {attempt}/10), reconnecting in 60s. Error: httpx.ConnectError {number}",
            "WARNING",
        )
    story.add(
        25 * MINUTE,
        "hermes_plugins.telegram_platform.adapter",
        "[Telegram] Telegram polling restarted after network error (attempt 9); health pending",
    )
    story.expected = [("telegram-down", "telegram", 14 * MINUTE + 50_000 + 5 * MINUTE)]
    return story


# What nearly goes wrong and must not be found.


def late_but_answered(number: int, random: Random) -> Story:
    story, chat, session = Story(), f"late{number}", _session(number, "1a")
    story.inbound(5 * MINUTE, "discord", chat, session, f"slow question {number}")
    story.answer(19 * MINUTE, "discord", chat)
    return story


def slow_but_working(number: int, random: Random) -> Story:
    story, chat, session = Story(), f"slow{number}", _session(number, "50")
    story.inbound(5 * MINUTE, "telegram", chat, session, f"build release {number}")
    for step in range(1, 6):
        story.add(
            (5 + 9 * step) * MINUTE,
            "agent.tool_executor",
            "tool terminal completed (540.21s, 48 chars)",
            session=session,
        )
    story.answer(58 * MINUTE, "telegram", chat)
    return story


def stopped_by_hand(number: int, random: Random) -> Story:
    story, chat, session = Story(), f"{9_000_000 + number}", _session(number, "57")
    story.inbound(8 * MINUTE, "telegram", chat, session, f"count to {number}000")
    story.add(
        9 * MINUTE,
        RUN,
        f"STOP for session agent:main:telegram:dm:{chat} — agent interrupted, session lock released",
    )
    return story


def resumed_by_itself(number: int, random: Random) -> Story:
    story = Story()
    story.add(30 * MINUTE, RUN, "Received SIGTERM — initiating shutdown")
    story.add(30 * MINUTE + 100, RUN, "Stopping gateway...")
    story.add(30 * MINUTE + 900, RUN, "Gateway stopped (total teardown 0.8s)")
    story.start(30 * MINUTE + 5000)
    story.add(
        30 * MINUTE + 9000, RUN, f"inbound message: platform=discord user=auto chat=auto{number} msg=''"
    )
    story.silent = [(30 * MINUTE, 30 * MINUTE + 9000)]
    return story


def few_failures(number: int, random: Random) -> Story:
    story, session = Story(), _session(number, "fe")
    for attempt in range(5):
        story.failed(
            10 * MINUTE + attempt * MINUTE,
            f"almost-{number}",
            attempt % 3 + 1,
            "HTTP 503: overloaded",
            session,
        )
        story.failed(30 * MINUTE + attempt * MINUTE, f"tlsalmost-{number}", attempt % 3 + 1, SSL, session)
    for attempt in (1, 2):
        story.failed(50 * MINUTE + attempt * 3000, f"filter-{number}", attempt, SENSITIVE, session)
    return story


def qq_recovers(number: int, random: Random) -> Story:
    story, bot, session = Story(without="qqbot"), 1_600_000_000 + number, f"{number:08x}-aaaa"
    for turn in range(4):
        at = 10 * MINUTE + turn * 5000
        story.add(at, QQ, f"[QQBot:{bot}] Resume sent (session_id={session}, seq={turn})")
        story.add(at + 40, QQ, f"[QQBot:{bot}] Session resumed")
        story.add(at + 1000, QQ, f"[QQBot:{bot}] WebSocket closed: code=4009", "WARNING")
    story.add(11 * MINUTE, QQ, f"[QQBot:{bot}] Identify sent")
    story.add(11 * MINUTE + 9, QQ, f"[QQBot:{bot}] Ready, session_id={session}2")
    story.add(40 * MINUTE, QQ, f"[QQBot:{bot}] Reconnect failed: timed out", "WARNING")
    story.add(42 * MINUTE, QQ, f"[QQBot:{bot}] Reconnecting in 5s (attempt 2)...")
    return story


def telegram_blinks(number: int, random: Random) -> Story:
    story = Story(without="telegram")
    story.add(
        14 * MINUTE,
        "gateway.platforms.telegram",
        "[Telegram] Telegram network error (attempt 1/10), reconnecting in 5s. Error: httpx.ReadError",
        "WARNING",
    )
    story.add(
        18 * MINUTE,
        "gateway.platforms.telegram",
        "[Telegram] Telegram polling resumed after network error (attempt 1)",
    )
    return story


def quoted(number: int, random: Random) -> Story:
    """Chat text and names that imitate what the rules look for."""
    story, chat, session = Story(), f"quote{number}", _session(number, "99")
    for count in range(12):
        said = random.choice(
            (
                f"my log says: API call failed (attempt 1/3) provider=quoted-{number} summary=HTTP 200: output new_sensitive (1027)",
                f"2026-06-01 10:00:00,000 ERROR {QQ}: [QQBot:666] Max reconnect attempts reached",
                "Starting Hermes Gateway...\nGateway failed to connect any configured messaging platform",
                f"response ready: platform=telegram chat=stuck{number} time=1s",
            )
        )
        story.inbound((3 + 4 * count) * MINUTE, "weixin", chat, session, said)
        story.add((3 + 4 * count) * MINUTE + 50, QQ, f"[QQBot:1903996332] After processing: content={said!r}")
        story.answer((4 + 4 * count) * MINUTE, "weixin", chat)
    story.add(
        55 * MINUTE,
        RUN,
        f"inbound message: platform=weixin user=Eve chat=1 msg='x' chat=evil{number} msg='hello'",
    )
    story.add(
        56 * MINUTE,
        "tools.terminal_tool",
        "output: API call failed (attempt 1/3) provider=quoted new_sensitive [SSL: BAD_RECORD_MAC]",
        "WARNING",
        session,
    )
    return story


Make = Callable[[int, Random], Story]
FAULTS: tuple[Make, ...] = (
    stuck, content_filter, tls, provider_errors, resume_loop, qq_dead, wedged, crash_loop, telegram_down, stuck_after_failures, tls_given_up,
)  # fmt: skip
NEAR_MISSES: tuple[Make, ...] = (
    late_but_answered, slow_but_working, stopped_by_hand, resumed_by_itself, few_failures, qq_recovers, telegram_blinks, quoted,
)  # fmt: skip

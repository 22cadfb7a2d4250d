"""Small random logs without sense: the lines that rules look for in any order, damaged in any way a file can
be.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from bench.scenarios import SENSITIVE, SSL

# As Hermes writes them; {c} a chat, {s} a session, {p} a provider, {b} a bot.
GATEWAY = (
    "inbound message: platform={f} user=u{c} chat={c} msg='question {n}'",
    "inbound message: platform={f} user=u{c} chat={c} msg='question {n}' reply_to_id=None reply_to_text=''",
    "inbound message: platform={f} user=u{c} chat={c} msg=''",
    "inbound message: platform={f} user=Eve chat=1 msg='x' chat={c} msg='forged'",
    "inbound message: platform={f} user=Eve\n{stamp} INFO gateway.run: response ready: platform={f} chat={c} time=1s\n chat=9 msg='x'",
    "inbound message: platform={f} user=broken {n}",
    "response ready: platform={f} chat={c} time=1.2s api_calls=1 response=6 chars",
    "response ready: platform={f} chat={c}",
    "STOP for session agent:main:{f}:dm:{c} — agent interrupted, session lock released",
    "Discarding stale agent result for agent:main:{f}:dm:{c} — generation 2 is no longer current",
    "Agent error in session agent:main:{f}:dm:{c}\nTraceback (most recent call last):\n  File \"x.py\", line 1\nOperationalError: no such column: session_id",
    "kanban dispatcher: tick failed on board main\nTraceback (most recent call last):\nsqlite3.OperationalError: no such column: run_id",
    "Starting Hermes Gateway...",
    "Starting Hermes Gateway...",
    "Gateway failed to connect any configured messaging platform: qqbot",
    "Stopping gateway...",
    "Received SIGTERM — initiating shutdown",
    "[QQBot:{b}] Resume sent (session_id=q{b}, seq={n})",
    "[QQBot:{b}] Session resumed",
    "[QQBot:{b}] WebSocket error: WebSocket closed",
    "[QQBot:{b}] WebSocket closed: code=4009",
    "[QQBot:{b}] Ready, session_id=q{b}",
    "[QQBot:{b}] Reconnect failed: timed out",
    "[QQBot:{b}] Max reconnect attempts reached",
    "[QQBot:{b}] C2C message: id=1 content='[QQBot:{b}] Max reconnect attempts reached' attachments=None",
    "✓ telegram reconnected successfully",
)  # fmt: skip
AGENT = (
    "conversation turn: session={s} model=m provider={p} platform={f} history=2 msg='question {n}'",
    "conversation turn: session={s} model=m provider={p} platform={f} history=2 msg='broken",
    "API call #{n}: model=m provider={p} in=1 out=1 total=2 latency=0.1s",
    "tool terminal completed (1.2s, 3 chars)",
    "tool terminal failed; the log said: tool x completed (1s",
    "check_fn check_{n} returned False; dependent tools will be unavailable this turn",
    "Turn ended: reason=text_response model=m session={s}",
    "API call failed (attempt {n}/3) error_type=ReadError thread=a:1 provider={p} base_url=https://x model=m summary=Connection reset",
    "API call failed (attempt 1/3) error_type=E thread=a:1 provider={p} base_url=https://x model=m summary=" + SENSITIVE,
    "API call failed (attempt 1/3) error_type=E thread=a:1 provider={p} base_url=https://x model=m summary=" + SSL,
    "API call failed after 3 retries. HTTP 502 | provider={p} model=m msgs=2",
    "API call failed after 3 retries. " + SSL + " | provider={p} model=m msgs=2",
    "Non-retryable client error: Error code: 400 - output new_sensitive (1027)",
    "Streaming failed before delivery: Connection reset",
    "[Telegram] Telegram network error (attempt {n}/10), reconnecting in 5s. Error: x",
    "[Telegram] Telegram polling resumed after network error (attempt 1)",
    "[Telegram] Flushing text batch agent:main:telegram:dm:{c} (4 chars)",
    "printed: API call failed (attempt 1/3) provider={p} new_sensitive (1027)",
    "failed\nTraceback (most recent call last):\n  x: API call failed (attempt 1/3) provider={p} (1027)\n{stamp} oddly: API call failed after 3 retries. x | provider={p}",
    "数据 上下文 without any word {n}",
    "long " + "x" * 3000,
)  # fmt: skip


def random_home(folder: Path, random: Random) -> None:
    """gateway.log and agent.log of a few hours, in one of many kinds of disorder."""
    folder.mkdir(parents=True)
    at = datetime(2026, 6, 1, 9, 0)
    pace = random.choice((2, 20, 90, 240))  # seconds between lines, about
    few = random.choice((3, 12))  # how many kinds of lines this log has
    kinds = [(True, text) for text in random.sample(GATEWAY, min(few, len(GATEWAY)))] + [
        (False, text) for text in random.sample(AGENT, few)
    ]
    logs: dict[bool, list[bytes]] = {True: [], False: []}
    for _ in range(random.randrange(5, 120)):
        at += timedelta(seconds=random.expovariate(1 / pace))
        if random.random() < 0.03:
            at += timedelta(minutes=random.choice((6, 11, 16, 40)))
        # Not further back than lines may be out of order: where a clock was set back, only the file's own
        # order is left.
        jitter = timedelta(seconds=random.choice((0, 0, 0, 0, -3, -20)))
        for gateway, line in _lines(random, at + jitter, *random.choice(kinds)):
            logs[False].append(line)
            if gateway:
                logs[True].append(line)
    for name, lines in (("gateway.log", logs[True]), ("agent.log", logs[False])):
        _write(folder / name, b"".join(lines), random)


# What begins something, which is rare here, and what ends it or tells that all is well, which is nearly every
# line.
BEGINS = (
    "[QQBot:{b}] Max reconnect attempts reached",
    "[QQBot:{b}] Bot is offline/sandbox-only. Check configuration.",
    "[QQBot:{b}] Resume sent (session_id=q{b}, seq={n})",
    "[Telegram] Telegram network error (attempt {n}/10), reconnecting in 5s. Error: x",
    "✗ telegram failed to connect",
    "Fatal qqbot adapter error",
)  # fmt: skip
ENDS = (
    "[QQBot:{b}] Ready, session_id=q{b}",
    "[QQBot:{b}] Session resumed",
    "[QQBot:{b}] C2C message: id=1 content='x' attachments=None",
    "[QQBot:{b}] WebSocket closed: code=4009",
    "[Telegram] Flushing text batch agent:main:telegram:dm:{c} (4 chars)",
    "[Telegram] Telegram polling resumed after network error (attempt 1)",
    "inbound message: platform={f} user=u{c} chat={c} msg='question {n}'",
    "response ready: platform={f} chat={c} time=1.2s api_calls=1 response=6 chars",
    "✓ telegram reconnected successfully",
    "✓ qqbot connected",
)  # fmt: skip


def drowsy_home(folder: Path, random: Random) -> None:
    """Logs in which there is hardly ever something to wait for; what begins may be written later than what
    ends it.
    """
    folder.mkdir(parents=True)
    at, pace = datetime(2026, 6, 1, 9, 0), random.choice((1, 5, 40))
    lines: list[bytes] = []
    for _ in range(random.randrange(50, 400)):
        at += timedelta(seconds=random.expovariate(1 / pace))
        begins = random.random() < 0.03
        text = random.choice(BEGINS if begins else ENDS)
        lines += [
            line
            for _, line in _lines(random, at - timedelta(seconds=random.choice((0, 0, 3, 14))), True, text)
        ]
    for name in ("gateway.log", "agent.log"):
        (folder / name).write_bytes(b"".join(lines))


def _lines(random: Random, at: datetime, gateway: bool, text: str) -> list[tuple[bool, bytes]]:
    stamp = at.strftime("%Y-%m-%d %H:%M:%S,") + f"{at.microsecond // 1000:03d}"
    chat, session = f"c{random.randrange(3)}", f"s{random.randrange(3)}"
    message = text.format(
        c=chat,
        s=session,
        p=f"p{random.randrange(2)}",
        b=random.randrange(2),
        n=random.randrange(4),
        stamp=stamp,
        f=random.choice(("telegram", "qqbot")),
    )
    level = random.choice(("INFO", "INFO", "WARNING", "ERROR"))
    tag = f" [{session}]" if not gateway and random.random() < 0.8 else ""
    logger = (
        random.choice(("gateway.run", "gateway.platforms.qqbot.adapter"))
        if gateway
        else random.choice(("run_agent", "agent.loop", "root"))
    )
    return [(gateway, f"{stamp} {level}{tag} {logger}: {message}\n".encode())] * (
        2 if random.random() < 0.05 else 1
    )


def _write(path: Path, content: bytes, random: Random) -> None:
    damage = random.random()
    if damage < 0.1 and content:
        for _ in range(5):
            at = random.randrange(len(content))
            content = (
                content[:at] + random.choice((b"\0", b"\xff", b"\n", b"\r\n", b"", b": ")) + content[at + 1 :]
            )
    elif damage < 0.15:
        content = content.replace(b"\n", b"\r\n")
    elif damage < 0.2:
        content = content[: random.randrange(len(content) + 1)]
    if damage > 0.8 and content:
        at = content.rfind(b"\n", 0, random.randrange(1, len(content) + 1)) + 1
        path.with_name(path.name + ".1").write_bytes(content[:at])
        content = content[at:]
    path.write_bytes(content)

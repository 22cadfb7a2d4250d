"""A Hermes home's logs of any size, the same for the same seed, with incidents at known times.

    python bench/generate.py FOLDER --megabytes 100 --seed 1

One hour of ordinary traffic is written once per variant, with a mark where the date and hour stand, and
stamped again for every hour that is wanted; the hour's story (bench/scenarios.py) is merged in. gateway.log
and agent.log are written as Hermes does: every line of the gateway is in both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.scenarios import AGENT, FAULTS, MINUTE, NEAR_MISSES, RUN, Story

HOUR = 60 * MINUTE
STAMP = "@@@@-@@-@@ @@:"  # where the date and the hour go; minutes and seconds are the same in every hour
DAY = "@DAY@@@@"
VARIANTS = 6
WORDS = [
    "please", "check", "the", "report", "again", "and", "tell", "me", "whether", "请", "帮", "我", "看",
    "看", "今天", "的", "备份", "是否", "成功", "謝謝", "お願いします", "エラー", "오류", "build", "deploy", "kanban", "board",
    "invoice", "café", "naïve", "数据库", "超时", "重启", "网关", "what", "is", "the", "status", "of", "server",
    "twelve", "summary", "translate", "🙂", "draft", "reply",
]  # fmt: skip
Row = tuple[int, bytes, bool]  # offset in ms, the whole line, whether the gateway wrote it


@dataclass(frozen=True)
class Expected:
    rule: str
    key: str
    at: datetime  # local, when the rule's limit was passed

    @property
    def name(self) -> tuple[str, str]:
        return self.rule, self.key


def row(at: int, level: str, logger: str, session: str, message: str) -> Row:
    minutes, rest = divmod(at, MINUTE)
    tag = f" [{session}]" if session else ""
    line = f"{STAMP}{minutes:02d}:{rest // 1000:02d},{rest % 1000:03d} {level}{tag} {logger}: {message}\n"
    return at, line.encode(), logger.startswith(("gateway", "hermes_plugins", "plugins.platforms"))


def ordinary_hour(random: Random, size: int, without: str) -> list[Row]:
    """About `size` bytes (both logs together) of people who write and are answered, and of noise; nothing is
    wrong.
    """
    rows: list[Row] = []
    written = 0
    odd = _odd_lines(random)
    while written < size:
        at = random.randrange(0, HOUR - 4 * MINUTE)
        kind = random.random()
        if kind < 0.62:  # then rules want a third to a half of the lines, as in the logs of real gateways
            new = _turn(random, at, without)
        elif kind < 0.69 and odd:
            new = odd.pop()
        else:
            new = [
                _noise(random, at + random.randrange(0, 3 * MINUTE)) for _ in range(random.randrange(4, 24))
            ]
        rows += new
        written += sum(len(line) * (2 if gateway else 1) for _, line, gateway in new)
    rows.sort(key=lambda one: one[0])
    return rows


def _turn(random: Random, at: int, without: str) -> list[Row]:
    platform = random.choice([name for name in ("telegram", "qqbot", "discord", "weixin") if name != without])
    chat = user = f"{platform[0]}{random.randrange(300):03d}"
    if random.random() < 0.15:  # a group, where each member has a session
        chat, user = f"{platform[0]}group{random.randrange(5)}", f"member{random.randrange(12)}"
    # Hermes keeps the session of a chat for a day, and begins a new one when somebody types /new.
    asked_anew = random.randrange(9) if random.random() < 0.1 else 0
    session = f"{DAY}_000000_{crc32(f'{platform} {chat} {user} {asked_anew}'.encode()):08x}"
    said = " ".join(random.choices(WORDS, k=random.randrange(2, 30)))
    modern = random.random() < 0.5
    loop = AGENT if modern else "run_agent"
    rows: list[Row] = []

    def info(at: int, logger: str, message: str, session: str = "") -> None:
        rows.append(row(at, "INFO", logger, session, message))

    if platform == "qqbot":
        info(
            at,
            "gateway.platforms.qqbot.adapter",
            f"[QQBot:1903996332] C2C message: id=ROBOT1.0_{random.randrange(16**12):012x} content={said!r} attachments=None",
        )
        info(at, "gateway.platforms.qqbot.adapter", "[QQBot:1903996332] After processing: images=0, voice=0")
    elif platform == "telegram":
        info(
            at,
            "gateway.platforms.telegram",
            f"[Telegram] Flushing text batch agent:main:telegram:dm:{chat} ({len(said)} chars)",
        )
    reply = " reply_to_id=None reply_to_text=''" if modern else ""
    info(
        at + 20,
        RUN,
        f"inbound message: platform={platform} user=用户{user} chat={chat} msg={said[:80]!r}{reply}",
    )
    info(
        at + 700,
        loop,
        f"conversation turn: session={session} model=lab-model provider=custom platform={platform} history={random.randrange(40)} msg={said[:80]!r}",
        session,
    )
    clock, calls = at + 800, random.randrange(1, 6)
    for call in range(1, calls + 1):
        thread = f"thread=Thread-{call} (_call):{random.randrange(10**15)} provider=custom base_url=https://llm.example.com/v1 model=lab-model"
        info(
            clock,
            "run_agent",
            f"OpenAI client created (chat_completion_stream_request, shared=False) {thread}",
        )
        clock += random.randrange(300, 20_000)
        info(
            clock - 5,
            "httpx",
            'HTTP Request: POST https://llm.example.com/v1/chat/completions "HTTP/1.1 200 OK"',
        )
        info(
            clock - 1,
            "run_agent",
            f"OpenAI client closed (stream_request_complete, shared=False, tcp_force_closed=0) {thread}",
        )
        info(
            clock,
            loop,
            f"API call #{call}: model=lab-model provider=custom in={random.randrange(90000)} out=30 total=1230 latency=1.4s",
            session,
        )
        if call < calls:
            rows += [_noise(random, clock + 100, session) for _ in range(random.randrange(0, 5))]
            clock += random.randrange(100, 15_000)
            info(
                clock,
                "agent.tool_executor",
                f"tool {random.choice(('terminal', 'web_search', 'read_file'))} completed (2.33s, {random.randrange(9999)} chars)",
                session,
            )
    info(
        clock + 30,
        loop,
        f"Turn ended: reason=text_response(finish_reason=stop) model=lab-model api_calls={calls}/30 budget={calls}/30 tool_turns={calls - 1} last_msg_role=assistant response_len=16 session={session}",
        session,
    )
    info(
        clock + 60,
        RUN,
        f"response ready: platform={platform} chat={chat} time={(clock - at) / 1000:.1f}s api_calls={calls} response=25 chars",
    )
    info(clock + 90, "gateway.platforms.base", f"[{platform}] Sending response (25 chars) to {chat}")
    return rows


_NOISE = (
    ("INFO", "hermes_cli.plugins", "Plugin 'web-{n}' registered web provider: firecrawl-{n}"),
    ("WARNING", "tools.registry", "check_fn check_browser_requirements_{n} returned False; dependent tools will be unavailable this turn"),
    ("INFO", "agent.auxiliary_client", "Auxiliary auto-detect: using main provider custom (lab-model)"),
    ("INFO", "httpx", 'HTTP Request: GET https://api.telegram.org/bot[redacted]/getUpdates?offset={n} "HTTP/1.1 200 OK"'),
    ("INFO", "tools.environments.base", "Session snapshot created (session={n:012x}, cwd=/home/hermes/work)"),
    ("INFO", "apscheduler.executors.default", 'Job "tick_{n} (trigger: interval[0:01:00])" executed successfully'),
    ("INFO", "gateway.channel_directory", "Channel directory built: {n} target(s)"),
    ("INFO", "agent.context_compressor", "Context at {n} tokens of 200000 (threshold 150000), no compression; 上下文 未 压缩"),
    ("WARNING", "agent.model_metadata", "Failed to fetch model metadata from OpenRouter: HTTPSConnectionPool(host='openrouter.ai', port=443): Max retries exceeded with url: /api/v1/models/{n} (Caused by NameResolutionError(\"Failed to resolve 'openrouter.ai'\"))"),
    ("INFO", "tools.terminal_tool", "local environment ready for task default-{n}"),
)  # fmt: skip


def _noise(random: Random, at: int, session: str = "") -> Row:
    level, logger, message = random.choice(_NOISE)
    return row(min(at, HOUR - 1), level, logger, session, message.format(n=random.randrange(100_000)))


def _odd_lines(random: Random) -> list[list[Row]]:
    """Tracebacks, long lines, a flood, a retry that succeeds: once each in an hour."""

    def at() -> int:
        return random.randrange(HOUR - 4 * MINUTE)

    frames = "\n".join(
        f'  File "/opt/hermes/site-packages/module_{n}/loop.py", line {n * 17}, in step_{n}\n    await self._step_{n}(数据)'
        for n in range(25)
    )
    trace = (
        f"Traceback (most recent call last):\n{frames}\nValueError: '{' '.join(random.choices(WORDS, k=9))}'"
    )
    flood_at = at()
    flood = [
        row(
            flood_at + n * 7,
            "WARNING",
            "asyncio",
            "",
            f"Executing <Task pending name='Task-{n}'> took 0.2{n % 10} seconds",
        )
        for n in range(400)
    ]
    first, session = at(), f"{DAY}_000000_0dd{random.randrange(16**5):05x}"
    retry = [
        row(
            first,
            "WARNING",
            AGENT,
            session,
            "API call failed (attempt 1/3) error_type=ReadError thread=a:1 provider=custom base_url=https://llm.example.com/v1 model=lab-model summary=Server disconnected",
        ),
        row(
            first + 2500,
            "INFO",
            AGENT,
            session,
            "API call #1: model=lab-model provider=custom in=12 out=3 total=15 latency=1.4s",
        ),
    ]
    return [
        [row(at(), "ERROR", "tools.mcp_tool", "", f"MCP server failed\n{trace}")],
        [row(at(), "ERROR", "gateway.platforms.discord", "", f"voice handler failed\n{trace}")],
        [row(at(), "INFO", "tools.web_tools", "", f"extracted {'数据 and text ' * 900}")],
        [row(at(), "DEBUG", "tools.browser", "", "dom snapshot " + "<div class='x'>" * 2500)],
        flood,
        retry,
    ]


def story_of(number: int, seed: int, every: int) -> Story:
    """Every so many hours a fault, the hour after it something that nearly is one, the others quiet."""
    random = Random(f"{seed}/{number}")
    if every and number % every == 0:
        return FAULTS[(number // every) % len(FAULTS)](number, random)
    if every > 1 and number % every == 1:
        return NEAR_MISSES[(number // every) % len(NEAR_MISSES)](number, random)
    return Story()


def hours(seed: int, count: int, hourly: int, every: int) -> Iterator[tuple[list[Row], Story]]:
    ordinary: dict[tuple[int, str], list[Row]] = {}
    for number in range(count):
        # The first and the last hour are quiet, so that nothing is cut off at either end.
        story = story_of(number - 1, seed, every) if 0 < number < count - 1 else Story()
        kind = (count - number) % VARIANTS, story.without  # counted from the end: logs of any size end alike
        if kind not in ordinary:
            ordinary[kind] = ordinary_hour(Random(f"{seed}/{kind}"), hourly, story.without)
        rows = ordinary[kind]
        if story.lines:
            rows = [one for one in rows if not any(first <= one[0] < last for first, last in story.silent)]
            rows = sorted(rows + [row(*line) for line in story.lines], key=lambda one: one[0])
        yield rows, story


def generate(
    folder: Path,
    size: int,
    seed: int = 1,
    hourly: int = 1_000_000,
    every: int = 2,
    until: datetime = datetime(2026, 7, 20),
    trouble: bool = True,
) -> list[Expected]:
    """Write gateway.log and agent.log, about `size` bytes together; the incidents that are in them, in order
    of time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = max(3, round(size / hourly) + 1)
    last_hour = until.replace(minute=0, second=0, microsecond=0)
    expected: list[Expected] = []
    with (folder / "gateway.log").open("wb") as gateway, (folder / "agent.log").open("wb") as agent:
        for number, (rows, story) in enumerate(hours(seed, count, hourly, every if trouble else 0)):
            begins = last_hour - timedelta(hours=count - 1 - number)
            if begins == last_hour:
                elapsed = (until - last_hour) / timedelta(milliseconds=1)
                rows = [one for one in rows if one[0] < elapsed]
            stamp, day = begins.strftime("%Y-%m-%d %H:").encode(), begins.strftime("%Y%m%d").encode()
            for file, lines in (
                (agent, [one[1] for one in rows]),
                (gateway, [one[1] for one in rows if one[2]]),
            ):
                file.write(b"".join(lines).replace(STAMP.encode(), stamp).replace(DAY.encode(), day))
            expected += [
                Expected(rule, key, begins + timedelta(milliseconds=at)) for rule, key, at in story.expected
            ]
    return sorted(expected, key=lambda one: (one.at, one.rule, one.key))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    expected = generate(args.folder, args.megabytes * 1_000_000, args.seed)
    print(
        json.dumps(
            [{"rule": one.rule, "key": one.key, "at": one.at.isoformat()} for one in expected], indent=1
        )
    )


if __name__ == "__main__":
    main()

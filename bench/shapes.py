"""Logs of one kind of traffic: what a mixture hides. Each writes gateway.log and agent.log as Hermes does.

python bench/shapes.py FOLDER turns|flood|chats|captures --megabytes 10
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import accumulate, count, islice, tee
from pathlib import Path
from random import Random

START = datetime(2026, 5, 19, 8, 0)
Line = tuple[timedelta, str, str, str]  # after the start, session, logger and level, message


def turns(random: Random, chats: int = 40, apart: float = 3.0) -> Iterator[Line]:
    """Nothing but turns that go well."""
    for number in count():
        chat = number % chats
        at = timedelta(seconds=number * apart)
        session = f"20260519_{chat:06d}_{chat:08x}"
        words = f"question {number} about the report of today"
        yield (
            at,
            "",
            "INFO gateway.run",
            f"inbound message: platform=telegram user=Person {chat} chat={chat} msg='{words}' reply_to_id=None reply_to_text=''",
        )
        yield (
            at + timedelta(seconds=0.2),
            session,
            "INFO agent.turn_context",
            f"conversation turn: session={session} model=m-large provider=custom platform=telegram history={number % 50} msg='{words}'",
        )
        for call in range(1, 2 + random.randrange(3)):
            yield (
                at + timedelta(seconds=call),
                session,
                "INFO agent.conversation_loop",
                f"API call #{call}: model=m-large provider=custom in={random.randrange(9999)} out=80 total=1280 latency=0.9s",
            )
            yield (
                at + timedelta(seconds=call + 0.4),
                session,
                "INFO agent.tool_executor",
                f"tool terminal completed (0.{random.randrange(99):02d}s, {random.randrange(999)} chars)",
            )
        end = at + timedelta(seconds=6)
        yield (
            end,
            session,
            "INFO agent.conversation_loop",
            f"Turn ended: reason=text_response(finish_reason=stop) model=m-large api_calls=2/90 budget=2/90 tool_turns=1 last_msg_role=assistant response_len=190 session={session}",
        )
        yield (
            end + timedelta(seconds=0.1),
            "",
            "INFO gateway.run",
            f"response ready: platform=telegram chat={chat} time=6.1s api_calls=2 response=190 chars",
        )


def chats(random: Random) -> Iterator[Line]:
    """The same of ten thousand chats."""
    return turns(random, 10_000, 0.5)


def flood(random: Random) -> Iterator[Line]:
    """A provider that fails all the time."""
    for number in count():
        session = f"20260519_{number % 40:06d}_{number % 40:08x}"
        head = f"API call failed (attempt {1 + number % 3}/3) error_type=APITimeoutError thread=asyncio_{number % 9}:13{number} "
        tail = f"provider=custom base_url=https://api.example.com/v1 model=m-large summary=Request timed out after {random.randrange(600)} seconds while waiting for the first chunk"
        yield timedelta(seconds=number * 0.5), session, "WARNING agent.conversation_loop", head + tail


def write(folder: Path, lines: Iterator[Line], size: int, until: datetime | None = None) -> None:
    """Both logs, the longer one of about this size; `until`: when the last line was written."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    written, held, begin = 0, [], START
    if until is not None:
        lines, ahead = tee(lines)
        lengths = accumulate(ahead, lambda length, line: length + len(line[3]) + 70, initial=0)
        lasts = next(number for number, length in enumerate(lengths) if length > size)
        lines, ahead = tee(lines)
        begin = until - next(islice(ahead, lasts, None))[0] - timedelta(seconds=10)
    with (
        (folder / "logs" / "gateway.log").open("w") as gateway,
        (folder / "logs" / "agent.log").open("w") as agent,
    ):
        for after, session, who, message in lines:
            level, logger = who.split()
            stamp = (begin + after).isoformat(" ", "milliseconds").replace(".", ",")
            text = f"{stamp} {level}{f' [{session}]' if session else ''} {logger}: {message}\n"
            held.append((after, logger.startswith("gateway"), text))
            written += len(text)
            if written > size or len(held) > 5000:
                held.sort(key=lambda line: line[0])
                done = held if written > size else held[:-500]
                held = held[len(done) :]
                agent.writelines(text for *_, text in done)
                gateway.writelines(text for _, ours, text in done if ours)
            if written > size:
                return


def captures(folder: Path, source: Path, size: int) -> None:
    """Saved logs of real gateways again and again, each time a day later."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for name in ("gateway.log", "agent.log"):
        texts = [path.read_text("utf-8", "replace") for path in sorted(source.rglob(name))]
        with (folder / "logs" / name).open("w") as log:
            for number in count():
                day = f"{START + timedelta(days=number):%Y-%m-%d}"
                text = texts[number % len(texts)]
                log.writelines(
                    day + line[10:] if line[:2] == "20" and line[4:5] == "-" else line
                    for line in text.splitlines(keepends=True)
                )
                if log.tell() > size:
                    break


SHAPES: dict[str, Callable[[Random], Iterator[Line]]] = {"turns": turns, "chats": chats, "flood": flood}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("shape", choices=(*SHAPES, "captures"))
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--captures", type=Path, help="folder of saved logs, for the shape captures")
    args = parser.parse_args()
    size = int(args.megabytes * 1_000_000)
    if args.shape == "captures":
        captures(args.folder, args.captures, size)
    else:
        write(args.folder, SHAPES[args.shape](Random(1)), size)

"""Whether a Telegram bot of ours is the gateway's own: two programs that read one bot knock each other off."""

from __future__ import annotations

import json
import os
from pathlib import Path

from watchdog.config.settings import Channel
from watchdog.system.files import read_text

_LONGEST = 1_000_000  # bytes of a file that may hold the token


def refused(channel: Channel, home: Path) -> str:
    """Why a channel must not be used at all: its token is the gateway's; empty when it may.

    Only the whole token counts. The number before its colon is known to everyone who sees the bot, and the
    agent writes these files: with a made-up token of that number it could close the channel. A bot has one
    valid token, so another is no rival.
    """
    token = channel.secret if channel.kind == "telegram" else ""
    for name, text in _where_the_gateway_keeps_it(home):
        if token and token in text:
            return (
                f"telegram: this is the bot of the gateway itself (found in {name}); two programs that read one bot "
                "knock each other off. Make a second bot with @BotFather and put its token here"
            )
    return ""


def _where_the_gateway_keeps_it(home: Path) -> list[tuple[str, str]]:
    """The texts that may hold the gateway's token: its settings and its environment."""
    texts = [("TELEGRAM_BOT_TOKEN of this environment", os.environ.get("TELEGRAM_BOT_TOKEN", ""))]
    for name in (".env", "config.yaml", "gateway.json"):
        texts.append((str(home / name), read_text(home / name, _LONGEST)))
    try:
        pid = int(json.loads(read_text(home / "gateway.pid"))["pid"])
        texts.append((f"the environment of process {pid}", read_text(f"/proc/{pid}/environ", _LONGEST)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return [(name, text) for name, text in texts if text]

"""The form of a message: a headline for a lock screen, a body of bounded length, as text, Markdown or HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from watchdog.model import Notification
from watchdog.notify.context import CODE
from watchdog.notify.sanitize import fit
from watchdog.notify.translate import Words

HEADLINE = 40  # characters; what a lock screen shows for certain
BODY = 3500  # characters; ntfy and Telegram cut at 4,096 bytes or characters
_MARKUP = re.compile(r"[\\`*_\[\]<>~|]|^#+|^(?=\d+\.)|^[-+]")


def headline(title: str, words: Words) -> str:
    """A title for a lock screen, with the language's prefix where it does not name the gateway itself."""
    prefix = words("prefix")
    named = prefix.rstrip(" :：") in title
    return fit(title if named else prefix + title, HEADLINE)


def full_text(notification: Notification, more: Sequence[str] = (), limit: int = BODY) -> str:
    """What matters, how to answer, then the details, which are cut first."""
    top = "\n".join([notification.body, *more])
    return cut(f"{top}\n{notification.details}" if notification.details else top, limit)


def render(body: str, form: str) -> str:
    """The plain body as Markdown or HTML; commands become code, everything else is escaped."""
    if form == "markdown":
        # A tick in a command would end the code, and what follows would be markup.
        code = str.maketrans("`", "'")
        lines = [
            f"`{line[4:].translate(code)}`" if line.startswith(CODE) else _MARKUP.sub(r"\\\g<0>", line)
            for line in body.split("\n")
        ]
        return "  \n".join(lines)
    if form == "html":
        lines = [html.escape(line) for line in body.split("\n")]
        return "<br/>\n".join(f"<code>{line[4:]}</code>" if line.startswith(CODE) else line for line in lines)
    return body


def cut(body: str, limit: int = BODY) -> str:
    """At most so long, cut at the end of a line."""
    if len(body) <= limit:
        return body
    return body[: limit - 2].rsplit("\n", 1)[0] + "\n…"

"""What leaves the machine: no secrets, ids or markup; as headline and bounded body in three formats."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from hashlib import sha256

from watchdog.model import Notification
from watchdog.notify.translate import Words
from watchdog.text import harmless, redact

LINE = 300  # characters of one sentence on a phone
CODE = "    "  # a line that begins so is a command or a quote, to be shown letter for letter

_FILES = (
    "log|db|py|pyc|json|jsonl|yaml|yml|toml|conf|cfg|ini|txt|md|sh|so|sql|pid|lock|bak|sock|service|socket|timer|"
    "target|slice|scope|target|wal|shm|env|gz|zip|c|h|rs|js|ts"
)
_LINK = re.compile(
    r"(?i)[a-z0-9+.-]{0,20}:(?://|\\\\)\S*|\b(?:mailto|tel|javascript|data|tg|intent):\S+|\bwww\.\S+"
)
_DOMAIN = re.compile(
    rf"(?i)(?:(?<=//)|(?<![\w./~-]))(?:[^\W_][\w-]*\.)+(?!(?:{_FILES})\b)[^\W\d_]{{2,24}}\b([/:?#]\S*)?"
)
_MENTION = re.compile(r"<[@#!&][^>]{0,60}>|(?<!\w)[@＠](?=\w)")
_PHONE = re.compile(r"(?<![\w.:/-])1[3-9]\d{9}(?!\w)")
# Two chats with one alias in 65,536 is near enough to tell them apart, and too far to guess the number from
# it.
_CHAT = re.compile(
    r"(?i)\b(chat|user|group|channel|openid|peer|uid|from)((?:[_ -]?id)?(?: |=|: ?))"
    r"'?(-?\d[\w-]*|[0-9a-f]{16,}|\w+:\S+)"
)
_PEOPLE = ("chat", "user", "group", "channel", "openid", "peer", "uid", "from")
_OURS = ("columns", "missing")  # names out of the schema that Hermes ships: a dot in them makes no link
_ID = re.compile(r"(?i)-?\d[\w-]*|[0-9a-f]{16,}|\w+:\S+")
_KEY = re.compile(
    r"(?i)\b(telegram|qqbot|qq|discord|slack|matrix|whatsapp|signal|weixin|wecom|feishu|dingtalk|sms|email|line)([/:])(?:(dm|group|channel|private|c2c|guild):)?([^\s,;)]+)"
)
_SESSION = re.compile(r"\b(agent:\w+:\w+:\w+):(\S+)")
_EXTRA = re.compile(r"(?<=\w)\[([a-z]{2,20})\](?![(\[:])")  # package[extra] in a command of ours
_OPAQUE = re.compile(r"(?<![\w#/.-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9_-]{24,}(?![\w/])")


def alias(text: str) -> str:
    """A short name for an id, the same each time."""
    return "#" + sha256(text.encode("utf-8", "replace")).hexdigest()[:4]


def veil(text: str) -> str:
    """The same text with people's and chats' numbers replaced by aliases."""
    text = _SESSION.sub(lambda found: f"{found[1]}:{_alias(found[2])}", text)
    text = _KEY.sub(
        lambda found: f"{found[1]}{found[2]}{found[3] + ':' if found[3] else ''}{_alias(found[4])}", text
    )
    text = _CHAT.sub(lambda found: f"{found[1]}{found[2]}{_alias(found[3])}", text)
    text = _PHONE.sub("[phone]", text)
    return _OPAQUE.sub(lambda found: _alias(found[0]), text)


def fit(text: str, limit: int = LINE) -> str:
    """A sentence that may hold log text, fit for any chat program: no link, mention, markup or secret."""
    text = redact(harmless(text, limit * 2))
    # Markup first: without it, what it kept apart may turn out to be a link or a mention.
    text = re.sub(r"[`*|\\]|~~+", "", text)
    text = re.sub(r"(?<!\w)_+|_+(?!\w)", "", text)  # session_id keeps its own
    text = _LINK.sub("[link]", text)
    text = veil(text)
    text = _DOMAIN.sub(lambda found: "[link]" if found[1] else found[0].replace(".", "[.]"), text)
    text = _MENTION.sub("(at)", text)
    text = _EXTRA.sub("\1\\1\2", text)
    text = text.translate({ord("<"): "‹", ord(">"): "›", ord("["): "(", ord("]"): ")", 1: "[", 2: "]"})
    text = re.sub(r"\((link|secret|e-mail|phone|\.)\)", r"[\1]", text)
    text = re.sub(r"\](?=[(\[:])", "] ", text)  # our own brackets must not become half of a Markdown link
    text = re.sub(r"^\s*(?:#+|[-+]|\d+\.)\s+", "", text)
    return harmless(redact(text), limit).strip()


def fit_field(name: str, text: str) -> str:
    """The text of one field of a sentence; who it names is known by the field's name, in any language."""
    if name in _PEOPLE and _ID.fullmatch(text):
        return alias(text)
    return exact(text) if name in _OURS else fit(text, 600)


def exact(command: str, limit: int = 1000) -> str:
    """A command as it will be run, letter for letter, without what a terminal would act upon."""
    return redact(harmless(command, limit))


def _alias(text: str) -> str:
    return text if text.startswith("#") or text.startswith("[") else alias(text)


HEADLINE = 40  # characters; what a lock screen shows for certain
BODY = 3500  # characters; ntfy and Telegram cut at 4,096 bytes or characters
_MARKUP = re.compile(r"[\\`*_\[\]<>~|]|^#+|^(?=\d+\.)|^[-+]")


def headline(title: str, words: Words) -> str:
    """A title for a lock screen: after the profile where it fits, with the language's prefix where it does not name
    the gateway itself.
    """
    prefix = words("prefix")
    named = prefix.rstrip(" :：") in title
    title = title if named else prefix + title
    whole = words("of-profile", profile=words.profile, title=title) if words.profile else title
    return fit(whole if len(whole) <= HEADLINE else title, HEADLINE)


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

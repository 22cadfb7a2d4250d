"""Small words: durations, times ago, text made harmless."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re

_DURATION = r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)"
UNVERIFIED = "not verified by "  # how the outcome of a repair begins that nobody could look at with all of its rules
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def duration(text: str) -> timedelta:
    """'90s', '15m', '2h', '1h30m', '7d'; ValueError otherwise."""
    import re

    parts = re.findall(_DURATION, text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"'{text}' is not a duration; write 90s, 15m or 2h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise ValueError(f"'{text}' is longer than any log; write 90s, 15m or 2h") from None


def spell(span: timedelta) -> str:
    """'26 minutes', '1 hour 5 minutes', '40 seconds'."""
    seconds = max(0, int(span.total_seconds()))
    units = ((seconds // 86400, "day"), (seconds // 3600 % 24, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second"))
    named = [f"{count} {name}{'s' if count != 1 else ''}" for count, name in units if count]
    first = next((index for index, (count, _) in enumerate(units) if count), 3)
    # Two neighbouring units are enough for a person; "26 minutes 3 seconds" only below five minutes.
    keep = 1 if first == 2 and seconds >= 300 else 2
    return " ".join(named[:keep]) or "0 seconds"


def ago(then: datetime, now: datetime) -> str:
    """'11 minutes ago', or 'just now'."""
    return "just now" if (now - then).total_seconds() < 1 else f"{spell(now - then)} ago"


def clock(at: datetime) -> str:
    """Local time for people: '2026-11-16 10:41:00'."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


# Compiled by re when first needed: most checks never see a text that is not printable.
_INVISIBLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
_ANSI = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"


def harmless(text: str, limit: int = 300) -> str:
    """Log text fit for a terminal: no escapes, control characters or direction marks, one line, bounded."""
    if len(text) <= limit and text.isprintable():
        return text  # nearly every text is; printable means none of what is taken out below
    import re

    text = re.sub(_INVISIBLE, "", re.sub(_ANSI, "", text[: limit * 4]).replace("\n", " ⏎ ").replace("\t", " "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


# Every repetition has an end: a log line of a megabyte must not take a minute. Compiled when first needed, because a
# check that finds nothing redacts nothing.
_SECRETS = (
    (r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,20000}(?:-----END [A-Z ]{0,30}-----)?", "[secret]"),
    (r"\b(\d{8,10}):[A-Za-z0-9_-]{30,}", r"\1:[secret]"),  # Telegram's bots
    (r"\b(?:sk|pk|rk|gh[opsur]|github_pat|xox[a-z]|xapp|AKIA|glpat|hf|npm|tk|syt|SG)[-_.][A-Za-z0-9_.-]{10,}", "[secret]"),
    (r"\bAKIA[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}", "[secret]"),  # Amazon, Google
    (r"\b[MNO][A-Za-z0-9]{22,30}\.[\w-]{6}\.[\w-]{27,}", "[secret]"),  # Discord
    (r"(?i)\b(bearer|basic)\s{1,4}[A-Za-z0-9._~+/=-]{8,}", r"\1 [secret]"),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "[secret]"),
    # The address of a chat service is the leave to write there (tgram://, ntfy://, a webhook); so is one with a password.
    (r"(?i)\b(?!https?:|file:|wss?:)([a-z][a-z0-9+]{2,15})://[^\s'\"<>]{3,}", r"\1://[secret]"),
    (
        r"(?i)\b(https?://[^\s/'\"]{0,100}(?:hooks|hc-ping|healthchecks|webhook)[^\s/'\"]{0,100}/"
        r"|https?://[^\s'\"]{0,200}/webhooks?/)[^\s'\"<>]+",
        r"\1[secret]",
    ),
    (
        r"(?i)((?:token(?!s\b)|secret|(?<!NO)passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|authorization|cookie|credential)"
        r"[\w-]{0,40}['\"]?\s{0,4}[=:]\s{0,4}['\"]?)(?!\[secret\])(?!(?:bearer|basic) \[secret\])[^\s'\",;&}]{4,}",
        r"\1[secret]",
    ),
    (r"://[^/\s:@]{1,100}:[^/\s@]{1,200}@", "://[secret]@"),
    (  # units have an @ too
        r"(?<![\w.+-])(?!\S{1,100}\.(?:service|slice|scope|socket|timer|target)\b)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}\b",
        "[e-mail]",
    ),
    (r"(?<![\w.:-])\+\d[\d ()-]{7,18}\d\b", "[phone]"),
)


@cache
def _secrets() -> tuple[tuple[re.Pattern[str], str], ...]:
    import re

    return tuple((re.compile(pattern), instead) for pattern, instead in _SECRETS)


def redact(text: str) -> str:
    """The same text without tokens, keys, passwords, addresses of people."""
    for pattern, instead in _secrets():
        text = pattern.sub(instead, text)
    return text


def sha256(data: bytes) -> Any:
    """As hashlib's, which would load all of OpenSSL for it."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:  # Python 3.11
        from _sha256 import sha256  # type: ignore[import-not-found]
    return sha256(data)

"""Small words: durations, times ago, text made harmless."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache, lru_cache

from watchdog.values import Any

_DURATION = r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)"
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def duration(text: str) -> timedelta:
    """'90s', '15m', '2h', '1h30m', '7d'; ValueError otherwise."""
    parts = re.findall(_DURATION, text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"'{text}' is not a duration; write 90s, 15m or 2h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise ValueError(f"'{text}' is longer than any log; write 90s, 15m or 2h") from None


def units(span: timedelta) -> list[tuple[int, str]]:
    """The one or two largest units of a duration: [(1, "hour"), (5, "minute")]; none below a second."""
    seconds = max(0, int(span.total_seconds()))
    counts = [
        (seconds // 86400, "day"),
        (seconds // 3600 % 24, "hour"),
        (seconds // 60 % 60, "minute"),
        (seconds % 60, "second"),
    ]
    found = [(count, unit) for count, unit in counts if count]
    # Two are enough for a person; seconds beside minutes only below five minutes.
    return found[: 1 if found and found[0][1] == "minute" and seconds >= 300 else 2]


def spell(span: timedelta) -> str:
    """'26 minutes', '1 hour 5 minutes', '40 seconds'."""
    named = [f"{count} {unit}{'s' if count != 1 else ''}" for count, unit in units(span)]
    return " ".join(named) or "0 seconds"


def ago(then: datetime, now: datetime) -> str:
    """'11 minutes ago', or 'just now'."""
    return "just now" if (now - then).total_seconds() < 1 else f"{spell(now - then)} ago"


def size(count: int) -> str:
    """'12.3 GB'."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB" if amount < 1000 else f"{amount / 1000:.1f} TB"


def clock(at: datetime) -> str:
    """Local time for people: '2026-11-16 10:41:00'."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(at: datetime | None) -> str | None:
    """A moment for scripts: '2026-11-16T10:41:00.000+00:00'."""
    return at.isoformat(timespec="milliseconds") if at is not None else None


def picked(value: object, names: str) -> dict[str, Any]:
    """These fields of a value for scripts: moments as text, tuples as lists."""
    found: dict[str, Any] = {}
    for name in names.split():
        field = getattr(value, name)
        if isinstance(field, datetime):
            field = iso(field)
        found[name] = list(field) if isinstance(field, tuple) else field
    return found


def fill(template: str, fields: Mapping[str, Any], show: Callable[[str, Any, str], str]) -> str:
    """A template with each {field:spec} as `show(name, value, spec)` gives it.

    For a field that is missing: what follows the minus in {field:-text}, else '?'.

    Fields are looked up by their whole name and nothing else: no attribute, no index.
    """
    parts = []
    for literal, name, spec, _ in _parts(template):
        parts.append(literal)
        if name is None:
            continue
        spec = spec or ""
        optional = spec.startswith("-")
        if optional and fields.get(name, "") == "":
            parts.append(spec[1:])
        elif name in fields:
            parts.append(show(name, fields[name], "" if optional else spec))
        else:
            parts.append("?")
    return "".join(parts)


def template_fields(template: str) -> list[str]:
    """The names of the {fields} in a template, in order; ValueError for one that is not well-formed."""
    return [name for _, name, _, _ in _parts(template) if name is not None]


def _parts(template: str) -> Iterable[tuple[str, str | None, str | None, str | None]]:
    from string import Formatter  # a quiet check fills no template

    return Formatter().parse(template)


def counted(value: Any, forms: str) -> str:
    """'1 chat' or '3 chats', by 'chat|chats'."""
    singular, _, plural = forms.partition("|")
    return f"{value} {singular if str(value) == '1' else plural}"


def english(template: str, fields: Mapping[str, Any], now: datetime) -> str:
    """A rule's sentence in English: durations spelled, times by this machine's clock."""

    def show(_: str, value: Any, spec: str) -> str:
        if isinstance(value, datetime):
            return ago(value, now) if spec == "ago" else clock(value)
        if isinstance(value, timedelta):
            return ago(now - value, now) if spec == "ago" else spell(value)
        return counted(value, spec) if "|" in spec else str(value)

    return fill(template, fields, show)


# Compiled by re when first needed: most checks never see a text that is not printable.
_INVISIBLE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_ANSI = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"


def harmless(text: str, limit: int = 300) -> str:
    """Log text fit for a terminal: no escapes, control characters or direction marks, one line, bounded."""
    if len(text) <= limit and text.isprintable():
        return text  # nearly every text is; printable means none of what is taken out below
    text = re.sub(
        _INVISIBLE, "", re.sub(_ANSI, "", text[: limit * 4]).replace("\n", " ⏎ ").replace("\t", " ")
    )
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _without_keys(found: re.Match[str]) -> str:
    """An address without the parts of its path that are no words: who knows them may write there."""
    server, slash, path = found[0].partition("/")[2].removeprefix("/").partition("/")
    scheme = found[0].partition("://")[0]
    path, mark, query = path.partition("?")
    parts = [
        "[secret]" if re.search(r"(?=[A-Za-z]{0,40}\d)(?=\d{0,40}[A-Za-z])[A-Za-z0-9]{16}", part) else part
        for part in path.split("/")
    ]
    return f"{scheme}://{server}{slash}{'/'.join(parts)}{mark}{query}"


# Every repetition has an end: a log line of a megabyte must not take a minute. Compiled when first needed,
# because a
# check that finds nothing redacts nothing.
# What stood against a secret without a space between is only seen once that is gone: mostly two rounds, never many.
_ROUNDS = 20
_SECRETS = (
    (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,20000}(?:-----END [A-Z ]{0,30}-----)?",
        "[secret]",
    ),
    (r"(?<!\d)(\d{8,10}):[A-Za-z0-9_-]{30,}", r"\1:[secret]"),  # Telegram's bots
    (r"\b[0-9a-f]{32}\.[A-Za-z0-9]{12,}\b", "[secret]"),  # Zhipu
    (
        r"\b(?:sk|pk|rk|gh[opsur]|github_pat|xox[a-z]|xapp|AKIA|glpat|hf|npm|tk|syt|SG"
        r"|gsk|xai|nvapi|pplx|csk|r8|fw|tvly|jina|dop_v1|ark|GOCSPX|whsec|pypi|dckr_pat|lin_api|ntn|lsv2|sbp"
        r"|fm2|hvs|dp\.[a-z]{2,5}|figd|shp[a-z]{2}|HRKU|AGE-SECRET-KEY)[-_.][A-Za-z0-9_.+/-]{9,}[A-Za-z0-9]",
        "[secret]",
    ),
    (
        r"\b(?:(?:fc|key)-|SK|AC)[0-9a-f]{32}\b|\bbce-v3/[\w/-]{20,}|\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b",
        "[secret]",
    ),  # Firecrawl, Mailgun, Twilio, Baidu
    (
        r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}"
        r"|\bLTAI[A-Za-z0-9]{12,}|\bAKID[A-Za-z0-9]{13,}",
        "[secret]",
    ),  # Amazon, Google, Aliyun, Tencent
    (r"\b[A-Za-z0-9]{23,30}\.[\w-]{6}\.[\w-]{27,}", "[secret]"),  # Discord
    (
        r"(?i)\b(bearer|basic|(?<=authorization: )(?:token|key))\s{1,4}[A-Za-z0-9._~+/=-]{8,}",
        r"\1 [secret]",
    ),
    (
        r"(?i)((?:passw(?:or)?d|passphrase|密码)\s{0,3}(?:is|was|[是为])\s{0,3}['\"]?)(?=[^\s'\"]{0,60}\d)[^\s'\"]{4,}"
        r"|(?<!\S)((?:-u ?|--user[ =])[^\s:/]{1,40}:)(?!\[secret\])[^\s'\"]{4,}",
        lambda found: f"{found[1] or found[2]}[secret]",
    ),
    (
        r"(?i)(?<!\S)(--(?:password|passphrase|secret|token|api-key)\s{1,3}['\"]?)(?![\[-])[^\s'\"]{4,}",
        r"\1[secret]",
    ),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "[secret]"),
    # Who knows the address of a chat service can write there (tgram://, ntfy://, a webhook); so it is with a
    # password in an address.
    (r"(?i)\b(?!https?:|file:|wss?:|unix:///)([a-z][a-z0-9+]{2,15})://[^\s'\"<>]{3,}", r"\1://[secret]"),
    (
        r"(?i)\b(https?://[^\s/'\"]{0,100}(?:hooks|hc-ping|healthchecks|webhook)[^\s/'\"]{0,100}/"
        r"|https?://[^\s'\"]{0,200}/(?:web)?hooks?/)[^\s'\"<>]+",
        r"\1[secret]",
    ),
    (  # what signs an address, or is the key to it
        r"(?i)((?:[?&]|\b(?=sign))(?:x-[a-z]{2,5}-(?:signature|credential|security-token)|(?:q-)?sign(?:ature)?|(?:up)?sig|hm|q-ak|ticket"
        r"|appid(?==[0-9a-f]{32}\b)"
        r"|[a-z_-]{0,20}(?:key|token|secret|accesskeyid|accessid|password|auth))=)(?!\[(?:secret|e-mail|phone|number)\])[^&\s'\"<>]{4,}",
        r"\1[secret]",
    ),
    (
        r"(?i)((?:token(?!s\b)|secret|(?<!NO)passw(?:or)?d|passphrase|密[码钥]|(?:api|access|account|private|signing|subscription)[_-]?key|authorization|cookie|credential"
        r"|sess(?:data|ionid)|csrf|_jct|(?<![a-z])pwd(?=\s{0,4}[=:]\s{0,4}[^\s/]))"
        r"[\w-]{0,40}['\"]?\s{0,4}[=:：]\s{0,4}['\"]?)(?!\[(?:secret|e-mail|phone|number)\])"
        r"(?!(?:bearer|basic|token|key) \[secret\])[^\s'\",;&}]{4,}",
        r"\1[secret]",
    ),
    (r"://[^/\s:@]{1,100}:[^/\s@]{1,200}@", "://[secret]@"),
    (  # units have an @ too
        r"(?<![\w.+-])(?!\S{1,100}\.(?:service|slice|scope|socket|timer|target)\b)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}\b",
        "[e-mail]",
    ),
    (r"(?<![\w.:-])\+\d[\d ()-]{7,18}\d\b", "[phone]"),
    (r"(?<![\w.:/-])(?:86[ -]?)?1[3-9]\d([ -]?)\d{4}\1\d{4}(?![\w-]|\.\d)", "[phone]"),  # a mobile in China
    (
        r"(?i)((?:phone|mobile|whatsapp|手机号?|电话)[\w-]{0,20}['\"]?\s{0,3}[=:：]\s{0,3}['\"]?)\d[\d ()-]{5,18}\d",
        r"\1[phone]",
    ),
    (  # in the Americas; in Italy and Spain
        r"(?<![\w.:/-])(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\w-]|\.\d)"
        r"|(?<![\w.:/-])\(\d\d\) ?\d{4,5}-\d{4}(?![\w-])|(?<![\w.:/+-])[2-9]\d\d (?:\d{3} \d{4}|\d\d \d\d \d\d)(?![\w-]| \d)",
        "[phone]",
    ),
    # dialled from abroad; with the area apart; in France
    (
        r"(?<![\w.:/-])(?:00[1-9]\d{9,13}|0\d{2,4}/\d{5,8}|0[1-9](?:\.\d\d){4})(?![\w-]|\.\d)",
        "[phone]",
    ),
    # with the 0 before the area, and 9 to 14 digits in all: most other countries
    (
        r"(?<![\w.:/,+-])(?=0(?:[ -]?\d){8,13}(?!\d|[ -]\d))0\d{1,4}(?:[ -]\d{2,8}){1,5}(?![\w-]|[.:,]\d)",
        "[phone]",
    ),
    (r"(?<![\w.:/-])8 ?\(\d{3}\) ?\d{3}-\d{2}-\d{2}(?![\w-])", "[phone]"),  # in Russia
    (  # an identity card in China, a payment card, an account in Europe
        r"(?<!\w)[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dX](?!\w)"
        r"|(?<![\w.-])(?:\d{4}[ -]){3}\d{4}(?![\w-])|\b[A-Z]{2}\d\d[A-Z]{0,4}\d{10,26}\b",
        "[number]",
    ),
    (
        r"(?i)(?<![A-Za-z0-9])((?:api[ _-]?key|access key|key|token|secret)\s{1,3}(?:(?:is|provided:)\s{1,3})?['\"]?)(?=[\w-]*\d)[\w-]{20,}",
        r"\1[secret]",
    ),
    # Long, no word, no date, no path: letters and digits mixed in one run. Hashes and ids of lower-case hex
    # are left: they open nothing and tell people which one is meant.
    (
        r"(?<![\w#/.-])(?![0-9a-f-]{32,64}(?![\w-]))(?=[\w-]{0,40}?(?=[A-Za-z]{0,40}\d)(?=\d{0,40}[A-Za-z])[A-Za-z0-9]{16})"
        r"[A-Za-z0-9_-]{24,}(?![\w/-]|\.\w)",
        "[secret]",
    ),
    (  # the same in base 64
        r"(?<![\w+/.-])(?=[A-Za-z0-9+/]{0,200}?(?=[A-Za-z+]{0,20}\d)(?=[\d+]{0,20}[A-Za-z])[A-Za-z0-9+]{10})"
        r"(?=[a-z0-9+/]{0,40}[A-Z])(?=[A-Z0-9+/]{0,40}[a-z])[A-Za-z0-9+/]{40,}={0,2}(?![\w-])",
        "[secret]",
    ),
    (r"(?i)\bhttps?://[^\s'\"<>]{1,2000}", _without_keys),
)


@cache
def _secrets() -> tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    return tuple((re.compile(pattern), instead) for pattern, instead in _SECRETS)


@lru_cache(maxsize=1000)  # the same line is evidence of several findings, and often of many
def redact(text: str) -> str:
    """The same text without tokens, keys, passwords, addresses of people; doing it again changes nothing."""
    for _ in range(_ROUNDS):
        before = text
        for pattern, instead in _secrets():
            text = pattern.sub(instead, text)
        if text == before:
            break
    return text


def cells(text: str) -> int:
    """How many columns of a terminal the text takes: Chinese takes two a sign."""
    from unicodedata import east_asian_width  # half a megabyte of tables, only for what people read

    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def padded(text: str, width: int) -> str:
    """The text with spaces up to this many columns of a terminal."""
    return text + " " * (width - cells(text))


def colours(stream: object = None) -> bool:
    """Only on a terminal, and never against NO_COLOR."""
    stream = stream or sys.stdout
    return (
        bool(getattr(stream, "isatty", lambda: False)())
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


PAINT = {
    "critical": "1;31",
    "high": "31",
    "medium": "33",
    "low": "36",
    "info": "2",
    "good": "32",
    "dim": "2",
    "bold": "1",
}


def paint(text: str, how: str, on: bool) -> str:
    return f"\x1b[{PAINT[how]}m{text}\x1b[0m" if on and how in PAINT else text

"""A rule and its two test cases from one pasted log line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from watchdog.config.rulebook import Vocabulary
from watchdog.errors import WatchdogError
from watchdog.sources.read import read_line
from watchdog.system.files import create_file
from watchdog.text import harmless, redact

_ID = re.compile(r"[a-z][a-z0-9-]{1,60}")
# What differs from one such line to the next, and the pattern that takes its place; the first that fits counts.
_OPEN = (
    (r"(?<==)[^\s,;()\[\]]+", r"\S+"),  # the value of name=value
    (r"'[^']*'", r"'[^']*'"),
    (r'"[^"]*"', r'"[^"]*"'),
    (r"(?:/[\w.@+-]+){2,}/?", r"\S+"),  # a path
    (r"\b[0-9a-fA-F]{8}[0-9a-fA-F-]*\b", r"[0-9a-fA-F-]+"),
    (r"\d+(?:\.\d+)*", r"[\d.]+"),
)
_ANY = re.compile("|".join(f"({found})" for found, _ in _OPEN))
_LINES = {"gateway.log", "agent.log"}


@dataclass(frozen=True)
class Draft:
    """A rule and its cases, as files: their paths below the configuration folder, and their text."""

    id: str
    text: str
    cases: tuple[tuple[str, str], ...]


def draft_rule(line: str, source: str, name: str, zone: tzinfo | None, vocabulary: Vocabulary) -> Draft:
    """A burst of this line, and two cases: with the line it fires, without it does not."""
    event, _ = read_line(line, zone, vocabulary)
    if event.at.year == 1:
        raise WatchdogError(
            "this is no whole line of a Hermes log: it begins with a time such as 2026-05-19 10:15:00,123"
        )
    if event.ambiguous:
        raise WatchdogError(f"no rule can be made of this line: it is {event.ambiguous}")
    message = redact(harmless(event.text))
    pattern = pattern_of(message)
    if sum(sign.isalpha() for sign in re.sub(r"\\[dS]|a-fA-F", "", pattern)) < 6:
        raise WatchdogError("the message has too few words that stay the same; a rule would match too much")
    name = name or id_of(message)
    if not _ID.fullmatch(name):
        raise WatchdogError(f"--id {name}: write small letters, digits and dashes, such as mcp-crashed")
    severity = {"ERROR": "medium", "CRITICAL": "high"}.get(event.level, "low")
    text = (
        f"# Made from: {message[:200]}\n"
        f"id: {name}\n"
        f"title: {_quoted(message[:60])}\n"
        f"severity: {severity}\n"
        "when:\n"
        "  - burst:\n"
        f"      in: {source}\n"
        f"      line: {_quoted(pattern)}\n"
        f"      logger: [{event.logger}]\n"
        "      at_least: 1        # how many times before it counts\n"
        "      within: 15m\n"
        f"      key: {name}\n"
        f"say: {_quoted(name + ': seen {times} times in {within}')}\n"
        "advice: Say here what to do.\n"
    )
    return Draft(name, text, _cases(name, line, source, event.at))


def pattern_of(message: str) -> str:
    """The message as a regular expression: numbers, ids, paths and values may differ, the words may not."""
    parts, end = [], 0
    for found in _ANY.finditer(message):
        parts.append(re.escape(message[end : found.start()]).replace(r"\ ", " "))
        parts.append(_OPEN[(found.lastindex or 1) - 1][1])
        end = found.end()
    parts.append(re.escape(message[end:]).replace(r"\ ", " "))
    return "".join(parts)


def id_of(message: str) -> str:
    """The first words of the message, as an id."""
    words = re.findall(r"[a-z][a-z]+", message.lower())
    return "-".join(words[:4])[:40].strip("-") or "my-rule"


def write_rule(draft: Draft, config: Path) -> Path:
    """Write the rule and its cases below the configuration folder; an existing file is kept and refused."""
    path = config / "detect" / f"{draft.id}.yaml"
    for file, text in ((path, draft.text), *((config / name, text) for name, text in draft.cases)):
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_file(file, text.encode())
        except FileExistsError:
            raise WatchdogError(f"{file} is there already; give another name with --id") from None
        except OSError as error:
            raise WatchdogError(f"cannot write {file}: {error.strerror}") from None
    return path


def _cases(name: str, line: str, source: str, at: datetime) -> tuple[tuple[str, str], ...]:
    """A case with the line, and one with an innocent line of the same minute."""
    stamp = line[:23]
    quiet = f"{stamp} INFO gateway.run: an innocent line\n"
    now = f"{(at + timedelta(minutes=1)).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    found: list[tuple[str, str]] = []
    for case, text, expect in (
        ("fires-the-line", f"{line}\n", f"expect:\n  - key: {name}\n"),
        ("quiet-without-it", quiet, ""),
    ):
        folder = f"cases/{name}/{case}"
        # Times in the log are those of its zone; the cases are told in UTC.
        moved = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S},{line[20:23]}{text[23:]}"
        for log in sorted({*_LINES, source}):
            found.append((f"{folder}/{log}", moved if log == source else moved[:23] + quiet[23:]))
        found.append((f"{folder}/case.yaml", f"now: {now}\n{expect}"))
    return tuple(found)


def _quoted(text: str) -> str:
    """A YAML scalar: single quotes where they serve, else as JSON, which YAML reads too."""
    return f"'{text}'" if "'" not in text and text.isprintable() else json.dumps(text, ensure_ascii=False)

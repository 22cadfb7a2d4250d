"""Why a rule fires or does not, and what one line of a log means to the rules; pure but for what is handed in."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

from watchdog.errors import SlowPattern
from watchdog.evaluate import _findings, flat, show_all, witness
from watchdog.model import Rule
from watchdog.reading import Reading
from watchdog.report import iso
from watchdog.rulebook import Rulebook
from watchdog.sources.chattext import cut
from watchdog.sources.localtime import LocalClock
from watchdog.sources.records import HEADER
from watchdog.text import harmless, redact


def explain(rule: Rule, reading: Reading, now: datetime) -> dict[str, Any]:
    """Each witness: holds or not, since when, how far from its limit."""
    posts = {rule.id: [witness(condition) for condition in rule.when]}
    slow, _ = show_all([rule], posts, reading.events, reading.traces, reading.attention)
    witnesses = posts[rule.id]
    why = slow.get(rule.id) or next((why for one in witnesses if (why := one.blind(reading.blind))), "")
    told = []
    for one in witnesses:
        still = [span for span in one.spans(now) if span.ended_at is None]
        since = min((span.opened_at for span in still), default=None)
        parts = list(flat([one]))
        state = [f"{part.condition.kind}: {text}" if len(parts) > 1 else text for part in parts for text in part.watch.state(now)]
        known = since is not None and since.year > 1970
        told.append({"kind": one.condition.kind, "holds": bool(still), "since": iso(since) if known else None, "state": state})
    fires = [] if why else [finding.says for finding in _findings(rule, witnesses, now) if finding.ended_at is None]
    return {"rule": rule.id, "at": iso(now), "not_checked": why, "witnesses": told, "fires": [redact(says) for says in fires]}


def explain_line(book: Rulebook, line: str, zone: tzinfo | None) -> dict[str, Any]:
    """Which record it is, what was cut, which rules' patterns match it and what they capture."""
    raw = line.encode()
    found = HEADER.match(raw)
    at = LocalClock(zone).read(found["stamp"]) if found else None
    message = raw[found.end() :].decode() if found and at else line
    first, newline, more = message.partition("\n")
    text, _, ambiguous = cut(first)
    record = {
        "at": iso(at.astimezone(UTC)) if at else None,
        "level": found["level"].decode() if found and at else "",
        "logger": found["logger"].decode() if found and at else "",
        "session": (found["session"] or b"").decode() if found and at else "",
        "text": redact(harmless(text)),
        "cut": text != first,
        "ambiguous": ambiguous,
    }
    matches = []
    for rule in book.rules:
        for one in flat([witness(condition) for condition in rule.when]):
            for role, wanted, _ in one.lines:
                if wanted.pattern is None or (wanted.level and record["level"] and record["level"] not in wanted.level):
                    continue
                try:
                    captured = wanted.pattern.match(text + newline + more)
                except SlowPattern as error:
                    matches.append({"rule": rule.id, "kind": one.condition.kind, "role": role, "in": wanted.source,
                                    "captured": {}, "slow": str(error)})
                    continue
                if captured is not None:
                    shown = {name: redact(harmless(value, 120)) for name, value in captured.items() if value}
                    matches.append({"rule": rule.id, "kind": one.condition.kind, "role": role, "in": wanted.source, "captured": shown})
    return {"record": record, "matches": matches}

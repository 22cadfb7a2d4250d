"""Reasons and the fields of sentences as JSON, secrets redacted, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from watchdog.model import Reason, packed, plain, unpacked
from watchdog.text import harmless, redact
from watchdog.values import Any

LONGEST = 2000  # characters of one field


def reason_of(row: Any) -> Reason | None:
    """Why, of a row of any version: its reason, else the sentence that an older version wrote."""
    known = row.keys()
    if "reason" in known and row["reason"]:
        return unpack_reason(row["reason"])
    text = row["says"] if "says" in known else row["why"]
    return plain(text) if text else None


def pack_reason(reason: Reason) -> str:
    return json.dumps(_packed(reason), ensure_ascii=False, sort_keys=True)


def unpack_reason(text: str) -> Reason:
    """The stored reason; text of an older version, or of unknown origin, is a reason that only quotes it."""
    try:
        found = unpacked(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        found = None
    return found if isinstance(found, Reason) else plain(text)


def pack_fields(fields: Mapping[str, Any], clean: Callable[[str], str] = redact) -> str:
    return json.dumps(
        {name: _packed(value, clean) for name, value in fields.items()}, ensure_ascii=False, sort_keys=True
    )


def unpack_fields(text: str | None) -> dict[str, Any]:
    return {name: unpacked(value) for name, value in json.loads(text or "{}").items()}


def _packed(value: Any, clean: Callable[[str], str] = redact) -> Any:
    return packed(value, lambda text: clean(harmless(text, LONGEST)))

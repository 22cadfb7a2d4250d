"""Values as the cells of rows: moments are text in UTC with all digits, so that text order is time order; reasons and the
fields of sentences are JSON, with secrets redacted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from watchdog.model import Reason, packed, plain, unpacked
from watchdog.text import harmless, redact
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar

    Value = TypeVar("Value")

LONGEST = 2000  # characters of one field


def stamp(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="microseconds") if at is not None else None


def when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def from_row(kind: type[Value], row: Any, **known: Any) -> Value:
    """A value whose fields have the names of columns, read by their types; `known` are the others."""
    columns = row.keys()
    for name, wanted in kind.__annotations__.items():
        if name not in known and name in columns:
            known[name] = _READ[wanted](row[name]) if wanted in _READ else row[name]
    return kind(**known)


_READ = {
    "datetime": datetime.fromisoformat,  # TypeError where a moment must be and none is
    "datetime | None": when,
    "str": lambda cell: cell or "",
    "bool": bool,
}


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

"""JSON by the C parts of json alone: with the rest come enum and re, whose loading takes a twentieth of a quiet check."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

from watchdog.values import Any


class _AsJson:
    """How json reads unless told otherwise."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN, Infinity and -Infinity


def _unknown(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is no JSON")


_scan: Any = make_scanner(_AsJson)  # type: ignore[arg-type]
_chunks = make_encoder(None, _unknown, encode_basestring_ascii, None, ": ", ", ", False, False, True)


def loads(text: str | bytes) -> Any:
    """As json.loads."""
    try:
        plain = (text if isinstance(text, str) else str(text, "utf-8")).strip(" \t\n\r")
        value, end = _scan(plain, 0)
        if end == len(plain):
            return value
    except (StopIteration, ValueError):
        pass
    import json

    return json.loads(text)  # which says what is wrong, or knows other ways to write it


def dumps(value: object) -> str:
    """As json.dumps."""
    return "".join(_chunks(value, 0))

"""Time zones by name."""

from __future__ import annotations

from datetime import UTC, tzinfo


def zone_of(name: str) -> tzinfo | None:
    """None for this machine's own zone; ValueError for an unknown name."""
    if name == "local":
        return None
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # most homes are in this machine's zone

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"'{name}' is not a time zone; write local, UTC or a name such as Asia/Shanghai"
        ) from None

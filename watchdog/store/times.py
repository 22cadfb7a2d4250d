"""Moments as text in rows: UTC with all its digits, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def stamp(at: datetime) -> str: ...
@overload
def stamp(at: None) -> None: ...
@overload
def stamp(at: datetime | None) -> str | None: ...


def stamp(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="microseconds") if at is not None else None


def when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

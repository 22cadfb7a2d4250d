"""Moments as text in rows: UTC with all its digits, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime

from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import overload
else:

    def overload(function):
        """Stands in for typing's, which is slow to import."""


@overload
def stamp(at: datetime) -> str: ...
@overload
def stamp(at: None) -> None: ...  # noqa: F811
@overload
def stamp(at: datetime | None) -> str | None: ...  # noqa: F811


def stamp(at: datetime | None) -> str | None:  # noqa: F811
    return at.astimezone(UTC).isoformat(timespec="microseconds") if at is not None else None


def when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

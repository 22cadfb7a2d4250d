"""Values as rows: moments are text in UTC with all digits, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime

from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar, overload

    Value = TypeVar("Value")
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

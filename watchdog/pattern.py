"""Patterns of rules: matched from the start of a message, with a time limit, compiled when first needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from watchdog.errors import SlowPattern

LIMIT_SECONDS = 0.5  # a sane pattern needs microseconds


class Pattern:
    """A regular expression in the syntax of the regex package."""

    __slots__ = ("__dict__", "text", "where")

    def __init__(self, text: str, where: str = ""):
        self.text = text
        self.where = where

    @cached_property
    def compiled(self) -> Any:
        import regex

        return regex.compile(self.text, regex.VERSION0)

    def match(self, text: str) -> dict[str, str] | None:
        """The named captures when it matches from the start; None when not."""
        try:
            found = self.compiled.match(text, timeout=LIMIT_SECONDS)
        except TimeoutError:
            raise SlowPattern(
                f"{self.where}: pattern '{self.text}' took longer than {LIMIT_SECONDS} s on one record; "
                "avoid nested repeats such as (a+)+"
            ) from None
        return {name: value or "" for name, value in found.groupdict().items()} if found else None

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.compiled.groupindex)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.text, self.where)

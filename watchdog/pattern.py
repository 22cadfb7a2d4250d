"""Patterns of rules: matched from the start of a message, with a time limit, compiled when first needed."""

from __future__ import annotations

from functools import cached_property

from watchdog.errors import SlowPattern
from watchdog.literals import Study, as_re, study
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re

LONGEST = 64 * 1024  # of one record that is looked at, in bytes; the rest of a 10 MB line says nothing more
LIMIT_SECONDS = 0.5  # a sane pattern needs microseconds
# How long a text may be that a pattern with so many endless repeats is matched against without watching the clock:
# within these lengths it takes at most some millions of steps.
_SAFE_LENGTH = {0: 1_000_000, 1: 100_000, 2: 2500, 3: 400}
READY: dict[str | bytes, bytes] = {}  # pattern → what re made of it in an earlier run, packed (compiled.py)
OWN: list[Own] = []


class Pattern:
    """A regular expression in the syntax of the regex package.

    The regex package can stop a match that takes too long, and costs more to load than a whole check. So re does the
    work where it provably ends in time, and regex does the rest.
    """

    __slots__ = ("__dict__", "text", "where")

    def __init__(self, text: str, where: str = ""):
        self.text = text
        self.where = where

    @cached_property
    def study(self) -> Study:
        return study(self.text)

    @cached_property
    def words(self) -> tuple[bytes, ...] | None:
        """At least one of them is in every text that it matches; None when there is no such set."""
        return None if self.study.words is None else tuple(sorted(word.encode() for word in self.study.words))

    @cached_property
    def heads(self) -> frozenset[bytes] | None:
        """Every text that it matches begins with one of them; None when that is not known."""
        return None if self.study.heads is None else frozenset(head.encode() for head in self.study.heads)

    @cached_property
    def compiled(self) -> Any:
        import regex

        return regex.compile(self.text, regex.VERSION0)

    @cached_property
    def _quick(self) -> tuple[Any, int, tuple[frozenset[str], ...]]:
        """(match by re, up to which length of text, words without which it cannot match)."""
        length = _SAFE_LENGTH.get(self.study.degree, 0) if self.study.degree is not None else 0
        if not length:
            return None, -1, ()
        text = as_re(self.text)
        if self.text not in READY:
            import re

            try:
                re.compile(text)
            except re.error:
                return None, -1, ()
        return _compiled(self.text, text).match, length, self.study.also

    @property
    def plain(self) -> bool:
        """Whether re could read it, and nothing is in it that the regex package would read otherwise."""
        return self.study.degree is not None

    @cached_property
    def sure(self) -> bool:
        """Whether it ends in time on any record that a log can hold."""
        return self._quick[1] >= LONGEST

    def match(self, text: str) -> dict[str, str] | None:
        """The named captures when it matches from the start; None when not."""
        quick, length, also = self._quick
        if len(text) <= length:
            for words in also:
                for word in words:
                    if word in text:
                        break
                else:
                    return None
            found = quick(text)
            return found.groupdict("") if found is not None else None
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
        return self.study.names if self.study.names is not None else frozenset(self.compiled.groupindex)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.text, self.where)


class Own:
    """A pattern of the program's own, compiled when it is first used: as re.Pattern in everything."""

    def __init__(self, text: str | bytes):
        self.text = text
        OWN.append(self)

    def __getattr__(self, name: str) -> Any:
        self.__dict__[name] = found = getattr(_compiled(self.text, self.text), name)
        return found


def own(text: str | bytes) -> Any:
    return Own(text)


def prepared(text: str | bytes) -> bytes:
    """What re.compile works out, packed; only the same Python may be given it again."""
    import marshal
    from re import _compiler, _parser  # type: ignore[attr-defined]

    tree = _parser.parse(text)
    names = dict(tree.state.groupdict)
    by_number = {number: name for name, number in names.items()}
    code = [int(one) for one in _compiler._code(tree, 0)]
    by_index = tuple(by_number.get(number) for number in range(tree.state.groups))
    return marshal.dumps((int(tree.state.flags), code, tree.state.groups - 1, names, by_index))


def _compiled(name: str | bytes, text: str | bytes) -> re.Pattern[Any]:
    """The pattern as re reads it, worked out in an earlier run or now."""
    if name not in READY:
        import re

        return re.compile(text)
    import _sre  # type: ignore[import-not-found]
    import marshal

    flags, code, groups, names, by_number = marshal.loads(READY[name])
    compiled: re.Pattern[Any] = _sre.compile(text, flags, code, groups, names, by_number)
    return compiled

"""Which plain words a pattern cannot match without: the cheap test that comes before the dear one."""

from __future__ import annotations

import re
from functools import lru_cache

SHORTEST = 4  # a shorter word is in nearly every line


@lru_cache(maxsize=4096)
def literals(pattern: str) -> frozenset[str] | None:
    """Words of which at least one is in every text that the pattern matches; None when there is no such set."""
    from re import _parser  # type: ignore[attr-defined]

    try:
        tree = _parser.parse(re.sub(r"\(\?<(?![=!])", "(?P<", pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        return None  # the regex package knows more syntax than re: such a pattern sees every record
    if tree.state.flags & re.IGNORECASE:
        return None
    words = _best(tree)
    return words if words and min(map(len, words)) >= SHORTEST else None


def _best(items: object) -> frozenset[str] | None:
    """The set with the longest shortest word among all that the sequence requires."""
    choices: list[frozenset[str]] = []
    run = ""
    for name, value in [*items, (None, None)]:  # type: ignore[misc]
        kind = str(name)
        if kind == "LITERAL":
            run += chr(value)
            continue
        if kind == "AT":
            continue  # an anchor stands between no characters
        if run:
            choices.append(frozenset([run]))
            run = ""
        inner: frozenset[str] | None = None
        if kind == "SUBPATTERN":
            _, added, _, content = value
            inner = None if added & re.IGNORECASE else _best(content)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, _, content = value
            inner = _best(content) if least else None
        elif kind == "ATOMIC_GROUP":
            inner = _best(value)
        elif kind == "BRANCH":
            branches = [_best(branch) for branch in value[1]]
            if all(branches):
                inner = frozenset().union(*(branch for branch in branches if branch))
        if inner:
            choices.append(inner)
    return max(choices, key=lambda words: (min(map(len, words)), -len(words)), default=None)

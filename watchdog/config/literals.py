"""What is known about a pattern without matching it: the words it needs, how it begins, how slow it can
become.

The words are the cheap test that comes before the slow one: a record without them is never parsed.
"""

from __future__ import annotations

import re
from itertools import product

from watchdog.config.pattern import Study, as_re
from watchdog.config.syntax import parts_of
from watchdog.values import Any

SHORTEST = 4  # a shorter word is in nearly every line
MANY = 64  # alternatives; more of them would cost more than they save
LONG = 16  # a repeat that may go on for longer than this counts as endless
WAYS = 256  # through a pattern; more are no bound
_SIMPLE = ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY")  # one character each
# Syntax that the regex package has and re reads as something else: fuzzy matches, nested sets.
_FOREIGN = r"(?<!\\)\{(?!\d+,?\d*\}|,\d+\})|\[\[|\[[^\]]*(?:--|&&|\|\||~~)"


UNKNOWN = Study(None, None, None)
KNOWN: dict[str, Study] = {}  # what was studied already in this run


def study(pattern: str) -> Study:
    """What is known of the pattern."""
    found = KNOWN.get(pattern)
    if found is None:
        found = KNOWN[pattern] = _study(pattern)
    return found


def _study(pattern: str) -> Study:
    """Read the pattern as re does; what only the regex package understands is not known."""
    if re.search(_FOREIGN, pattern):
        return UNKNOWN
    try:
        return _studied(as_re(pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        return Study(*_with_same_names(pattern), None)


def _with_same_names(pattern: str) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The regex package allows one name in several branches; the names do not change the words."""
    try:
        known = _studied(re.sub(r"\(\?P<\w+>", "(", as_re(pattern)))
    except (re.error, RecursionError, OverflowError, ValueError):
        return None, None
    return known.words, known.heads


def literals(pattern: str) -> frozenset[str] | None:
    """Words of which one is in every text that the pattern matches; None when there is no such set."""
    return study(pattern).words


def _studied(pattern: str) -> Study:
    compiled, tree = re.compile(pattern), parts_of(pattern)
    cost = _cost(tree)
    degree = cost.degree if cost else None
    names = frozenset(compiled.groupindex)
    if compiled.flags & re.IGNORECASE:
        return Study(None, None, degree, names)
    choices, (heads, whole) = _required(tree), _heads(tree)
    words = _best(choices)
    # '…' stands where chat text was cut, so it is in the text that patterns see and not in the log.
    good = (
        words
        and min(map(len, words)) >= SHORTEST
        and not any("…" in word or "\ufffd" in word for word in words)
    )
    # Alternatives are what most texts lack. Those too short to be looked for in a log are among them.
    also = tuple(choice for choice in choices if len(choice) > 1 and not (good and choice is words))
    known = "" not in heads and not any("…" in head or "\ufffd" in head for head in heads)
    # what stands between characters ends no text here, but may refuse it
    plain = whole and not any(name in ("AT", "ASSERT", "ASSERT_NOT") for name, _ in tree)
    return Study(words if good else None, heads if known else None, degree, names, also, known and plain)


def _heads(items: Any) -> tuple[frozenset[str], bool]:
    """(how a match begins, one of these; whether that is all of it)."""
    heads = frozenset([""])
    for kind, value in items:
        if kind == "LITERAL":
            heads = frozenset(head + chr(value) for head in heads)
        elif kind in ("AT", "ASSERT", "ASSERT_NOT"):
            continue  # stands between characters and takes none
        elif kind in ("SUBPATTERN", "BRANCH", "ATOMIC_GROUP") and (parts := _parts(kind, value)):
            inner = [_heads(part) for part in parts]
            more = frozenset().union(*(head for head, _ in inner))
            if len(heads) * len(more) > MANY:
                return heads, False
            heads = frozenset(first + second for first, second in product(heads, more))
            if not all(whole for _, whole in inner):
                return heads, False
        else:
            return heads, False
    return heads, True


def _parts(kind: str, value: Any) -> list[Any]:
    """The alternatives inside a group; none when its letters may be of either case."""
    if kind == "BRANCH":
        return list(value)
    if kind == "ATOMIC_GROUP":
        return [value]
    any_case, content = value
    return [] if any_case else [content]


def _best(choices: list[frozenset[str]]) -> frozenset[str] | None:
    """The set with the longest shortest word."""
    return max(choices, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _required(items: Any) -> list[frozenset[str]]:
    """Sets of words: of each, at least one is in every text that the sequence matches."""
    choices: list[frozenset[str]] = []
    run = frozenset([""])
    for item in [*items, (None, None)]:
        kind, value = item
        if kind == "LITERAL":
            run = frozenset(word + chr(value) for word in run)
            continue
        if kind in ("AT", "ASSERT", "ASSERT_NOT"):
            continue
        inner: frozenset[str] | None = None
        if kind in ("SUBPATTERN", "BRANCH", "ATOMIC_GROUP") and (parts := _parts(kind, value)):
            heads, whole = _heads([item])
            if len(run) * len(heads) <= MANY:
                run = frozenset(first + second for first, second in product(run, heads))
                if whole:
                    continue
            branches = [_best(_required(part)) for part in parts]
            if all(branches):
                inner = frozenset().union(*(branch for branch in branches if branch))
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, _, content = value
            inner = _best(_required(content)) if least else None
        choices += [words for words in (run, inner) if words and "" not in words]
        run = frozenset([""])
    return choices


class _Cost:
    """What matching a part can cost, as powers of the length of the text."""

    __slots__ = ("dearest", "last", "open", "ways")

    def __init__(self) -> None:
        self.open = 0  # endless repeats whose end can be tried everywhere: each multiplies all that follows
        self.dearest = 0  # the dearest stretch so far
        self.last = 0  # 1: it ends with an endless repeat; what comes there has matched and is read once
        self.ways = 1  # through alternatives and things that may be left out

    @property
    def degree(self) -> int:
        return max(self.open, self.dearest, self.last)


_END = ("END", None)  # of the whole pattern: nothing follows that could fail


def _cost(items: Any, follow: Any = _END) -> _Cost | None:
    """What this sequence costs when that follows it; None when there is no bound."""
    cost = _Cost()
    for at, (kind, value) in enumerate(items):
        after = items[at + 1] if at + 1 < len(items) else follow
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, content = value
            if most > 1:
                if len(content) != 1 or content[0][0] not in _SIMPLE:
                    return None  # a repeat of what can be read in several ways is how patterns hang
                if most <= LONG:
                    cost.ways *= most
                elif after is _END:
                    cost.last = 1
                elif _ends_by_itself(content[0], after):
                    cost.dearest = max(cost.dearest, cost.open + 1)
                else:
                    cost.open += 1
                continue
            inner, more = [content], 1  # it may be left out
        elif kind == "SUBPATTERN":
            inner, more = [value[1]], 0
        elif kind == "BRANCH":
            inner, more = value, 0
        elif kind in ("ATOMIC_GROUP", "ASSERT", "ASSERT_NOT"):
            inner, more = [value], 0
        elif kind in _SIMPLE or kind == "AT":
            continue
        else:
            return None  # it refers back, or is something new
        looks_ahead = kind in ("ASSERT", "ASSERT_NOT")
        known = [_cost(part, _END if looks_ahead else after) for part in inner]
        sure = [branch for branch in known if branch is not None]
        if len(sure) < len(known):
            return None
        cost.dearest = max(
            [
                cost.dearest,
                *(cost.open + (branch.degree if looks_ahead else branch.dearest) for branch in sure),
            ]
        )
        if not looks_ahead:  # which says yes or no and is never asked for another way
            cost.open += max((branch.open for branch in sure), default=0)
            cost.last = max([cost.last, *(branch.last for branch in sure)])
        cost.ways *= sum(branch.ways for branch in sure) + more
    return cost if cost.ways <= WAYS else None


def _ends_by_itself(repeated: Any, after: Any) -> bool:
    """Whether the next character is one that the repeated never is: cut shorter, it could not go on."""
    name, value = after
    while name == "SUBPATTERN" and value[1]:
        name, value = value[1][0]
    # Letters may stand for others where case does not matter.
    return name == "LITERAL" and value < 128 and not chr(value).isalpha() and not _takes(repeated, chr(value))


def _takes(one: Any, letter: str) -> bool:
    """Whether this single-character part may take that letter; yes when in doubt."""
    kind, value = one[0], one[1]
    if kind in ("LITERAL", "NOT_LITERAL"):
        return (chr(value) == letter) == (kind == "LITERAL")
    if kind == "RANGE":
        return value[0] <= ord(letter) <= value[1]
    if kind == "CATEGORY":
        test = {
            "DIGIT": str.isdecimal,
            "SPACE": str.isspace,
            "WORD": lambda one: one.isalnum() or one == "_",
        }[value.removeprefix("NOT_")]
        return bool(test(letter)) != value.startswith("NOT_")
    if kind == "IN":
        turned = bool(value) and value[0][0] == "NEGATE"
        return any(_takes(part, letter) for part in value[turned:]) != turned
    return True

"""Regular expressions read into parts, as far as `literals` needs to know them; whatever else they may hold is refused.

A part is its kind and a value: LITERAL and the number of a character, IN and the members of a set, BRANCH and its
alternatives, SUBPATTERN and (whether its letters may be of either case, content), *_REPEAT and (least, most, content).
"""

from __future__ import annotations

import re
from itertools import takewhile

from watchdog.values import Any

Part = tuple[str, Any]
ENDLESS = 1 << 32
_COUNTS = {"*": (0, ENDLESS), "+": (1, ENDLESS), "?": (0, 1)}
_CATEGORIES = {"d": "DIGIT", "s": "SPACE", "w": "WORD"}
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_FLAGS = re.compile(r"([aims]*)(-[ims]+)?([:)])")
_NAME = re.compile(r"P<\w+>")
_AROUND = {"=": "ASSERT", "!": "ASSERT_NOT", "<=": "ASSERT", "<!": "ASSERT_NOT"}


def parts_of(pattern: str) -> list[Part]:
    """The parts of the pattern, which re can compile; ValueError for one that holds something else than these."""
    reader = _Reader(pattern)
    parts = reader.alternatives()
    if reader.at < len(pattern):
        raise ValueError(f"nothing is known of {pattern[reader.at :]!r}")
    return parts


class _Reader:
    def __init__(self, text: str):
        self.text, self.at = text, 0

    def next(self) -> str:
        """The next character, taken; '' at the end."""
        char = self.text[self.at : self.at + 1]
        self.at += len(char)
        return char

    def take(self, word: str) -> bool:
        """Whether that comes next; it is then taken."""
        found = self.text.startswith(word, self.at)
        self.at += len(word) if found else 0
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
        return found

    def alternatives(self) -> list[Part]:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else [_branch(branches)]

    def sequence(self) -> list[Part]:
        parts: list[Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts += self.repeated(self.part())
        return parts

    def part(self) -> list[Part]:
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return [("IN", self.members())]
        if char == "\\":
            kind, value = self.escaped()
            return [("IN", [(kind, value)])] if kind == "CATEGORY" else [(kind, value)]
        if char == ".":
            return [("ANY", None)]
        if char in "^$":
            return [("AT", char)]
        if char in "*+?{":
            raise ValueError("nothing to repeat")
        return [("LITERAL", ord(char))]

    def repeated(self, parts: list[Part]) -> list[Part]:
        """What was just read, with the count that follows it."""
        if counts := _COUNTS.get(self.text[self.at : self.at + 1]):
            self.at += 1
            least, most = counts
        elif found := self.match(_COUNT):
            least = int(found[1] or 0)
            most = int(found[3] or ENDLESS) if found[2] else least
        else:
            return parts
        kind = "MIN_REPEAT" if self.take("?") else "POSSESSIVE_REPEAT" if self.take("+") else "MAX_REPEAT"
        return [(kind, (least, most, parts[0][1][1] if _is_plain_group(parts) else parts))]

    def group(self) -> list[Part]:
        kind, any_case = "SUBPATTERN", False
        if self.take("?") and not self.match(_NAME):
            if around := next((sign for sign in _AROUND if self.take(sign)), ""):
                kind = _AROUND[around]
            elif self.take(">"):
                kind = "ATOMIC_GROUP"
            elif not (flags := self.match(_FLAGS)):
                raise ValueError("a group of another kind")
            elif flags[3] == ")":
                return []  # flags of the whole pattern
            else:
                any_case = "i" in flags[1]
        content = self.alternatives()
        if not self.take(")"):
            raise ValueError("a group without an end")
        return [(kind, (any_case, content) if kind == "SUBPATTERN" else content)]

    def members(self) -> list[Part]:
        """What a set holds, [NEGATE] first where it is turned."""
        members: list[Part] = [("NEGATE", None)] if self.take("^") else []
        first = True
        while first or not self.take("]"):
            first = False
            kind, value = self.member()
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                kind, value = "RANGE", (value, self.member()[1])
            members.append((kind, value))
        return members

    def member(self) -> Part:
        char = self.next()
        if not char:
            raise ValueError("a set without an end")
        return self.escaped() if char == "\\" else ("LITERAL", ord(char))

    def escaped(self) -> Part:
        if found := self.match(_HEX):
            return "LITERAL", int(found[1] or found[2], 16)
        char = self.next()
        if char.lower() in _CATEGORIES:
            return "CATEGORY", ("" if char.islower() else "NOT_") + _CATEGORIES[char.lower()]
        if char and char in "bBAZ":
            return "AT", char
        if not char or (char.isalnum() and char not in _CONTROL):
            raise ValueError("it refers back, or is something new")
        return "LITERAL", ord(_CONTROL.get(char, char))


def _is_plain_group(parts: list[Part]) -> bool:
    return len(parts) == 1 and parts[0][0] == "SUBPATTERN" and not parts[0][1][0]


def _branch(branches: list[list[Part]]) -> Part:
    """Alternatives, with what all of them begin with before them; of one character each they are a set."""
    same = len(
        list(takewhile(lambda parts: all(part == parts[0] for part in parts), zip(*branches, strict=False)))
    )
    head, rests = branches[0][:same], [branch[same:] for branch in branches]
    if all(len(rest) == 1 and rest[0][0] == "LITERAL" for rest in rests):
        ending: Part = ("IN", [rest[0] for rest in rests])
    else:
        ending = ("BRANCH", rests)
    return ("SUBPATTERN", (False, [*head, ending])) if head else ending

"""One pass of plain words over a block of bytes, which throws away the lines that no rule can want."""

from __future__ import annotations

import re
from collections.abc import Sequence

from watchdog.model import Line

INBOUND = b"inbound message: "
Mark = tuple[int, int]  # number of a word, where it stands


class Gate:
    """The words of all lines that rules want from one source."""

    def __init__(self, lines: Sequence[Line]):
        self.ids: dict[bytes, int] = {}
        self.open = False  # some line has no word of its own: every record must be looked at
        self.followed: set[int] = set()  # words of lines for which the next record's time matters
        heads: dict[bytes, set[bytes]] = {}
        for line in dict.fromkeys(lines):
            words = words_of(line)
            if words is None:
                self.open = True
                continue
            for word in words:
                self.ids.setdefault(word, len(self.ids))
                heads.setdefault(word, set()).update(heads_of(line))
                if line.followed:
                    self.followed.add(self.ids[word])
        # The reader must see every inbound message, wanted or not: a forged one casts doubt on what follows it.
        self.known = len(self.ids)
        if self.ids:
            self.ids.setdefault(INBOUND, self.known)
        # How the message of a record begins that some line may want for this word; () when it may begin in any way.
        self.heads = [() if b"" in heads.get(word, ()) else tuple(heads.get(word, (INBOUND,))) for word in self.ids]
        self._inside: dict[int, list[Mark]] = {}
        self._across: dict[int, list[tuple[int, int, bytes]]] = {}
        self._scan: object = None

    def wanted(self, hits: Sequence[int], block: bytes, message: int) -> tuple[int, ...]:
        """Those of the words that some rule asked for in a record whose message begins like this one."""
        heads = self.heads
        return tuple(
            [number for number in hits if number < self.known and (not heads[number] or block.startswith(heads[number], message))]
        )

    def marks(self, block: bytes) -> list[Mark]:
        """(word, position) of every word in the block, in the order of their positions."""
        if not self.ids:
            return []
        if self._scan is None:
            self._learn_neighbours()
            self._scan = self._automaton()
        if self._scan:
            found = [(number, at) for number, at, _ in self._scan.find_matches_as_indexes(block)]  # type: ignore[attr-defined]
        else:
            found = self._by_alternatives(block)
        if not self._inside and not self._across:
            return found
        marks: list[Mark] = []
        for mark in found:
            marks.append(mark)
            number, at = mark
            if number in self._inside:
                marks += [(other, at + offset) for other, offset in self._inside[number]]
            if number in self._across:
                for other, offset, rest in self._across[number]:
                    if block.startswith(rest, at + offset):
                        marks.append((other, at))
        return marks

    def _automaton(self) -> object:
        try:
            from ahocorasick_rs import BytesAhoCorasick, MatchKind
        except ImportError:
            return False
        # Leftmost matches alone let it leap over text; words inside or across others are told by _learn_neighbours.
        return BytesAhoCorasick(list(self.ids), matchkind=MatchKind.LeftmostLongest)

    def _by_alternatives(self, block: bytes) -> list[Mark]:
        words = sorted(self.ids, key=len, reverse=True)  # the longest first, as the automaton prefers it
        pattern = re.compile(b"|".join(map(re.escape, words)))
        return [(self.ids[found.group()], found.start()) for found in pattern.finditer(block)]

    def _learn_neighbours(self) -> None:
        """Words that stand inside a word, and words that begin before another ends: a leftmost match hides both."""
        prefixes: dict[bytes, list[bytes]] = {}
        for word in self.ids:
            for end in range(1, len(word)):
                prefixes.setdefault(word[:end], []).append(word)
        for word, number in self.ids.items():
            inside = [(self.ids[other], word.find(other)) for other in self.ids if other in word and other != word]
            across = [
                (self.ids[other], len(word), other[len(word) - start :])
                for start in range(1, len(word))
                for other in prefixes.get(word[start:], ())
            ]
            if inside:
                self._inside[number] = inside
            if across:
                self._across[number] = across


def words_of(line: Line) -> list[bytes] | None:
    """The words that mark a record this line may want; None when any record may be one."""
    words = line.pattern.study.words if line.pattern is not None else None
    if words is not None:
        return sorted(word.encode() for word in words)
    if line.level:
        return [f" {level} ".encode() for level in line.level]
    return None


def heads_of(line: Line) -> set[bytes]:
    """How the message of a wanted record begins; b'' for any way."""
    heads = line.pattern.study.heads if line.pattern is not None else None
    return {head.encode() for head in heads} if heads is not None else {b""}

"""One pass of plain words over a block of bytes, which throws away the lines that no rule can want."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from watchdog.literals import literals
from watchdog.model import Line

INBOUND = b"inbound message: "
_FEW = 400_000  # bytes; below this, building the automaton costs more than it saves


class Gate:
    """The words of all lines that rules want from one source."""

    def __init__(self, lines: Sequence[Line]):
        self.ids: dict[bytes, int] = {}
        self.open = False  # some line has no word of its own: every record must be looked at
        for line in lines:
            words = words_of(line)
            if words is None:
                self.open = True
            else:
                for word in words:
                    self.ids.setdefault(word, len(self.ids))
        # The reader must see every inbound message, wanted or not: a forged one casts doubt on what follows it.
        self.known = len(self.ids)
        if self.ids:
            self.ids.setdefault(INBOUND, self.known)
        self._automaton: object = None
        self._alternatives: re.Pattern[bytes] | None = None

    def wanted(self, hits: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the words that some rule asked for."""
        return tuple(number for number in hits if number < self.known)

    def marks(self, block: bytes) -> Iterable[tuple[int, int]]:
        """(word id, position) of every word in the block, in the order of their positions."""
        if not self.ids:
            return ()
        if len(block) > _FEW or self._automaton is not None:
            found = self._find_by_automaton(block)
            if found is not None:
                return found
        if self._alternatives is None:
            # A lookahead finds words that overlap; the longest first, shorter ones are told by prefix below.
            words = sorted(self.ids, key=len, reverse=True)
            self._alternatives = re.compile(b"|".join(map(re.escape, words)))
            self._inside = {
                word: [(self.ids[other], word.find(other)) for other in words if other in word] for word in words
            }
        marks: list[tuple[int, int]] = []
        for found_word in self._alternatives.finditer(block):
            start = found_word.start()
            marks.extend((number, start + at) for number, at in self._inside[found_word.group()])
        return marks

    def _find_by_automaton(self, block: bytes) -> list[tuple[int, int]] | None:
        if self._automaton is None:
            try:
                from ahocorasick_rs import BytesAhoCorasick
            except ImportError:
                self._automaton = False
            else:
                self._automaton = BytesAhoCorasick(list(self.ids))
        if self._automaton is False:
            return None
        matches = self._automaton.find_matches_as_indexes(block, overlapping=True)  # type: ignore[attr-defined]
        return [(number, start) for number, start, _ in matches]


def words_of(line: Line) -> list[bytes] | None:
    """The words that mark a record this line may want; None when any record may be one."""
    words = literals(line.pattern.text) if line.pattern is not None else None
    if words is not None:
        return sorted(word.encode() for word in words)
    if line.level:
        return [f" {level} ".encode() for level in line.level]
    return None

"""One pass of plain words over a block of bytes, which throws away the lines that no rule can want."""

from __future__ import annotations

from collections.abc import Sequence

from watchdog.model import Line

INBOUND = b"inbound message: "
_ANY = frozenset([b""])
Neighbours = tuple[list[tuple[int, ...]], dict[int, list[tuple[int, bytes]]]]
NEIGHBOURS: dict[tuple[bytes, ...], Neighbours] = {}  # of words that were met already, in this run or before (compiled.py)
NOBODY: tuple[int, ...] = ()  # wants a record in which only this word was seen, an inbound message: is it forged?
PASSED: tuple[int, ...] = (-1,)  # nobody wants the record, and nothing in it is worth a look
Mark = tuple[int, int, int]  # number of a word, where it begins and ends


class Gate:
    """The words of all lines that rules want from one source."""

    def __init__(self, lines: Sequence[Line]):
        self.ids: dict[bytes, int] = {}
        self.open = False  # some line has no word of its own: every record must be looked at
        self.followed: set[int] = set()  # words of lines for which the next record's time matters
        heads: dict[bytes, set[bytes]] = {}
        for line in lines:
            words = words_of(line)
            if words is None:
                self.open = True
                continue
            for word in words:
                number = self.ids.setdefault(word, len(self.ids))
                heads.setdefault(word, set()).update(heads_of(line))
                if line.followed:
                    self.followed.add(number)
        # The reader must see every inbound message, wanted or not: a forged one casts doubt on what follows it.
        self.known = len(self.ids)
        if self.ids:
            self.ids.setdefault(INBOUND, self.known)
        # How the message of a record begins that some line may want for this word; () when it may begin in any way.
        self.heads = [() if b"" in heads.get(word, ()) else tuple(heads.get(word, (INBOUND,))) for word in self.ids]
        self.meant: list[tuple[int, ...]] = []  # word → itself and the words inside it
        self.across: dict[int, list[tuple[int, bytes]]] = {}  # word → words that begin in it and go on after it
        # word → which words' records are wanted when only it is in a record and begins its message; None: look closer
        self.alone: list[tuple[int, ...] | None] = []
        self.words: list[bytes] = []
        self._scan: object = None

    @classmethod
    def of(cls, words: Sequence[bytes], doubt: bool) -> Gate:
        """Lets through every record that holds one of the words, wherever it stands."""
        gate = cls([])
        gate.ids = {word: number for number, word in enumerate(words)}
        gate.known, gate.heads = len(gate.ids), [()] * len(gate.ids)
        gate.meant = [(number,) for number in range(len(words) + 1)]  # a record with any of them is let through, so none can hide another
        if doubt:
            gate.ids.setdefault(INBOUND, gate.known)
            gate.heads += [(INBOUND,)] * (len(gate.ids) - gate.known)
        return gate

    def marks(self, block: bytes) -> Sequence[Mark]:
        """The words in the block, in the order of their positions; what the reader must add is in `meant` and `across`."""
        if not self.ids:
            return []
        if self._scan is None:
            if not self.meant:
                self.learn_neighbours()
            self.words = list(self.ids)
            self.alone = [self._alone(word, number) for word, number in self.ids.items()]
            self._scan = self._automaton()
        if self._scan:
            found: Sequence[Mark] = self._scan.find_matches_as_indexes(block)  # type: ignore[attr-defined]
            return found
        return self._by_alternatives(block)

    def _automaton(self) -> object:
        try:
            from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind
        except ImportError:
            return False
        # Leftmost matches alone let it leap over text; words inside or across others are told by learn_neighbours.
        # This kind of automaton is made in a sixth of the time of the default, and no slower on logs.
        return BytesAhoCorasick(list(self.ids), matchkind=MatchKind.LeftmostLongest, implementation=Implementation.ContiguousNFA)

    def _by_alternatives(self, block: bytes) -> list[Mark]:
        import re

        words = sorted(self.ids, key=len, reverse=True)  # the longest first, as the automaton prefers it
        pattern = re.compile(b"|".join(map(re.escape, words)))
        return [(self.ids[found.group()], *found.span()) for found in pattern.finditer(block)]

    def hits(self, number: int, block: bytes, end: int) -> tuple[int, ...]:
        """The words that this one, which ends there, stands for."""
        if number not in self.across:
            return self.meant[number]
        return self.meant[number] + tuple(other for other, rest in self.across[number] if block.startswith(rest, end))

    def may_mean(self, number: int) -> set[int]:
        """The words that may be in a record where this one was seen, and in it or across its end."""
        return {*self.meant[number], *(other for other, _ in self.across.get(number, ()))}

    def wanted(self, hits: tuple[int, ...], block: bytes, message: int) -> tuple[int, ...]:
        """Those of the words whose records may begin like this message."""
        heads = self.heads
        return tuple([one for one in hits if one < self.known and (not heads[one] or block.startswith(heads[one], message))])

    def _alone(self, word: bytes, number: int) -> tuple[int, ...] | None:
        if number in self.across:
            return None
        wanted = []
        for one in self.meant[number]:
            heads = self.heads[one]
            if one >= self.known:
                continue
            if not heads or word.startswith(heads):
                wanted.append(one)
            elif any(head.startswith(word) for head in heads):
                return None  # how the message goes on decides
        # Only an inbound message is of interest when nobody wants it.
        return tuple(wanted) if wanted else NOBODY if word == INBOUND else None

    def learn_neighbours(self) -> None:
        """Words that stand inside a word, and words that begin before another ends: a leftmost match hides both."""
        words = tuple(self.ids)
        if words not in NEIGHBOURS:
            NEIGHBOURS[words] = self._neighbours()
        self.meant, self.across = NEIGHBOURS[words]

    def _neighbours(self) -> Neighbours:
        meant: list[tuple[int, ...]] = []
        all_across: dict[int, list[tuple[int, bytes]]] = {}
        by_first: dict[bytes, list[bytes]] = {}
        for word in self.ids:
            by_first.setdefault(word[:1], []).append(word)
        for word, number in self.ids.items():
            inside, across = [number], []
            for start in range(len(word)):
                rest = word[start:]
                for other in by_first.get(word[start : start + 1], ()):
                    if rest.startswith(other):
                        inside.append(self.ids[other])
                    elif start and other.startswith(rest):
                        across.append((self.ids[other], other[len(rest) :]))
            meant.append(tuple(dict.fromkeys(inside)))
            if across:
                all_across[number] = across
        return meant, all_across


_made: dict[tuple[int, ...], tuple[Gate, Sequence[Line]]] = {}


def gate_for(lines: Sequence[Line]) -> Gate:
    """The gate of these very lines: who reads them and who judges them must number the words alike, and need only one."""
    key = tuple(map(id, lines))
    if key not in _made:
        if len(_made) > 100:
            _made.clear()
        _made[key] = Gate(lines), lines  # holding the lines keeps their identities theirs
    return _made[key][0]


def words_of(line: Line) -> Sequence[bytes] | None:
    """The words that mark a record this line may want; None when any record may be one."""
    words = line.pattern.words if line.pattern is not None else None
    if words is not None:
        return words
    if line.level:
        return [f" {level} ".encode() for level in line.level]
    return None


def heads_of(line: Line) -> frozenset[bytes]:
    """How the message of a wanted record begins; b'' for any way."""
    heads = line.pattern.heads if line.pattern is not None else None
    return heads if heads is not None else _ANY

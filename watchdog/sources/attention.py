"""Lines that matter only now and then: most of the time the reader passes over them.

A watch sleeps while nothing of what it watches has begun. What can wake it is looked for in a block before anything in the
block is read; without that, lines that only somebody awake wants stay unread. So do lines that tell which chat a session
works for, once that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import itemgetter

from watchdog.model import Line
from watchdog.sources.gate import INBOUND, NOBODY, PASSED, Gate, Mark, words_of
from watchdog.sources.localtime import SLACK
from watchdog.values import Any

LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NUMBER = itemgetter(0)
AT_THE_END = 2 * SLACK  # what wakes a watch may be written so much later than what should be read with it


class Sleeper:
    """One watch, and until when it may be woken by what was read and not shown to it yet."""

    __slots__ = ("until", "watch")

    def __init__(self, watch: Any):
        self.watch, self.until = watch, LONG_AGO


class Attention:
    """Of one source: which words of its gate matter right now."""

    def __init__(self, gate: Gate):
        self.gate = gate
        self.wanted: list[tuple[Line, Any, bool]] = []  # a line, its watch, whether that can sleep
        self.shown = LONG_AGO  # the watches have been shown everything before this moment
        self.sleepers: list[Sleeper] = []
        self.woken: set[Sleeper] = set()  # by the present block
        self.wakes: list[frozenset[Sleeper]] = []  # word → whom it may wake
        self.keeps: list[frozenset[Sleeper] | None] = []  # word → who wants it while awake; None: somebody who never sleeps
        self.settled: dict[int, Any] = {}  # word → the sessions of which it tells nothing new

    def _learn(self) -> None:
        """Who wants what, word by word."""
        sleepers: dict[int, Sleeper] = {}
        always: set[int] = set()
        keeps: dict[int, set[Sleeper]] = {}
        wakes: dict[int, set[Sleeper]] = {}
        who: dict[int, set[Any]] = {}  # wants to know of a session once; None: more than that
        for line, watch, can_sleep in self.wanted:
            for number in [self.gate.ids[word] for word in words_of(line) or ()]:
                who.setdefault(number, set()).add(watch if line.once else None)
                if can_sleep:
                    one = sleepers.setdefault(id(watch), Sleeper(watch))
                    (keeps if line.meanwhile else wakes).setdefault(number, set()).add(one)
                if not (can_sleep and line.meanwhile):
                    always.add(number)
        self.sleepers = list(sleepers.values())
        for word, number in self.gate.ids.items():
            meant = self.gate.may_mean(number)
            inside = INBOUND in word and not word.startswith(INBOUND)
            self.wakes.append(frozenset().union(*(wakes.get(one, ()) for one in meant)))
            self.keeps.append(None if inside or always & meant else frozenset().union(*(keeps.get(one, ()) for one in meant)))
            asking = set().union(*(who.get(one, ()) for one in meant))
            if len(asking) == 1 and None not in asking:
                self.settled[number] = asking.pop().sessions.settled

    def look(self, marks: Sequence[Mark]) -> Sequence[tuple[int, ...] | None]:
        """gate.alone for a block with these words: who sleeps through it wants nothing of it."""
        alone = self.gate.alone
        if not self.wakes:
            self._learn()
        if not self.sleepers:
            return alone
        present = set(map(_NUMBER, marks))
        self.woken = {one for number in present for one in self.wakes[number]}
        awake = {one for one in self.sleepers if one.until >= self.shown or one.watch.awake()} | self.woken
        passed = [number for number in present if (keeps := self.keeps[number]) is not None and keeps.isdisjoint(awake)]
        if not passed:
            return alone
        alone = list(alone)
        for number in passed:
            # That an inbound message is not forged is worth a look all the same.
            alone[number] = NOBODY if self.gate.words[number].startswith(INBOUND) else PASSED
        return alone

    def read(self, newest: datetime) -> None:
        """The block is read, up to this time."""
        for one in self.woken:
            one.until = max(one.until, newest + SLACK)

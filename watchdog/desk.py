"""Hands each record of a log to the watches that may want it, by the words the reader saw in it."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.errors import SlowPattern
from watchdog.model import Event, Line
from watchdog.sources.gate import gate_for, words_of
from watchdog.values import Any

Captures = dict[str, str]
Entry = tuple[Line, str, Any, str]  # what is wanted, the rule, its watch, in which role
Order = tuple[Any, list[Entry]]  # a pattern, and who wants what it matches
Call = tuple[Any, dict[str, Captures]]  # whose see(), and the roles that it is called with
MEMORY = 2000  # texts remembered
_NOTHING: Captures = {}


class Desk:
    """All who want something of one source."""

    def __init__(self, slow: dict[str, str]) -> None:
        self.slow = slow  # rules whose pattern took too long, and which
        self.entries: list[Entry] = []
        self.orders: dict[tuple[int, ...] | None, list[Order]] = {}
        self.alone: dict[tuple[int, ...] | None, tuple[Any, Any, str] | None] = {}  # the one pattern, see() and role, if it is so simple
        self.calls: dict[tuple[Any, ...], list[Call]] = {}  # for texts that come again and again

    def add(self, line: Line, rule: str, watch: Any, role: str) -> None:
        self.entries.append((line, rule, watch, role))

    def ready(self) -> None:
        """Sort the entries by the words the reader's gate knows them by."""
        ids = gate_for([line for line, _, _, _ in self.entries]).ids
        self.by_word: list[list[int]] = [[] for _ in ids]
        self.always: list[int] = []
        for number, (line, _, _, _) in enumerate(self.entries):
            words = words_of(line)
            if words is None:
                self.always.append(number)
            for word in words or ():
                self.by_word[ids[word]].append(number)

    def show(self, event: Event) -> None:
        """Let everyone see the event whose pattern it matches."""
        hits = event.hits
        if hits not in self.orders:
            self._learn(hits)
        if "user" in event.facts and not event.more and not self.slow:
            # With its words cut out, a message of the same chat is the same text every time.
            text = event.text, event.level, event.logger, hits
            calls = self.calls.get(text)
            if calls is None:
                if len(self.calls) > MEMORY:
                    self.calls.clear()
                calls = self.calls[text] = self._calls(event)
            for see, roles in calls:
                see(roles, event)
        elif (alone := self.alone[hits]) is not None and not self.slow:
            pattern, see, role = alone
            try:
                captures = pattern.match(f"{event.text}\n{event.more}" if event.more else event.text)
            except SlowPattern as error:
                self._too_slow(error, self.orders[hits][0][1], event)
                return
            if captures is not None:
                see({role: captures}, event)
        else:
            for see, roles in self._calls(event):
                see(roles, event)

    def _learn(self, hits: tuple[int, ...] | None) -> None:
        """Who may want a record in which the reader saw these words, each pattern once."""
        numbers: Iterable[int] = range(len(self.entries))
        if hits is not None:
            numbers = sorted({*self.always, *(number for hit in hits for number in self.by_word[hit])})
        orders: dict[Any, list[Entry]] = {}
        for number in numbers:
            orders.setdefault(self.entries[number][0].pattern, []).append(self.entries[number])
        self.orders[hits] = list(orders.items())
        self.alone[hits] = None
        for pattern, entries in orders.items():
            line, _, watch, role = entries[0]
            if pattern is not None and len(orders) == len(entries) == 1 and not line.level and not line.logger:
                self.alone[hits] = pattern, watch.see, role

    def _calls(self, event: Event) -> list[Call]:
        text = f"{event.text}\n{event.more}" if event.more else event.text
        seen: dict[Any, dict[str, Captures]] = {}
        for pattern, entries in self.orders[event.hits]:
            captures: Captures | None = None
            for line, rule, watch, role in entries:
                if (line.level and event.level not in line.level) or (line.logger and not event.logger.startswith(line.logger)):
                    continue
                if self.slow and rule in self.slow:
                    continue
                if captures is None:
                    try:
                        captures = pattern.match(text) if pattern is not None else _NOTHING
                    except SlowPattern as error:
                        self._too_slow(error, entries, event)
                    if captures is None:
                        break
                if watch in seen:
                    seen[watch].setdefault(role, captures)
                else:
                    seen[watch] = {role: captures}
        return [(watch.see, roles) for watch, roles in seen.items()]

    def _too_slow(self, error: SlowPattern, entries: list[Entry], event: Event) -> None:
        self.slow.update((rule, f"{error} ({event.where})") for _, rule, _, _ in entries)

"""How many rows of a table are gone: a number where something names every row, else the least and the most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from watchdog.sqlite.adoption import Adoption, TablePart
from watchdog.sqlite.format import read_page
from watchdog.sqlite.layout import Layout
from watchdog.sqlite.page_scan import UNKNOWN, ScannedRow
from watchdog.sqlite.rebuilt import Fresh
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import Survey

UNBELIEVABLE = 1_000_000  # rows missing by the gaps in the numbers: such a table is numbered with gaps


@dataclass(frozen=True)
class KnownRows:
    """What is known of the rows from elsewhere."""

    backup: str = ""  # a verified copy of the database
    rows: Mapping[str, int] | None = None  # per table, in that copy
    emptied: frozenset[str] = frozenset()  # tables without a row that had some then


class Losses(Adoption):
    """What is missing from a file that is filled from these parts."""

    def __init__(self, survey: Survey, fresh: Fresh, guessed: Mapping[str, tuple[Layout, ...]]):
        super().__init__(survey, guessed)
        self.fresh = fresh
        self.complete: set[str] = set()  # tables of which something names every row
        self.disputed: dict[str, int] = {}  # rows that one index alone names, while the table misses nothing
        self.found: dict[str, int] = {}  # rows found on pages that the tree does not reach
        self.sequence: dict[str, int] = {}
        self.misplaced: list[tuple[TablePart, ScannedRow]] = []  # rows whose number may be wrong

    def count(self, name: str, known: KnownRows) -> None:
        """The number of lost rows of a table, or the least and the most that it can be."""
        fresh, tally, layout = self.fresh, self.fresh.tallies[name], self.survey.layouts[name]
        # a row of a table without rowid that is there twice stands on a page that was written over another
        twice = tally.refused and not layout.rowid
        lost = len(fresh.losses(name)) + (1 if twice else tally.refused)
        if name in self.complete or self.whole(name):
            tally.lost, tally.lost_most = lost - min(lost, self.disputed.get(name, 0)), lost
            return
        missing = [
            *self.survey.trees[name].missing,
            *(gap for tree in self.strays(name) for gap in tree.missing),
        ]
        gaps = max(0, sum(not self.refilled(name, gap) for gap in missing) - self._reused(name))
        if gaps and self.survey.trees[name].root in (0, *self.survey.trees[name].lost_pages):
            gaps -= 1  # the table may have been empty
        here = tally.saved + tally.reconstructed
        least = max(lost - self.disputed.get(name, 0), tally.destroyed + gaps - self.found.get(name, 0))
        before = (known.rows or {}).get(name, 0) - here
        unnamed = tally.unplaced + tally.freed
        room = self._room(name) if missing or not layout.rowid else 0
        most = max(least, lost + unnamed, before, room + unnamed)
        if layout.rowid:
            holes = self._holes(name)
            if holes is not None:
                most = max(least, lost + tally.unplaced, before, min(most, holes))
        tally.lost, tally.lost_most = least, most
        words = f"between {least} and {most} rows" if most > least else f"{least} rows"
        self.says.append(f"{name}: nothing in the file names every row; {words} are lost")

    def whole(self, name: str) -> bool:
        """Whether the tree of a table was read to its last row."""
        tally = self.fresh.tallies[name]
        if tally.unplaced or tally.freed or (tally.refused and not self.survey.layouts[name].rowid):
            return False
        return not self.survey.trees[name].missing or self.rooted(name) or self.accounted(name)

    def _reused(self, name: str) -> int:
        """Pages that a torn table should have and that are free, or another's: the page that names them is old."""
        return sum(
            self.pages.claims[number] != UNKNOWN
            for number in self.survey.trees[name].lost_pages
            if 1 < number <= self.pages.image.pages
        )

    def _room(self, name: str) -> int:
        """How many rows can have been on the pages that are destroyed or cut off."""
        image, opened = self.pages.image, self.survey.opened
        gone = len(self.pages.destroyed()) + max(0, opened.declared - image.pages)
        reached = [
            number for parts in self.parts.values() for part in parts for number in part.tree.lost_pages
        ]
        gone += len({number for number in reached if number > image.pages})
        gone = max(gone, len(self.survey.trees[name].missing), 1)
        smallest = 5 + len(self.survey.layouts[name].stored)  # a cell with its pointer, every value NULL
        counts = [
            len(read_page(image.page(number), number, image.usable).pointers)
            for part in self.parts[name]
            for number in islice(part.tree.leaves, 2000)
        ]
        # Leaves of one table are alike: with a few of them to go by, three times the fullest is more than any.
        alike = (3 if len(counts) >= 5 else 8) * max(counts, default=image.usable)
        return gone * min(image.usable // smallest, alike)

    def _holes(self, name: str) -> int | None:
        """Rowids that are free where pages are missing, and lost rows elsewhere; None when it tells nothing."""
        tree, fresh = self.survey.trees[name], self.fresh
        first, last = fresh.db.execute(f"SELECT min(_rowid_), max(_rowid_) FROM {quoted(name)}").fetchone()
        bounds = [bound for gap in tree.missing for bound in gap if bound is not None]
        top = max([self.sequence.get(name, 0), last or 0, *bounds, *fresh.losses(name)])
        elsewhere = sum(not self.in_gap(name, [rowid]) for rowid in fresh.losses(name))
        count = self.fresh.tallies[name].unplaced + self.fresh.tallies[name].freed + elsewhere
        for low, high in tree.missing:
            if high is None and not self.sequence.get(name):
                return None  # rows may have followed the last one that is here
            low = low if low is not None else min((first or 1) - 1, 0)
            high = high if high is not None else top
            there = fresh.db.execute(
                f"SELECT count(*) FROM {quoted(name)} WHERE _rowid_ > ? AND _rowid_ <= ?", (low, high)
            ).fetchone()[0]
            count += max(0, high - low - there)
        return count if count < UNBELIEVABLE else None

"""The parts of each table, leaves that lost their tree among them; and how many of its rows are gone."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from watchdog.sqlite.format import INDEX_INTERIOR, INDEX_LEAF, Bad, Value
from watchdog.sqlite.layout import Layout, best
from watchdog.sqlite.notes import RepairNote, RowDoubt, note
from watchdog.sqlite.page_scan import FREE, UNKNOWN, Range, ScannedRow, Tree, between, hidden_bytes
from watchdog.sqlite.rebuilt import Fresh
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import Survey, is_partial, stray_leaves

SAMPLE = 16  # rows of a leaf without a tree that must all fit before it is given to a table
AMBIGUOUS, GUESS = note(RowDoubt.AMBIGUOUS), note(RowDoubt.GUESS)


@dataclass
class TablePart:
    """Pages with rows of one table."""

    tree: Tree
    layout: Layout
    doubt: str = ""
    stray: bool = False


class Adoption:
    """The parts of each table: its tree, and what was found without one."""

    def __init__(self, survey: Survey, guessed: Mapping[str, tuple[Layout, ...]]):
        self.survey, self.pages, self.guessed = survey, survey.pages, guessed
        self.says: list[str] = list(survey.opened.says)
        self.parts = {name: [TablePart(survey.trees[name], survey.layouts[name])] for name in survey.layouts}
        self.aside: list[tuple[Tree, str]] = []  # with the tables that each could be of

    def adopt(self) -> None:
        """Give leaves without a tree to the tables that miss some."""
        survey = self.survey
        emptied = self._emptied()
        for name in emptied:
            survey.trees[name].missing.append((None, None))
        for rowid in (True, False):
            torn = [
                name
                for name, tree in survey.trees.items()
                if tree.missing and survey.layouts[name].rowid is rowid
            ]
            if not torn:
                continue
            strays = self._without_copies(self.pages.orphans(table=rowid))
            for tree in strays:
                self.pages.claim_overflow(tree)
            for tree in strays:
                self._adopt(tree, torn)
        for name in emptied:
            if not self.strays(name):
                survey.trees[name].missing.clear()
        for name in survey.alike:
            for part in self.parts[name]:
                part.doubt = part.doubt or AMBIGUOUS

    def _without_copies(self, strays: list[Tree]) -> list[Tree]:
        """Without leaves that are a copy, byte for byte, of one in a tree or of another stray."""
        single = {tree.root: self.pages.image.page(tree.root) for tree in strays if tree.root in tree.leaves}
        codes = {hash(data) for data in single.values()}
        of_trees = (number for tree in self.survey.trees.values() for number in tree.leaves)
        known = {data for number in of_trees if hash(data := self.pages.image.page(number)) in codes}
        found = []
        for tree in strays:
            if single.get(tree.root) in known:
                self.pages.claims[tree.root] = FREE
                continue
            known.add(single.get(tree.root, b""))
            found.append(tree)
        return found

    def _emptied(self) -> list[str]:
        """Tables without a row, when pages are in no tree and not free: theirs may have been written over."""
        survey = self.survey
        if not self.pages.free_complete or not any(stray_leaves(self.pages)):
            return []
        return [
            name
            for name in survey.tables()
            if survey.trees[name].root
            and not survey.trees[name].missing
            and not survey.cells(survey.trees[name])
        ]

    def _adopt(self, tree: Tree, torn: list[str]) -> None:
        survey = self.survey
        rows = list(self.pages.sampled(sample(tree), SAMPLE))
        values = [row.values for row in rows if row.values is not None]
        layouts = [
            layout
            for name in torn
            if not tree.table or self.in_gap(name, [row.rowid for row in rows])
            for layout in (survey.layouts[name], *self.guessed.get(name, ()))
        ]
        fitting = best(layouts, values) if values else []
        names = {layout.table for layout in fitting}
        if not names or (not tree.table and self._entries_of_an_index(values)):
            self.pages.release(tree)
        elif len(names) == 1:
            width = max(len(row) for row in values)
            certain = len({layout.names[:width] for layout in fitting}) == 1
            if not certain:
                self.says.append(note(RepairNote.COLUMN_ORDER, table=fitting[0].table))
            self.parts[fitting[0].table].append(
                TablePart(tree, fitting[0], "" if certain else GUESS, stray=True)
            )
        elif names <= survey.inner:  # full text: to be made anew in any case
            self.parts[fitting[0].table].append(TablePart(tree, fitting[0], stray=True))
        else:
            self.aside.append((tree, " or ".join(sorted(names))))

    def _entries_of_an_index(self, rows: Sequence[Sequence[Value]]) -> bool:
        """Whether these may be entries of an index that misses pages, and not rows of a table without rowid."""
        widths = {
            len(self.survey.columns.get(name, ()))
            for name, tree in self.survey.indexes.items()
            if tree.missing
        }
        return all(len(row) in widths and isinstance(row[-1], int) for row in rows)

    def in_gap(self, name: str, rowids: Sequence[int]) -> bool:
        return any(all(between(rowid, *gap) for rowid in rowids) for gap in self.survey.trees[name].missing)

    def accounted(self, name: str) -> bool:
        """Whether a torn table lost interior pages alone: their leaves are found, and no page is unexplained."""
        opened, pages, tree = self.survey.opened, self.pages, self.survey.trees[name]
        cut = pages.image.torn or opened.declared > pages.image.pages
        if cut or not pages.free_complete or not tree.root or not tree.table:
            return False  # an interior page of a table without rowid holds rows itself
        trees = (*self.survey.trees.values(), *self.survey.indexes.values())
        lost = {number for other in trees for number in other.lost_pages}
        # leaves of a torn index, or of a table without rowid, may lie about: they are not of this table
        others = any(other.missing for other in trees if not other.table)
        passed = (INDEX_INTERIOR, INDEX_LEAF) if others else ()
        unexplained = (
            number
            for number in range(2, pages.image.pages + 1)
            if pages.claims[number] == UNKNOWN and number not in lost
        )
        if any(pages.image.page(number)[0] not in passed for number in unexplained):
            return False
        return all(self.refilled(name, gap) for gap in tree.missing)

    def strays(self, name: str) -> list[Tree]:
        """The parts of a table that were found without its root."""
        return [part.tree for part in self.parts[name] if part.stray]

    def refilled(self, name: str, gap: Range) -> bool:
        """Whether leaves were found that belong into a gap: then the page that is gone held no rows."""
        strays = self.strays(name)
        if not self.survey.layouts[name].rowid:
            return len(strays) >= len(self.survey.trees[name].missing)
        return any(between(rowid, *gap) for tree in strays for rowid in self.pages.rowids(sample(tree)))

    def rooted(self, name: str) -> bool:
        """Whether a table whose root was unknown was found with all its leaves: no page is gone that could be its."""
        first, *rest = self.parts[name]
        return (
            not first.tree.root
            and not any(part.tree.missing for part in rest)
            and not self.pages.astray
            and not self.survey.pages_gone()
        )


def sample(tree: Tree) -> Tree:
    """Leaves from all over a tree, the last first: the newest rows have the most columns."""
    step = max(1, len(tree.leaves) // 20)
    leaves = array("I", [tree.leaves[-1], *tree.leaves[:-1:step]])
    return Tree(tree.name, tree.root, tree.table, leaves=leaves)


def parts_of(survey: Survey, tables: Sequence[str]) -> dict[str, list[Tree]]:
    """Of each torn table its tree and the parts that lost theirs; Bad when it is not certain whose they are."""
    work = Adoption(survey, {})
    work.adopt()
    if work.aside or any(part.doubt for parts in work.parts.values() for part in parts):
        raise Bad("leaves that may be of more than one table")
    if any(work.strays(name) for name in survey.layouts if name not in tables):
        raise Bad("leaves of a table that seemed to miss nothing")
    if not all(work.accounted(name) or _named(survey, name) for name in tables):
        raise Bad("rows are gone that no index names")
    return {name: [part.tree for part in work.parts[name]] for name in tables}


def _named(survey: Survey, table: str) -> bool:
    """Whether an index names every row of a table."""
    return any(survey.whole(index.name) and not is_partial(index.sql) for index in survey.indexes_of(table))


# --- what is missing

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
        # lost rows that one index alone names, while the table misses nothing, or another that names all rows does not
        self.disputed: dict[str, int] = {}
        self.found: dict[str, int] = {}  # rows found on pages that the tree does not reach
        self.homeless: dict[str, int] = {}  # rows that were set aside, by the tables that they could be of
        # the pages and rowids of destroyed cells, 0 for a rowid that is destroyed, too
        self.broken: dict[str, list[tuple[int, int]]] = {}
        self.sequence: dict[str, int] = {}
        self.misplaced: list[tuple[TablePart, ScannedRow]] = []  # rows whose number may be wrong

    def count(self, name: str, known: KnownRows) -> None:
        """The number of lost rows of a table, or the least and the most that it can be."""
        fresh, tally, layout = self.fresh, self.fresh.tallies[name], self.survey.layouts[name]
        named, strays = len(fresh.losses(name)), self.strays(name)
        # a row of a table without rowid that is there twice stands on a page that was written over another
        twice = tally.refused and not layout.rowid
        lost = named + (1 if twice else tally.refused)
        # a list that names every row may name the refused ones, too
        least_named = named if strays or (name in self.complete and layout.rowid) else lost
        sure = max(0, least_named - self.disputed.get(name, 0))
        if name in self.complete or self.whole(name):
            tally.lost, tally.lost_most = sure, lost
            return
        missing = [
            *self.survey.trees[name].missing,
            *(gap for tree in strays for gap in tree.missing),
        ]
        gaps = max(0, sum(not self.refilled(name, gap) for gap in missing) - self._reused(name))
        if not self.pages.doubles.isdisjoint(self.survey.trees[name].above):
            gaps = 0  # the page that leads to them may be a copy of another table's
        if gaps and self.survey.trees[name].root in (0, *self.survey.trees[name].lost_pages):
            gaps -= 1  # the table may have been empty
        here = tally.saved + tally.reconstructed
        least = max(sure, self._broken(name) + gaps - self.found.get(name, 0))
        if self.pages.image.stale:  # an index may be older than its table
            least = 0
        before = (known.rows or {}).get(name, 0) - here
        hidden = self._hidden(name) if tally.unplaced else 0
        unnamed = tally.unplaced + tally.freed + hidden
        room = self._room(name) if missing or not layout.rowid else 0
        most = max(least, lost + unnamed, before, room + unnamed)
        if layout.rowid:
            holes = self._holes(name)
            if holes is not None:
                most = max(least, lost + tally.unplaced + hidden, before, min(most, holes + hidden))
        tally.lost, tally.lost_most = least, most
        if most:
            kind = RepairNote.LOST_BETWEEN if most > least else RepairNote.LOST_EXACTLY
            self.says.append(note(kind, table=name, least=least, most=most))

    def whole(self, name: str) -> bool:
        """Whether the tree of a table was read to its last row."""
        tally = self.fresh.tallies[name]
        if tally.unplaced or tally.freed or (tally.refused and not self.survey.layouts[name].rowid):
            return False
        return not self.survey.trees[name].missing or self.rooted(name) or self.accounted(name)

    def _broken(self, name: str) -> int:
        """Destroyed cells whose row is nowhere else."""
        numbers = [rowid for _, rowid in self.broken.get(name, ()) if rowid]
        unknown = len(self.broken.get(name, ())) - len(numbers)
        if self.strays(name):
            unknown = 0  # they may be copies of what was found without a tree
        return unknown + len(self.fresh.absent(name, numbers) if numbers else ())

    def _hidden(self, name: str) -> int:
        """How many rows can be in bytes of its pages that belong to no row, beyond one for each such page."""
        image, found = self.pages.image, 0
        smallest = 3 + len(self.survey.layouts[name].stored)  # a cell whose values are all NULL
        for number in self.survey.trees[name].leaves:
            if self.pages.hides(number):
                bytes_of_none = hidden_bytes(image.btree(number), number, image.usable)
                found += max(0, bytes_of_none // smallest - 1)
        return found

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
            len(image.btree(number).pointers)
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

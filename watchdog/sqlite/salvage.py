"""The page scan as a repair: rows from the damaged image into a fresh file, and an honest count of the rest."""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from watchdog.sqlite import full_text, old_indexes
from watchdog.sqlite.adoption import AMBIGUOUS, KnownRows, Losses, TablePart
from watchdog.sqlite.carve import carve
from watchdog.sqlite.format import Bad, Value, read_page, read_record
from watchdog.sqlite.from_backup import compare, correct, merge
from watchdog.sqlite.layout import Layout, best, impossible
from watchdog.sqlite.notes import RepairNote, RowDoubt, note
from watchdog.sqlite.page_scan import (
    DOUBLE,
    FREE,
    FREED,
    HIDDEN,
    MISPLACED,
    TREE,
    UNKNOWN,
    ScannedRow,
    Tree,
)
from watchdog.sqlite.rebuilt import Fresh, Tally
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import Survey, is_partial, last_integer, longest_entry, payloads, stray_leaves
from watchdog.sqlite.witnesses import UNKNOWN as UNKNOWN_TABLE

MOST_CARVED = 4000  # pages that are searched for rows byte by byte


@dataclass(frozen=True)
class Salvaged:
    tallies: Mapping[str, Tally]
    says: tuple[str, ...]
    corrected: int  # rows whose content came from another copy
    # the tables that rows could be of, UNKNOWN when none is known -> how many were set aside
    homeless: Mapping[str, int]
    nameless: int = 0  # entries of an index that is not known


class _Salvage(Losses):
    """One page scan, from claimed pages to a filled file."""

    # --- rows

    def fill(self) -> None:
        """Put every whole row of the trees, and of the strays that belong to them, into the new file."""
        survey, fresh = self.survey, self.fresh
        fresh.make_tables(survey.entries)
        tables = (survey.trees[name] for name in survey.tables())
        self.pages.find_doubles((*tables, *survey.indexes.values()))
        self._read_sequence()
        for name in survey.tables():
            if name not in fresh.tallies:
                continue
            whole: set[int] | None = None
            for part in self.parts[name]:
                if part.stray and whole is None and part.layout.rowid:
                    whole = self._listed(name)
                self._fill(name, part, whole if part.stray else None)
            self._put_misplaced()
        for tree, names in self.aside:
            self._keep_homeless(tree, names, AMBIGUOUS)
        if not survey.opened.schema_whole:
            for number in stray_leaves(self.pages)[0]:
                leaf = Tree("", number, True, leaves=array("I", [number]))
                self.pages.claim_overflow(leaf)
                self._keep_homeless(leaf, "", f"page {number}: its table is not known")
            for tree in self._not_of_full_text():
                self._keep_homeless(tree, UNKNOWN_TABLE, "its table is not known")

    def refuse_copies(self) -> None:
        """Do not hear pages of indexes that are there twice and agree with no row of their table: they are copies.

        Where pages lie in the places of others, an index that agrees with no row may be of another table.
        """
        survey = self.survey
        rows = old_indexes.Rows(self.fresh.agrees, self._named)
        moved = survey.misled_roots()[0] > 1
        for name, tree in survey.indexes.items():
            if moved and not any(old_indexes.agrees(survey, name, leaf, rows) for leaf in tree.leaves[:1]):
                survey.unsure.add(name)
            for part in (tree.leaves, tree.inner):
                for number in [number for number in part if number in self.pages.doubles]:
                    if not old_indexes.agrees(survey, name, number, rows):
                        part.remove(number)
                        tree.missing.append((None, None))
                        tree.lost_pages.append(number)

    def find_indexes(self) -> int:
        """Hear also the indexes whose first page nothing names; how many entries name rows of an unknown table."""
        if not any(stray_leaves(self.pages)[1]):
            return 0
        trees = self._without_copies(self.pages.orphans(table=False))
        found = old_indexes.find_indexes(self.survey, trees, old_indexes.Rows(self.fresh.agrees, self._named))
        self.survey.take_indexes(found.trees)
        return found.unknown

    def _keep_homeless(self, tree: Tree, names: str, why: str) -> None:
        """Keep rows of which it is not known whose they are, for a person to look at."""
        rows = [row for row in self.pages.rows(tree) if row.values is not None]
        for row in rows:
            self.fresh.aside(None, row.rowid, row.values or (), why)
        if names:
            self.homeless[names] = self.homeless.get(names, 0) + len(rows)

    def _not_of_full_text(self) -> Iterator[Tree]:
        """Leaves that were taken for a full-text index's own because they fit: their rows are not those of its table."""
        fills = {f"{fill.fts}_content": fill for fill in full_text.fills_of(self.survey.entries) if fill.text}
        for name in fills.keys() & self.parts.keys():
            fill = fills[name]
            sql = f"SELECT 1 {fill.rows} {'AND' if fill.when else 'WHERE'} new._rowid_ = ? AND ({fill.text}) IS ?"
            for part in self.parts[name][1:]:
                rows = [row.values and (row.rowid, row.values[-1]) for row in self.pages.rows(part.tree)]
                with suppress(sqlite3.Error):
                    if not any(row and self.fresh.db.execute(sql, row).fetchone() for row in rows):
                        yield part.tree

    def _fill(self, name: str, part: TablePart, listed: set[int] | None) -> None:
        fresh, layout = self.fresh, part.layout
        widths = self._index_widths(name)
        ready: list[ScannedRow] = []
        for row in self.pages.rows(part.tree):
            if listed is not None and row.rowid not in listed:
                continue  # a whole index does not know it: deleted long ago
            doubt = row.doubt or part.doubt
            if row.values is None or impossible(layout, row.values):
                self._note_destroyed(name, layout, row)
            elif row.doubt in (MISPLACED, DOUBLE):
                self.misplaced.append((part, row))
            elif len(row.values) in widths:
                fresh.put(layout, row.rowid, row.values, note(RowDoubt.INDEX_ENTRY))
            elif doubt or not layout.rowid:
                if not fresh.put(layout, row.rowid, row.values, doubt):
                    self._refused(layout, row.rowid, row.values, part.stray)
            else:
                ready.append(row)
                if len(ready) >= 500:
                    self._put_many(part, ready)
                    ready = []
        self._put_many(part, ready)

    def _note_destroyed(self, name: str, layout: Layout, row: ScannedRow) -> None:
        tally = self.fresh.tallies[name]
        if row.doubt == FREED:
            tally.freed += 1
            return
        tally.destroyed += 1
        if row.doubt != HIDDEN:  # else it may be the head of the page that is wrong
            self.broken.setdefault(name, []).append((row.page, row.rowid if layout.rowid else 0))
        # a number that another row has, or that was read twice, is as damaged as the rest of the cell
        if not (row.rowid and layout.rowid and self.fresh.lose(name, row.rowid)):
            tally.unplaced += 1

    def _index_widths(self, name: str) -> frozenset[int]:
        """How wide the entries of its indexes are that could pass for short rows of a table without rowid."""
        layout = self.survey.layouts[name]
        if layout.rowid:
            return frozenset()
        found = (len(self.survey.columns.get(index.name, ())) for index in self.survey.indexes_of(name))
        return frozenset(width for width in found if layout.least <= width < len(layout.stored))

    def _put_misplaced(self) -> None:
        """Rows whose number may be wrong come last: they take no other row's place."""
        for part, row in self.misplaced:
            layout = part.layout
            if not self.fresh.put(layout, row.rowid, row.values or (), row.doubt):
                if row.doubt == MISPLACED and layout.rowid and not part.stray:
                    tally = self.fresh.tallies[layout.table]  # another row may have been in its place
                    tally.destroyed, tally.unplaced = tally.destroyed + 1, tally.unplaced + 1
                self._refused(layout, row.rowid, row.values or (), stray=layout.rowid or part.stray)
        self.misplaced.clear()

    def _put_many(self, part: TablePart, rows: list[ScannedRow]) -> None:
        if self.fresh.put_many(part.layout, rows):
            return
        for row in rows:
            if not self.fresh.put(part.layout, row.rowid, row.values or ()):
                self._refused(part.layout, row.rowid, row.values or [], part.stray)

    def _refused(self, layout: Layout, rowid: int, values: Sequence[Value], stray: bool) -> None:
        """A row that its table refuses: a copy of one that is there, an older one, or a lost one."""
        if layout.rowid and self.fresh.same(layout, rowid, values):
            return
        self.fresh.aside(layout, rowid, values, "another row has its key")
        if stray:  # a leaf without a tree may be an old copy; a row of the tree was there
            if layout.rowid and self.in_gap(layout.table, [rowid]) and self.fresh.has(layout.table, rowid):
                self.fresh.doubt(layout.table, rowid, note(RowDoubt.TWO_ROWS))
            return
        if layout.rowid and not self.fresh.has(layout.table, rowid):
            self.fresh.lose(layout.table, rowid)
        else:
            self.fresh.tallies[layout.table].refused += 1

    def _read_sequence(self) -> None:
        tree = self.survey.trees.get("sqlite_sequence")
        for row in self.pages.rows(tree) if tree is not None else ():
            if row.values and len(row.values) == 2 and isinstance(row.values[1], int):
                self.sequence[str(row.values[0])] = row.values[1]

    # --- what else names rows

    def _listed(self, name: str) -> set[int] | None:
        """The rowids of a table by an index that names every row; None when there is no such index."""
        for index in self.survey.indexes_of(name):
            ids = self._ids(index.name)
            if ids is not None and not is_partial(index.sql) and self._names_all(name, ids):
                return ids
        return None

    def _names_all(self, name: str, ids: Collection[int]) -> bool:
        """Whether these are at least the rows that are here: an index that lacks some of them is itself old."""
        named, here = self._named(name, ids)
        return named == here

    def _named(self, name: str, ids: Collection[int]) -> tuple[int, int]:
        """How many of these rows are here, and how many rows are."""
        here = self.fresh.db.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0]
        return len(ids) - len(self.fresh.absent(name, ids)), here

    def _ids(self, index: str) -> set[int] | None:
        """The rowids that an index names; None unless it is whole."""
        tree = self.survey.indexes[index]
        if not self.survey.whole(index):
            return None
        found = set()
        for record in payloads(self.pages, tree):
            number = last_integer(record) if record is not None else None
            if number is None:
                return None
            found.add(number)
        return found

    def suspects(self) -> list[str]:
        """Tables of which something may be missing."""
        survey, fresh = self.survey, self.fresh
        found = []
        self.loose = self._loose_leaves()
        for name in survey.tables():
            if name not in fresh.tallies:
                continue
            tally, tree = fresh.tallies[name], survey.trees[name]
            rows = tally.saved + tally.reconstructed
            counts = [
                survey.cells(survey.indexes[index.name])
                for index in survey.indexes_of(name)
                if not is_partial(index.sql)
            ]
            if (
                tree.missing
                or name in self.loose
                or tally.destroyed
                or tally.freed
                or tally.refused
                or fresh.losses(name)
                or any(count > rows for count in counts)
                or any(survey.cells(tree) > rows for _, tree in self._full_text_trees(name))
            ):
                found.append(name)
        return found

    def _full_text_trees(self, name: str) -> Iterator[tuple[full_text.Fill, Tree]]:
        """The full texts of a table, and where each keeps the numbers of its rows."""
        for fill in full_text.fills_of(self.survey.entries):
            if fill.table == name and (tree := self.survey.trees.get(fill.fts + "_docsize")) is not None:
                yield fill, tree

    def reclaim(self, name: str) -> None:
        """Find rows that an index or the full text names and that are not there yet."""
        layout = self.survey.layouts[name]
        if not layout.rowid:
            return
        votes, lists = self._witnesses(name)
        gone = self.fresh.absent(name, votes)
        incomplete = name not in self.complete
        if not incomplete:  # a number read from a destroyed row that no list has may be destroyed, too
            unheard = sum(rowid not in votes for rowid in self.fresh.losses(name))
            self.disputed[name] = self.disputed.get(name, 0) + unheard
        torn = bool(self.survey.trees[name].missing) and incomplete
        hiding = incomplete and bool(self._hiding(name))
        loose = incomplete and name in self.loose
        if not gone and not torn and not hiding and not loose:
            return

        def wanted(rowid: int) -> bool:
            return rowid in gone or hiding or (torn and self.in_gap(name, [rowid]))

        self._from_strays(layout, wanted, gone)
        if loose:
            self._from_loose(layout)
        numbers = [*self.pages.destroyed()[:MOST_CARVED], *self._hiding(name)]
        for number in numbers:
            for rowid, values in carve(
                self.pages.image.page(number), self.pages.image, layout, self.pages.encoding
            ):
                if wanted(rowid) and self._bring_back(layout, rowid, values, note(RowDoubt.HEADERLESS)):
                    self._forget_numbers(name, number)
        sure = hiding or self.fresh.tallies[name].unplaced
        open_gaps = bool(self.survey.trees[name].missing) and not self.accounted(name)
        known = set(self.fresh.losses(name))
        for rowid in self.fresh.absent(name, gone):
            self.fresh.lose(name, rowid)
            missed = sure or (open_gaps and self.in_gap(name, [rowid])) or rowid in known
            denied = not votes[rowid] or any(rowid not in ids for ids in lists)
            if (not missed and votes[rowid] < 2) or denied:
                self.disputed[name] = self.disputed.get(name, 0) + 1

    def _bring_back(self, layout: Layout, rowid: int, values: Sequence[Value], doubt: str) -> bool:
        """Put a row that the tree does not reach, unless one of its number is there."""
        if self.fresh.has(layout.table, rowid) or not self.fresh.put(layout, rowid, values, doubt):
            return False
        self.found[layout.table] = self.found.get(layout.table, 0) + 1
        return True

    def _forget_numbers(self, name: str, page: int) -> None:
        """Rows lie elsewhere on a page than it says: the numbers that were read where it says are of no row."""
        broken = self.broken.get(name, [])
        for place, (number, rowid) in enumerate(broken):
            if number == page and rowid:
                broken[place] = (number, 0)
                self.fresh.tallies[name].unplaced += self.fresh.forget(name, rowid)

    def _loose_leaves(self) -> dict[str, list[int]]:
        """Leaves that are in no tree and not free, per table that alone their rows fit: a page above them is old."""
        found: dict[str, list[int]] = {}
        if not self.pages.free_complete or self.survey.opened.header is None:
            return found
        layouts = [layout for layout in self.survey.layouts.values() if layout.rowid]
        for number in stray_leaves(self.pages)[0]:
            leaf = Tree("", number, True, leaves=array("I", [number]))
            self.pages.claim_overflow(leaf)
            rows = [row.values for row in self.pages.rows(leaf) if row.values is not None]
            names = {layout.table for layout in best(layouts, rows)} if rows else set()
            if len(names) > 1:  # of tables of one shape it is the one that does not have these numbers yet
                numbers = [row.rowid for row in self.pages.rows(leaf) if row.rowid]
                names = {
                    name
                    for name in names & self.fresh.tallies.keys()
                    if len(self.fresh.absent(name, numbers)) == len(numbers)
                }
            if len(names) == 1 and names <= self.fresh.tallies.keys():
                found.setdefault(names.pop(), []).append(number)
        return found

    def _from_loose(self, layout: Layout) -> None:
        for number in self.loose[layout.table]:
            leaf = Tree(layout.table, number, True, leaves=array("I", [number]))
            self.pages.claim_overflow(leaf)
            for row in self.pages.rows(leaf):
                if row.values is not None:
                    self._bring_back(layout, row.rowid, row.values, row.doubt or note(RowDoubt.LOOSE))
            self.pages.claims[number] = TREE

    def _hiding(self, name: str) -> list[int]:
        """Leaves of a table with bytes that are neither a row nor free."""
        return [number for number in self.survey.trees[name].leaves if self.pages.hides(number)]

    def _from_strays(self, layout: Layout, wanted, gone: set[int]) -> None:
        """Rows on leaves that nothing claims, and on pages that the list of free pages claims."""
        for claim in (UNKNOWN, FREE):
            for number in range(2, self.pages.image.pages + 1):
                if self.pages.claims[number] != claim:
                    continue
                data = self.pages.image.page(number)
                if data[0] != 13:
                    continue
                try:
                    read_page(data, number, self.pages.image.usable)
                except Bad:
                    continue
                leaf = Tree(layout.table, number, True, leaves=array("I", [number]))
                if claim == UNKNOWN:
                    self.pages.claim_overflow(leaf)
                for row in self.pages.rows(leaf):
                    fits = row.values is not None and best([layout], [row.values])
                    if not fits or not wanted(row.rowid) or (claim == FREE and row.rowid not in gone):
                        continue
                    doubt = row.doubt or (note(RowDoubt.LISTED_FREE) if claim == FREE else "")
                    self._bring_back(layout, row.rowid, row.values or (), doubt)

    def _witnesses(self, name: str) -> tuple[Counter[int], list[set[int]]]:
        """The rowids that indexes and full text name, with how many do, and those of each that names every row.

        A whole index makes the table complete.
        """
        found: Counter[int] = Counter()
        lists: list[set[int]] = []  # of the indexes that name every row
        texts: list[set[int]] = []  # of the full texts that do
        for index in self.survey.indexes_of(name):
            tree = self.survey.indexes[index.name]
            ids = self._ids(index.name)
            if ids is not None:
                found.update(ids)
                if not is_partial(index.sql) and self._names_all(name, ids):
                    lists.append(ids)
            else:
                for record in payloads(self.pages, tree):
                    number = last_integer(record) if record is not None else None
                    if record is not None and number is not None:
                        # a part that no first page joins may be of deleted rows, and the end of a long entry may lie
                        # on another's page: they name without being sure
                        sure = (
                            tree.root
                            and index.name not in self.survey.unsure
                            and len(record) <= longest_entry(self.pages.image.usable)
                        )
                        found[number] += bool(sure)
        for fill, tree in self._full_text_trees(name):
            ids = set(self.pages.rowids(tree))
            found.update(ids)
            if not fill.when and not tree.missing and self._names_all(name, ids):
                texts.append(ids)
        if lists:
            self.complete.add(name)
            # what only a full text names, which may lag behind, was deleted
            found = Counter({rowid: n for rowid, n in found.items() if any(rowid in ids for ids in lists)})
        return found, [*lists, *texts]

    def note_losses(self, name: str) -> None:
        """Put rows together of which indexes hold every column; keep what is known of the others."""
        layout, fresh = self.survey.layouts[name], self.fresh
        lost = set(fresh.losses(name))
        if not lost or not layout.rowid:
            return
        keys = tuple(column.name for column in sorted(layout.stored, key=lambda one: one.pk) if column.pk)
        together: dict[int, dict[str, Value]] = {}
        for index in self.survey.indexes_of(name):
            columns = self.survey.columns.get(index.name, ())[:-1]
            for record in payloads(self.pages, self.survey.indexes[index.name]):
                if record is None or last_integer(record) not in lost:
                    continue
                try:
                    *values, rowid = read_record(record, self.pages.encoding)
                except Bad:
                    continue
                assert isinstance(rowid, int)
                if columns == keys:
                    fresh.lost_keys.setdefault(name, set()).add(tuple(values))
                together.setdefault(rowid, {}).update(zip(columns, values, strict=False))
        needed = {column for position, column in enumerate(layout.names) if position != layout.alias}
        put = 0
        for rowid, known in together.items():
            whole = known.keys() >= needed and not fresh.has(name, rowid)
            if whole and fresh.put(layout, rowid, [known.get(column) for column in layout.names], exact=True):
                put += 1
                continue
            for column, value in known.items():
                fresh.note(name, rowid, "lost; from an index", column, value)
        if put:
            self.says.append(note(RepairNote.TOGETHER, table=name, rows=put))
        self._note_texts(name, lost)

    def _note_texts(self, name: str, lost: set[int]) -> None:
        """A full-text index keeps a copy of each text: keep it before the index is made anew."""
        for fill in full_text.fills_of(self.survey.entries):
            tree = self.survey.trees.get(fill.fts + "_content")
            if fill.table == name and tree is not None:
                for row in self.pages.rows_of(tree, lost):
                    if row.values and len(row.values) > 1 and not row.doubt:
                        why = f"lost; text from {fill.fts}"
                        self.fresh.note(name, row.rowid, why, fill.values, row.values[1])

    def compare_texts(self) -> None:
        """Each message is kept three times; a row that differs from two copies that agree was altered."""
        by_table: dict[str, list[tuple[full_text.Fill, Tree]]] = {}
        for fill in full_text.fills_of(self.survey.entries):
            tree = self.survey.trees.get(fill.fts + "_content")
            if tree is not None and fill.text and fill.table in self.fresh.tallies:
                by_table.setdefault(fill.table, []).append((fill, tree))
        for copies in by_table.values():
            compare(self.fresh, self.pages, copies)

    def keep_sequence(self) -> dict[str, int]:
        """AUTOINCREMENT: a number that was given is not given again."""
        for name in self.survey.tables():
            if name in self.fresh.tallies and "AUTOINCREMENT" in self.survey.layouts[name].sql.upper():
                most = self.fresh.db.execute(f"SELECT max(_rowid_) FROM {quoted(name)}").fetchone()[0]
                numbers = [self.sequence.get(name, 0), most or 0, *self.fresh.losses(name)]
                if any(numbers):
                    self.sequence[name] = max(numbers)
        return self.sequence


def salvage(
    survey: Survey, fresh: Fresh, guessed: Mapping[str, tuple[Layout, ...]], known: KnownRows
) -> Salvaged:
    """Scan, fill, count the losses, and put back from the backup what it still has of them."""
    work = _Salvage(survey, fresh, guessed)
    work.adopt()
    work.fill()
    work.refuse_copies()
    nameless = work.find_indexes()
    for name in known.emptied & fresh.tallies.keys():
        survey.trees[name].missing.append((None, None))
    suspects = work.suspects()
    for name in suspects:
        work.reclaim(name)
        work.note_losses(name)
    work.compare_texts()
    if known.backup:
        for name in fresh.doubtful:
            correct(fresh, known.backup, survey.layouts[name])
        _merge(work, suspects, known)
    for name in suspects:
        work.count(name, known)
    fresh.finish(survey.entries, work.keep_sequence())
    return Salvaged(fresh.tallies, tuple(work.says), fresh.corrected, work.homeless, nameless)


def _merge(work: _Salvage, suspects: Iterable[str], known: KnownRows) -> None:
    for name in suspects:
        exact = (name in work.complete or work.whole(name)) and name not in known.emptied
        gaps = None if exact else work.survey.trees[name].missing
        work.says += merge(work.fresh, known.backup, work.survey.layouts[name], gaps)

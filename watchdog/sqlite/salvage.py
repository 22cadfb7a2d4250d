"""The page scan as a repair: rows from the damaged image into a fresh file, and an honest count of what is missing."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from watchdog.sqlite import checks
from watchdog.sqlite.fresh import Fresh, Tally
from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.layout import Layout, best, layout_of
from watchdog.sqlite.making import make
from watchdog.sqlite.merge import mend, merge
from watchdog.sqlite.opening import Opened
from watchdog.sqlite.pages import Tree
from watchdog.sqlite.raw import Entry, Value
from watchdog.sqlite.reference import quoted, shadows
from watchdog.sqlite.texts import compare

NOTHING: Mapping[str, int] = {}
UNBELIEVABLE = 1_000_000    # rows missing by the gaps in the numbers: such a table is numbered with gaps
SAMPLE = 200        # rows of an orphan tree that must all fit before it is given to a table


@dataclass(frozen=True)
class Salvaged:
    tallies: Mapping[str, Tally]
    says: tuple[str, ...]
    mended: int             # rows whose content was put right


class _Work:
    """One page scan from walk to file."""

    def __init__(self, opened: Opened, entries: Sequence[Entry], guessed: Mapping[str, tuple[Layout, ...]]):
        self.opened, self.pages = opened, opened.pages
        self.entries = list(entries)
        self.guessed = guessed
        self.says: list[str] = list(opened.says)
        tables = [(entry.name, entry.sql) for entry in entries if entry.type == "table"]
        self.inner = shadows(tables)
        self.layouts = {name: layout for name, sql in tables
                        if not is_virtual(sql) and (layout := layout_of(name, sql)) is not None}
        self._expect_full_text()
        self.trees: dict[str, Tree] = {}
        self.indexes: dict[str, tuple[Tree, str]] = {}
        self.parts: dict[str, list[tuple[Tree, Layout]]] = {name: [] for name in self.layouts}

    def _expect_full_text(self) -> None:
        """The inner tables of a full-text index whose schema rows are lost: their leaves must not pass for others'."""
        for name in sorted(self.inner - self.layouts.keys()):
            part = name.rsplit("_", 1)[1]
            columns = {"data": "block BLOB NOT NULL", "content": "c0 TEXT", "docsize": "sz BLOB NOT NULL"}.get(part)
            if columns:
                sql = f"CREATE TABLE {quoted(name)}(id INTEGER PRIMARY KEY, {columns})"
                layout = layout_of(name, sql)
                if layout is not None:
                    self.layouts[name] = layout
                    self.entries.append(Entry("table", name, name, 0, sql))

    def claim(self) -> None:
        for entry in self.entries:
            layout = self.layouts.get(entry.name) if entry.type == "table" else None
            if layout is not None:
                tree = Tree(entry.name, entry.root, layout.rowid, layout)
                self.trees[entry.name] = tree
                self.parts[entry.name].append((tree, layout))
                if entry.root:
                    self.pages.walk(tree)
                else:
                    tree.missing.append((None, None))
        for entry in self.entries:
            if entry.type == "index" and entry.root:
                tree = Tree(entry.name, entry.root, False)
                self.indexes[entry.name] = (tree, entry.table)
                self.pages.walk(tree)
        header = self.opened.header
        if header:
            self.pages.claim_free(header.free_head, header.free_count)
        else:
            self.pages.free_complete = False
        for tree in (*self.trees.values(), *(tree for tree, _ in self.indexes.values())):
            self.pages.claim_overflow(tree)
        self.pages.find_free()

    def adopt(self) -> None:
        """Give leaves without a tree to the tables that miss some."""
        torn = [name for name, tree in self.trees.items() if tree.missing and self.layouts[name].rowid]
        if not torn:
            return
        orphans = self.pages.orphans()
        for tree in orphans:
            self.pages.claim_overflow(tree)
        for tree in orphans:
            rows = [row for row in islice(self.pages.rows(_sample(tree)), SAMPLE) if row.values is not None]
            if not rows:
                continue
            layouts = [layout for name in torn if self._in_gap(name, [row.rowid for row in rows])
                       for layout in (self.layouts[name], *self.guessed.get(name, ()))]
            values = [row.values for row in rows if row.values is not None]
            fitting = best(layouts, values)
            names = {layout.table for layout in fitting}
            if len(names) == 1:
                width = max(len(row) for row in values)
                certain = len({layout.names[:width] for layout in fitting}) == 1
                tree.layout = fitting[0]
                self.parts[fitting[0].table].append((tree, fitting[0]))
                if not certain:
                    self.says.append(f"the order of the columns of {fitting[0].table} is a guess")
                    tree.name = "guess"
            elif names and names <= self.inner:
                self.parts[fitting[0].table].append((tree, fitting[0]))     # full text: to be made anew in any case
            elif names:
                self.says.append(f"{len(tree.leaves)} leaf pages could be of {' or '.join(sorted(names))}; set aside")
                tree.name = "aside"
                self.parts.setdefault("", []).append((tree, fitting[0]))

    def _in_gap(self, name: str, rowids: Sequence[int]) -> bool:
        return any(all((low is None or rowid > low) and (high is None or rowid <= high) for rowid in rowids)
                   for low, high in self.trees[name].missing)

    def fill(self, fresh: Fresh) -> dict[str, int]:
        fresh.make_tables(self.entries)
        for name, parts in self.parts.items():
            if name in self.inner or name.startswith("sqlite_"):
                continue
            for number, (tree, layout) in enumerate(parts):
                for row in self.pages.rows(tree):
                    if tree.name == "aside":
                        fresh.aside(None, row.rowid, row.values or (), "could belong to more than one table")
                        continue
                    doubt = row.doubt or ("the order of its columns is a guess" if tree.name == "guess" else "")
                    if row.values is None or len(row.values) > len(layout.stored):
                        if row.rowid and layout.rowid:
                            fresh.lose(name, row.rowid)
                        else:
                            fresh.tallies[name].unplaced += 1
                    elif not fresh.put(layout, row.rowid, row.values, doubt):
                        self._refused(fresh, layout, row.rowid, row.values, orphan=number > 0)
        return self._sequence(fresh)

    def _refused(self, fresh: Fresh, layout: Layout, rowid: int, values: list, orphan: bool) -> None:
        """A row that its table refuses: a copy of one that is there, an older one, or a lost one."""
        if layout.rowid and fresh.same(layout, rowid, values):
            return
        fresh.aside(layout, rowid, values, "another row has its key")
        if not orphan:      # a leaf without a tree may be an old copy; a row of the tree was there
            fresh.tallies[layout.table].lost += 1

    def _sequence(self, fresh: Fresh) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for tree, _ in self.parts.get("sqlite_sequence", ()):
            for row in self.pages.rows(tree):
                if row.values and len(row.values) == 2 and isinstance(row.values[1], int):
                    numbers[str(row.values[0])] = row.values[1]
        for name, layout in self.layouts.items():
            if "AUTOINCREMENT" in layout.sql.upper() and name in fresh.tallies:
                most = fresh.db.execute(f"SELECT max(_rowid_) FROM {quoted(name)}").fetchone()[0]
                if most:
                    numbers[name] = max(numbers.get(name, 0), most)
        return numbers

    def torn_tables(self, fresh: Fresh) -> list[str]:
        """Tables of which something is known to be missing."""
        known = {name for (name,) in fresh.db.execute("SELECT DISTINCT tbl FROM evidence")}
        return [name for name in fresh.tallies
                if name in known or fresh.tallies[name].unplaced or self.trees[name].missing]

    def witness(self, fresh: Fresh, name: str) -> bool:
        """Count what is lost from the indexes, which name every row. True when one index is whole."""
        whole = False
        if not self.layouts[name].rowid:
            return False
        keys = tuple(column.name for column in sorted(self.layouts[name].stored, key=lambda one: one.pk) if column.pk)
        indexes = list(self._whole_indexes(name))
        told = {column for _, columns in indexes for column in columns}
        together: dict[int, dict[str, Value]] = {}
        for tree, columns in indexes:
            bad = bool(tree.missing)
            for row in self.pages.rows(tree):
                if row.values is None or not isinstance(row.values[-1], int):
                    bad = True
                elif not fresh.has(name, row.values[-1]):
                    fresh.lose(name, row.values[-1])
                    if columns == keys:
                        fresh.lost_keys.setdefault(name, set()).add(tuple(row.values[:-1]))
                    if told.issuperset(_needed(self.layouts[name])) and not row.doubt:
                        together.setdefault(row.values[-1], {}).update(zip(columns, row.values, strict=False))
                        continue
                    for column, value in zip(columns, row.values[:-1], strict=False):
                        fresh.note(name, row.values[-1], "lost; from an index", column, value)
            whole = whole or not bad
        self._put_together(fresh, self.layouts[name], together)
        return self._full_text(fresh, name) or whole

    def _put_together(self, fresh: Fresh, layout: Layout, rows: Mapping[int, Mapping[str, Value]]) -> None:
        """Rows of which indexes hold every column, such as links that are all key."""
        put = 0
        for rowid, values in rows.items():
            whole = self._in_gap(layout.table, [rowid]) and values.keys() >= set(_needed(layout))
            if whole and fresh.put(layout, rowid, [values.get(column) for column in layout.names], backup=True):
                put += 1
                continue
            for column, value in values.items():
                fresh.note(layout.table, rowid, "lost; from an index", column, value)
        if put:
            self.says.append(f"{layout.table}: {put} rows put together from their indexes")

    def _whole_indexes(self, table: str) -> Iterator[tuple[Tree, tuple[str, ...]]]:
        """The indexes that name every row of a table, with their columns."""
        for index, (tree, of) in self.indexes.items():
            sql = next((entry.sql for entry in self.entries if entry.type == "index" and entry.name == index), "")
            if of == table and " WHERE " not in sql.upper().replace("\n", " "):
                yield tree, self._index_columns(table, index, sql)

    def _index_columns(self, table: str, index: str, sql: str) -> tuple[str, ...]:
        db = sqlite3.connect(":memory:")
        try:
            make(db, self.layouts[table].sql)
            if sql:
                make(db, sql)
            return tuple(str(row[2]) for row in db.execute(f"PRAGMA index_info({quoted(index)})"))
        except sqlite3.Error:
            return ()
        finally:
            db.close()

    def compare_texts(self, fresh: Fresh) -> None:
        """Each message is kept three times; a row that differs from two copies that agree was altered."""
        by_table: dict[str, list[tuple[checks.Fill, Tree]]] = {}
        for fill in checks.fills({(entry.type, entry.name): entry.sql for entry in self.entries}):
            tree = self.trees.get(fill.fts + "_content")
            if tree is not None and fill.text and fill.table in fresh.tallies:
                by_table.setdefault(fill.table, []).append((fill, tree))
        for copies in by_table.values():
            compare(fresh, self.pages, copies)

    def rooted(self, name: str) -> bool:
        """Whether a table whose root was unknown was found as one whole tree."""
        parts = self.parts[name]
        return not parts[0][0].root and len(parts) == 2 and not parts[1][0].missing

    def untouched(self) -> bool:
        """Whether nothing but page 1 and the schema is destroyed: then no row can be lost."""
        header, image = self.opened.header, self.pages.image
        if image.torn or (header and header.counts_itself and header.pages > image.pages):
            return False
        if any(tree.missing for parts in self.parts.values() for tree, _ in parts if tree.root):
            return False            # without a header the size proves nothing, but the trees know where they went on
        return self.pages.destroyed() <= self.opened.schema_gaps

    def holes(self, fresh: Fresh, name: str, last: int) -> int:
        """Rowids that are free where pages are missing: at most so many rows are lost, and at least one."""
        count = 0
        bounds = [bound for tree, _ in self.parts[name] for gap in tree.missing for bound in gap if bound is not None]
        last = max([last, *bounds])
        for low, high in self.trees[name].missing:
            first, most = fresh.db.execute(f"SELECT min(_rowid_), max(_rowid_) FROM {quoted(name)}").fetchone()
            low = low if low is not None else (first or 1) - 1
            high = high if high is not None else max(last, most or 0)
            there = fresh.db.execute(f"SELECT count(*) FROM {quoted(name)} WHERE _rowid_ > ? AND _rowid_ <= ?",
                                     (low, high)).fetchone()[0]
            count += max(0, high - low - there)
        return count if 0 < count < UNBELIEVABLE else 1

    def _full_text(self, fresh: Fresh, name: str) -> bool:
        """A full-text index keeps a copy of each text: salvage it before it is thrown away."""
        whole = False
        wanted = {(entry.type, entry.name): entry.sql for entry in self.entries}
        for fill in checks.fills(wanted):
            for part in ("_content", "_docsize"):
                tree = self.trees.get(fill.fts + part)
                if fill.table != name or tree is None:
                    continue
                for row in self.pages.rows(tree):
                    if row.rowid and not fresh.has(name, row.rowid):
                        fresh.lose(name, row.rowid)
                        if part == "_content" and row.values and len(row.values) > 1 and not row.doubt:
                            fresh.note(name, row.rowid, f"lost; text from {fill.fts}", fill.values, row.values[1])
                whole = whole or not tree.missing
        return whole


def _needed(layout: Layout) -> tuple[str, ...]:
    """The columns that a record holds itself; a rowid under another name is known from the entry."""
    return tuple(name for position, name in enumerate(layout.names) if position != layout.alias)


def _sample(tree: Tree) -> Tree:
    """Leaves from all over a tree, the last first: the newest rows have the most columns."""
    step = max(1, len(tree.leaves) // 20)
    return Tree(tree.name, tree.root, True, leaves=array("I", [tree.leaves[-1], *tree.leaves[:-1:step]]))


def salvage(opened: Opened, fresh: Fresh, entries: Sequence[Entry], guessed: Mapping[str, tuple[Layout, ...]],
            backup: str = "", emptied: frozenset[str] = frozenset(), known: Mapping[str, int] = NOTHING) -> Salvaged:
    """Scan, fill, count the losses, and put back from the backup what it still has of them."""
    work = _Work(opened, entries, guessed)
    work.claim()
    work.adopt()
    sequence = work.fill(fresh)
    work.compare_texts(fresh)
    for name in emptied & fresh.tallies.keys():
        work.trees[name].missing.append((None, None))
    if backup:
        for name in work.layouts.keys() & fresh.doubtful.keys():
            mend(fresh, backup, work.layouts[name])
    torn = work.torn_tables(fresh)
    untouched = bool(torn) and work.untouched()
    for name in torn:
        complete = work.witness(fresh, name) or untouched or work.rooted(name)
        before = fresh.losses(name)
        if backup:
            exact = complete and name not in emptied
            work.says += merge(fresh, backup, work.layouts[name], None if exact else work.trees[name].missing)
        losses, tally = fresh.losses(name), fresh.tallies[name]
        if complete:
            tally.lost += len(losses)
        else:
            last = max([sequence.get(name, 0), *before])
            guess = work.holes(fresh, name, last) if work.layouts[name].rowid else max(1, tally.unplaced)
            tally.lost += max(len(losses), guess, known.get(name, 0) - tally.saved - tally.reconstructed)
        if "AUTOINCREMENT" in work.layouts[name].sql.upper():
            sequence[name] = max(sequence.get(name, 0), *before, 0)     # a number that was given is not given again
        if not complete:
            work.says.append(f"{name}: no index is whole, so the number of lost rows is an estimate")
    fresh.finish(work.entries, sequence)
    return Salvaged(fresh.tallies, tuple(work.says), fresh.mended)

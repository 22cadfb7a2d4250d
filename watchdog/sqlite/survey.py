"""Every page of a damaged image and whose it is: trees, overflow chains, free pages, strays."""

from __future__ import annotations

import sqlite3
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise

from watchdog.sqlite.damaged_file import Opened
from watchdog.sqlite.format import (
    INDEX_INTERIOR,
    INDEX_LEAF,
    INT_SIZES,
    TABLE_LEAF,
    Bad,
    SchemaObject,
    Value,
    payload,
    read_cell,
    read_page,
    varint,
)
from watchdog.sqlite.layout import Layout, fit, layout_of
from watchdog.sqlite.page_scan import (
    OVERFLOW,
    TREE,
    UNKNOWN,
    ZEROED,
    Pages,
    Range,
    Tree,
    between,
    has_zeroed_sector,
    header_types,
    sort_key,
)
from watchdog.sqlite.roots import by_their_rows
from watchdog.sqlite.schema import is_virtual, make, quoted, shadows

MOST_EXCHANGED = 4  # leaves that are looked for in the trees of others


class Survey:
    """The trees of a schema walked over an image, each page claimed by one of them."""

    def __init__(self, opened: Opened, entries: Sequence[SchemaObject]):
        self.opened, self.pages, self.entries = opened, opened.pages, list(entries)
        self.given = tuple(entries)
        tables = [(entry.name, entry.sql) for entry in entries if entry.type == "table"]
        self.inner = shadows(tables)  # the tables that full-text indexes keep for themselves
        self.layouts = {
            name: layout
            for name, sql in tables
            if not is_virtual(sql) and (layout := layout_of(name, sql)) is not None
        }
        self._expect_full_text()
        self.trees: dict[str, Tree] = {}
        self.indexes: dict[str, Tree] = {}
        self.columns = index_columns(entries)
        self._whole: dict[str, bool] = {}
        self.unsure: set[str] = set()  # indexes that may be of another table: pages lie where others should
        # parts of torn tables, once they were looked for; {} when it is not certain whose they are
        self.grafts: dict[str, list[Tree]] | None = None
        self._claim()

    def tables(self) -> list[str]:
        """The tables that hold the user's rows."""
        return [name for name in self.layouts if name not in self.inner and not name.startswith("sqlite_")]

    def believes_wrong_pages(self) -> bool:
        """Whether SQLite would take pages of another table or index for those of a table."""
        torn = any(not layout.rowid and self.trees[name].missing for name, layout in self.layouts.items())
        return self.misled or torn

    def indexes_of(self, table: str) -> list[SchemaObject]:
        return [
            entry
            for entry in self.entries
            if entry.type == "index" and entry.table == table and entry.name in self.indexes
        ]

    def _expect_full_text(self) -> None:
        """Name the inner tables of a full-text index whose schema rows are lost.

        Their leaves must not pass for another table's.
        """
        if self.opened.schema_whole:
            return
        kept = {"data": "block BLOB NOT NULL", "content": "c0 TEXT", "docsize": "sz BLOB NOT NULL"}
        for name in sorted(self.inner - self.layouts.keys()):
            columns = kept.get(name.rsplit("_", 1)[1])
            sql = f"CREATE TABLE {quoted(name)}(id INTEGER PRIMARY KEY, {columns})"
            layout = layout_of(name, sql) if columns else None
            if layout is not None:
                self.layouts[name] = layout
                self.entries.append(SchemaObject("table", name, name, sql))

    def _claim(self) -> None:
        entries, self.alike = by_their_rows(self.pages, self.entries, self.layouts, self.columns)
        self.misled = entries != self.entries  # the schema has wrong first pages
        self.entries = entries
        for entry in self.entries:
            layout = self.layouts.get(entry.name) if entry.type == "table" else None
            if layout is not None:
                tree = self.trees[entry.name] = Tree(entry.name, entry.root, layout.rowid, layout)
                tree.sorts_by_bytes = not layout.rowid and _sorts_by_bytes(layout.sql)
                if not layout.rowid:
                    tree.widths = self._row_widths(layout)
                if entry.root:
                    self.pages.walk(tree)
                    self._refuse_foreign(tree, layout)
                else:
                    tree.missing.append((None, None))
        for entry in self.entries:
            if entry.type == "index" and entry.root:
                tree = self.indexes[entry.name] = Tree(entry.name, entry.root, False)
                made = self.layouts.get(entry.table)
                tree.sorts_by_bytes = made is not None and _sorts_by_bytes(entry.sql + made.sql)
                if entry.name in self.columns:
                    tree.widths = frozenset({len(self.columns[entry.name])})
                self.pages.walk(tree)
        self._find_exchanged()
        header = self.opened.header
        if header:
            self.pages.claim_free(header.free_head, header.free_count)
        else:
            self.pages.free_complete = False
        for tree in (*self.trees.values(), *self.indexes.values()):
            self.pages.claim_overflow(tree)
        self.pages.find_free()
        if "sqlite_sequence" not in self.trees:
            self._find_sequence()

    def _find_exchanged(self) -> None:
        """Give leaves back to a table that misses one and leads to a sound one of another: that has its leaf instead."""
        tables = [tree for tree in self.trees.values() if tree.table and tree.layout]
        loose = [
            (tree, gap, number)
            for tree in tables
            for gap, number in zip(tree.missing, tree.lost_pages, strict=False)
            if tree.above and self._is_loose_leaf(number)
        ]
        for tree, gap, number in (
            loose if len(loose) <= MOST_EXCHANGED else ()
        ):  # more is an old interior page
            found = [
                (other, leaf)
                for other in tables
                if other is not tree
                for leaf in other.leaves
                if self._begins_in(tree, leaf, gap)
                and self._all_fit(tree, leaf, gap)
                and (
                    self._all_fit(other, number, self._place(other, leaf)) or self._better(tree, other, leaf)
                )
            ]
            if len(found) == 1:
                self._exchange(tree, (gap, number), *found[0])

    def _exchange(self, tree: Tree, missing: tuple[Range, int], other: Tree, leaf: int) -> None:
        """Move a leaf to the tree that misses it, and the page that this one leads to the other way, where it fits."""
        gap, number = missing
        place, at = self._place(other, leaf), other.leaves.index(leaf)
        if self._all_fit(other, number, place):
            other.leaves[at] = number
            self.pages.claims[number] = TREE
        else:
            other.leaves.remove(leaf)
            other.missing.append(place)
            other.lost_pages.append(leaf)
        tree.missing.remove(gap)
        tree.lost_pages.remove(number)
        tree.leaves.append(leaf)
        self.misled = True

    def _is_loose_leaf(self, number: int) -> bool:
        with suppress(Bad, IndexError, struct.error):
            if 0 < number <= self.pages.image.pages and self.pages.claims[number] == UNKNOWN:
                page = self.pages.image.btree(number)
                return page.kind == TABLE_LEAF and bool(page.pointers)
        return False

    def _begins_in(self, tree: Tree, number: int, gap: Range) -> bool:
        """Whether the first row of a leaf is as wide as those of a table, and belongs into a gap."""
        assert tree.layout
        page = self.pages.image.btree(number)
        try:
            cell = read_cell(page, page.pointers[0], self.pages.image.usable)
        except (Bad, IndexError):
            return False
        types = header_types(cell, len(tree.layout.stored)) if between(cell.rowid, *gap) else None
        return types is not None and len(types) == len(tree.layout.stored)

    def _all_fit(self, tree: Tree, number: int, gap: Range) -> bool:
        """Whether all rows of a leaf have the columns of a table, and belong into a gap."""
        assert tree.layout
        rows = [row for row in self.pages.rows(_leaf(number)) if row.values is not None]
        return bool(rows) and all(
            len(row.values or ()) == len(tree.layout.stored)
            and fit(tree.layout, row.values or ()) >= 0
            and between(row.rowid, *gap)
            for row in rows
        )

    def _better(self, tree: Tree, other: Tree, number: int) -> bool:
        """Whether the rows of a leaf fit one table better than another, by their types or their width."""
        assert tree.layout and other.layout
        rows = [row.values for row in self.pages.rows(_leaf(number)) if row.values is not None]
        return all(
            len(row) < len(other.layout.stored) or fit(tree.layout, row) > fit(other.layout, row)
            for row in rows
        )

    def _place(self, tree: Tree, number: int) -> Range:
        """The numbers that the rows of a leaf can have, by its neighbours."""
        at = tree.leaves.index(number)
        before, after = tree.leaves[max(0, at - 1) : at], tree.leaves[at + 1 : at + 2]
        low = max((rowid for leaf in before for rowid in self.pages.rowids(_leaf(leaf))), default=None)
        high = min((rowid for leaf in after for rowid in self.pages.rowids(_leaf(leaf))), default=None)
        return low, high and high - 1

    def _row_widths(self, layout: Layout) -> frozenset[int]:
        """How many values a row of a table without rowid has: its indexes, with fewer, must not pass for it."""
        of_indexes = {
            len(self.columns.get(entry.name, ())) for entry in self.entries if entry.table == layout.table
        }
        return frozenset(range(layout.least, len(layout.stored))) - of_indexes | {len(layout.stored)}

    def _some_rows(self, tree: Tree, most: int = 60) -> list[list[Value]]:
        """Rows from the beginning, the middle and the end of a tree."""
        leaves = tree.leaves
        picked = Tree(tree.name, tree.root, tree.table)
        picked.leaves.extend(
            dict.fromkeys([leaves[0], leaves[len(leaves) // 2], leaves[-1]]) if leaves else ()
        )
        return [row.values for row in islice(self.pages.rows(picked), most) if row.values is not None]

    def _refuse_foreign(self, tree: Tree, layout: Layout) -> None:
        """Give back a tree whose rows are all another table's: the schema leads to the wrong page."""
        rows = self._some_rows(tree)
        if not rows or any(fit(layout, values) >= 0 for values in rows):
            return
        others = (
            other for other in self.layouts.values() if other.rowid is layout.rowid and other is not layout
        )
        if any(all(fit(other, values) >= 0 for values in rows) for other in others):
            self._disown(tree)

    def _disown(self, tree: Tree) -> None:
        self.pages.release(tree)
        tree.missing[:] = [(None, None)]
        for part in (tree.leaves, tree.inner, tree.above, tree.lost_pages):
            del part[:]
        tree.lost_pages.append(tree.root)

    def _find_sequence(self) -> None:
        """The counters of AUTOINCREMENT, known by the names in them, when the schema does not tell where."""
        counted = {name for name, layout in self.layouts.items() if "AUTOINCREMENT" in layout.sql.upper()}
        for number in stray_leaves(self.pages)[0] if counted else ():
            tree = Tree("sqlite_sequence", number, True)
            tree.leaves.append(number)
            rows = [row.values for row in self.pages.rows(tree)]
            if rows and all(
                values and len(values) == 2 and values[0] in counted and isinstance(values[1], int)
                for values in rows
            ):
                self.trees["sqlite_sequence"] = tree
                self.pages.claims[number] = TREE
                return

    def take_indexes(self, trees: Mapping[str, Tree]) -> None:
        """Take trees that were found for indexes whose own are gone."""
        self.indexes.update(trees)
        for name in trees:
            self._whole.pop(name, None)

    def whole(self, index: str) -> bool:
        """Whether an index was read to its last entry."""
        if index not in self._whole:
            tree = self.indexes[index]
            self._whole[index] = not tree.missing and not any(
                map(self.pages.hides, (*tree.leaves, *tree.inner))
            )
        return self._whole[index] and index not in self.unsure

    def may_miss(self, table: str, rowid: int) -> bool:
        """Whether a row may have been on a page that is gone, or hidden on one that is there."""
        tree = self.trees[table]
        return tree.lacks(rowid) or any(map(self.pages.hides, tree.leaves))

    def zeroed(self) -> Iterator[tuple[str, int]]:
        """Rows with a page of zeros in their content: (table, rowid), 0 for a row without one."""
        pages, image = self.pages, self.pages.image
        chained = (number for number in range(2, image.pages + 1) if pages.claims[number] == OVERFLOW)
        contents = (image.page(number).rstrip(b"\0") for number in chained)  # a content may end on its page
        if not any(not content or has_zeroed_sector(content) for content in contents):
            return
        for name in self.tables():
            yield from (
                (name, row.rowid)
                for row in pages.rows(self.trees[name])
                if row.values is not None and row.doubt == ZEROED
            )

    def out_of_order(self, table: str, descending: Sequence[bool]) -> int:
        """How many rows of a table without rowid come before their neighbour on the same page, though after it by their key."""
        pages, found = self.pages, 0
        for number in self.trees[table].leaves:
            leaf = Tree(table, number, False, leaves=array("I", [number]))
            keys = (
                [sort_key(value, pages.encoding) for value in row.values[: len(descending)]]
                for row in pages.rows(leaf)
                if row.values is not None and not row.doubt
            )
            for one, two in pairwise(keys):
                differ = [
                    (a > b) is not down for a, b, down in zip(one, two, descending, strict=False) if a != b
                ]
                found += bool(differ and differ[0])
        return found

    def rows_are_gone(self) -> bool:
        """Whether a table misses pages, and no leaf lies about that could be of it."""
        torn = [name for name in self.tables() if self.layouts[name].rowid and self.trees[name].missing]
        return bool(torn) and not stray_leaves(self.pages)[0]

    def misled_roots(self) -> tuple[int, int]:
        """How many first pages are sound and of something else than the list of tables says; and how many it lists."""
        listed = [
            (entry.root, (self.indexes if entry.type == "index" else self.trees).get(entry.name))
            for entry in self.entries
            if entry.root
        ]
        trees = [(root, tree) for root, tree in listed if tree is not None]
        wrong = 0
        for root, tree in trees:
            reached = tree.root == root and (tree.leaves or tree.inner or tree.above)
            if not reached and root <= self.pages.image.pages:
                with suppress(Bad):
                    wrong += bool(self.pages.image.btree(root).pointers)
        return wrong, len(trees)

    def misfits(self) -> bool:
        """Whether the list of tables is of another file, or of another time: sound pages are not what it says."""
        wrong, listed = self.misled_roots()
        header = self.opened.header  # of page 1, whatever the commits of the -wal count
        declared = header.pages if header and header.counts_itself else 0
        counts = declared in (0, self.pages.image.pages)
        if 0 < declared < self.pages.image.pages and self.pages.free_complete:
            tables, indexes = stray_leaves(self.pages)
            if max((*tables, *indexes), default=0) > declared:
                return True  # on a page that it does not count, and that nothing leads to
        return wrong > 1 and (not counts or 3 * wrong > listed)

    def pages_gone(self) -> bool:
        """Whether pages are cut off or destroyed that neither a tree nor the list of tables misses."""
        image = self.pages.image
        beyond = range(image.in_file + 1, image.pages + 1)
        if image.torn or self.opened.declared > image.pages or any(not image.there(page) for page in beyond):
            return True
        trees = (*self.trees.values(), *self.indexes.values())
        missed = {number for tree in trees if tree.root for number in tree.lost_pages}
        gone = (number for number in self.pages.destroyed() if number not in missed)
        return sum(not self.pages.continues(number) for number in gone) > self.opened.schema_gaps

    def cells(self, tree: Tree) -> int:
        """How many rows or entries lie in a tree, by its page headers."""
        image = self.pages.image
        numbers = tree.leaves if tree.table else (*tree.leaves, *tree.inner)
        return sum(
            struct.unpack_from(">H", image.page(number), (100 if number == 1 else 0) + 3)[0]
            for number in numbers
        )


def _leaf(number: int) -> Tree:
    return Tree("", number, True, leaves=array("I", [number]))


def _sorts_by_bytes(sql: str) -> bool:
    return not any(word in sql.upper() for word in ("COLLATE", "DESC"))


def is_partial(sql: str) -> bool:
    """Whether an index names only some of the rows."""
    return " WHERE " in " ".join(sql.upper().split())


def index_columns(entries: Sequence[SchemaObject]) -> dict[str, tuple[str, ...]]:
    """The columns of each index record, the key of the row last; '' for an expression."""
    found: dict[str, tuple[str, ...]] = {}
    db = sqlite3.connect(":memory:")
    try:
        for kind in ("table", "index"):
            for entry in entries:
                if entry.type == kind and entry.sql and not is_virtual(entry.sql):
                    try:
                        make(db, entry.sql)
                    except (sqlite3.Error, ValueError):
                        continue
        # SQLite's own indexes, of UNIQUE and PRIMARY KEY, are among them when the schema has lost their names
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'").fetchall():
            rows = db.execute(f"PRAGMA index_xinfo({quoted(name)})").fetchall()
            found[name] = tuple(str(row[2] or "") for row in rows)
    finally:
        db.close()
    return found


def payloads(pages: Pages, tree: Tree) -> Iterator[bytes | None]:
    """The record of each cell of an index tree; None for one that cannot be read."""
    image, usable = pages.image, pages.image.usable
    most = longest_entry(usable)
    for number in (*tree.leaves, *tree.inner):
        page = image.btree(number)
        data, skip = page.data, 4 if page.kind == INDEX_INTERIOR else 0
        for at in page.pointers:
            begin = at + skip
            size = data[begin]
            if size < 128 and size <= most and begin + 1 + size <= usable:
                yield data[begin + 1 : begin + 1 + size]
                continue
            try:
                cell = read_cell(page, at, usable)
                yield payload(image, cell)
            except Bad:
                yield None


def longest_entry(usable: int) -> int:
    """How long an entry of an index can be without an overflow page."""
    return (usable - 12) * 64 // 255 - 23


def last_integer(record: bytes) -> int | None:
    """The last value of a record when it is an integer, and the record as long as it says: the rowid of an entry."""
    try:
        end, at = varint(record, 0)
        kind, size = 0, end
        while at < end:
            kind, at = varint(record, at)
            size += (kind - 12) // 2 if kind > 11 else INT_SIZES[kind]
    except IndexError:
        return None
    if size != len(record):
        return None
    if kind in (8, 9):
        return kind - 8
    width = INT_SIZES[kind] if kind < 7 else 0
    return int.from_bytes(record[-width:], "big", signed=True) if width else None


def stray_interiors(pages: Pages) -> array:
    """Interior pages of indexes, or of tables without rowid, whose rows they hold, too, that nothing claims."""
    found = array("I")
    for number in range(2, pages.image.pages + 1):
        if not pages.claims[number] and pages.image.page(number)[0] == INDEX_INTERIOR:
            with suppress(Bad, IndexError, struct.error):
                if pages.image.btree(number).pointers:
                    found.append(number)
    return found


def stray_leaves(pages: Pages) -> tuple[array, array]:
    """Leaves that nothing claims: of tables, and of indexes or tables without rowid."""
    tables, indexes = array("I"), array("I")
    for number in range(2, pages.image.pages + 1):
        if pages.claims[number]:
            continue
        data = pages.image.page(number)
        if data[0] not in (TABLE_LEAF, INDEX_LEAF):
            continue
        try:
            page = read_page(data, number, pages.image.usable)
        except (Bad, IndexError, struct.error):
            continue
        if page.pointers:
            (tables if page.kind == TABLE_LEAF else indexes).append(number)
    return tables, indexes

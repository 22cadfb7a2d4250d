"""The page scan: every row that is still whole, found from the trees and from leaves that lost their tree.

Memory is bounded by the number of pages (one byte of claim and four of list each), never by their content.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from unicodedata import category

from watchdog.sqlite.format import (
    INDEX_INTERIOR,
    INDEX_LEAF,
    TABLE_INTERIOR,
    TABLE_LEAF,
    Bad,
    Cell,
    Image,
    Page,
    Text,
    Value,
    chain,
    children,
    local_size,
    payload,
    read_cell,
    read_page,
    read_record,
    signed,
    varint,
)
from watchdog.sqlite.layout import Layout, impossible
from watchdog.sqlite.notes import RowDoubt, note

UNKNOWN, TREE, OVERFLOW, FREE, CONTESTED = range(5)
DEEPEST = 20
SECTOR = 512
SMALLEST = 4  # bytes of a cell, as SQLite counts them
(
    HIDDEN,
    OVERLAPS,
    DOUBLE,
    FREED,
    MISPLACED,
    ZEROED,
    STALE,
    BESIDE,
    CHAIN_END,
    STRANGE_SIGNS,
    HOLE,
    NOT_TEXT,
) = map(
    note,
    (
        RowDoubt.HIDDEN,
        RowDoubt.OVERLAPS,
        RowDoubt.DOUBLE,
        RowDoubt.FREED,
        RowDoubt.MISPLACED,
        RowDoubt.ZEROED,
        RowDoubt.STALE,
        RowDoubt.BESIDE,
        RowDoubt.CHAIN_END,
        RowDoubt.STRANGE_SIGNS,
        RowDoubt.HOLE,
        RowDoubt.NOT_TEXT,
    ),
)
Range = tuple[int | None, int | None]  # rowids above the first and up to the second
Key = int | tuple  # a rowid, or the values of an index entry as they sort


@dataclass
class Tree:
    """One b-tree: the pages that were reached, and the ranges of rowids that were not."""

    name: str
    root: int
    table: bool
    layout: Layout | None = None
    sorts_by_bytes: bool = False  # an index whose entries have no order of their own (COLLATE, DESC)
    widths: frozenset[int] = frozenset()  # how many values an entry of an index can have; empty: not known
    leaves: array = field(default_factory=lambda: array("I"))
    inner: array = field(default_factory=lambda: array("I"))  # interior pages of an index: they hold entries
    above: array = field(default_factory=lambda: array("I"))  # interior pages of a table
    missing: list[Range] = field(default_factory=list)
    lost_pages: array = field(default_factory=lambda: array("I"))  # what should have been there, by number
    bounds: dict[int, Range] = field(default_factory=dict)  # of leaves on which a rowid is out of its place

    def lacks(self, rowid: int) -> bool:
        """Whether a page is gone on which a row with this number would have been."""
        return any(between(rowid, *gap) for gap in self.missing)


class ScannedRow:
    """One row; `values` is None when it is not whole, `doubt` says why it may not be what was written.

    `page` is that of a row that is not whole.
    """

    __slots__ = ("doubt", "page", "rowid", "values")

    def __init__(self, rowid: int, values: list[Value] | None, doubt: str = "") -> None:
        self.rowid, self.values, self.doubt, self.page = rowid, values, doubt, 0


class Pages:
    """The claims on the pages of one database image, and the rows read under them."""

    def __init__(
        self,
        image: Image,
        encoding: str = "utf-8",
        tick: Callable[[int], None] | None = None,
        auto_vacuum: bool = False,
    ):
        self.image, self.encoding, self.auto_vacuum = image, encoding, auto_vacuum
        self.claims = bytearray(image.pages + 1)
        self.free_complete = True
        self.astray = False  # an interior page that no tree has leads to pages of others
        self.freed: set[int] = set()  # pages of trees that the list of free pages names, too
        self.doubles: set[int] = set()  # pages of trees that are there twice
        self._hidden = bytearray(image.pages + 1)  # per page: 0 not looked at, 1 hides nothing, 2 hides bytes
        self._chained = bytearray(image.pages + 1)  # leaves whose overflow pages are claimed
        self.tick = tick or (lambda pages: None)
        lock = (1 << 30) // image.page_size + 1  # SQLite never uses the page with its lock bytes
        if lock <= image.pages:
            self.claims[lock] = FREE
        if auto_vacuum:  # a map after every so many pages tells the parent of each
            for number in range(2, image.pages + 1, image.usable // 5 + 1):
                if number + (number == lock) <= image.pages:
                    self.claims[number + (number == lock)] = FREE

    # --- claims

    def walk(self, tree: Tree) -> None:
        """Claim the pages of a tree from its root; what does not fit its place is left for others."""
        stack: list[tuple[int, tuple[Key | None, Key | None], int]] = [(tree.root, (None, None), 0)]
        while stack:
            number, place, depth = stack.pop()
            page = self._fitting(tree, number, place, depth)
            low, high = place
            if page is None:
                tree.missing.append((low, high) if tree.table else (None, None))  # type: ignore[arg-type]
                tree.lost_pages.append(number)
                continue
            self.claims[number] = TREE
            self.tick(1)
            if page.leaf:
                tree.leaves.append(number)
                continue
            (tree.above if tree.table else tree.inner).append(number)
            below, kids = low, []
            for child, key in children(page) if tree.table else self._entries(tree, page):
                kids.append((child, (below, high if key is None else key), depth + 1))
                below = key
            stack.extend(reversed(kids))

    def _entries(self, tree: Tree, page: Page) -> Iterator[tuple[int, Key | None]]:
        """(child page, the entry that follows it) of an interior page of an index."""
        for (child, _), at in zip(children(page), (*page.pointers, None), strict=True):
            yield child, self._entry(page, at) if at is not None and tree.sorts_by_bytes else None

    def _entry(self, page: Page, at: int) -> Key | None:
        """An entry of an index as it sorts; None when it cannot be read."""
        try:
            record = payload(self.image, read_cell(page, at, self.image.usable))
            return tuple(sort_key(value, self.encoding) for value in read_record(record, self.encoding))
        except (Bad, IndexError, struct.error):
            return None

    def _fitting(
        self, tree: Tree, number: int, place: tuple[Key | None, Key | None], depth: int
    ) -> Page | None:
        if not 0 < number <= self.image.pages or self.claims[number] != UNKNOWN or depth > DEEPEST:
            return None
        try:
            page = self.image.btree(number)
            if page.kind not in (
                (TABLE_INTERIOR, TABLE_LEAF) if tree.table else (INDEX_INTERIOR, INDEX_LEAF)
            ):
                return None
            if depth and page.leaf and not page.pointers:
                return None  # SQLite takes an empty leaf out of its tree: this one was written by another
            if not tree.table and tree.widths and not self._as_wide(page, tree.widths):
                return None
            keys = [key for key in self._keys(page, tree) if key is not None]
            if not tree.table and not page.leaf:
                list(children(page))
            if any(not between(key, *place) for key in keys) or keys != sorted(set(keys)):
                if not tree.table or not page.leaf or not self._mostlybetween(page, *place):
                    return None
                tree.bounds[number] = place  # type: ignore[assignment]
            below = [child for child, _ in children(page)] if tree.table and not page.leaf else []
            if len(set(below)) != len(below) or any(child < 2 for child in below):
                return None  # torn in part: its leaves are found without it, and each by what lies on it
        except (Bad, IndexError, struct.error):
            return None
        return page

    def _as_wide(self, page: Page, widths: frozenset[int]) -> bool:
        """Whether the first and the last entry of a page have as many values as the tree's entries."""
        for at in dict.fromkeys(page.pointers[:1] + page.pointers[-1:]):
            try:
                types = header_types(read_cell(page, at, self.image.usable))
            except Bad:
                continue  # a damaged entry does not make its neighbours homeless
            if types is not None and len(types) not in widths:
                return False
        return True

    def _keys(self, page: Page, tree: Tree) -> Iterator[Key | None]:
        """The keys that prove a page's place: all of an interior page of a table, else the first and the last."""
        layout = tree.layout
        if tree.table and not page.leaf:
            yield from (key for _, key in children(page))
            return
        for at in dict.fromkeys(page.pointers[:1] + page.pointers[-1:]):
            if not tree.table:
                yield self._entry(page, at) if tree.sorts_by_bytes else None
                continue
            try:
                cell = read_cell(page, at, self.image.usable)
            except Bad:
                continue  # a damaged row does not make its neighbours homeless
            if layout and not shape_fits(cell, layout):
                raise Bad("rows of another table")
            yield cell.rowid

    def _mostlybetween(self, page: Page, low: Key | None, high: Key | None) -> bool:
        """Whether at least half of the rows of a leaf belong there: a damaged rowid costs its own row alone."""
        inside = 0
        for at in page.pointers:
            try:
                inside += between(read_cell(page, at, self.image.usable).rowid, low, high)
            except Bad:
                continue
        return (low is not None or high is not None) and 2 * inside >= len(page.pointers)

    def claim_free(self, head: int, count: int) -> None:
        """Claim the free pages: what lies on them was deleted."""
        found, number, seen = 0, head, set()
        while number:
            entries = self._trunk(number, strict=False)
            if entries is None or number in seen:
                break
            seen.add(number)
            found += 1 + len(entries)
            for page in (number, *entries):
                self.claims[page] = FREE
            number = struct.unpack_from(">I", self.image.page(number))[0]
        self.free_complete = number == 0 and found == count

    def find_free(self) -> None:
        """When the list of free pages is damaged: recognise its pages by their shape."""
        if self.free_complete:
            return
        for number in range(2, self.image.pages + 1):
            entries = self._trunk(number) if self.claims[number] == UNKNOWN else None
            if entries:
                for page in (number, *entries):
                    self.claims[page] = FREE

    def _trunk(self, number: int, strict: bool = True) -> tuple[int, ...] | None:
        if not 1 < number <= self.image.pages or self.claims[number] != UNKNOWN:
            return None
        data = self.image.page(number)
        following, count = struct.unpack_from(">2I", data)
        if count > self.image.usable // 4 - 2 or following > self.image.pages:
            return None
        entries = struct.unpack_from(f">{count}I", data, 8)
        if len(set(entries)) != count or any(
            not 1 < page <= self.image.pages or page == number or self.claims[page] == FREE
            for page in entries
        ):
            return None
        if any(self.claims[page] != UNKNOWN for page in entries):
            if strict:
                return None
            self.freed.update(page for page in entries if self.claims[page] != UNKNOWN)
        return tuple(page for page in entries if self.claims[page] == UNKNOWN)

    def claim_overflow(self, tree: Tree) -> None:
        """Claim the overflow pages of a tree's rows; a page that two rows want belongs to neither."""
        for number in (*tree.leaves, *tree.inner):
            if self._chained[number]:
                continue
            self._chained[number] = 1
            self.tick(1)
            page = self.image.btree(number)
            data, skip, most = page.data, *_fits_on_page(page.kind, self.image.usable)
            for at in page.pointers:
                size = data[at + skip]
                if size > 127:
                    size = size << 7 & 0x3F80 | data[at + skip + 1] & 127 | (data[at + skip + 1] & 128) << 24
                if size <= most:
                    continue  # most rows have no overflow: looked at without reading the cell
                try:
                    cell = read_cell(page, at, self.image.usable)
                    pages = chain(self.image, cell) if cell.overflow else []
                except Bad:
                    continue
                if any(self.claims[number] in (TREE, FREE) for number in pages):
                    continue
                for number in pages:
                    self.claims[number] = OVERFLOW if self.claims[number] == UNKNOWN else CONTESTED

    def orphans(self, table: bool = True) -> list[Tree]:
        """Pages of tables, or of indexes, that no tree reaches: whole subtrees first, then single leaves.

        They belong to no one yet.
        """
        kinds = (TABLE_INTERIOR, TABLE_LEAF) if table else (INDEX_INTERIOR, INDEX_LEAF)
        tops, leaves = [], []
        below: set[int] = set()
        for number in range(2, self.image.pages + 1):
            if self.claims[number] != UNKNOWN:
                continue
            self.tick(1)
            data = self.image.page(number)
            if data[0] not in kinds:
                continue
            try:
                page = read_page(data, number, self.image.usable)
                if page.leaf:
                    leaves.append(number)
                else:
                    below.update(child for child, _ in children(page))
                    tops.append(number)
            except (Bad, IndexError, struct.error):
                continue
        found = []
        roots = [number for number in tops if number not in below] + leaves
        met = set(roots)  # each has one turn: old interior pages may lead in a circle
        for root in roots:
            tree = Tree("", root, table)
            if self.claims[root] == UNKNOWN:
                self.walk(tree)
            if self._led_astray(tree):
                self.astray = True
                self.release(tree)
                roots += [number for number in (*tree.above, *tree.inner, *tree.leaves) if number not in met]
                met.update(tree.above, tree.inner, tree.leaves)
            elif tree.leaves:
                found.append(tree)
        return found

    def _led_astray(self, tree: Tree) -> bool:
        """Whether an interior page leads to sound pages of others more than to leaves: it is of another time, or place."""
        others = 0
        for number in tree.lost_pages:
            with suppress(Bad):
                others += 0 < number <= self.image.pages and bool(self.image.btree(number))
        return others > len(tree.leaves)

    def release(self, tree: Tree) -> None:
        """Give the pages of a tree back: it turned out to belong to no table."""
        for number in (*tree.leaves, *tree.inner, *tree.above):
            self.claims[number] = UNKNOWN

    def destroyed(self) -> list[int]:
        """Pages that belong to nothing and look like nothing: what was on them is unknown."""
        found = []
        for number in range(2, self.image.pages + 1):
            if self.claims[number] == UNKNOWN:
                try:
                    self.image.btree(number)
                except Bad:
                    found.append(number)
        return found

    def continues(self, number: int) -> bool:
        """Whether a page looks like a part of a long text: an overflow page, whose row may be gone."""
        data = self.image.page(number)
        text = data[4 : self.image.usable].rstrip(b"\0")
        if not text or struct.unpack_from(">I", data)[0] > self.image.pages:
            return False
        whole = (
            4 if self.encoding == "utf-8" else 0
        )  # a sign may begin on the page before, or end on the next
        while whole and 0x80 <= text[0] < 0xC0:
            text, whole = text[1:], whole - 1
        try:
            text.decode(self.encoding)
        except UnicodeDecodeError as error:
            return error.start >= len(text) - 3
        return True

    # --- rows

    def rows(self, tree: Tree) -> Iterator[ScannedRow]:
        """Every row of a tree, whole or not."""
        for number in (*tree.leaves, *tree.inner):
            self.tick(1)
            page = self.image.btree(number)
            low, high = tree.bounds.get(number, (None, None))
            whole, torn = True, False
            for row in self._rows_of(page, self.image.there(number), tree.layout):
                if row.values is not None and number in self.doubles:
                    row.doubt = DOUBLE
                elif row.values is not None and tree.table and not between(row.rowid, low, high):
                    row.doubt = MISPLACED
                elif number in self.image.stale:
                    row.doubt = row.doubt or STALE
                torn = torn or row.doubt in (OVERLAPS, MISPLACED)
                if row.values is None:
                    row.page, whole = number, False
                yield row
            if whole and self.hides(number):  # else such bytes are of the destroyed rows
                yield ScannedRow(0, None, HIDDEN)
            elif torn and not whole:  # half of the page is an old one; what the other half had is not known
                yield from (ScannedRow(0, None, FREED) for _ in page.pointers)

    def rowids(self, tree: Tree) -> Iterator[int]:
        """The numbers of the rows of a table; those of sound leaves are read without the rows."""
        for number in tree.leaves:
            numbers = self._numbers(number, tree)
            if numbers is None:
                leaf = Tree(tree.name, number, True, tree.layout, leaves=array("I", [number]))
                numbers = [row.rowid for row in self.rows(leaf) if row.rowid]
            yield from numbers

    def rows_of(self, tree: Tree, wanted: Set[int]) -> Iterator[ScannedRow]:
        """The rows of a table with these numbers; leaves that have none of them are passed over."""
        for number in tree.leaves:
            numbers = self._numbers(number, tree)
            if numbers is None or not wanted.isdisjoint(numbers):
                leaf = Tree(tree.name, number, True, tree.layout, leaves=array("I", [number]))
                yield from (row for row in self.rows(leaf) if row.rowid in wanted)

    def _numbers(self, number: int, tree: Tree) -> list[int] | None:
        """The numbers of the rows of one leaf, read without the rows; None when it is not as sound as that needs."""
        page, usable = self.image.btree(number), self.image.usable
        if number in tree.bounds or number in self.doubles or self.image.there(number) < usable:
            return None
        data, found = page.data, []
        try:
            for at in page.pointers:
                while data[at] > 127:
                    at += 1
                rowid, at = varint(data, at + 1)
                found.append(signed(rowid))
        except IndexError:
            return None
        rising = all(low < high for low, high in pairwise(found))
        return found if rising and not self.hides(number) else None

    def hides(self, number: int) -> bool:
        """Whether a page has bytes that are neither a cell nor free: a cell that it no longer counts."""
        if not self._hidden[number]:
            page = self.image.btree(number)
            hidden = hidden_bytes(page, number, self.image.usable)
            self._hidden[number] = 2 if hidden >= SMALLEST else 1
        return self._hidden[number] == 2

    def sampled(self, tree: Tree, most: int) -> Iterator[ScannedRow]:
        """Whole rows from all over a tree, at most so many of each leaf, read without their neighbours."""
        for number in (*tree.leaves, *tree.inner):
            page = self.image.btree(number)
            for at in page.pointers[:: len(page.pointers) // most + 1]:
                try:
                    row = self._row(read_cell(page, at, self.image.usable))
                except Bad:
                    continue
                if row.values is not None and self.image.there(number) == self.image.page_size:
                    yield row

    def find_doubles(self, trees: Iterable[Tree]) -> None:
        """Note the pages of trees that are there twice, byte for byte: one of them was written over another page."""
        numbers = array(
            "I", (number for tree in trees for number in (*tree.leaves, *tree.inner, *tree.above))
        )
        hashes = array("q", (hash(self.image.page(number)) for number in numbers))
        seen: set[int] = set()
        twice = {code for code in hashes if code in seen or seen.add(code)}  # type: ignore[func-returns-value]
        self.doubles = {
            number
            for number, code in zip(numbers, hashes, strict=True)
            if code in twice and self.image.btree(number).pointers
        }

    def _rows_of(self, page: Page, there: int, layout: Layout | None = None) -> Iterator[ScannedRow]:
        found: list[tuple[int, int, ScannedRow]] = []  # begin, end, row
        for at in page.pointers:
            try:
                cell = read_cell(page, at, self.image.usable)
            except Bad:
                found.append((at, at, ScannedRow(0, None, self._unreadable(page, at))))
                continue
            if cell.end > there:  # its rowid is in its first 18 bytes
                found.append(
                    (
                        cell.begin,
                        cell.end,
                        ScannedRow(cell.rowid if cell.begin + 18 <= there else 0, None, "cut off"),
                    )
                )
            else:
                row = self._row(cell)
                if row.values is not None and layout is not None and impossible(layout, row.values):
                    row = ScannedRow(row.rowid, None, "unreadable")
                if row.values is None and _is_freeblock(page, at, self.image.usable):
                    row = ScannedRow(0, None, FREED)
                found.append((cell.begin, cell.end, row))
        if page.kind == TABLE_LEAF and not _rising(found):
            rows = _in_order([row for _, _, row in found])
            found = [(begin, end, row) for (begin, end, _), row in zip(found, rows, strict=True)]
        # Rows are yielded as their pointers stand, in the order of their keys; neighbours are those on the page.
        lying = sorted(found, key=lambda item: item[0])
        for number, (begin, end, row) in enumerate(lying):
            before = lying[number - 1] if number else None
            after = lying[number + 1] if number + 1 < len(lying) else None
            if (before and before[1] > begin) or (after and end > after[0]):
                row.doubt = OVERLAPS
            elif not row.doubt and (
                (before and before[2].values is None) or (after and after[2].values is None)
            ):
                row.doubt = BESIDE
        yield from (row for _, _, row in found)

    def _unreadable(self, page: Page, at: int) -> str:
        return FREED if _is_freeblock(page, at, self.image.usable) else "unreadable"

    def _row(self, cell: Cell) -> ScannedRow:
        try:
            if cell.overflow and any(self.claims[number] != OVERFLOW for number in chain(self.image, cell)):
                return ScannedRow(cell.rowid, None, "its overflow pages are claimed by something else")
            values = read_record(payload(self.image, cell), self.encoding)
        except Bad as error:
            return self._endless(cell) or ScannedRow(
                cell.rowid, None, str(error) if cell.overflow else "unreadable"
            )
        return ScannedRow(
            cell.rowid, values, doubt_about(values) or self._garbled(values) or self._zeroed(cell, values)
        )

    def _zeroed(self, cell: Cell, values: Sequence[Value]) -> str:
        """A disk may give zeros for a page; in a text they show by themselves."""
        if not cell.overflow or not any(isinstance(value, bytes) for value in values):
            return ""
        *pages, last = chain(self.image, cell, endless=True)
        used = 4 + cell.size - len(cell.local) - len(pages) * (self.image.usable - 4)
        whole = [self.image.page(number) for number in pages] + [self.image.page(last)[:used]]
        return ZEROED if any(map(has_zeroed_sector, whole)) else ""

    def _garbled(self, values: Sequence[Value]) -> str:
        """Noise is hardly ever valid UTF-8, but often valid UTF-16: there it shows in signs that do not exist."""
        if self.encoding == "utf-8":
            return ""
        texts = (value for value in values if isinstance(value, str))
        strange = any(category(char) in ("Cn", "Co") for text in texts for char in text if char > "\x7f")
        return STRANGE_SIGNS if strange else ""

    def _endless(self, cell: Cell) -> ScannedRow | None:
        """A row whose pages are all there and belong to no other row, though the last one does not say that it is the
        last.
        """
        try:
            if not cell.overflow or any(
                self.claims[number] != UNKNOWN for number in chain(self.image, cell, endless=True)
            ):
                return None
            values = read_record(payload(self.image, cell, endless=True), self.encoding)
        except Bad:
            return None
        return ScannedRow(cell.rowid, values, doubt_about(values) or CHAIN_END)


def _rising(found: Sequence[tuple[int, int, ScannedRow]]) -> bool:
    """Whether every row is whole and their numbers rise, as on any sound leaf."""
    numbers = [row.rowid for _, _, row in found if row.values is not None]
    return len(numbers) == len(found) and all(low < high for low, high in pairwise(numbers))


def _in_order(rows: list[ScannedRow]) -> list[ScannedRow]:
    """Rowids rise along a leaf: what breaks the longest such rise has a rowid as damaged as the rest of it."""
    tails: list[int] = []  # the least rowid that ends a rise of each length, and where it is
    last_rows: list[int] = []
    before: dict[int, int] = {}
    for number, row in enumerate(rows):
        if row.values is not None:
            length = bisect_left(tails, row.rowid)
            tails[length : length + 1] = [row.rowid]
            last_rows[length : length + 1] = [number]
            before[number] = last_rows[length - 1] if length else -1
    rise, number = set(), last_rows[-1] if last_rows else -1
    while number >= 0:
        rise.add(number)
        number = before[number]
    ordered, last = [], None
    later = [rows[number].rowid for number in sorted(rise)]
    for number, row in enumerate(rows):
        if number in rise:
            last = later.pop(0)
        elif row.values is not None:
            row.doubt = MISPLACED
        elif (last is not None and row.rowid <= last) or (later and row.rowid >= later[0]):
            row = ScannedRow(0, None, row.doubt)
        ordered.append(row)
    return ordered


def has_zeroed_sector(page: bytes) -> bool:
    """Whether a sector of an overflow page reads as zeros."""
    zeros = bytes(SECTOR)
    return zeros in page and any(page[at : at + SECTOR] == zeros for at in range(0, len(page), SECTOR))


def doubt_about(values: Sequence[Value]) -> str:
    """Why values that decode may still not be what was written: Hermes writes valid text."""
    for value in values:
        if type(value) is str:
            if "\0\0\0\0\0\0\0\0" in value:
                return HOLE
        elif type(value) is Text:
            return NOT_TEXT
    return ""


def between(key: Key, low: Key | None, high: Key | None) -> bool:
    return (low is None or key > low) and (high is None or key <= high)  # type: ignore[operator]


def sort_key(value: Value, encoding: str) -> tuple:
    """A value as SQLite sorts it: NULL, numbers, text, blobs."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, str | Text):
        return 2, value.encode(encoding) if isinstance(value, str) else value.raw
    return 3, value


def header_types(cell: Cell, most: int = 2000) -> list[int] | None:
    """The types in the header of a record, one more than `most` of them at most; None when the header overflows."""
    try:
        end, at = varint(cell.local, 0)
        if end > len(cell.local):
            return None  # the row will tell
        types: list[int] = []
        while at < end and len(types) <= most:
            kind, at = varint(cell.local, at)
            types.append(kind)
    except IndexError:
        return None
    return types


def shape_fits(cell: Cell, layout: Layout) -> bool:
    """Whether the record header can be a row of this table: by the number of columns, and NULL for the rowid."""
    types = header_types(cell, len(layout.stored))
    if types is None:
        return True
    if not layout.least <= len(types) <= len(layout.stored):
        return False
    return layout.alias < 0 or layout.alias >= len(types) or types[layout.alias] == 0


def _is_freeblock(page: Page, at: int, usable: int) -> bool:
    """Whether a cell begins as SQLite leaves one that was deleted: with the next such place, and its own size."""
    following, size = struct.unpack_from(">2H", page.data, at)
    return 4 <= size <= usable - at and (following == 0 or at + size <= following <= usable - 4)


def _fits_on_page(kind: int, usable: int) -> tuple[int, int]:
    """Where the payload size stands in a cell, and the greatest payload that needs no overflow page."""
    table = kind == TABLE_LEAF
    return 4 if kind == INDEX_INTERIOR else 0, usable - 35 if table else (usable - 12) * 64 // 255 - 23


def _cell_size(page: Page, at: int, usable: int) -> int:
    """How many bytes of its page a cell takes."""
    data, skip = page.data, 4 if page.kind in (INDEX_INTERIOR, TABLE_INTERIOR) else 0
    size, end = varint(data, at + skip)
    if page.kind == TABLE_INTERIOR:
        return max(4, end - at)
    if page.kind == TABLE_LEAF:
        while data[end] > 127 and end < at + 18:
            end += 1
        end += 1
    kept = local_size(size, usable, page.kind == TABLE_LEAF)
    return max(4, end - at + kept + (4 if kept < size else 0))


def hidden_bytes(page: Page, number: int, usable: int) -> int:
    """Bytes of a page that are neither a cell nor free: a cell that the page no longer counts."""
    base = 100 if number == 1 else 0
    used = base + (8 if page.leaf else 12) + 2 * len(page.pointers)
    freeblock, _, start = struct.unpack_from(">3H", page.data, base + 1)
    try:
        for at in page.pointers:
            used += _cell_size(page, at, usable)
    except IndexError:
        return 0  # the row will tell
    seen = 0
    while freeblock and freeblock + 4 <= usable and seen < usable:
        following, size = struct.unpack_from(">2H", page.data, freeblock)
        if size < 4 or freeblock + size > usable or (following and following < freeblock + size):
            break  # what is free behind it is not known
        used, seen, freeblock = used + size, seen + 1, following
    gap = (start or 65536) - (base + (8 if page.leaf else 12) + 2 * len(page.pointers))
    return max(0, usable - used - gap - page.data[base + 7])

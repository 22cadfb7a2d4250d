"""The page scan: every row that is still whole, found from the trees and from leaves that lost their tree.

Memory is bounded by the number of pages (one byte of claim and four of list each), never by their content.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from watchdog.sqlite.layout import Layout
from watchdog.sqlite.raw import (
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
    payload,
    read_cell,
    read_page,
    read_record,
    varint,
)

UNKNOWN, TREE, OVERFLOW, FREE, CONTESTED = range(5)
DEEPEST = 20
Range = tuple[int | None, int | None]       # rowids above the first and up to the second


@dataclass
class Tree:
    """One b-tree: the pages that were reached, and the ranges of rowids that were not."""

    name: str
    root: int
    table: bool
    layout: Layout | None = None
    leaves: array = field(default_factory=lambda: array("I"))
    inner: array = field(default_factory=lambda: array("I"))
    missing: list[Range] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One row; `values` is None when it is not whole, `doubt` says why it may not be what was written."""

    rowid: int
    values: list[Value] | None
    doubt: str = ""


class Pages:
    """The claims on the pages of one database image, and the rows read under them."""

    def __init__(self, image: Image, encoding: str = "utf-8", tick: Callable[[int], None] | None = None):
        self.image, self.encoding = image, encoding
        self.claims = bytearray(image.pages + 1)
        self.free_complete = True
        self.tick = tick or (lambda pages: None)
        lock = (1 << 30) // image.page_size + 1         # SQLite never uses the page with its lock bytes
        if lock <= image.pages:
            self.claims[lock] = FREE

    # --- claims ------------------------------------------------------------------------------------------------------

    def walk(self, tree: Tree) -> None:
        """Claim the pages of a tree from its root; what does not fit its place is left for others."""
        stack: list[tuple[int, int | None, int | None, int]] = [(tree.root, None, None, 0)]
        while stack:
            number, low, high, depth = stack.pop()
            page = self._fitting(tree, number, low, high, depth)
            if page is None:
                tree.missing.append((low, high))
                continue
            self.claims[number] = TREE
            self.tick(1)
            if page.leaf:
                tree.leaves.append(number)
                continue
            if not tree.table:
                tree.inner.append(number)
            below, kids = low, []
            for child, key in children(page):
                kids.append((child, below, high if key is None else key, depth + 1))
                below = key
            stack.extend(reversed(kids))

    def _fitting(self, tree: Tree, number: int, low: int | None, high: int | None, depth: int) -> Page | None:
        if not 0 < number <= self.image.pages or self.claims[number] != UNKNOWN or depth > DEEPEST:
            return None
        try:
            page = read_page(self.image.page(number), number, self.image.usable)
            if page.kind not in ((TABLE_INTERIOR, TABLE_LEAF) if tree.table else (INDEX_INTERIOR, INDEX_LEAF)):
                return None
            if tree.table:
                keys = list(self._keys(page, tree.layout))
                if any(not _between(key, low, high) for key in keys) or keys != sorted(set(keys)):
                    return None
                below = [] if page.leaf else [child for child, _ in children(page)]
                if len(set(below)) != len(below) or any(child < 2 for child in below):
                    return None     # torn in part: its leaves are found without it, and each by what lies on it
            elif not page.leaf:
                list(children(page))
        except (Bad, IndexError, struct.error):
            return None
        return page

    def _keys(self, page: Page, layout: Layout | None) -> Iterator[int]:
        """The keys that prove a page's place: all of an interior page, the ends of a leaf."""
        if not page.leaf:
            yield from (key for _, key in children(page) if key is not None)
            return
        for at in dict.fromkeys(page.pointers[:1] + page.pointers[-1:]):
            try:
                cell = read_cell(page, at, self.image.usable)
            except Bad:
                continue            # a damaged row does not make its neighbours homeless
            if layout and not _shape_fits(cell, layout):
                raise Bad("rows of another table")
            yield cell.rowid

    def claim_free(self, head: int, count: int) -> None:
        """Claim the free pages: what lies on them was deleted."""
        found, number, seen = 0, head, set()
        while number:
            entries = self._trunk(number)
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

    def _trunk(self, number: int) -> tuple[int, ...] | None:
        if not 1 < number <= self.image.pages or self.claims[number] != UNKNOWN:
            return None
        data = self.image.page(number)
        following, count = struct.unpack_from(">2I", data)
        if count > self.image.usable // 4 - 2 or following > self.image.pages:
            return None
        entries = struct.unpack_from(f">{count}I", data, 8)
        if len(set(entries)) != count or any(
                not 1 < page <= self.image.pages or self.claims[page] != UNKNOWN or page == number for page in entries):
            return None
        return entries

    def claim_overflow(self, tree: Tree) -> None:
        """Claim the overflow pages of a tree's rows; a page that two rows want is nobody's."""
        for number in (*tree.leaves, *tree.inner):
            self.tick(1)
            page = read_page(self.image.page(number), number, self.image.usable)
            for at in page.pointers:
                try:
                    cell = read_cell(page, at, self.image.usable)
                    pages = chain(self.image, cell) if cell.overflow else []
                except Bad:
                    continue
                if any(self.claims[one] in (TREE, FREE) for one in pages):
                    continue
                for one in pages:
                    self.claims[one] = OVERFLOW if self.claims[one] == UNKNOWN else CONTESTED

    def orphans(self) -> list[Tree]:
        """Table pages that no tree reaches: whole subtrees first, then single leaves. They belong to no one yet."""
        tops, leaves = [], []
        below: set[int] = set()
        for number in range(2, self.image.pages + 1):
            if self.claims[number] != UNKNOWN:
                continue
            self.tick(1)
            data = self.image.page(number)
            if data[0] not in (TABLE_INTERIOR, TABLE_LEAF):
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
        for root in [number for number in tops if number not in below] + leaves:
            tree = Tree("", root, True)
            if self.claims[root] == UNKNOWN:
                self.walk(tree)
            if tree.leaves:
                found.append(tree)
        return found

    def destroyed(self) -> int:
        """Pages that belong to nothing and look like nothing: what was on them is unknown."""
        count = 0
        for number in range(2, self.image.pages + 1):
            if self.claims[number] == UNKNOWN:
                try:
                    read_page(self.image.page(number), number, self.image.usable)
                except Bad:
                    count += 1
        return count

    # --- rows --------------------------------------------------------------------------------------------------------

    def rows(self, tree: Tree) -> Iterator[Row]:
        """Every row of a tree, whole or not."""
        for number in (*tree.leaves, *tree.inner):
            self.tick(1)
            page = read_page(self.image.page(number), number, self.image.usable)
            yield from self._rows_of(page, self.image.there(number))

    def _rows_of(self, page: Page, there: int) -> Iterator[Row]:
        found: list[tuple[int, int, Row]] = []          # begin, end, row
        for at in page.pointers:
            try:
                cell = read_cell(page, at, self.image.usable)
            except Bad:
                found.append((at, at, Row(0, None, "unreadable")))
                continue
            if cell.end > there:                        # its rowid is in its first 18 bytes
                found.append((cell.begin, cell.end, Row(cell.rowid if cell.begin + 18 <= there else 0, None, "cut off")))
            else:
                found.append((cell.begin, cell.end, self._row(cell)))
        if page.kind == TABLE_LEAF:
            rows = _in_order([row for _, _, row in found])
            found = [(begin, end, row) for (begin, end, _), row in zip(found, rows, strict=True)]
        found.sort(key=lambda one: one[0])
        for number, (begin, end, row) in enumerate(found):
            before = found[number - 1] if number else None
            after = found[number + 1] if number + 1 < len(found) else None
            if (before and before[1] > begin) or (after and end > after[0]):
                yield Row(row.rowid, None, "overlaps another row")
            elif row.values is not None and not row.doubt and any(
                    other is not None and other[2].values is None and other[2].doubt in ("unreadable", "out of order")
                    for other in (before, after)):
                yield Row(row.rowid, row.values, "it lies beside destroyed bytes")
            else:
                yield row

    def _row(self, cell: Cell) -> Row:
        try:
            if cell.overflow and any(self.claims[one] != OVERFLOW for one in chain(self.image, cell)):
                return Row(cell.rowid, None, "its overflow pages are claimed by something else")
            values = read_record(payload(self.image, cell), self.encoding)
        except Bad as error:
            return self._endless(cell) or Row(cell.rowid, None, str(error) if cell.overflow else "unreadable")
        return Row(cell.rowid, values, doubt_about(values))

    def _endless(self, cell: Cell) -> Row | None:
        """A row whose pages are all there and nobody else's, though the last one does not say that it is the last."""
        try:
            if not cell.overflow or any(self.claims[one] != UNKNOWN for one in chain(self.image, cell, endless=True)):
                return None
            values = read_record(payload(self.image, cell, endless=True), self.encoding)
        except Bad:
            return None
        return Row(cell.rowid, values, doubt_about(values) or "its overflow chain does not end where the row does")


def _in_order(rows: list[Row]) -> list[Row]:
    """Rowids rise along a leaf: what breaks the longest such rise has a rowid as damaged as the rest of it."""
    tails: list[int] = []           # the least rowid that ends a rise of each length, and where it is
    ends: list[int] = []
    before: dict[int, int] = {}
    for number, row in enumerate(rows):
        if row.values is not None:
            length = bisect_left(tails, row.rowid)
            tails[length:length + 1] = [row.rowid]
            ends[length:length + 1] = [number]
            before[number] = ends[length - 1] if length else -1
    rise, number = set(), ends[-1] if ends else -1
    while number >= 0:
        rise.add(number)
        number = before[number]
    ordered, last = [], None
    later = [rows[number].rowid for number in sorted(rise)]
    for number, row in enumerate(rows):
        if number in rise:
            last = later.pop(0)
            ordered.append(row)
        elif row.values is not None:
            ordered.append(Row(0, None, "out of order"))
        else:
            placed = (last is None or row.rowid > last) and (not later or row.rowid < later[0])
            ordered.append(row if placed else Row(0, None, row.doubt))
    return ordered


def doubt_about(values: Sequence[Value]) -> str:
    """Why values that decode may still not be what was written: Hermes writes valid text."""
    for value in values:
        if isinstance(value, Text):
            return "its text is not valid UTF-8"
        if isinstance(value, str) and "\0" * 8 in value:
            return "its text has a hole of zeros"
    return ""


def _between(key: int, low: int | None, high: int | None) -> bool:
    return (low is None or key > low) and (high is None or key <= high)


def _shape_fits(cell: Cell, layout: Layout) -> bool:
    """Whether the record header on the page can be a row of this table: number of columns, and NULL for the rowid."""
    try:
        end, at = varint(cell.local, 0)
        if end > len(cell.local):
            return True             # the header itself overflows; the row will tell
        types = []
        while at < end:
            kind, at = varint(cell.local, at)
            types.append(kind)
    except IndexError:
        return True
    if len(types) > len(layout.stored):
        return False
    return layout.alias < 0 or layout.alias >= len(types) or types[layout.alias] == 0

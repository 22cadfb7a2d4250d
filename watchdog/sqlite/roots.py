"""First pages of tables that the schema gives to the wrong table, known by the shape of their rows."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from itertools import combinations

from watchdog.sqlite.damaged_file import open_damaged
from watchdog.sqlite.format import (
    TABLE_LEAF,
    Bad,
    SchemaObject,
    Value,
    children,
    payload,
    read_cell,
    read_record,
)
from watchdog.sqlite.layout import Layout, fit, layout_of
from watchdog.sqlite.notes import RepairNote, note
from watchdog.sqlite.page_scan import DEEPEST, Pages, Tree
from watchdog.sqlite.schema import is_virtual
from watchdog.values import replace

MOST = 40  # rows that are held against a table


def by_their_rows(
    pages: Pages,
    entries: Sequence[SchemaObject],
    layouts: Mapping[str, Layout],
    columns: Mapping[str, tuple[str, ...]],
) -> tuple[list[SchemaObject], set[str]]:
    """The entries, with roots exchanged where only that fits the rows or the indexes, and 0 for the wrong one of two
    that share one; and the tables that share one and cannot be told apart.

    `columns`: of each index, the key of the row last.
    """
    alike: set[str] = set()
    roots = {entry.name: entry.root for entry in entries if entry.type == "table" and entry.name in layouts}
    samples = {root: _leaves_under(pages, root) for root in {0, *roots.values()}}

    @cache
    def scores(name: str, root: int) -> tuple[int, ...]:
        """How well the rows of each leaf under a root fit a table; -1 when one of them cannot be its."""
        found = []
        for table, rows in samples[root]:
            fits = [fit(layouts[name], values) for values in rows]
            found.append(sum(fits) if table is layouts[name].rowid and min(fits, default=0) >= 0 else -1)
        return tuple(found)

    def strange(name: str, root: int) -> bool:
        """Whether no leaf under a root can be of a table: one may be of another."""
        return max(scores(name, root), default=0) < 0

    @cache
    def agrees(name: str, root: int) -> int:
        """How many entries of the indexes of a table agree with the rows under a root."""
        found = 0
        for entry in entries:
            names = columns.get(entry.name, ())[:-1]
            if entry.type == "index" and entry.table == name and entry.root and names and layouts[name].rowid:
                found += _agreeing(
                    pages,
                    entry.root,
                    root,
                    [layouts[name].names.index(column) for column in names if column in layouts[name].names],
                    len(names),
                )
        return found

    for first, second in combinations(roots, 2):
        here, there = roots[first], roots[second]
        if here and here == there:
            marks = [(sum(scores(name, here)), agrees(name, here)) for name in (first, second)]
            if marks[0] != marks[1]:
                roots[first if marks[0] < marks[1] else second] = 0
            else:
                alike.update((first, second))
        elif any(rows for _, rows in samples[here]) and any(rows for _, rows in samples[there]):
            wrong = strange(first, here) or strange(second, there)
            fits = min((*scores(first, there), *scores(second, here)), default=0) >= 0
            if (
                fits and not wrong and layouts[first].rowid
            ):  # of one shape: the indexes know whose rows these are
                wrong = agrees(first, there) + agrees(second, here) > agrees(first, here) + agrees(
                    second, there
                )
            if wrong and fits:
                roots[first], roots[second] = there, here
    found = [
        replace(entry, root=roots[entry.name]) if entry.type == "table" and entry.name in roots else entry
        for entry in entries
    ]
    return _indexes_by_their_entries(pages, found, layouts, columns), alike


def _indexes_by_their_entries(
    pages: Pages,
    entries: list[SchemaObject],
    layouts: Mapping[str, Layout],
    columns: Mapping[str, tuple[str, ...]],
) -> list[SchemaObject]:
    """The entries, with the roots of indexes exchanged whose entries agree with the rows of each other's table alone."""
    tables = {entry.name: entry.root for entry in entries if entry.type == "table" and entry.root}

    @cache
    def agrees(index: SchemaObject, root: int) -> int:
        layout, names = layouts[index.table], columns[index.name][:-1]
        positions = [layout.names.index(column) for column in names if column in layout.names]
        return _agreeing(pages, root, tables[index.table], positions, len(names))

    strange = [
        entry
        for entry in entries
        if entry.type == "index"
        and entry.root
        and entry.table in tables
        and len(columns.get(entry.name, ())) > 1
        and entry.table in layouts
        and layouts[entry.table].rowid
        and not agrees(entry, entry.root)
    ]
    roots: dict[SchemaObject, int] = {}
    for first, second in combinations(strange, 2):
        if agrees(first, second.root) and agrees(second, first.root):
            roots |= {first: second.root, second: first.root}
    return [replace(entry, root=roots.get(entry, entry.root)) for entry in entries]


def _agreeing(pages: Pages, index: int, root: int, positions: Sequence[int], width: int) -> int:
    """How many entries of the first leaf of an index have the values that the row of their number has."""
    if len(positions) != width:
        return 0  # an expression
    found = 0
    for *values, rowid in _rows_under(pages, index)[1]:
        row = _row_of(pages, root, rowid) if isinstance(rowid, int) else None
        found += row is not None and max(positions) < len(row) and [row[at] for at in positions] == values
    return found


def _row_of(pages: Pages, root: int, rowid: int) -> list[Value] | None:
    """The row with this number in the tree of a table."""
    number, image = root, pages.image
    try:
        for _ in range(DEEPEST):
            page = image.btree(number)
            if page.kind == TABLE_LEAF:
                cells = (read_cell(page, at, image.usable) for at in page.pointers)
                cell = next((cell for cell in cells if cell.rowid == rowid), None)
                return read_record(payload(image, cell), pages.encoding) if cell else None
            number = next(child for child, key in children(page) if key is None or rowid <= key)
    except (Bad, IndexError, struct.error, StopIteration):
        pass
    return None


def foreign_rows(path: str) -> tuple[str, ...]:
    """Tables with rows that SQLite cannot have written for them, though it shows them as if they belonged there.

    They have more values than the table has columns, or their number twice.
    """
    found = []
    with ExitStack() as files, suppress(Bad, OSError, struct.error):
        opened = open_damaged(path, files)
        for entry in opened.entries:
            made = entry.type == "table" and not is_virtual(entry.sql)
            layout = layout_of(entry.name, entry.sql) if made else None
            table, rows = _rows_under(opened.pages, entry.root) if layout else (True, [])
            if layout and table is layout.rowid and any(_impossible(layout, values) for values in rows):
                found.append(note(RepairNote.FOREIGN_ROWS, table=entry.name))
    return tuple(found)


def _impossible(layout: Layout, values: Sequence[Value]) -> bool:
    return len(values) > len(layout.stored) or (
        0 <= layout.alias < len(values) and values[layout.alias] is not None
    )


def _leaves_under(pages: Pages, root: int) -> list[tuple[bool, list[list[Value]]]]:
    """Of the first and the last leaf under a page: whether it is of a table with rowids, and its rows."""
    return [_rows_under(pages, root, last) for last in (False, True)]


def _rows_under(pages: Pages, root: int, last: bool = False) -> tuple[bool, list[list[Value]]]:
    """Whether a tree is of a table with rowids, and rows from its first leaf, or its last."""
    number, image = root, pages.image
    try:
        for _ in range(DEEPEST):
            if not 0 < number <= image.pages:
                break
            page = image.btree(number)
            if page.leaf:
                leaf = Tree("", number, page.kind == TABLE_LEAF, leaves=array("I", [number]))
                rows = [row.values for row in pages.rows(leaf) if row.values is not None and not row.doubt]
                return leaf.table, rows[:MOST]
            number = page.right if last else next(child for child, _ in children(page))
    except (Bad, IndexError, struct.error):
        pass
    return True, []

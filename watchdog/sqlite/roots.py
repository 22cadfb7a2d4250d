"""First pages of tables that the schema gives to the wrong table, known by the shape of their rows."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import combinations

from watchdog.sqlite.damaged_file import open_damaged
from watchdog.sqlite.format import TABLE_LEAF, Bad, SchemaObject, Value, children, read_page
from watchdog.sqlite.layout import Layout, fit, layout_of
from watchdog.sqlite.page_scan import DEEPEST, Pages, Tree
from watchdog.sqlite.schema import is_virtual
from watchdog.values import replace

MOST = 40  # rows that are held against a table


def by_their_rows(
    pages: Pages, entries: Sequence[SchemaObject], layouts: Mapping[str, Layout]
) -> list[SchemaObject]:
    """The entries, with roots exchanged where only that fits the rows, and 0 for the wrong one of two that share one."""
    roots = {entry.name: entry.root for entry in entries if entry.type == "table" and entry.name in layouts}
    samples = {root: _rows_under(pages, root) for root in {0, *roots.values()}}

    def score(name: str, root: int) -> int:
        """How well the rows under a root fit a table; -1 when one of them cannot be its."""
        table, rows = samples[root]
        scores = [fit(layouts[name], values) for values in rows]
        return sum(scores) if table is layouts[name].rowid and min(scores, default=0) >= 0 else -1

    for first, second in combinations(roots, 2):
        here, there = roots[first], roots[second]
        if here and here == there:
            worse = min((first, second), key=lambda name: score(name, here))
            if score(first, here) != score(second, here):
                roots[worse] = 0
        elif samples[here][1] and samples[there][1]:
            wrong = min(score(first, here), score(second, there)) < 0
            if wrong and min(score(first, there), score(second, here)) >= 0:
                roots[first], roots[second] = there, here
    return [
        replace(entry, root=roots[entry.name]) if entry.type == "table" and entry.name in roots else entry
        for entry in entries
    ]


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
                found.append(f"{entry.name} has rows of another table")
    return tuple(found)


def _impossible(layout: Layout, values: Sequence[Value]) -> bool:
    return len(values) > len(layout.stored) or (
        0 <= layout.alias < len(values) and values[layout.alias] is not None
    )


def _rows_under(pages: Pages, root: int) -> tuple[bool, list[list[Value]]]:
    """Whether a tree is of a table with rowids, and rows from its first leaf."""
    number, image = root, pages.image
    try:
        for _ in range(DEEPEST):
            if not 0 < number <= image.pages:
                break
            page = read_page(image.page(number), number, image.usable)
            if page.leaf:
                leaf = Tree("", number, page.kind == TABLE_LEAF, leaves=array("I", [number]))
                rows = [row.values for row in pages.rows(leaf) if row.values is not None and not row.doubt]
                return leaf.table, rows[:MOST]
            number = next(child for child, _ in children(page))
    except (Bad, IndexError, struct.error):
        pass
    return True, []

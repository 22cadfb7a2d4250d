"""Rows on a page whose header or cell pointers are gone, found by their shape."""

from __future__ import annotations

import struct
from bisect import bisect_right

from watchdog.sqlite.format import (
    INT_SIZES,
    TABLE_LEAF,
    Bad,
    Cell,
    Image,
    Page,
    Value,
    payload,
    read_cell,
    read_record,
    varint,
)
from watchdog.sqlite.layout import Layout, fit
from watchdog.sqlite.page_scan import doubt_about, shape_fits


def carve(data: bytes, image: Image, layout: Layout, encoding: str) -> list[tuple[int, list[Value]]]:
    """Rows found on a page whose header or cell pointers are gone, by their shape alone.

    Of those that overlap the set is taken that covers the most bytes. What was deleted may be among them.
    """
    found: list[tuple[int, int, int, list[Value]]] = []  # end, begin, rowid, values
    page = Page(TABLE_LEAF, data, ())
    for at in range(image.usable - 4):
        if not data[at]:
            continue
        try:
            cell = read_cell(page, at, image.usable)
            if cell.rowid < 1 or not _adds_up(cell, len(layout.stored)) or not shape_fits(cell, layout):
                continue
            values = read_record(payload(image, cell), encoding)
        except (Bad, IndexError, struct.error):
            continue
        if not doubt_about(values) and len(values) >= layout.least and fit(layout, values) >= 1:
            found.append((cell.end, cell.begin, cell.rowid, values))
    found.sort(key=lambda cell: cell[0])
    best: list[tuple[int, int]] = [(0, -1)]  # covered bytes with the first n cells, and the cell taken last
    ends = [cell[0] for cell in found]
    taken: list[int] = []
    for number, (end, begin, _, _) in enumerate(found):
        before = bisect_right(ends, begin, 0, number)
        take = best[before][0] + end - begin
        best.append((take, number) if take > best[number][0] else (best[number][0], -1))
        taken.append(before)
    rows = []
    number = len(found)
    while number > 0:
        if best[number][1] == -1:
            number -= 1
        else:
            rows.append((found[number - 1][2], found[number - 1][3]))
            number = taken[number - 1]
    return rows[::-1]


def _adds_up(cell: Cell, most: int) -> bool:
    """Whether a record has at most so many columns, and its header adds up to its size."""
    try:
        end, at = varint(cell.local, 0)
        if not 1 < end <= 9 * most + 3:
            return False  # noise, mostly: a table has no header that long
        total = count = 0
        while at < end:
            kind, at = varint(cell.local, at)
            count += 1
            if kind in (10, 11) or count > most:
                return False
            total += (kind - 12) // 2 if kind >= 12 else INT_SIZES[kind]
    except IndexError:
        return False
    return at == end and end + total == cell.size

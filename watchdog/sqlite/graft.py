"""New interior pages over the leaves of a table whose own are destroyed: then SQLite can read the table itself."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import BinaryIO

from watchdog.sqlite.format import TABLE_INTERIOR, Bad, Image, read_cell
from watchdog.sqlite.page_scan import Tree

_CELL = 4 + 9 + 2  # a child, the longest key, the pointer to the cell


def graft(out: BinaryIO, image: Image, root: int, leaves: Iterable[int], pages: int) -> int:
    """Write a tree over these leaves with its first page at `root`; the number of pages afterwards.

    New pages are put behind the end. Bad when the leaves do not follow one another.
    """
    level = sorted(_ends(image, number) for number in leaves)  # (first key, last key, page)
    for (_, last, _), (first, _, _) in pairwise(level):
        if first <= last:
            raise Bad("two leaves hold the same rows")
    if not level:
        raise Bad("no leaf is left")
    children = [(last, number) for _, last, number in level]
    most = (image.usable - 12) // _CELL
    while len(children) > most + 1:
        above = []
        for at in range(0, len(children), most + 1):
            group = children[at : at + most + 1]
            pages += 1
            _write(out, image, pages, group)
            above.append((group[-1][0], pages))
        children = above
    _write(out, image, root, children)
    return pages


def refill(out: BinaryIO, image: Image, tree: Tree, strays: Iterable[Tree]) -> None:
    """Write each interior page that a table lost in its old place, over the subtrees that were found for it.

    Bad, with nothing written, when a page is left without children, or they do not fit on it.
    """
    spans = sorted(
        (_ends(image, stray.leaves[0])[0], _ends(image, stray.leaves[-1])[1], stray.root) for stray in strays
    )
    for (_, last, _), (first, _, _) in pairwise(spans):
        if first <= last:
            raise Bad("two leaves hold the same rows")
    if len(tree.missing) != len(tree.lost_pages):
        raise Bad("a table that seems empty has no gap to put them in")
    made = []
    for (low, high), number in zip(tree.missing, tree.lost_pages, strict=True):
        below = [
            (last, root)
            for first, last, root in spans
            if (low is None or first > low) and (high is None or last <= high)
        ]
        size = 12 + sum(6 + len(_varint(key)) for key, _ in below[:-1])
        if not below or size > image.usable or number > image.pages:
            raise Bad("no page can be made of these leaves")
        made.append((number, below))
    if sum(len(below) for _, below in made) != len(spans):
        raise Bad("leaves that belong into no gap")
    for number, below in made:
        _write(out, image, number, below)


def _ends(image: Image, number: int) -> tuple[int, int, int]:
    page = image.btree(number)
    if not page.pointers:
        raise Bad("an empty leaf")
    first, last = (read_cell(page, at, image.usable).rowid for at in (page.pointers[0], page.pointers[-1]))
    return first, last, number


def _write(out: BinaryIO, image: Image, number: int, children: list[tuple[int, int]]) -> None:
    """One interior page; the last child is its right one."""
    cells = [struct.pack(">I", page) + _varint(key) for key, page in children[:-1]]
    data = bytearray(image.page_size)
    at, pointers = image.usable, []
    for cell in cells:
        at -= len(cell)
        data[at : at + len(cell)] = cell
        pointers.append(at)
    head = struct.pack(">BHHHBI", TABLE_INTERIOR, 0, len(cells), at & 0xFFFF, 0, children[-1][1])
    data[: len(head)] = head
    struct.pack_into(f">{len(pointers)}H", data, len(head), *pointers)
    out.seek((number - 1) * image.page_size)
    out.write(data)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    if value >= 1 << 56:
        groups = [value & 0xFF]
        value >>= 8
        groups += [(value >> shift & 127) | 128 for shift in range(0, 56, 7)]
        return bytes(reversed(groups))
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))

"""Faults of single fields, pointers and versions, beyond those of harder.py: FAULTS change the file."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from harder import _cell, _leaves, _usable

from watchdog.sqlite.format import Bad, read_cell, read_page


def varint_byte(made, data: bytearray, rng: random.Random) -> str:
    """A byte of a cell's size, its number or its record's header goes on where it ended, or ends too early."""
    found = _cell(made, data, rng, rng.choice([(13,), (10,), (13, 10)]))
    if found is None:
        return ""
    page, cell = found
    at = page + cell.begin + rng.randrange(0, 6)
    data[at] ^= rng.choice([0x80, 0x80, 0x01, 0x7F])
    return f"a varint of page {page // made.page_size + 1}, row {cell.rowid}"


def counter(made, data: bytearray, rng: random.Random) -> str:
    """The number that AUTOINCREMENT gave last is another."""
    names = [at for name in (b"plain", b"messages", b"texts", b"task_events") for at in _all(data, name)]
    if not names:
        return ""
    at = rng.choice(names)
    data[min(at + 8, len(data) - 1)] = rng.randrange(256)
    return f"a byte behind a name at {at}"


def _all(data: bytearray, what: bytes) -> list[int]:
    found, at = [], data.find(what)
    while at >= 0 and len(found) < 40:
        found.append(at)
        at = data.find(what, at + 1)
    return found


def children_exchanged(made, data: bytearray, rng: random.Random) -> str:
    """Two interior pages, of one tree or of two, have exchanged a child."""
    size = made.page_size
    inner = [n for n in range(1, len(data) // size) if data[n * size] in (2, 5)]
    if not inner:
        return ""
    places = []
    for number in rng.sample(inner, min(2, len(inner))) * 2:
        at = number * size
        count = struct.unpack_from(">H", data, at + 3)[0]
        if count and rng.random() < 0.7:
            cell = at + struct.unpack_from(">H", data, at + 12 + 2 * rng.randrange(min(count, 40)))[0]
            places.append(cell if cell + 4 <= len(data) else at + 8)
        else:
            places.append(at + 8)
    one, two = places[0], places[1]
    if bytes(data[one : one + 4]) == bytes(data[two : two + 4]):
        return ""
    data[one : one + 4], data[two : two + 4] = data[two : two + 4], data[one : one + 4]
    return f"children at {one} and {two} are exchanged"


def cells_exchanged(made, data: bytearray, rng: random.Random) -> str:
    """A cell was written over another of the same size, or two are exchanged."""
    usable, found = _usable(data), {}
    for number in rng.sample(leaves := _leaves(made, data, (13, 10)), min(20, len(leaves))):
        at = number * made.page_size
        try:
            page = read_page(bytes(data[at : at + made.page_size]), number + 1, usable)
            for pointer in page.pointers:
                cell = read_cell(page, pointer, usable)
                found.setdefault((page.kind, cell.end - cell.begin), []).append(at + cell.begin)
        except (Bad, struct.error):
            continue
    alike = [(key[1], places) for key, places in found.items() if len(places) > 1]
    if not alike:
        return ""
    size, places = rng.choice(alike)
    one, two = rng.sample(places, 2)
    first, second = bytes(data[one : one + size]), bytes(data[two : two + size])
    if first == second:
        return ""
    data[one : one + size] = second
    if rng.random() < 0.5:
        data[two : two + size] = first
        return f"cells at {one} and {two} are exchanged"
    return f"the cell at {two} is also at {one}"


def range_zero(made, data: bytearray, rng: random.Random) -> str:
    """Zeros from anywhere to anywhere."""
    at = rng.randrange(100, len(data))
    size = rng.choice([3, 40, 700, 5000])
    data[at : at + size] = bytes(len(data[at : at + size]))
    return f"{size} zeros at {at}"


def range_noise(made, data: bytearray, rng: random.Random) -> str:
    at = rng.randrange(100, len(data))
    size = rng.choice([1, 2, 5, 60, 900])
    data[at : at + size] = rng.randbytes(len(data[at : at + size]))
    return f"{size} bytes of noise at {at}"


def two_fields(made, data: bytearray, rng: random.Random) -> str:
    """Page count, free list, schema cookie, reserve, encoding or auto-vacuum of the header, two of them at once."""
    done = []
    for at, width in rng.sample([(20, 1), (28, 4), (32, 4), (36, 4), (40, 4), (52, 4), (56, 4), (64, 4)], 2):
        old = int.from_bytes(data[at : at + width], "big")
        new = rng.choice([0, 1, 2, old + 1, max(0, old - 1)])
        data[at : at + width] = (new & (1 << 8 * width) - 1).to_bytes(width, "big")
        done.append(f"{at}: {old} -> {new}")
    return "header " + ", ".join(done)


def map_entry(made, data: bytearray, rng: random.Random) -> str:
    """One entry of the pointer map names another parent or kind."""
    if not struct.unpack_from(">I", data, 52)[0]:
        return ""
    at = made.page_size + 5 * rng.randrange(max(1, min(made.page_size // 5, len(data) // made.page_size - 2)))
    data[at + rng.choice([0, 4])] ^= rng.choice([1, 2, 6])
    return f"the pointer map at {at}"


def shorter_and_older(made, data: bytearray, rng: random.Random) -> str:
    """The end is as it was a transaction ago: cut off, or with the old bytes."""
    older, size = made.older, made.page_size
    if not older or older == data:
        return ""
    at = rng.randrange(1, max(2, min(len(older), len(data)) // size)) * size
    made.unseen = made.untold = True
    if rng.random() < 0.5:
        data[at:] = older[at:]
        return f"older from page {at // size + 1} to its old end"
    data[: len(older) - at] = older[: len(older) - at]
    return f"older up to page {(len(older) - at) // size}"


def pages_turned(made, data: bytearray, rng: random.Random) -> str:
    """Three pages have moved in a circle."""
    size = made.page_size
    if len(data) < 6 * size:
        return ""
    one, two, three = rng.sample(range(1, len(data) // size), 3)
    pages = [bytes(data[n * size : (n + 1) * size]) for n in (one, two, three)]
    if len(set(pages)) < 3:
        return ""
    for number, page in zip((two, three, one), pages, strict=True):
        data[number * size : (number + 1) * size] = page
    return f"pages {one + 1}, {two + 1} and {three + 1} have moved in a circle"


FAULTS: list[Callable] = [
    varint_byte,
    varint_byte,
    counter,
    children_exchanged,
    children_exchanged,
    cells_exchanged,
    range_zero,
    range_noise,
    two_fields,
    map_entry,
    shorter_and_older,
    pages_turned,
]

"""Faults that are more like what disks, copies and crashes do: harder.FAULTS change the file, harder.LOGS the -wal and
the -journal beside it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import inject

from watchdog.sqlite.format import Bad, Cell, read_cell, read_page
from watchdog.sqlite.header import read_header

SECTOR = 512


def _usable(data: bytes) -> int:
    try:
        header = read_header(data[:100])
    except Bad:  # an earlier fault has hit it
        return 4096
    return header.page_size - header.reserved


def _leaves(made, data: bytes, kinds: tuple[int, ...] = (13,)) -> list[int]:
    size = made.page_size
    return [
        n
        for n in range(1, len(data) // size)
        if data[n * size] in kinds and data[n * size + 3 : n * size + 5] != b"\0\0"
    ]


def _cell(made, data: bytes, rng: random.Random, kinds: tuple[int, ...] = (13,)) -> tuple[int, Cell] | None:
    """(where its page begins, a cell of a leaf)."""
    leaves = _leaves(made, data, kinds)
    if not leaves:
        return None
    number = rng.choice(leaves)
    at = number * made.page_size
    try:
        page = read_page(bytes(data[at : at + made.page_size]), number + 1, _usable(data))
        return at, read_cell(page, rng.choice(page.pointers), _usable(data))
    except (Bad, struct.error):
        return None


def bit_in_a_row(made, data: bytearray, rng: random.Random) -> str:
    """One bit of a cell is another: in its size, its number, its header or its values."""
    found = _cell(made, data, rng, rng.choice([(13,), (13,), (13, 10), (10,)]))
    if found is None:
        return ""
    page, cell = found
    near = rng.random() < 0.5
    at = page + (
        rng.randrange(cell.begin, min(cell.begin + 12, cell.end))
        if near
        else rng.randrange(cell.begin, cell.end)
    )
    data[at] ^= 1 << rng.randrange(8)
    return f"a bit at {at}, page {page // made.page_size + 1}, row {cell.rowid}"


def sector_zero(made, data: bytearray, rng: random.Random) -> str:
    """A sector reads as zeros, or as what another sector holds."""
    count = len(data) // SECTOR
    at = rng.randrange(1, max(2, count)) * SECTOR
    many = rng.choice([1, 1, 8])
    if rng.random() < 0.6:
        data[at : at + many * SECTOR] = bytes(len(data[at : at + many * SECTOR]))
        return f"{many} sectors of zeros at {at}, page {at // made.page_size + 1}"
    other = rng.randrange(count) * SECTOR
    data[at : at + SECTOR] = data[other : other + SECTOR]
    return f"sector {other} over {at}, page {at // made.page_size + 1}"


def sector_older(made, data: bytearray, rng: random.Random) -> str:
    """Sectors as they were a transaction ago."""
    changed = [
        at
        for at in range(0, min(len(data), len(made.older)) - SECTOR + 1, SECTOR)
        if data[at : at + SECTOR] != made.older[at : at + SECTOR]
    ]
    if not changed:
        return ""
    for at in rng.sample(changed, min(len(changed), rng.choice([1, 1, 3]))):
        data[at : at + SECTOR] = made.older[at : at + SECTOR]
    made.unseen = True
    return "old sectors"


def pages_older(made, data: bytearray, rng: random.Random) -> str:
    """Several writes of the last transaction were lost; or all behind or before one place."""
    size = made.page_size
    changed = [
        n
        for n in range(min(len(made.older), len(data)) // size)
        if made.older[n * size :][:size] != data[n * size :][:size]
    ]
    if not changed:
        return ""
    way = rng.choice(["some", "first", "head", "tail"])
    middle = rng.choice(changed)
    picked = {
        "some": rng.sample(changed, rng.randint(1, len(changed))),
        "first": [n for n in changed if n == 0],
        "head": [n for n in changed if n <= middle],
        "tail": [n for n in changed if n >= middle],
    }[way]
    for number in picked:
        data[number * size : (number + 1) * size] = made.older[number * size : (number + 1) * size]
    made.unseen = True
    made.untold = made.untold or len(picked) > 1
    return f"lost writes ({way}): {[n + 1 for n in picked][:8]}" if picked else ""


def of_a_neighbour(made, data: bytearray, rng: random.Random) -> str:
    """A page of another database of the same kind was written here, mostly at its own number."""
    other = made.neighbour
    size = made.page_size
    if not other:
        return ""
    here = rng.randrange(min(len(data), len(other)) // size)
    there = here if rng.random() < 0.7 else rng.randrange(len(other) // size)
    if other[there * size :][:size] == data[here * size :][:size]:
        return ""
    data[here * size : (here + 1) * size] = other[there * size : (there + 1) * size]
    made.unseen = True
    return f"page {here + 1} is page {there + 1} of another database"


def chains_crossed(made, data: bytearray, rng: random.Random) -> str:
    """Two rows have exchanged their overflow chains, or one leads into another's."""
    usable = _usable(data)
    found: list[int] = []
    for number in _leaves(made, data, (13, 10)):
        at = number * made.page_size
        try:
            page = read_page(bytes(data[at : at + made.page_size]), number + 1, usable)
            found += [
                at + cell.end - 4 for p in page.pointers if (cell := read_cell(page, p, usable)).overflow
            ]
        except (Bad, struct.error):
            continue
    if len(found) < 2:
        return ""
    one, two = rng.sample(found, 2)
    first, second = bytes(data[one : one + 4]), bytes(data[two : two + 4])
    how = rng.choice(["exchanged", "shared", "in the middle", "self"])
    if how == "exchanged":
        data[one : one + 4], data[two : two + 4] = second, first
    elif how == "shared":
        data[one : one + 4] = second
    else:
        page = struct.unpack(">I", first)[0]
        at = (page - 1) * made.page_size
        if not 0 < at < len(data):
            return ""
        data[at : at + 4] = second if how == "in the middle" else first
    return f"overflow chains {how}"


def free_loop(made, data: bytearray, rng: random.Random) -> str:
    """The list of free pages runs in a circle, or into pages in use."""
    head = struct.unpack_from(">I", data, 32)[0]
    pages = len(data) // made.page_size
    if not head or head > pages:
        used = rng.randrange(2, pages + 1) if pages > 1 else 1
        struct.pack_into(">2I", data, 32, used, 1)
        return f"page {used}, in use, is head of the free list"
    at = (head - 1) * made.page_size
    way = rng.choice(["circle", "used", "count"])
    if way == "circle":
        struct.pack_into(">I", data, at, head)
    elif way == "used":
        struct.pack_into(">I", data, at, rng.randrange(1, pages + 1))
    else:
        struct.pack_into(">I", data, at + 4, 1 << rng.randrange(31))
    return f"free list: {way}"


def schema_byte(made, data: bytearray, rng: random.Random) -> str:
    """A byte of the list of tables: in SQL, a name, a root."""
    size, usable = made.page_size, _usable(data)
    leaves = []
    stack = [1]
    seen = set()
    while stack:
        number = stack.pop()
        if number in seen or not 0 < number <= len(data) // size:
            continue
        seen.add(number)
        try:
            page = read_page(bytes(data[(number - 1) * size : number * size]), number, usable)
        except Bad:
            continue
        if page.kind == 5:
            stack += [struct.unpack_from(">I", page.data, p)[0] for p in page.pointers] + [page.right]
        elif page.pointers:
            leaves.append((number, page))
    if not leaves:
        return ""
    number, page = rng.choice(leaves)
    try:
        cell = read_cell(page, rng.choice(page.pointers), usable)
    except Bad:
        return ""
    at = (number - 1) * size + rng.randrange(cell.begin, cell.end)
    data[at] = rng.choice([data[at] ^ 1 << rng.randrange(8), 0, rng.randrange(256)])
    return f"a byte of the schema at {at}"


def roots_moved(made, data: bytearray, rng: random.Random) -> str:
    """The schema leads to other first pages: exchanged, shared, or a page too far."""
    kept = made.path.with_name("roots.db")
    kept.write_bytes(data)
    db = sqlite3.connect(kept, isolation_level=None)
    try:
        rows = db.execute("SELECT rowid, rootpage FROM sqlite_schema WHERE rootpage > 0").fetchall()
        if len(rows) < 2:
            return ""
        one, two = rng.sample(rows, 2)
        db.execute("PRAGMA writable_schema=ON")
        db.execute("PRAGMA journal_mode=MEMORY")
        way = rng.choice(["exchanged", "shared", "off by one"])
        db.execute(
            "UPDATE sqlite_schema SET rootpage = ? WHERE rowid = ?",
            (two[1] if way != "off by one" else one[1] + 1, one[0]),
        )
        if way == "exchanged":
            db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE rowid = ?", (one[1], two[0]))
    except sqlite3.Error:
        return ""
    finally:
        db.close()
    changed = kept.read_bytes()
    kept.unlink()
    for begin, end in ((18, 20), (24, 28), (92, 96)):  # it is the disk that does this, not a transaction
        changed = changed[:begin] + bytes(data[begin:end]) + changed[end:]
    if len(changed) == len(data):
        data[:] = changed
    return f"roots {way}"


def divider(made, data: bytearray, rng: random.Random) -> str:
    """A key on an interior page, or its right pointer, is another."""
    size = made.page_size
    inner = [n for n in range(1, len(data) // size) if data[n * size] in (5, 2)]
    if not inner:
        return ""
    at = rng.choice(inner) * size
    count = struct.unpack_from(">H", data, at + 3)[0]
    if rng.random() < 0.4 or not count:
        struct.pack_into(
            ">I", data, at + 8, rng.choice([0, at // size + 1, rng.randrange(1, len(data) // size + 1)])
        )
        return f"right pointer of page {at // size + 1}"
    cell = at + struct.unpack_from(">H", data, at + 12 + 2 * rng.randrange(min(count, 50)))[0]
    if cell + 5 >= len(data):
        return ""
    data[cell + 4] ^= 1 << rng.randrange(7)
    return f"a key on interior page {at // size + 1}"


def leaf_head(made, data: bytearray, rng: random.Random) -> str:
    """The fields of the head of a leaf: free block, count, start, fragments."""
    leaves = _leaves(made, data, (13, 10))
    if not leaves:
        return ""
    at = rng.choice(leaves) * made.page_size
    field, width = rng.choice([(1, 2), (3, 2), (5, 2), (7, 1)])
    old = int.from_bytes(data[at + field : at + field + width], "big")
    new = rng.choice([0, old + 1, max(0, old - 1), rng.randrange(1 << 8 * width), 1]) & (1 << 8 * width) - 1
    data[at + field : at + field + width] = new.to_bytes(width, "big")
    return f"field {field} of leaf {at // made.page_size + 1}: {old} -> {new}" if old != new else ""


def regrown(made, data: bytearray, rng: random.Random) -> str:
    """Cut off, and as long as before again: zeros, noise, or the beginning of the file behind its end."""
    size = len(data)
    keep = rng.randrange(made.page_size, size + 1)
    if rng.random() < 0.7:
        keep -= keep % made.page_size
    rest = size - keep
    data[keep:] = rng.choice([bytes(rest), rng.randbytes(rest), bytes(data[:rest]).ljust(rest, b"\0")])
    return f"regrown from {keep} of {size}"


def holes(made, data: bytearray, rng: random.Random) -> str:
    """Regions of a sparse file that were never written."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(0, len(data), 4096)
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    return "holes of 4096 bytes"


def shifted(made, data: bytearray, rng: random.Random) -> str:
    """Bytes were put in or taken out: everything behind has moved."""
    at = rng.randrange(100, len(data))
    if rng.random() < 0.5:
        del data[at : at + rng.choice([1, 7, 512])]
    else:
        data[at:at] = bytes(rng.choice([1, 7, 512]))
    return f"bytes behind {at} have moved"


def as_text(made, data: bytearray, rng: random.Random) -> str:
    """It was carried over as text: line ends changed, or what is no text replaced."""
    if rng.random() < 0.5:
        data[:] = bytes(data).replace(b"\n", b"\r\n")
        return "line ends changed"
    data[:] = bytes(data).decode("utf-8", "replace").encode()
    return "carried over as UTF-8 text"


def page_copied_in(made, data: bytearray, rng: random.Random) -> str:
    """A leaf is there twice: over a free page, an overflow page or the end."""
    leaves = _leaves(made, data, (13, 10))
    if not leaves:
        return ""
    size = made.page_size
    leaf = rng.choice(leaves)
    targets = [n for n in range(1, len(data) // size) if data[n * size] not in (2, 5, 10, 13)] or leaves
    to = rng.choice([*targets, len(data) // size])
    data[to * size : (to + 1) * size] = data[leaf * size : (leaf + 1) * size]
    return f"leaf {leaf + 1} is also on page {to + 1}"


def page_one_field(made, data: bytearray, rng: random.Random) -> str:
    """A number in the header is another."""
    at, width = rng.choice(
        [
            (16, 2),
            (18, 1),
            (19, 1),
            (20, 1),
            (24, 4),
            (28, 4),
            (32, 4),
            (36, 4),
            (40, 4),
            (44, 4),
            (52, 4),
            (56, 4),
            (92, 4),
            (100, 1),
            (101, 2),
            (103, 2),
            (105, 2),
        ]
    )
    old = int.from_bytes(data[at : at + width], "big")
    new = rng.choice([0, 1, old + 1, old * 2, old ^ 1 << rng.randrange(8 * width)]) & (1 << 8 * width) - 1
    data[at : at + width] = new.to_bytes(width, "big")
    return f"page 1, byte {at}: {old} -> {new}" if old != new else ""


def page_one_of_neighbour(made, data: bytearray, rng: random.Random) -> str:
    if not made.neighbour:
        return ""
    data[: made.page_size] = made.neighbour[: made.page_size]
    made.unseen = True
    return "page 1 of another database"


def sequence(made, data: bytearray, rng: random.Random) -> str:
    """Page 1 is gone and so is another page."""
    data[: made.page_size] = rng.choice([bytes(made.page_size), rng.randbytes(made.page_size)])
    number = rng.randrange(1, max(2, len(data) // made.page_size))
    data[number * made.page_size : (number + 1) * made.page_size] = bytes(
        len(data[number * made.page_size : (number + 1) * made.page_size])
    )
    return f"page 1 and page {number + 1} are gone"


FAULTS: list[Callable] = [
    bit_in_a_row,
    bit_in_a_row,
    bit_in_a_row,
    sector_zero,
    sector_older,
    pages_older,
    of_a_neighbour,
    of_a_neighbour,
    chains_crossed,
    free_loop,
    schema_byte,
    roots_moved,
    divider,
    leaf_head,
    regrown,
    holes,
    shifted,
    as_text,
    page_copied_in,
    page_one_field,
    page_one_of_neighbour,
    sequence,
]


# --- sidecars


def _write(made, mode: str, rng: random.Random, spill: int = 2) -> tuple[sqlite3.Connection, list[dict]]:
    db = sqlite3.connect(made.path, isolation_level=None)
    db.execute(f"PRAGMA journal_mode={mode}")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute(f"PRAGMA cache_size={spill}")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("CREATE TABLE IF NOT EXISTS late(id INTEGER PRIMARY KEY, t TEXT)")
    db.execute("CREATE INDEX IF NOT EXISTS late_t ON late(t)")
    return db


def _some(db: sqlite3.Connection, rng: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        db.execute("BEGIN")
        for _ in range(rng.randint(1, 4)):
            db.execute("INSERT INTO late(t) VALUES(?)", (inject.text(rng, 300),))
        if rng.random() < 0.4:
            db.execute("DELETE FROM late WHERE id % 5 = ?", (rng.randrange(5),))
        if rng.random() < 0.4:
            db.execute("UPDATE late SET t = t || 'x' WHERE id % 7 = ?", (rng.randrange(7),))
        db.execute("COMMIT")


def _keep(made, parts: tuple[str, ...]) -> Path:
    kept = made.path.with_name("kept")
    for part in parts:
        if os.path.exists(f"{made.path}{part}"):
            shutil.copyfile(f"{made.path}{part}", f"{kept}{part}")
    return kept


def _put(made, kept: Path, parts: tuple[str, ...]) -> None:
    for name in ("", "-wal", "-shm", "-journal"):
        Path(f"{made.path}{name}").unlink(missing_ok=True)
    for part in parts:
        if os.path.exists(f"{kept}{part}"):
            os.replace(f"{kept}{part}", f"{made.path}{part}")
    made.older = b""


def wal_damaged(made, rng: random.Random, read: Callable) -> str:
    """A -wal with rows that are nowhere else, damaged in one of many ways."""
    db = _write(made, "WAL", rng)
    _some(db, rng, rng.randint(2, 12))
    old_wal = b""
    if rng.random() < 0.4:  # a checkpoint, and the log begins again over its own left-overs
        old_wal = Path(f"{made.path}-wal").read_bytes()
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        _some(db, rng, rng.randint(1, 6))
    kept = _keep(made, ("", "-wal"))
    made.truth = read(made.path)
    made.keys["late"] = {1}
    db.close()
    _put(made, kept, ("", "-wal"))
    log = Path(f"{made.path}-wal")
    data = bytearray(log.read_bytes())
    step = made.page_size + 24
    frames = (len(data) - 32) // step
    if frames < 1:
        return "an empty -wal"
    way = rng.choice(
        [
            "none",
            "cut",
            "salt",
            "page",
            "commit",
            "swap",
            "header",
            "content",
            "zeros",
            "garbage",
            "older",
            "headsalt",
            "sum",
            "two",
        ]
    )
    frame = rng.randrange(frames)
    at = 32 + frame * step
    if way == "cut":
        del data[rng.randrange(0, len(data)) :]
        made.unseen = True
    elif way == "salt":
        data[at + 8 + rng.randrange(8)] ^= 1 << rng.randrange(8)
    elif way == "page":
        data[at + 3] ^= 1 << rng.randrange(4)
    elif way == "commit":
        struct.pack_into(
            ">I", data, at + 4, rng.choice([0, 1, 3, len(made.path.read_bytes()) // made.page_size])
        )
    elif way == "swap" and frames > 1:
        other = 32 + rng.randrange(frames) * step
        data[at : at + step], data[other : other + step] = data[other : other + step], data[at : at + step]
    elif way == "header":
        data[rng.randrange(32)] ^= 1 << rng.randrange(8)
    elif way == "headsalt":
        data[16 + rng.randrange(8)] ^= 0xFF
    elif way == "content":
        data[at + 24 + rng.randrange(made.page_size)] ^= 1 << rng.randrange(8)
    elif way == "sum":
        data[at + 16 + rng.randrange(8)] ^= 1 << rng.randrange(8)
    elif way == "zeros":
        data[at : at + step] = bytes(step)
    elif way == "garbage":
        data += rng.randbytes(rng.randint(1, 2 * step))
    elif way == "two":
        for number in rng.sample(range(frames), min(2, frames)):
            data[32 + number * step + 24 + 40] ^= 0x55
    elif way == "older":
        if not old_wal:
            return "a -wal"
        data = bytearray(old_wal)
        made.unseen = True
    made.last_frame = made.unseen or (
        frame == frames - 1 and way not in ("none", "garbage", "header", "headsalt")
    )
    if way == "two" or (way == "swap"):
        made.last_frame = made.last_frame or True
    log.write_bytes(data)
    return f"-wal of {frames} frames: {way} at frame {frame + 1}"


def journal_damaged(made, rng: random.Random, read: Callable) -> str:
    """A crash in DELETE, TRUNCATE or PERSIST mode, with a journal damaged in one of many ways."""
    db = _write(made, rng.choice(["DELETE", "PERSIST", "TRUNCATE"]), rng, spill=rng.choice([2, 5, 30]))
    _some(db, rng, rng.randint(1, 8))
    truth = read(made.path)
    before = made.path.read_bytes()
    db.execute("BEGIN")
    for _ in range(rng.randint(1, 60)):
        db.execute("INSERT INTO late(t) VALUES(?)", (inject.text(rng, 900),))
    db.execute("UPDATE late SET t = t || ' again'")
    db.execute("DELETE FROM late WHERE id % 3 = 1")
    kept = _keep(made, ("", "-journal"))
    way = rng.choice(
        [
            "none",
            "none",
            "count",
            "nonce",
            "pages",
            "cut",
            "record",
            "super",
            "ended",
            "half back",
            "sector",
            "magic",
        ]
    )
    if way == "ended":  # it is only what PERSIST leaves behind, zeroed
        db.execute("COMMIT")
        truth = read(made.path)
        db.close()
        kept_journal = kept.with_name("kept-journal")
        data = bytearray(kept_journal.read_bytes()) if kept_journal.exists() else bytearray()
        data[:28] = bytes(min(28, len(data)))
        for name in ("-wal", "-shm", "-journal"):
            Path(f"{made.path}{name}").unlink(missing_ok=True)
        Path(f"{made.path}-journal").write_bytes(data)
        kept.unlink()
        kept_journal.unlink(missing_ok=True)
        made.truth, made.older = truth, b""
        made.keys["late"] = {1}
        return "a journal that has ended"
    db.execute("ROLLBACK")
    db.close()
    made.truth = truth
    made.keys["late"] = {1}
    _put(made, kept, ("", "-journal"))
    log = Path(f"{made.path}-journal")
    if not log.exists():
        return "no journal"
    data = bytearray(log.read_bytes())
    if len(data) < 600:
        return "a short journal"
    record = made.page_size + 8
    if way == "count":
        struct.pack_into(">I", data, 8, rng.choice([0, 1, 0xFFFFFFFF, 3]))
    elif way == "nonce":
        data[12 + rng.randrange(4)] ^= 1 << rng.randrange(8)
    elif way == "pages":
        struct.pack_into(
            ">I",
            data,
            16,
            rng.choice([1, 2, len(before) // made.page_size - 1, len(before) // made.page_size + 4]),
        )
    elif way == "sector":
        data[20 + rng.randrange(4)] ^= 1 << rng.randrange(8)
    elif way == "magic":
        data[rng.randrange(8)] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del data[rng.randrange(512, len(data)) :]
    elif way == "record":
        at = 512 + rng.randrange(max(1, (len(data) - 512) // record)) * record
        data[min(len(data) - 1, at + rng.randrange(record))] ^= 1 << rng.randrange(8)
        made.unseen = True  # only every 200th byte is in its checksum
    elif way == "super":
        name = os.fsencode(f"{made.path}-mj1234")
        data += name + struct.pack(">2I", len(name), sum(name)) + b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
        Path(os.fsdecode(name)).write_bytes(os.fsencode(f"{made.path}-journal") + b"\0")
    elif way == "half back":  # killed while the transaction was taken back
        main = bytearray(made.path.read_bytes())
        at = 512
        while at + record <= len(data) and rng.random() < 0.7:
            number = struct.unpack_from(">I", data, at)[0]
            if 0 < number <= len(main) // made.page_size:
                main[(number - 1) * made.page_size : number * made.page_size] = data[
                    at + 4 : at + 4 + made.page_size
                ]
            at += record
        made.path.write_bytes(main)
    log.write_bytes(data)
    return f"a journal: {way}"


LOGS: list[Callable] = [wal_damaged, journal_damaged]


# --- databases that the others do not make


def reserve(path: Path, page_size: int, reserved: int) -> None:
    """An empty database whose pages keep so many bytes at their end."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size={page_size}")
    db.execute("VACUUM")
    db.close()
    data = bytearray(path.read_bytes())
    data[20] = reserved
    struct.pack_into(">H", data, 105, (page_size - reserved) & 0xFFFF)
    path.write_bytes(data)


def more_tables(db: sqlite3.Connection, rng: random.Random) -> None:
    """Tables of less usual kinds."""
    db.execute(
        "CREATE TABLE counted(a INTEGER, b TEXT, twice INT GENERATED ALWAYS AS (a * 2) VIRTUAL, "
        "kept TEXT GENERATED ALWAYS AS (b || '!') STORED)"
    )
    db.execute("CREATE INDEX counted_twice ON counted(twice)")
    db.execute("CREATE TABLE odd(k BLOB PRIMARY KEY, n NUMERIC, c TEXT COLLATE NOCASE UNIQUE, x) ")
    db.execute("CREATE INDEX odd_lower ON odd(lower(c), n DESC)")
    db.execute("CREATE TABLE plain_two(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b REAL, c BLOB, d TEXT)")
    db.execute("CREATE TABLE bare(v)")
    db.execute("CREATE TABLE far(id INTEGER PRIMARY KEY, t TEXT)")
    db.execute("CREATE TABLE wide(a TEXT, b BLOB, n INT, PRIMARY KEY(a DESC, n)) WITHOUT ROWID")
    db.execute("CREATE VIEW both AS SELECT a FROM plain UNION ALL SELECT a FROM plain_two")
    db.execute("CREATE TABLE texts(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)")
    db.execute("CREATE VIRTUAL TABLE found USING fts5(body, content='texts', content_rowid='id')")
    db.execute(
        "CREATE TRIGGER texts_in AFTER INSERT ON texts BEGIN INSERT INTO found(rowid, body) VALUES (new.id, new.body); END"
    )
    db.execute("BEGIN")
    for number in range(rng.randint(1, 80)):
        db.execute("INSERT INTO counted(a, b) VALUES(?, ?)", (number, inject.text(rng, 50)))
        db.execute(
            "INSERT OR IGNORE INTO odd VALUES(?, ?, ?, ?)",
            (
                rng.randbytes(9),
                rng.choice([number, number / 3, "text"]),
                f"{inject.text(rng, 30)}{number}",
                rng.choice([None, 1, 2.5, b"x", "y"]),
            ),
        )
        db.execute(
            "INSERT INTO plain_two(a, b, c, d) VALUES(?, ?, ?, ?)",
            (inject.text(rng, 60), rng.random(), rng.randbytes(20), inject.text(rng, 200)),
        )
        db.execute(
            "INSERT INTO bare VALUES(?)",
            (rng.choice([None, number, inject.text(rng, 40), rng.randbytes(30)]),),
        )
        db.execute(
            "INSERT OR IGNORE INTO far VALUES(?, ?)",
            (rng.choice([-1, 1]) * rng.getrandbits(rng.choice([5, 20, 62])), inject.text(rng, 60)),
        )
        db.execute(
            "INSERT INTO wide VALUES(?, ?, ?)",
            (inject.text(rng, 40), rng.randbytes(rng.choice([5, 5, 3000])), number),
        )
        db.execute("INSERT INTO texts(body) VALUES(?)", (inject.text(rng, 300),))
    db.execute("COMMIT")

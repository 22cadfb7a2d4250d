"""SQLite's file format read as bytes: pages, cells, records, schema. The first 100 bytes are in header.py."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping

from watchdog.sqlite.faults import Detail
from watchdog.values import dataclass

MAGIC = b"SQLite format 3\0"
INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13
SIZES = tuple(1 << bits for bits in range(9, 17))
INT_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


class Bad(ValueError):
    """These bytes are not what SQLite writes; the phrase is made when it is asked for: a scan raises it by the million."""

    def __init__(self, says: str, **fields: object):
        super().__init__(says)
        self.fields = fields

    def __str__(self) -> str:
        says: str = self.args[0]
        return says(**self.fields) if isinstance(says, Detail) else says


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at this offset and the offset behind it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value = byte & 127
    for step in range(1, 8):
        byte = data[at + step]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


# --- pages


@dataclass(frozen=True)
class Overlay:
    """Pages in a -wal or -journal that count instead of those in the database file."""

    fd: int
    frames: Mapping[int, int]  # page → where it begins in that file


NO_OVERLAY = Overlay(-1, {})


class Image:
    """A database as its readers see it: each page from the WAL when a commit put it there, else from the file."""

    def __init__(
        self, fd: int, page_size: int, reserved: int = 0, pages: int = 0, overlay: Overlay = NO_OVERLAY
    ):
        self.fd, self.page_size, self.usable = fd, page_size, page_size - reserved
        self.wal_fd, self.frames = overlay.fd, overlay.frames
        self.stale: frozenset[int] = frozenset()  # pages that are older than the last commit
        size = os.fstat(fd).st_size
        self.in_file, self.rest = -(-size // page_size), size % page_size or page_size
        self.pages = pages or max(self.in_file, max(self.frames, default=0))

    def page(self, number: int) -> bytes:
        if number in self.frames:
            data = os.pread(self.wal_fd, self.page_size, self.frames[number])
        else:
            data = os.pread(self.fd, self.page_size, (number - 1) * self.page_size)
        return data if len(data) == self.page_size else data.ljust(self.page_size, b"\0")

    def btree(self, number: int) -> Page:
        """This page as a b-tree page, or Bad."""
        return read_page(self.page(number), number, self.usable)

    def there(self, number: int) -> int:
        """How many bytes of a page are in the file; the zeros that stand for the rest were never written."""
        if number < self.in_file or number in self.frames:
            return self.page_size
        return self.rest if number == self.in_file else 0

    @property
    def torn(self) -> bool:
        """Whether the last page ends early."""
        return self.there(min(self.pages, self.in_file)) < self.page_size


class Page:
    """One b-tree page whose header and cell pointers are as SQLite writes them. Made by the million: slots."""

    __slots__ = ("data", "kind", "pointers", "right")

    def __init__(self, kind: int, data: bytes, pointers: tuple[int, ...], right: int = 0) -> None:
        self.kind, self.data, self.pointers, self.right = kind, data, pointers, right

    @property
    def leaf(self) -> bool:
        return self.kind in (TABLE_LEAF, INDEX_LEAF)


def read_page(data: bytes, number: int, usable: int) -> Page:
    """The b-tree page in these bytes, or Bad."""
    base = 100 if number == 1 else 0
    kind = data[base]
    if kind not in (INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF):
        raise Bad(Detail.NO_BTREE_PAGE, number=number)
    freeblock, count, start = struct.unpack_from(">3H", data, base + 1)
    begin = base + (8 if kind in (TABLE_LEAF, INDEX_LEAF) else 12)
    low = begin + 2 * count
    start = start or 65536
    if low > usable or not low <= start <= usable or freeblock >= usable:
        raise Bad(Detail.PAGE_HEADER, number=number)
    pointers = struct.unpack_from(f">{count}H", data, begin)
    if count and (min(pointers) < start or max(pointers) > usable - 4 or len(set(pointers)) != count):
        raise Bad(Detail.CELL_POINTERS, number=number)
    right = struct.unpack_from(">I", data, base + 8)[0] if begin - base == 12 else 0
    return Page(kind, data, pointers, right)


def local_size(size: int, usable: int, table: bool) -> int:
    """How much of a payload is kept on the page itself."""
    most = usable - 35 if table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    part = least + (size - least) % (usable - 4)
    return part if part <= most else least


def children(page: Page) -> Iterator[tuple[int, int | None]]:
    """(child page, greatest key below it) of an interior page; keys only in table trees."""
    for at in page.pointers:
        child = struct.unpack_from(">I", page.data, at)[0]
        try:
            key = signed(varint(page.data, at + 4)[0]) if page.kind == TABLE_INTERIOR else None
        except IndexError:
            raise Bad(Detail.CELL) from None
        yield child, key
    yield page.right, None


class Cell:
    """A cell with a payload. Made by the million: slots."""

    __slots__ = (
        "begin",  # where it lies on its page
        "end",
        "local",  # the part of the payload that is on the page
        "overflow",  # first page of the chain, 0 when the payload is all here
        "rowid",
        "size",  # of the whole payload
    )

    def __init__(self, rowid: int, size: int, local: bytes, overflow: int, begin: int, end: int) -> None:
        self.rowid, self.size, self.local, self.overflow = rowid, size, local, overflow
        self.begin, self.end = begin, end


def read_cell(page: Page, at: int, usable: int) -> Cell:
    """A cell with a payload: of a table leaf or of either kind of index page."""
    data, begin = page.data, at
    try:
        if page.kind == INDEX_INTERIOR:
            at += 4
        size, at = varint(data, at)
        rowid = 0
        if page.kind == TABLE_LEAF:
            rowid, at = varint(data, at)
    except IndexError:
        raise Bad(Detail.CELL) from None
    kept = local_size(size, usable, page.kind == TABLE_LEAF)
    end = at + kept + (4 if kept < size else 0)
    if end > usable or size > 1 << 31:
        raise Bad(Detail.CELL)
    overflow = struct.unpack_from(">I", data, at + kept)[0] if kept < size else 0
    return Cell(signed(rowid), size, data[at : at + kept], overflow, begin, end)


def chain(image: Image, cell: Cell, endless: bool = False) -> list[int]:
    """The overflow pages of a cell; Bad when the chain is too short, leaves the file or, unless endless, goes on."""
    pages: list[int] = []
    number = cell.overflow
    for _ in range(-(-(cell.size - len(cell.local)) // (image.usable - 4))):
        if not 1 < number <= image.pages or number in pages[-1:]:
            raise Bad(Detail.CHAIN_BROKEN)
        pages.append(number)
        number = struct.unpack_from(">I", image.page(number))[0]
    if number and not endless:
        raise Bad(Detail.CHAIN_LENGTH)
    if len(set(pages)) != len(pages):
        raise Bad(Detail.CHAIN_CIRCLE)
    return pages


def payload(image: Image, cell: Cell, endless: bool = False) -> bytes:
    """The whole payload of a cell."""
    if not cell.overflow:
        return cell.local
    numbers = chain(image, cell, endless)
    missing = cell.size - len(cell.local) - (image.usable - 4) * (len(numbers) - 1)  # of the last page
    if any(
        image.there(number) < (image.usable if number != numbers[-1] else 4 + missing) for number in numbers
    ):
        raise Bad(Detail.OVERFLOW_CUT)
    return (cell.local + b"".join(image.page(number)[4 : image.usable] for number in numbers))[: cell.size]


@dataclass(frozen=True)
class Text:
    """Text that is not valid in the encoding of the database: kept as its bytes."""

    raw: bytes


Value = None | int | float | str | bytes | Text
ENCODINGS = {0: "utf-8", 1: "utf-8", 2: "utf-16-le", 3: "utf-16-be"}


def read_record(data: bytes, encoding: str = "utf-8") -> list[Value]:
    """The values of a record; Bad unless header and body fit the payload to the byte."""
    try:
        end, at = varint(data, 0)
        types = []
        while at < end <= len(data):
            kind = data[at]
            if kind < 128:
                at += 1
            else:
                kind, at = varint(data, at)
            types.append(kind)
    except IndexError:
        raise Bad(Detail.RECORD_HEADER) from None
    if at != end:
        raise Bad(Detail.RECORD_HEADER)
    values: list[Value] = []
    for kind in types:
        if kind >= 12:
            body = data[at : at + (kind - 12) // 2]
            if len(body) != (kind - 12) // 2:
                raise Bad(Detail.RECORD_LONGER)
            at += len(body)
            if kind & 1:
                try:
                    values.append(body.decode(encoding))
                except UnicodeDecodeError:
                    values.append(Text(body))
            else:
                values.append(body)
        elif kind == 0:
            values.append(None)
        elif kind == 7:
            if at + 8 > len(data):
                raise Bad(Detail.RECORD_LONGER)
            values.append(struct.unpack_from(">d", data, at)[0])
            at += 8
        elif kind < 10:
            begin, at = at, at + INT_SIZES[kind]
            values.append(kind - 8 if kind > 7 else int.from_bytes(data[begin:at], "big", signed=True))
        else:
            raise Bad(Detail.RECORD_TYPE)
    if at != len(data):
        raise Bad(Detail.RECORD_LENGTH)
    return values


# --- the schema


@dataclass(frozen=True)
class SchemaObject:
    """A table, index, trigger or view with the SQL that makes it: a row of sqlite_schema."""

    type: str
    name: str
    table: str
    sql: str
    root: int = 0  # its first page; 0 when it has none, or when it is not known


def schema_row(values: list[Value]) -> SchemaObject | None:
    """A schema row, if these values can be one."""
    if len(values) != 5 or values[0] not in ("table", "index", "view", "trigger"):
        return None
    kind, name, table, root, sql = values
    if not (
        isinstance(name, str)
        and isinstance(table, str)
        and isinstance(root, int | None)
        and isinstance(sql, str | None)
    ):
        return None
    return SchemaObject(str(kind), name, table, sql or "", root or 0)


def read_schema(image: Image, encoding: str = "utf-8", most: int = 2000) -> list[SchemaObject]:
    """sqlite_schema by walking its tree from page 1; Bad when any of it cannot be read."""
    entries: list[SchemaObject] = []
    stack = [1]
    seen: set[int] = set()
    while stack:
        number = stack.pop()
        if number in seen or len(seen) > most or not 0 < number <= image.pages:
            raise Bad(Detail.SCHEMA_TREE)
        seen.add(number)
        page = image.btree(number)
        if page.kind == TABLE_INTERIOR:
            stack.extend(child for child, _ in reversed(list(children(page))))
            continue
        if page.kind != TABLE_LEAF:
            raise Bad(Detail.SCHEMA_TREE)
        entries += _schema_leaf(image, page, encoding)
    return entries


_leaves: dict[tuple[bytes, int, str], list[SchemaObject]] = {}
MOST_LEAVES = 100


def _schema_leaf(image: Image, page: Page, encoding: str) -> list[SchemaObject]:
    """The rows of one leaf of sqlite_schema.

    Boards have the same schema, byte for byte: a leaf that was read of one of them is known for the others. Measured:
    ten boards cost a quiet check one interpreter start less.
    """
    key = page.data, image.usable, encoding
    entries = _leaves.get(key)
    if entries is not None:
        return entries
    entries = []
    cells = [read_cell(page, at, image.usable) for at in page.pointers]
    for cell in cells:
        entry = schema_row(read_record(payload(image, cell), encoding))
        if entry is None:
            raise Bad(Detail.SCHEMA_ROW)
        entries.append(entry)
    if not any(cell.overflow for cell in cells) and len(_leaves) < MOST_LEAVES:
        _leaves[key] = entries
    return entries

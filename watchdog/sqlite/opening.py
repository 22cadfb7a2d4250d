"""Open a damaged database for the page scan: its page size, its committed WAL, what is left of its schema."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from watchdog.sqlite.making import is_making
from watchdog.sqlite.pages import UNKNOWN, Pages, Tree
from watchdog.sqlite.raw import (
    ENCODINGS,
    MAGIC,
    SIZES,
    TABLE_LEAF,
    Bad,
    Entry,
    Header,
    Image,
    entry_of,
    payload,
    read_cell,
    read_header,
    read_page,
    read_record,
)
from watchdog.sqlite.wal import Wal, read_wal

REGION, REGIONS = 65536, 96


@dataclass
class Opened:
    """A damaged database, as far as it can be made out."""

    pages: Pages
    header: Header | None
    entries: list[Entry]
    schema_whole: bool          # every row of the schema table was read
    schema_gaps: int            # pages of the schema table that are gone
    page_size: int
    says: list[str] = field(default_factory=list)

    @property
    def image(self) -> Image:
        return self.pages.image


def open_damaged(path: str, files: ExitStack, use_wal: bool = True, page_size: int = 0,
                 tick: Callable[[int], None] | None = None) -> Opened:
    """The image behind a path; Bad when nothing in it looks like a database page."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    files.callback(os.close, fd)
    size, says = os.fstat(fd).st_size, []
    try:
        header: Header | None = read_header(os.pread(fd, 100, 0))
    except Bad:
        header = None
    wal, wal_fd = Wal(), -1
    if use_wal and os.path.exists(path + "-wal") and (header is None or header.wal_mode):
        wal_fd = os.open(path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        files.callback(os.close, wal_fd)
        wal = read_wal(wal_fd)
        if wal.fault:
            says.append(wal.fault)
    if 1 in wal.frames:
        try:
            header = read_header(os.pread(wal_fd, 100, wal.frames[1]))
        except Bad:
            says.append("page 1 in the -wal is damaged too")
    size_of_page = _page_size(fd, size, header, wal) or page_size
    if not size_of_page:
        raise Bad("no page in it looks like a database page")
    if header is not None and header.page_size != size_of_page:
        says.append(f"the header gives a page size of {header.page_size}, the pages have {size_of_page}")
        header = replace(header, page_size=size_of_page, reserved=0)
    frames = wal.frames if wal.page_size == size_of_page else {}
    count = wal.pages if frames else 0
    if not frames and header and header.counts_itself and header.pages * size_of_page < size:
        count = header.pages        # what lies behind the end was cut off by SQLite itself
    image = Image(fd, size_of_page, header.reserved if header else 0, count, wal_fd, frames)
    pages = Pages(image, ENCODINGS[header.encoding if header else 0], tick)
    entries, gaps, whole = _schema(pages, header)
    return Opened(pages, header, entries, whole, gaps, size_of_page, says)


def _page_size(fd: int, size: int, header: Header | None, wal: Wal) -> int:
    if wal.page_size and wal.frames:
        return wal.page_size
    if header and header.counts_itself and header.pages * header.page_size == size:
        return header.page_size
    votes = {one: _valid_pages(fd, size, one) for one in SIZES}
    best = max(votes, key=lambda one: (votes[one], header is not None and header.page_size == one))
    return best if votes[best] else 0


def _valid_pages(fd: int, size: int, page_size: int) -> int:
    """How many pages of this size are strictly valid, in regions spread over the file: the same for every size."""
    regions = -(-size // REGION)
    step = max(1, regions // REGIONS)
    count = 0
    for region in range(0, regions, step):
        data = os.pread(fd, REGION, region * REGION)
        for at in range(0, len(data) - page_size + 1, page_size):
            number = 1 if region == 0 and at == 0 else 2
            try:
                page = read_page(data[at:at + page_size], number, page_size)
                if page.pointers and page.leaf:
                    # the first cell of a page is put at its very end: no other page size has that
                    count += max(read_cell(page, one, page_size).end for one in page.pointers) == page_size
            except (Bad, IndexError, struct.error):
                continue
    return count


def _schema(pages: Pages, header: Header | None) -> tuple[list[Entry], int, bool]:
    """What is left of sqlite_schema: from its tree, and when that is torn, from any page that looks like part of it."""
    tree = Tree("sqlite_schema", 1, True)
    pages.walk(tree)
    pages.claim_overflow(tree)
    rows = list(pages.rows(tree))
    entries = [entry for row in rows if row.values and (entry := entry_of(row.values)) and _plausible(entry)]
    whole = not tree.missing and len(entries) == len(rows) and bool(rows)
    if not whole:
        free = _free(pages, header)
        for number in range(2, pages.image.pages + 1):
            if pages.claims[number] == UNKNOWN and number not in free:
                entries += _schema_leaf(pages, number)
    names: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        names.setdefault((entry.type, entry.name.lower()), entry)       # the tree's own rows come first
    gaps = len(tree.missing) if pages.claims[1] else 0          # page 1 itself is no page of rows
    return list(names.values()), gaps, whole


def widths(pages: Pages) -> frozenset[int]:
    """How many columns the rows have on leaves that no known table claims: they tell which release made them."""
    found = set()
    for number in range(2, pages.image.pages + 1):
        data = pages.image.page(number)
        if pages.claims[number] == UNKNOWN and data[0] == TABLE_LEAF:
            try:
                page = read_page(data, number, pages.image.usable)
                for at in page.pointers[-1:]:
                    found.add(len(read_record(payload(pages.image, read_cell(page, at, pages.image.usable)))))
            except Bad:
                continue
    return frozenset(found)


def _plausible(entry: Entry) -> bool:
    return not entry.sql or is_making(entry.sql)


def _schema_leaf(pages: Pages, number: int) -> list[Entry]:
    data = pages.image.page(number)
    if data[0] != TABLE_LEAF:
        return []
    found = []
    try:
        page = read_page(data, number, pages.image.usable)
        for at in page.pointers:
            cell = read_cell(page, at, pages.image.usable)
            entry = entry_of(read_record(payload(pages.image, cell), pages.encoding))
            if entry is None or not _plausible(entry):
                return []
            found.append(entry)
    except Bad:
        return []
    if found:
        one = Tree("sqlite_schema", number, True)
        pages.walk(one)
        pages.claim_overflow(one)
    return found


def _free(pages: Pages, header: Header | None) -> set[int]:
    """The free pages as the header lists them, not claimed yet: trees that turn out to use one are in the right."""
    probe = Pages(pages.image)
    if header:
        probe.claim_free(header.free_head, header.free_count)
    return {number for number, claim in enumerate(probe.claims) if claim != UNKNOWN}


def rebuilt_header(data: bytes, page_size: int, pages: int, free_ok: bool) -> bytes:
    """The first 100 bytes with everything put right that has only one right value."""
    fixed = bytearray(data[:100])
    fixed[:16] = MAGIC
    struct.pack_into(">H", fixed, 16, 1 if page_size == 65536 else page_size)
    if fixed[18] not in (1, 2) or fixed[19] not in (1, 2):
        fixed[18:20] = b"\x02\x02"
    fixed[20:24] = b"\x00\x40\x20\x20"
    change = struct.unpack_from(">I", fixed, 24)[0]
    struct.pack_into(">I", fixed, 28, pages)
    if not free_ok:
        struct.pack_into(">2I", fixed, 32, 0, 0)
    if struct.unpack_from(">I", fixed, 44)[0] not in (1, 2, 3, 4):
        struct.pack_into(">I", fixed, 44, 4)
    if struct.unpack_from(">I", fixed, 56)[0] not in (1, 2, 3):
        struct.pack_into(">I", fixed, 56, 1)
    if struct.unpack_from(">I", fixed, 52)[0] > pages:
        struct.pack_into(">I", fixed, 52, 0)
    fixed[72:92] = bytes(20)
    struct.pack_into(">I", fixed, 92, change)       # "the page count is of this change": else SQLite recounts
    return bytes(fixed)

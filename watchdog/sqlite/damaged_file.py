"""Open a damaged database for the page scan: its page size, its committed WAL, what is left of its schema."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from watchdog.sqlite.format import (
    ENCODINGS,
    MAGIC,
    SIZES,
    TABLE_LEAF,
    Bad,
    Image,
    Overlay,
    SchemaObject,
    payload,
    read_cell,
    read_page,
    read_record,
    schema_row,
)
from watchdog.sqlite.header import Header, read_header
from watchdog.sqlite.journal import Journal, read_journal
from watchdog.sqlite.notes import RepairNote, note
from watchdog.sqlite.page_scan import UNKNOWN, Pages, Tree
from watchdog.sqlite.schema import is_making, put_right
from watchdog.sqlite.wal import Wal, read_wal

REGION, REGIONS, FEW = 65536, 96, 12  # pages are sampled from so many parts of the file


@dataclass
class Opened:
    """A damaged database, as far as it can be made out."""

    pages: Pages
    header: Header | None
    entries: list[SchemaObject]
    schema_whole: bool  # every row of the schema table was read
    schema_gaps: int  # pages of the schema table that are gone, and rows of it that cannot be read
    page_size: int
    declared: int = 0  # pages that the header, the journal or the WAL counts; 0 when none can be believed
    wal: Wal = field(default_factory=Wal)
    journal: Journal = field(default_factory=Journal)
    says: list[str] = field(default_factory=list)

    @property
    def image(self) -> Image:
        return self.pages.image

    @property
    def encoding(self) -> str:
        return self.pages.encoding

    @property
    def encoding_name(self) -> str:
        """The encoding as SQLite's pragma wants it."""
        return self.encoding.replace("16-", "16")


def open_damaged(
    path: str, files: ExitStack, use_wal: bool = True, tick: Callable[[int], None] | None = None
) -> Opened:
    """The image behind a path: the journal rolled back, else the committed frames of the WAL in their places.

    Bad when nothing in it looks like a database page. The end of the image is the end of the file: a header
    that counts fewer pages proves nothing.
    """
    fd = _open(path, files)
    size, says = os.fstat(fd).st_size, []
    header = _header(os.pread(fd, 100, 0))
    wal, journal, side = Wal(), Journal(), -1
    if use_wal and os.path.exists(path + "-journal"):
        side = _open(path + "-journal", files)
        journal = read_journal(side, fd)
    if (
        not journal.hot and use_wal and os.path.exists(path + "-wal")
    ):  # SQLite reads it, whatever the header says
        side = _open(path + "-wal", files)
        wal = read_wal(side)
        if wal.fault:
            says.append(wal.fault)
    frames = journal.frames if journal.hot else {**wal.frames, **wal.rest}
    if 1 in frames:
        header = _header(os.pread(side, 100, frames[1])) or header
    size_of_page = (journal.page_size if journal.hot else 0) or _page_size(fd, size, header, wal)
    if not size_of_page:
        raise Bad("no page in it looks like a database page")
    if header is not None and header.page_size != size_of_page:
        says.append(note(RepairNote.PAGE_SIZES, header=header.page_size, pages=size_of_page))
        header = replace(header, page_size=size_of_page)
    if not journal.hot and wal.page_size != size_of_page:
        frames = {}
    count = journal.pages if journal.hot else (wal.rest_pages or wal.pages) if frames else 0
    declared = count or (header.pages if header and header.counts_itself else 0)
    reserved = _reserved(fd, size, size_of_page, header)
    image = Image(fd, size_of_page, reserved, count, Overlay(side, frames))
    image.stale = wal.stale
    encoding = _encoding(image, header)
    auto_vacuum = _has_pointer_map(image)
    pages = Pages(image, encoding, tick, auto_vacuum)
    entries, gaps, whole = _schema(pages, header)
    return Opened(pages, header, entries, whole, gaps, size_of_page, declared, wal, journal, says)


def _open(path: str, files: ExitStack) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    files.callback(os.close, fd)
    return fd


def _header(data: bytes) -> Header | None:
    try:
        return read_header(data)
    except Bad:
        return None


def _page_size(fd: int, size: int, header: Header | None, wal: Wal) -> int:
    if wal.page_size and wal.frames:
        return wal.page_size
    if header and header.counts_itself and header.pages * header.page_size == size:
        return header.page_size
    votes = {}
    for page_size in SIZES:
        ends = _ends_of_leaves(fd, size, page_size)
        votes[page_size] = ends.get(_most_common(ends, page_size), 0)
    best = max(votes, key=lambda size: (votes[size], header is not None and header.page_size == size))
    return best if votes[best] else 0


def _reserved(fd: int, size: int, page_size: int, header: Header | None) -> int:
    """Bytes that are kept free at the end of each page: by the header, unless most pages tell otherwise."""
    ends = _ends_of_leaves(fd, size, page_size, strict=header is None)
    voted = _most_common(ends, page_size)
    if (
        header
        and 2 * ends.get(header.reserved, 0) >= ends.get(voted, 0)
        and page_size - header.reserved >= 480
    ):
        return header.reserved
    return voted


def _most_common(ends: Mapping[int, int], page_size: int) -> int:
    """How many bytes at the end of most pages are reserved."""
    best = max(ends, key=lambda free: (ends[free], -free), default=0)
    # deleted rows leave room at the end of a page, so a few odd ends mean nothing
    return best if best < 256 and page_size - best >= 480 else 0


def _ends_of_leaves(fd: int, size: int, page_size: int, strict: bool = True) -> dict[int, int]:
    """How many leaves of this size are valid (strict: in every cell), by the number of unused bytes at their end.

    Looked at in regions spread over the file, the same for every size. The first cell of a page is put at the
    very end of what may be used, so no other page size has that.
    """
    regions = -(-size // REGION)
    step = max(1, regions // (REGIONS if strict else FEW))
    ends: dict[int, int] = {}
    for region in range(0, regions, step):
        data = os.pread(fd, REGION, region * REGION)
        for at in range(0, len(data) - page_size + 1, page_size):
            number = 1 if region == 0 and at == 0 else 2
            try:
                page = read_page(data[at : at + page_size], number, page_size)
                if page.pointers and page.leaf:
                    looked_at = page.pointers if strict else (max(page.pointers),)
                    cells = [read_cell(page, at, page_size) for at in looked_at]
                    if not any(cell.overflow for cell in cells):
                        free = page_size - max(cell.end for cell in cells)
                        ends[free] = ends.get(free, 0) + 1
                    elif max(cell.end for cell in cells) == page_size:
                        ends[0] = ends.get(0, 0) + 1
            except (Bad, IndexError, struct.error):
                continue
    return ends


def _encoding(image: Image, header: Header | None, most: int = 400) -> str:
    """How text is encoded: by the header, unless the texts on the leaves tell otherwise."""
    votes = dict.fromkeys(("utf-8", "utf-16-le", "utf-16-be"), 0)
    texts = 0
    for number in range(1, image.pages + 1):
        data = image.page(number)
        if data[100 if number == 1 else 0] != TABLE_LEAF:
            continue
        try:
            page = read_page(data, number, image.usable)
            for at in page.pointers[:20]:
                cell = read_cell(page, at, image.usable)
                for value in read_record(payload(image, cell), "latin-1"):
                    if isinstance(value, str) and len(value) > 3:
                        texts += 1
                        _vote(votes, value.encode("latin-1"))
        except (Bad, IndexError, struct.error):
            continue
        if texts > most:
            break
    best = max(votes, key=lambda name: votes[name])
    declared = ENCODINGS[header.encoding] if header else best
    return declared if votes[best] <= 4 * max(20, votes[declared]) else best


def _vote(votes: dict[str, int], raw: bytes) -> None:
    for name in votes:
        try:
            text = raw.decode(name)
        except UnicodeDecodeError:
            continue
        # Text in the wrong one of these is full of zeros or of signs that no one writes side by side.
        plain = sum(char.isascii() and char != "\0" for char in text)
        blocks = len({ord(char) >> 8 for char in text})
        votes[name] += 4 * plain + len(text) - 2 * text.count("\0") - 2 * blocks


def _has_pointer_map(image: Image) -> bool:
    """Whether page 2 is a pointer map, which auto-vacuum keeps."""
    if image.pages < 3:
        return False
    data = image.page(2)
    kinds = [data[at] for at in range(0, 5 * min(image.usable // 5, image.pages - 2), 5)]
    return bool(kinds) and all(1 <= kind <= 5 for kind in kinds)


def _schema(pages: Pages, header: Header | None) -> tuple[list[SchemaObject], int, bool]:
    """What is left of sqlite_schema: from its tree, and when that is torn, from any page that looks like part
    of it.
    """
    tree = Tree("sqlite_schema", 1, True)
    pages.walk(tree)
    pages.claim_overflow(tree)
    rows = list(pages.rows(tree))
    entries = [
        entry for row in rows if row.values and (entry := schema_row(row.values)) and _plausible(entry)
    ]
    as_written, entries = entries, put_right(entries)
    torn = len(rows) - len(entries)  # an overflow page of theirs may be gone
    whole = not tree.missing and len(entries) == len(rows) and bool(rows) and as_written == entries
    if not whole:
        free = _free(pages, header)
        for number in range(2, pages.image.pages + 1):
            if pages.claims[number] == UNKNOWN and number not in free:
                entries += _schema_leaf(pages, number)
    names: dict[tuple[str, str], SchemaObject] = {}
    for entry in entries:
        names.setdefault((entry.type, entry.name.lower()), entry)  # the tree's own rows come first
    gaps = len(tree.missing) + torn if pages.claims[1] else 0  # page 1 itself is no page of rows
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


def _plausible(entry: SchemaObject) -> bool:
    return not entry.sql or is_making(entry.sql)


def _schema_leaf(pages: Pages, number: int) -> list[SchemaObject]:
    data = pages.image.page(number)
    if data[0] != TABLE_LEAF:
        return []
    found = []
    try:
        page = read_page(data, number, pages.image.usable)
        for at in page.pointers:
            cell = read_cell(page, at, pages.image.usable)
            entry = schema_row(read_record(payload(pages.image, cell), pages.encoding))
            if entry is None or not _plausible(entry):
                return []
            found.append(entry)
    except Bad:
        return []
    if found:
        tree = Tree("sqlite_schema", number, True)
        pages.walk(tree)
        pages.claim_overflow(tree)
    return found


def has_zeroed_pages(opened: Opened) -> bool:
    """Whether a page that is not free is all zeros: in a sound file only the end of a long content can be that."""
    image = opened.image
    zeros = bytes(image.page_size)
    found = {number for number in range(2, image.pages + 1) if image.page(number) == zeros}
    return bool(found) and not found <= _free(opened.pages, opened.header)


def _free(pages: Pages, header: Header | None) -> set[int]:
    """The free pages as the header lists them, not claimed yet: trees that turn out to use one are in the
    right.
    """
    probe = Pages(pages.image, auto_vacuum=pages.auto_vacuum)
    if header:
        probe.claim_free(header.free_head, header.free_count)
    return {number for number, claim in enumerate(probe.claims) if claim != UNKNOWN}


def rebuilt_header(opened: Opened, first: bytes, pages: int, free_ok: bool) -> bytes:
    """The first 100 bytes with everything put right that has only one right value."""
    fixed, image = bytearray(first[:100]), opened.image
    fixed[:16] = MAGIC
    struct.pack_into(">H", fixed, 16, 1 if image.page_size == 65536 else image.page_size)
    if fixed[18] not in (1, 2) or fixed[19] not in (1, 2):
        fixed[18:20] = b"\x02\x02"
    fixed[20:24] = bytes([image.page_size - image.usable]) + b"\x40\x20\x20"
    change = struct.unpack_from(">I", fixed, 24)[0]
    struct.pack_into(">I", fixed, 28, pages)
    if not free_ok:
        struct.pack_into(">2I", fixed, 32, 0, 0)
    if struct.unpack_from(">I", fixed, 44)[0] not in (1, 2, 3, 4):
        struct.pack_into(">I", fixed, 44, 4)
    if ENCODINGS.get(struct.unpack_from(">I", fixed, 56)[0]) != opened.encoding:
        struct.pack_into(">I", fixed, 56, list(ENCODINGS.values()).index(opened.encoding) or 1)
    if struct.unpack_from(">I", fixed, 52)[0] > pages:
        struct.pack_into(">I", fixed, 52, 0)
    fixed[72:92] = bytes(20)
    struct.pack_into(">I", fixed, 92, change)  # "the page count is of this change": else SQLite recounts
    return bytes(fixed)

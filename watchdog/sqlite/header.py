"""The first 100 bytes of a database: what they say, or what the file is instead."""

from __future__ import annotations

import struct

from watchdog.sqlite.faults import Detail
from watchdog.sqlite.format import MAGIC, SIZES, Bad
from watchdog.values import dataclass


@dataclass(frozen=True)
class Header:
    """The fields of the first 100 bytes that the doctor looks at."""

    page_size: int
    wal_mode: bool  # by either of two bytes: SQLite decides by the second, and a damaged one proves nothing
    reserved: int
    change: int
    pages: int
    free_head: int
    free_count: int
    cookie: int  # changes with the schema
    largest_root: int
    encoding: int
    user_version: int
    application: int
    valid_for: int

    @property
    def counts_itself(self) -> bool:
        """Whether the page count in the header was written by the same change as the rest."""
        return self.change == self.valid_for and self.pages > 0


def read_header(data: bytes) -> Header:
    """The header, or Bad with the fault in words."""
    if len(data) < 100:
        raise Bad(Detail.TOO_SHORT, count=len(data))
    if data[:16] != MAGIC:
        raise _foreign(data) or _unlike(data)
    raw_size = struct.unpack_from(">H", data, 16)[0]
    size = 65536 if raw_size == 1 else raw_size
    if size not in SIZES:
        raise Bad(Detail.PAGE_SIZE, size=raw_size)
    if data[18] not in (1, 2) or data[19] not in (1, 2):
        raise Bad(Detail.FILE_FORMAT, format=f"{data[18]}/{data[19]}")
    if data[21:24] != b"\x40\x20\x20" or size - data[20] < 480:
        raise Bad(Detail.FIXED_BYTES)
    change, pages, free_head, free_count, cookie = struct.unpack_from(">5I", data, 24)
    largest_root, encoding, user_version = struct.unpack_from(">3I", data, 52)
    application = struct.unpack_from(">I", data, 68)[0]
    layout = struct.unpack_from(">I", data, 44)[0]
    if encoding > 3 or layout > 4:
        raise Bad(Detail.ENCODING, encoding=encoding, format=layout)
    valid_for = struct.unpack_from(">I", data, 92)[0]
    places = change, pages, free_head, free_count, cookie, largest_root, encoding, user_version, application
    return Header(size, 2 in data[18:20], data[20], *places, valid_for)


def _foreign(data: bytes) -> Bad | None:
    """What the file is instead, when its first bytes tell."""
    if data[:5] == b"SQLit" and data[5:8] in (b"\x17\x03\x01", b"\x17\x03\x02", b"\x17\x03\x03"):
        return Bad(Detail.TLS)
    for magic, name in (
        (b"\x1f\x8b", Detail.GZIP),
        (b"age-encryption.org", Detail.AGE),
        (b"-----BEGIN AGE", Detail.AGE),
        (b"PK\x03\x04", Detail.ZIP),
        (b"\x28\xb5\x2f\xfd", Detail.ZSTD),
        (b"BZh", Detail.BZIP2),
        (b"\xfd7zXZ", Detail.XZ),
    ):
        if data.startswith(magic):
            return Bad(Detail.FOREIGN, name=name())
    if data and not data.strip(b"\0"):
        return Bad(Detail.ZEROS)
    return None


def _unlike(data: bytes) -> Bad:
    """How far the first bytes are from SQLite's.

    Not the bytes: what lies there instead may be a chat, or a key.
    """
    wrong = [at for at in range(16) if data[at] != MAGIC[at]]
    if len(wrong) != 1:
        return Bad(Detail.MAGIC, count=len(wrong))
    return Bad(Detail.MAGIC_BYTE, count=1, number=wrong[0] + 1, value=f"{data[wrong[0]]:02x}")

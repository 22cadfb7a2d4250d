"""What a file is that is called a database and does not begin like one."""

from __future__ import annotations


def instead(data: bytes, magic: bytes) -> str:
    """In words: what its first bytes tell, or how far they are from those that a database begins with."""
    return _foreign(data) or _unlike(data, magic)


def _foreign(data: bytes) -> str:
    """What the file is instead, when its first bytes tell."""
    if data[:5] == b"SQLit" and data[5:8] in (b"\x17\x03\x01", b"\x17\x03\x02", b"\x17\x03\x03"):
        return "a TLS record was written over the header: a socket and the file shared a descriptor"
    for magic, name in ((b"\x1f\x8b", "gzip data"), (b"age-encryption.org", "an age-encrypted file"),
                        (b"-----BEGIN AGE", "an age-encrypted file"), (b"PK\x03\x04", "a zip archive"),
                        (b"\x28\xb5\x2f\xfd", "zstd data"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ", "xz data")):
        if data.startswith(magic):
            return f"the file is {name}, not a database"
    if data and not data.strip(b"\0"):
        return "the header is all zeros"
    return ""


def _unlike(data: bytes, magic: bytes) -> str:
    """How far the first bytes are from SQLite's. Not the bytes: what lies there instead may be a chat, or a key."""
    wrong = [at for at in range(16) if data[at] != magic[at]]
    which = f" (byte {wrong[0] + 1} is {data[wrong[0]]:02x})" if len(wrong) == 1 else ""
    return f"the first 16 bytes are not SQLite's: {len(wrong)} wrong{which}"

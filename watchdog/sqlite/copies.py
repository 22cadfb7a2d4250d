"""Copies of database files: around sectors that a disk does not give, with their hash, owner and note."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from watchdog.system.files import fsync

SECTOR = 4096


def blocks(file: BinaryIO, size: int = 1 << 20) -> Iterator[tuple[bytes, int]]:
    """The content of a file and how much of each block could not be read: that is given as zeros.

    A disk that fails gives EIO for a few sectors; the rest of the file is still good.
    """
    fd, offset = file.fileno(), 0
    while True:
        try:
            data, bad = os.pread(fd, size, offset), 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data, bad = b"", 0
            for at in range(offset, min(offset + size, os.fstat(fd).st_size), SECTOR):
                try:
                    data += os.pread(fd, SECTOR, at)
                except OSError:
                    missing = min(SECTOR, os.fstat(fd).st_size - at)
                    data, bad = data + bytes(missing), bad + missing
        if not data:
            return
        yield data, bad
        offset += len(data)


@dataclass(frozen=True)
class CopiedPart:
    """A file that was copied around the sectors that cannot be read."""

    digest: str
    unreadable: int  # bytes, given as zeros


def copy_around(source: str, target: str | os.PathLike) -> CopiedPart:
    """Copy a file around sectors that cannot be read; the hash is taken on the way."""
    digest, unreadable = hashlib.sha256(), 0
    with open(source, "rb") as file, open(target, "wb") as copy:
        for data, bad in blocks(file):
            copy.write(data)
            digest.update(data)
            unreadable += bad
    return CopiedPart(digest.hexdigest(), unreadable)


def sha256(path: str) -> str:
    """The hash of what can be read of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for data, _ in blocks(file):
            digest.update(data)
    return digest.hexdigest()


def give(path: str | os.PathLike, owner: os.stat_result, mode: int | None = None) -> None:
    """Give a file to the owner of the database."""
    if mode is not None:
        os.chmod(path, mode)
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)


def write_json(path: Path, value: object, owner: os.stat_result | None = None) -> None:
    """A small file, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with open(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    if owner is not None:
        give(part, owner)
    os.replace(part, path)
    fsync(path.parent)

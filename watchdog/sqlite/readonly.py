"""A connection that reads a live database and leaves no trace: no sidecar made or removed, no lock a writer
feels.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from watchdog.sqlite.files import stamps_of
from watchdog.sqlite.format import Bad
from watchdog.sqlite.header import read_header
from watchdog.sqlite.journal import mend_header, read_journal

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~/")


class Moved(Exception):
    """The file changed under a reader that relied on its rest; ask again."""


def uri(path: str, mode: str) -> str:
    # As urllib's quote, which loads more than a whole check of a small file costs.
    name = "".join(
        chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(os.path.abspath(path))
    )
    return f"file:{name}?{mode}"


def connect(path: str, mode: str = "mode=ro", timeout: float = 5) -> sqlite3.Connection:
    db = sqlite3.connect(
        uri(path, mode), uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    db.text_factory = bytes  # damaged text must not stop a check
    return db


@contextmanager
def place(path: str) -> Iterator[tuple[str, str]]:
    """Where and with which URI mode to open this database, several times if need be.

    `mode=ro` is harmless beside its users but would leave a -wal and -shm beside a file that has none, so:
    no process uses it -> immutable, and afterwards make sure that none came; a -wal without -shm (a crash) ->
    through
    links in a private folder, where the -shm may be made and thrown away.
    """
    if _hot_journal(path):
        yield from _rolled_back(path)
        return
    wal, shm = os.path.exists(path + "-wal"), os.path.exists(path + "-shm")
    if (wal and shm) or not (wal or _wal_mode(path)):
        yield path, "mode=ro"
        return
    before = _signature(path)
    if not wal or not before[1] or before[1][2] == 0:
        try:
            yield path, "mode=ro&immutable=1"
        except sqlite3.Error:
            if _signature(path) == before:
                raise  # else there was a write meanwhile, and what looked like damage was half of it
        if _signature(path) != before:
            raise Moved(path)
        return
    folder = _private(path)
    try:
        copy = os.path.join(folder, "db")
        for part in ("", "-wal"):
            try:
                os.link(path + part, copy + part)
            except OSError:
                shutil.copyfile(path + part, copy + part)
        yield copy, "mode=ro"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if _signature(path) != before:
        raise Moved(path)


def _rolled_back(path: str) -> Iterator[tuple[str, str]]:
    """A copy on which SQLite may take the unfinished transaction back; a writer at work owns its journal."""
    before = _signature(path)
    folder = _private(path)
    try:
        copy = os.path.join(folder, "db")
        for part in ("", "-journal"):
            shutil.copyfile(path + part, copy + part)
        if _signature(path) != before or not _hot_journal(path):
            raise Moved(path)
        mend_header(copy)
        yield copy, "mode=rw"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hot_journal(path: str) -> bool:
    """Whether a transaction was cut short here: a journal that is in use is its writer's, not ours."""
    try:
        with open(path + "-journal", "rb") as journal, open(path, "rb") as file:
            if not read_journal(journal.fileno(), file.fileno()).hot:
                return False
            # SQLite's RESERVED and PENDING bytes: a writer at work holds a lock on one of them.
            lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0x40000000, 2, 0)
            found = fcntl.fcntl(file, fcntl.F_GETLK, lock)
            return struct.unpack("hhqqi", found)[0] == fcntl.F_UNLCK
    except OSError:
        return False


def _private(path: str) -> str:
    try:
        return tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.look-", dir=os.path.dirname(path) or ".")
    except OSError:
        return tempfile.mkdtemp(prefix="hermes-watchdog-")


def _wal_mode(path: str) -> bool:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return read_header(file.read(100)).wal_mode
    except Bad:
        return True  # the WAL may hold a better header


def _signature(path: str) -> list[tuple[int, ...]]:
    return [stamp[:4] for stamp in stamps_of(path)]  # a link of ours to the file changes its ctime

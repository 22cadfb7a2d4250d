"""Small files of values that only we can have written: what an earlier check worked out, so that the next need not.

Such a file is believed only when it is ours, no other user may open it or exchange it, and its seal fits its content
and everything that the content was made from; otherwise it is as if it were not there. The seal tells damage and
change. It need not withstand an enemy, who could not have written the file: hashlib alone, which loads OpenSSL,
takes a quarter of a start of Python.
"""

from __future__ import annotations

import os
import pickle
import stat
import zlib
from contextlib import suppress

from watchdog.values import Any, StrPath

LARGEST = 50_000_000
SEAL = 24  # bytes


def read(path: StrPath, key: bytes) -> Any:
    """What was written under the same key; OSError or ValueError when nothing was."""
    if others_may_exchange(os.path.dirname(path)):
        raise ValueError("another user may have put it there")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ValueError("another user may have written it, or reads it")
        content = file.read(LARGEST)
    # pickle trusts what it reads, so what it reads is checked first.
    body = memoryview(content)[SEAL:]
    if _seal(key, body) != content[:SEAL]:
        raise ValueError("made from something else, or damaged")
    try:
        return pickle.loads(body)
    except Exception as error:  # whatever a class of another time may raise
        raise ValueError(f"cannot be read: {error}") from error


def write(path: StrPath, key: bytes, value: Any) -> None:
    """Put the file in its place whole, or not at all.

    What a writer that was killed left behind is written over. Of two at once the seal tells which one is whole.
    """
    body = pickle.dumps(value, 5)
    part = _part(path)
    try:
        with suppress(FileNotFoundError):
            os.unlink(part)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(_seal(key, body) + body)
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def remove(path: StrPath) -> None:
    """Neither the file nor what a writer that was killed left of it."""
    for name in (path, _part(path)):
        with suppress(FileNotFoundError):
            os.unlink(name)


def others_may_exchange(folder: StrPath) -> bool:
    """Whether another user may put a file of this folder in another's place."""
    status = os.stat(folder)
    open_to_others = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    return bool(open_to_others) or status.st_uid not in (0, os.geteuid())


def _part(path: StrPath) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.part")


def _seal(key: bytes, body: bytes | memoryview) -> bytes:
    return b"%08x%08x%08x" % (zlib.crc32(key), zlib.adler32(key), zlib.crc32(body))

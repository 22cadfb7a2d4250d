"""Reading files that another user may have put there: regular files only, and never more than a limit; writing files
whole or not at all, never through a link.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress

from watchdog.values import TYPE_CHECKING, Any, StrPath

if TYPE_CHECKING:
    from typing import IO

SMALL = 200_000  # bytes; no state or unit file of Hermes comes near
LINKS = 40  # on the way to a file, as many as the kernel follows


def working_folder() -> str:
    """Where we are; the root where that folder was deleted, as cron and shells allow."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


class LedAstray(OSError):
    """Root did not open a file, because a link of another user (`maker`) leads to a file that is not theirs."""

    def __init__(self, path: StrPath, maker: int):
        super().__init__(errno.EPERM, f"a link of user {maker} leads to a file of another user", str(path))
        self.maker = maker


def open_for_reading(path: StrPath, flags: int = 0) -> int:
    """A descriptor; as root only of a file that no link of another user than its owner leads to."""
    flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags)
    if os.geteuid() != 0:
        return fd  # who is not root sees no more than they may
    with suppress(OSError):
        if os.readlink(f"/proc/self/fd/{fd}") == os.path.abspath(path):
            return fd  # nearly always: no link is on the way to what is open
    os.close(fd)
    return _open_through_links(path, flags)


def _open_through_links(path: StrPath, flags: int) -> int:
    """The way to a file, part by part: each is held open, so what is exchanged meanwhile leads nowhere else."""
    left, makers, links = _parts(os.path.abspath(path)), set(), 0
    at = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        while left:
            name = left.pop()
            part = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            status = os.fstat(part)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink("", dir_fd=part)
                os.close(part)
                links += 1
                if links > LINKS or (not left and flags & os.O_NOFOLLOW):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                makers.add(status.st_uid)
                left += _parts(target)
                if not target.startswith("/"):
                    continue
                part = os.open("/", os.O_PATH | os.O_CLOEXEC)
            os.close(at)
            at = part
        # Opened anew by its descriptor: it is the file that was reached, by whatever name it goes now.
        fd = os.open(f"/proc/self/fd/{at}", flags & ~os.O_NOFOLLOW)
    finally:
        os.close(at)
    known = {0, os.stat("/").st_uid, os.fstat(fd).st_uid}  # in a user namespace the host's root has no number
    if others := makers - known:
        os.close(fd)
        raise LedAstray(path, max(others))
    return fd


def _parts(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in path.split("/") if part and part != "."][::-1]


def open_regular(path: StrPath, buffering: int = 0, follow: bool = True) -> IO[bytes]:
    """Open a file for reading; a pipe or a device of that name would block for ever.

    `follow=False` refuses a symbolic link in the last part of the path.
    """
    return open(_open_regular(path, follow), "rb", buffering=buffering)


def _open_regular(path: StrPath, follow: bool) -> int:
    fd = open_for_reading(path, 0 if follow else os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, "is not a regular file", str(path))
    return fd


def read_small(path: StrPath, limit: int = SMALL, follow: bool = True) -> bytes:
    """The beginning of a regular file, at most `limit` bytes; OSError when there is none or it may not be read."""
    fd = _open_regular(path, follow)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def read_text(path: StrPath, limit: int = SMALL) -> str:
    """The beginning of a file as text; '' when it cannot be read."""
    try:
        return read_small(path, limit).decode("utf-8", "replace")
    except OSError:
        return ""


def read_object(path: StrPath, limit: int = SMALL, follow: bool = True) -> dict[str, Any]:
    """The JSON object in a small file; {} when there is none, or the file is a link, a folder or something else.

    PermissionError when the file is there and may not be read: that is not the same as none.
    """
    try:
        value = json.loads(read_small(path, limit, follow))
    except PermissionError:
        raise
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def create_file(path: StrPath, data: bytes, mode: int = 0o600, folder: int | None = None) -> None:
    """A new file with these bytes and this mode, on the disk; FileExistsError where anything has its name, a link too.

    With `folder`, the descriptor of an open one, the path begins there.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)  # whatever the umask of cron is
        os.fsync(file.fileno())


def replace_file(path: StrPath, data: bytes, mode: int = 0o600) -> None:
    """The file with these bytes and this mode, all of it or the old one.

    The folder is held open, so that no other user puts another in its place meanwhile; the new file takes the old
    one's place by a rename, which follows no link.
    """
    above, name = os.path.split(path)
    folder = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    part = f".{name}.{os.getpid()}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)  # left by a process of that number that was killed
        try:
            create_file(part, data, mode, folder)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def fsync(path: StrPath) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def short_digest(path: str) -> str:
    """Eight digits that tell one path from another, also where a stranger chose the two."""
    from hashlib import sha256  # it loads OpenSSL, which takes a quarter of a start of Python

    return sha256(path.encode()).hexdigest()[:8]


def free_bytes(folder: StrPath) -> int | None:
    """Room left for us on the folder's volume; 0 on one that is read-only, None when that cannot be told."""
    try:
        volume = os.statvfs(folder)
    except OSError:
        return None
    return 0 if volume.f_flag & os.ST_RDONLY else volume.f_bavail * volume.f_frsize

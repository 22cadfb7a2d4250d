"""A report or page as a file: all of it or the old one, never through a link, never in place of something else."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.system.files import read_small
from watchdog.text import harmless, redact

PRIVATE, SHARED = 0o600, 0o644
OURS = b'<meta name="generator" content="hermes-watchdog">'


def write_private(path: Path, text: str) -> None:
    """The file with this text, readable by its owner alone; WatchdogError when it cannot be."""
    write_file(path, text, PRIVATE)


def write_page(path: Path, text: str, home: str, mode: int) -> None:
    """The same for a page that is written again and again, in place of an earlier page of the same home only."""
    _need_our_page(path, home)
    write_file(path, text, mode)


def write_file(path: Path, text: str, mode: int) -> None:
    """The file with this text and mode, all of it or the old one.

    A link, a folder or a device of that name is refused. The folder is held open, so that no other user puts another
    in its place meanwhile; the new file takes the old one's place by a rename, which follows no link.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WatchdogError(f"cannot write {path}: {error.strerror}: {path.parent}") from None
    part = f".{path.name}.{os.getpid()}.new"
    try:
        _need_plain_file(path, folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)  # left by a process of that number that was killed
        fd = os.open(part, flags, PRIVATE, dir_fd=folder)
        try:
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                file.write(text.rstrip("\n") + "\n")
                file.flush()
                os.fchmod(file.fileno(), mode)  # whatever the umask of cron is
                os.fsync(file.fileno())
            os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
    except OSError as error:
        raise WatchdogError(f"cannot write {path}: {error.strerror}") from None
    finally:
        os.close(folder)


def _need_plain_file(path: Path, folder: int) -> None:
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no plain file"
        raise WatchdogError(f"{path} is {kind}; give the name of a file")


def _need_our_page(path: Path, home: str) -> None:
    """WatchdogError for a file that is not a page of this home: it is not ours to replace."""
    try:
        beginning = read_small(path, 2000, follow=False)
    except OSError:
        return  # not there; or a link or a folder, which is said when it is written
    if not beginning:
        return
    if OURS not in beginning:
        raise WatchdogError(f"{path} is not a page of the watchdog and is not replaced; give another name")
    if b'name="hermes-home"' in beginning and about(home).encode() not in beginning:
        raise WatchdogError(
            f"{path} is the page of another home; write {{home}} into the name: page: …/{{home}}.html"
        )


def about(home: str) -> str:
    """The line of a page that says which home it is about."""
    return f'<meta name="hermes-home" content="{escape(redact(harmless(home, 1000)))}">'


def escape(text: str) -> str:
    """Text as an attribute: letters, digits and what a path has; everything else as its number."""
    return "".join(
        letter if letter.isalnum() or letter in "/._- " else f"&#{ord(letter)};" for letter in text
    )

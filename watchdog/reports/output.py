"""A report or page as a file: all of it or the old one, never through a link, never in place of something else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.system.files import read_small, replace_file
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
    """The file with this text and mode, all of it or the old one; a link, a folder or a device of that name is refused."""
    try:
        is_now = os.lstat(path).st_mode if os.path.lexists(path) else stat.S_IFREG
        if not stat.S_ISREG(is_now):
            kind = (
                "a link" if stat.S_ISLNK(is_now) else "a folder" if stat.S_ISDIR(is_now) else "no plain file"
            )
            raise WatchdogError(f"{path} is {kind}; give the name of a file")
        replace_file(path, f"{text.rstrip(chr(10))}\n".encode("utf-8", "replace"), mode)
    except OSError as error:
        where = "" if path.parent.is_dir() else f": {path.parent}"
        raise WatchdogError(f"cannot write {path}: {error.strerror}{where}") from None


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

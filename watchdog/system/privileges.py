"""In whose hands a path is, and to do a piece of work as its owner.

The agent writes the home that a watchdog of root's looks after. What root does there by name (copy, rename,
chown), the agent can bend with a symbolic link, also after any check of ours. So root does not do it: its
owner does.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from watchdog.errors import WatchdogError
from watchdog.system.files import LINKS
from watchdog.values import StrPath

ANYONE = -1


def hands(folder: str | os.PathLike[str]) -> frozenset[int]:
    """Users besides root who can put something into this folder, or in its place."""
    # In a user namespace (podman unshare) the root of the host has no number; the owner of / is as good as root anyway.
    roots = (0, os.stat("/").st_uid)
    found = set()
    for status, last in _way(folder):
        if status.st_uid not in roots:
            found.add(status.st_uid)
        # In a folder like /tmp no user can move another's things, but anyone can add some.
        if (
            not stat.S_ISLNK(status.st_mode)
            and status.st_mode & 0o022
            and (last or not status.st_mode & stat.S_ISVTX)
        ):
            found.add(ANYONE)
    return frozenset(found)


def astray(path: str | os.PathLike[str], owner: int) -> int:
    """The user whose link leads from this path to a file of another user; 0 when no such link does."""
    if os.geteuid() != 0:
        return 0  # who is not root sees no more than they may
    makers = {status.st_uid for status, _ in _way(path) if stat.S_ISLNK(status.st_mode)}
    return max(makers - {0, owner}, default=0)


def _way(path: str | os.PathLike[str]) -> Iterator[tuple[os.stat_result, bool]]:
    """Each folder and link on the way to a path, and whether it is the last; links are followed one by one."""
    left = [part for part in os.path.abspath(path).split("/") if part][::-1]
    walked, links = "/", 0
    while left:
        part = left.pop()
        walked = os.path.dirname(walked) if part == ".." else os.path.join(walked, part)
        try:
            status = os.lstat(walked)
        except OSError:
            break
        yield status, not left
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > LINKS:
                break
            target = os.readlink(walked)
            walked = "/" if target.startswith("/") else os.path.dirname(walked)
            left += [part for part in target.split("/") if part and part != "."][::-1]


def owner_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """(uid, gid) to work as on this file; None when root may itself. WatchdogError when no user can."""
    if os.geteuid() != 0:
        return None
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if not hands(os.path.dirname(os.path.abspath(path))) | hands(folder):
        return None
    for place in (folder, real):
        try:
            status = os.lstat(place)
        except OSError:
            continue
        if status.st_uid:
            return status.st_uid, status.st_gid
    if _ours_among_others(folder, os.path.basename(real)):
        return None
    raise WatchdogError(
        f"{folder}: others may write there, and it is not theirs; root does nothing in such a folder. "
        "Give it to the user who runs the gateway"
    )


def _ours_among_others(folder: str, name: str) -> bool:
    """In a folder like /tmp: whether everything that bears this name is root's, which no user can move."""
    status = os.lstat(folder)
    if status.st_uid or not status.st_mode & stat.S_ISVTX or hands(os.path.dirname(folder)):
        return False
    with os.scandir(folder) as entries:
        return all(entry.stat(follow_symlinks=False).st_uid == 0 for entry in entries if name in entry.name)


@contextmanager
def as_owner(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Work on this file with its owner's rights, when we are root and others may change its folder."""
    whose = owner_of(path)
    if whose is None:
        yield False
        return
    uid, gid = whose
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(_groups(uid, gid))
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield True
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _groups(uid: int, gid: int) -> list[int]:
    try:
        record = pwd.getpwuid(uid)
        return sorted({gid, *os.getgrouplist(record.pw_name, record.pw_gid)})
    except KeyError:
        return [gid]  # a user of some container


def open_to_others(path: StrPath, what: str) -> str:
    """Why others could change this file, and so act as us or blind us; '' when they cannot."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    loose = 0o022 if os.getuid() == 0 else 0o002
    if status.st_mode & loose:
        return f"others may write this file, and {what}; chmod go-w {path}"
    if status.st_uid not in (0, os.getuid()):
        return f"this file belongs to another user, and {what}; chown it: {path}"
    folder = os.stat(parent := os.path.dirname(path))
    if folder.st_mode & loose and not folder.st_mode & stat.S_ISVTX:
        return f"others may put another file in its place, and {what}; chmod go-w {parent}"
    if folder.st_uid not in (0, os.getuid()):
        return f"its folder belongs to another user, and {what}; chown it: {parent}"
    return ""

"""Names and folders of users, and the person behind sudo."""

from __future__ import annotations

import os
import pwd

from watchdog.system.files import read_text


def name_of(uid: int) -> str:
    """The user's name; the number as text where the user database does not have it (a user of a container)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def folder_of(uid: int) -> str:
    """The user's own folder, from the user database; ours when that does not have it."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return os.path.expanduser("~")


def command_as(uid: int) -> str:
    """What stands before a command that is to be run as this user."""
    name = name_of(uid)
    if not name.isdigit():
        return f"sudo -u {name}"
    # A number without a name: a user of containers, which only a user namespace or root can be.
    return "podman unshare" if _lent_to_us(uid) else f"sudo -u '#{uid}'"


def _lent_to_us(uid: int) -> bool:
    """Whether /etc/subuid gives us this number for our user namespaces."""
    for line in read_text("/etc/subuid").splitlines():
        owner, _, numbers = line.partition(":")
        start, _, count = numbers.partition(":")
        ours = owner in (me(), str(os.getuid())) and start.isdigit() and count.isdigit()
        if ours and int(start) <= uid < int(start) + int(count):
            return True
    return False


def me() -> str:
    return name_of(os.getuid())


def person() -> str:
    """Who sits at this shell: under sudo, who called it. Only root believes SUDO_UID: anybody can set it."""
    try:
        return name_of(int(os.environ.get("SUDO_UID", "")) if os.getuid() == 0 else os.getuid())
    except (ValueError, OverflowError):
        return me()

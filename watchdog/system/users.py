"""Names and folders of users, and the person behind sudo."""

from __future__ import annotations

import os
import pwd


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


def me() -> str:
    return name_of(os.getuid())


def person() -> str:
    """Who sits at this shell: under sudo, who called it. Only root believes SUDO_UID: anybody can set it."""
    try:
        return name_of(int(os.environ.get("SUDO_UID", "")) if os.getuid() == 0 else os.getuid())
    except (ValueError, OverflowError):
        return me()

"""The keys of why a source cannot be read; the English sentences stand where they are made."""

from __future__ import annotations

from enum import StrEnum


class Unreadable(StrEnum):
    """Why a source is blind."""

    NO_SUCH_FILE = "blind.no-such-file"
    NO_PERMISSION = "blind.no-permission"
    ROOT_REFUSED = "blind.root-refused"
    NO_REGULAR_FILE = "blind.no-regular-file"
    ERROR = "blind.error"
    NOT_STATED = "blind.not-stated"
    JOURNAL = "blind.journal"
    TOO_MANY_DOUBTS = "blind.too-many-doubts"
    UNKNOWN_SHAPE = "blind.unknown-shape"  # said by detect/ambiguous.py

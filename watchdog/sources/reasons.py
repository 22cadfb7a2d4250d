"""Why a source cannot be read."""

from __future__ import annotations

import os
from enum import StrEnum

from watchdog.model import Phrase, phrase
from watchdog.sources.logfile import OutOfTime
from watchdog.system.files import LedAstray
from watchdog.values import StrPath


class Unreadable(StrEnum):
    """Why a source is blind."""

    NO_SUCH_FILE = "blind.no-such-file"
    NO_PERMISSION = "blind.no-permission"
    LED_ASTRAY = "blind.led-astray"
    ROOT_REFUSED = "blind.root-refused"
    NO_REGULAR_FILE = "blind.no-regular-file"
    OUT_OF_TIME = "blind.out-of-time"
    ERROR = "blind.error"
    NOT_STATED = "blind.not-stated"
    JOURNAL = "blind.journal"
    TOO_MANY_DOUBTS = "blind.too-many-doubts"
    UNKNOWN_SHAPE = "blind.unknown-shape"  # said by detect/ambiguous.py


def why_unreadable(error: OSError, path: StrPath) -> Phrase:
    """What a person must know about this error."""
    if isinstance(error, FileNotFoundError):
        return phrase(Unreadable.NO_SUCH_FILE, "no such file ({path}); is HERMES_HOME right?", path=str(path))
    if isinstance(error, LedAstray):
        english = (
            "a link of another user leads to a file that is not theirs ({path}); root does not look at it"
        )
        return phrase(Unreadable.LED_ASTRAY, english, path=str(path))
    if isinstance(error, PermissionError):
        english = "permission denied ({path}); run as the gateway's user"
        if os.getuid():
            return phrase(Unreadable.NO_PERMISSION, english, path=str(path))
        return phrase(Unreadable.ROOT_REFUSED, english + " (even root is refused)", path=str(path))
    if isinstance(error, IsADirectoryError):
        return phrase(Unreadable.NO_REGULAR_FILE, "{path} is not a regular file", path=str(path))
    if isinstance(error, OutOfTime):
        english = (
            "too much was written to be read in time; the last {megabytes} MB of {path} were not looked at"
        )
        return phrase(
            Unreadable.OUT_OF_TIME, english, megabytes=error.args[0] // 1_000_000 + 1, path=str(path)
        )
    return phrase(Unreadable.ERROR, "{error} ({path})", error=str(error.strerror or error), path=str(path))


def too_many_doubts() -> Phrase:
    return phrase(Unreadable.TOO_MANY_DOUBTS, "too many of its records may have been written by user names")


def not_stated() -> Phrase:
    return phrase(Unreadable.NOT_STATED, "nobody said whether the gateway ran (--gateway)")

"""What earlier checks found out about databases, kept in one small file: schemas that lack nothing of a known release,
and files that were well and have not changed since.

Measured: on a home with 13 databases the files that stand still save a quiet check 1.1 interpreter starts, the
schemas of those that are written to as much again when all of them are.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from watchdog import __version__
from watchdog.config import sealed
from watchdog.sqlite.files import Stamps
from watchdog.values import Any, StrPath

NAME = "databases.cache"
MOST = 1000  # schemas and files
LOOK_AGAIN = 6 * 3600.0  # seconds; a disk may lose what it holds without a write
SETTLED = 2.0  # seconds; a file written to later may be written to again without another time stamp
_SOURCES = ("schemas.json", "schema.py", "grade.py", "inspect.py", "header.py", "format.py", "memory.py")

schemas: dict[bytes, str] = {}  # digest of a schema → the release of which it lacks nothing
_well: dict[
    str, tuple[Stamps, float, dict[str, Any]]
] = {}  # path → its stamps, when it was looked at, the facts
_new: set[bytes | str] = set()  # what is not in the file yet


def unchanged(path: str, stamps: Stamps) -> Mapping[str, Any] | None:
    """What the last look found, when that was all well and nothing was written since; None: look again."""
    known = _well.get(path)
    if known is None or known[0] != stamps or not 0 <= time.time() - known[1] < LOOK_AGAIN:
        return None
    folder, name = os.path.split(path)
    repair = os.path.join(folder, f".{name}.repair")
    return None if os.path.lexists(repair) or os.path.lexists(repair + ".json") else known[2]


def note_well(path: str, stamps: Stamps, facts: Mapping[str, Any]) -> None:
    """A look that began after these stamps were taken found nothing wrong."""
    now = time.time()
    if all(not stamp or max(stamp[3:]) / 1e9 < now - SETTLED for stamp in stamps) and len(_well) < MOST:
        _well[path] = stamps, now, dict(facts)
        _new.add(path)


def note_schema(digest: bytes, release: str) -> None:
    """A schema that lacks nothing of this release."""
    if len(schemas) < MOST:
        schemas[digest] = release
        _new.add(digest)


def recall(state: StrPath) -> None:
    """Take up what earlier checks found out."""
    with suppress(OSError, ValueError, TypeError, EOFError):
        known_schemas, known_files = sealed.read(os.path.join(state, NAME), _key())
        schemas.update(known_schemas)
        _well.update(known_files)


def keep(state: StrPath) -> None:
    """For the next check; when there is no room for it, that one looks again."""
    if _new:
        with suppress(OSError):
            sealed.write(os.path.join(state, NAME), _key(), (schemas, _well))
            _new.clear()


def _key() -> bytes:
    """Whatever decides what a look finds: the releases that we know, and how we look and compare."""
    here = os.path.dirname(__file__)
    status = [os.stat(os.path.join(here, name)) for name in _SOURCES]
    return repr((__version__, sys.version, [(file.st_size, file.st_mtime_ns) for file in status])).encode()

"""Schemas that lack nothing of a known release, remembered: a schema hardly ever changes, and comparing it is
most of a look.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from watchdog import __version__
from watchdog.config import sealed
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.grade import NO_DRIFT, drift
from watchdog.sqlite.schema import nearest
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.sqlite.grade import Drift
    from watchdog.sqlite.schema import Reference

NAME = "schemas.cache"
MOST = 1000
_known: dict[bytes, str] = {}  # digest of a schema → the release of which it lacks nothing
_kept: set[bytes] = set()  # those that are on disk


def lack(kind: str, schema: Sequence[SchemaObject], reference: Reference | None) -> tuple[Drift, str]:
    """What the schema lacks of the reference, or of the nearest release that we know; and the name of that."""
    ours = reference is None or kind not in reference.objects
    digest = _digest(kind, schema) if schema and ours else b""
    if digest in _known:
        return NO_DRIFT, _known[digest]
    if schema and ours:
        reference = nearest(kind, [(entry.type, entry.name, entry.sql) for entry in schema])
    found, name = drift(reference, kind, schema), reference.name if reference else ""
    if digest and found == NO_DRIFT and len(_known) < MOST:
        _known[digest] = name
    return found, name


def recall(state: Path) -> None:
    """What earlier checks found out."""
    with suppress(OSError, ValueError, TypeError, EOFError):
        _known.update(sealed.read(state / NAME, _key()))
        _kept.update(_known)


def keep(state: Path) -> None:
    """For the next check; when there is no room for it, that one compares again."""
    if _known.keys() == _kept:
        return
    with suppress(OSError):
        sealed.write(state / NAME, _key(), _known)
        _kept.update(_known)


def _digest(kind: str, schema: Sequence[SchemaObject]) -> bytes:
    parts = [
        kind,
        *(
            part
            for entry in sorted(schema, key=lambda entry: (entry.type, entry.name))
            for part in (entry.type, entry.name, entry.sql)
        ),
    ]
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _key() -> bytes:
    """Whatever decides what a schema lacks: the releases that we know, and how we compare."""
    here = os.path.dirname(__file__)
    status = [
        os.stat(os.path.join(here, name))
        for name in ("schemas.json", "schema.py", "grade.py", "schema_cache.py")
    ]
    return repr((__version__, sys.version, [(file.st_size, file.st_mtime_ns) for file in status])).encode()

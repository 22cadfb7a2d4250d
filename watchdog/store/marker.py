"""A small file beside the store: that a store was there, how far its audit had come, and which
failures people have heard of. It is what is left when the store is gone or cannot be written.

Its room is taken once and written in place afterwards, which a full disk still allows. Who changes it can make
the watchdog stop acting or repeat a message, and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from watchdog.store.store import Store
from watchdog.values import Any, StrPath, dataclass, field, replace

ROOM = 4096  # bytes; one block of any disk
EDIT = "edit-"  # begins the name of a failure that does not keep checks from being made


@dataclass(frozen=True)
class Marker:
    """What is known of a store without looking into it."""

    lines: int = 0  # of its audit
    head: str = ""  # the hash of the newest of them
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # which -> targets that heard of it


def marker_path(store: StrPath) -> str:
    return os.path.join(os.path.dirname(store), "store.mark")


def read_marker(path: StrPath) -> Marker | None:
    """None when there is none. One that cannot be understood says only that there was a store."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return Marker()
    try:
        content = os.read(fd, ROOM)
    except OSError:
        return Marker()
    finally:
        os.close(fd)
    return _understood(content)


def write_marker(path: StrPath, marker: Marker) -> bool:
    """Whether it could be written."""
    content = json.dumps({"lines": marker.lines, "head": marker.head, "failures": marker.failures}).encode()
    if len(content) > ROOM:
        content = json.dumps({"lines": marker.lines, "head": marker.head, "failures": {}}).encode()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        if os.pwrite(fd, content.ljust(ROOM), 0) == ROOM:
            return True
    except OSError:
        pass
    finally:
        empty = os.fstat(fd).st_size == 0
        os.close(fd)
    if empty:  # made just now on a full disk: it would say that there was a store
        with suppress(OSError):
            os.unlink(path)
    return False


def failure_places(store: StrPath) -> list[str]:
    """Where a failure may be noted: the marker itself, else a file of this user's that a full disk leaves alone."""
    first = marker_path(store)
    folders = (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.getuid()}", "/dev/shm", "/tmp")
    name = f"hermes-watchdog-{os.getuid()}-{os.path.basename(os.path.dirname(store))}.mark"
    others = [os.path.join(folder, name) for folder in folders if folder and os.path.isdir(folder)]
    return [place for place in (first, *others) if _ours(place)]


def has_failed(store: StrPath) -> bool:
    """Whether a failure was noted that no check has ended yet."""
    return any(
        not key.startswith(EDIT)
        for place in failure_places(store)
        if (marker := read_marker(place))
        for key in marker.failures
    )


def _ours(path: StrPath) -> bool:
    """Whether there is nothing there yet, or a plain file of this user's: /tmp is everybody's."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def note_audit(path: StrPath, lines: int, head: str) -> None:
    """Note how far the audit has come. Cheap when it has not moved."""
    known = read_marker(path)
    if known is None or (known.lines, known.head) != (lines, head):
        write_marker(path, replace(known or Marker(), lines=lines, head=head))


def goes_on(store: Store, number: int, chain: str) -> bool:
    """Whether the line that was once the newest is still there, in the store or in an archive of it."""
    if number == 0:
        return True
    archived = store.db.execute("SELECT coalesce(max(last), 0) FROM audit_archives").fetchone()[0]
    row = store.db.execute("SELECT chain FROM audit WHERE id = ?", (number,)).fetchone()
    return bool(row["chain"] == chain) if row else number <= archived


def newest(store: Store) -> tuple[int, str]:
    """(number, hash) of the newest line; (0, '') while there is none."""
    row = store.db.execute("SELECT id, chain FROM audit ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        row = store.db.execute(
            "SELECT last AS id, chain FROM audit_archives ORDER BY last DESC LIMIT 1"
        ).fetchone()
    return (row["id"], row["chain"] or "") if row else (0, "")


def _understood(content: bytes) -> Marker:
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
    try:
        failures = {
            str(key): tuple(str(target) for target in targets) for key, targets in found["failures"].items()
        }
        return Marker(int(found["lines"]), str(found["head"]), failures)
    except (TypeError, KeyError, ValueError, AttributeError):
        return Marker()

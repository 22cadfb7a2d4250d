"""Opening a store that may be gone, damaged or older than the one we knew: it is used again only disarmed.

Beside the store lies a small file, its marker: that a store was there, how far its audit had come, and which failures
people were told. Its room is taken once and written in place afterwards, which a full disk still allows. Who changes
it can make the watchdog stop acting or repeat a message, and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from watchdog import store as store_package
from watchdog.errors import WatchdogError
from watchdog.model import Reason
from watchdog.store.store import Store, StoreError, Trouble
from watchdog.system.files import read_small
from watchdog.system.lock import take
from watchdog.values import Any, StrPath, dataclass, field, replace

ROOM = 4096  # bytes; one block of any disk
GONE, OLDER, REPLACED = LOST = ("store.gone", "store.older", "store.replaced")  # why it is disarmed
EDIT = "edit-"  # begins the name of a failure that does not keep checks from being made


def open_store(path: StrPath, now: datetime) -> Store:
    """The store for writing. A damaged one is set aside and started anew; that one, one that is gone and one that
    is older than what was known of it are disarmed, which people are told like any other disarming.
    """
    known = read_marker(marker_path(path))
    if known is not None and not is_there(path):
        return _disarmed(path, Reason(GONE), now)
    try:
        store = _open(path)
    except StoreError as error:
        if error.trouble is not Trouble.DAMAGED or not replace_damaged(path, now):
            raise
        return _open(path)
    if known is not None and not goes_on(store, known.lines, known.head):
        disarm(store, Reason(OLDER, {"line": known.lines}), now)
    _note(store)
    return store


def look_at_store(path: StrPath) -> Store | None:
    """The store for reading, which leaves no trace; None when there never was one."""
    store = Store.look(path)
    if store is not None and not is_there(path):
        store.close()
        store = None
    if store is None and read_marker(marker_path(path)) is not None:
        raise StoreError(
            f"the store {path} was there before and is gone; the next check starts a new one, disarmed",
            Trouble.OTHER,
        )
    return store


def _open(path: StrPath) -> Store:
    store = Store.open(path)
    store.closing = _note
    return store


def _note(store: Store) -> None:
    note_audit(marker_path(store.path), *newest(store))


def is_there(path: StrPath) -> bool:
    """Whether this is a store of ours: not an empty file, nor a database without our tables in its place."""
    try:
        header = read_small(path, 64, follow=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it says what is wrong
    no_version = header.startswith(b"SQLite format 3\0") and header[60:64] == bytes(4)  # user_version
    return bool(header) and not no_version


def _disarmed(path: StrPath, why: Reason, now: datetime) -> Store:
    store = _open(path)
    disarm(store, why, now)
    _note(store)
    return store


def disarm(store: Store, why: Reason, now: datetime, by: str = "hermes-watchdog") -> bool:
    """Do nothing more until a person arms it, with a line in the audit; True when it was armed before."""
    from watchdog.store.audit import (  # not at the top: only a store that is gone or damaged needs it
        Who,
        audit,
    )

    with store.atomic():
        changed = store_package.set_armed(store, False, by, why, now)
        if changed:
            audit(store, "disarmed", now, who=Who(by), reason=why)
    return changed


def lost_since(store: Store, before: datetime | None) -> bool:
    """Whether the store was lost after the last check, and no person has armed it since."""
    off = store_package.disarmed(store)
    return off is not None and off.why.key in LOST and (before is None or before < off.at)


def replace_damaged(path: StrPath, now: datetime) -> str | None:
    """Set a damaged store aside and start anew, disarmed; where it is kept, None for a whole one."""
    with _alone(path):
        if not store_package.problems(path) or store_package.newer(path):
            return None
        aside = f"{os.fspath(path)}.damaged-{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
        try:
            os.link(path, aside, follow_symlinks=False)  # refuses a name that is taken
            os.unlink(path)
            for end in ("-journal", "-wal", "-shm"):
                if os.path.lexists(f"{path}{end}"):
                    os.rename(f"{path}{end}", f"{aside}{end}")
        except OSError as error:
            raise WatchdogError(
                f"the store {path} is damaged and cannot be set aside: {error.strerror}"
            ) from None
        _disarmed(path, Reason(REPLACED, {"name": os.path.basename(aside)}), now).close()
        return aside


@contextmanager
def _alone(path: StrPath) -> Iterator[None]:
    """One process at a time replaces a store: the second finds a whole one."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(os.path.join(os.path.dirname(path), "recovery.lock"), flags, 0o600)
    try:
        if not take(fd, tries=100):
            raise WatchdogError(f"another process is replacing the store {path}")
        yield
    finally:
        os.close(fd)


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
        return _understood(read_small(path, ROOM, follow=False))
    except FileNotFoundError:
        return None
    except OSError:
        return Marker()


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

"""Opening a store that may be gone, damaged or older than the one we knew: it is used again only disarmed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from watchdog import store as store_package
from watchdog.errors import WatchdogError
from watchdog.model import Reason
from watchdog.store.marker import goes_on, marker_path, newest, note_audit, read_marker
from watchdog.store.store import Store, StoreError, Trouble
from watchdog.system.lock import take
from watchdog.values import StrPath


def open_store(path: StrPath, now: datetime) -> Store:
    """The store for writing. A damaged one is set aside and started anew; that one, one that is gone and one that
    is older than what was known of it are disarmed, which people are told like any other disarming.
    """
    known = read_marker(marker_path(path))
    if known is not None and not is_there(path):
        return _disarmed(path, Reason("store.gone"), now)
    try:
        store = _open(path)
    except StoreError as error:
        if error.trouble is not Trouble.DAMAGED or not replace_damaged(path, now):
            raise
        return _open(path)
    if known is not None and not goes_on(store, known.lines, known.head):
        disarm(store, Reason("store.older", {"line": known.lines}), now)
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
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it says what is wrong
    try:
        header = os.read(fd, 64)
    except OSError:
        return True
    finally:
        os.close(fd)
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
        _disarmed(path, Reason("store.replaced", {"name": os.path.basename(aside)}), now).close()
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

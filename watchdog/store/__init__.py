"""What the watchdog remembers between two checks; nothing else in the package knows the database behind it.

The tables are made by sqlite-utils' migrations (store/migrations.py). The hot path of a quiet check speaks to the
same file through sqlite3 alone, because importing sqlite-utils costs more than the whole check.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from watchdog.errors import WatchdogError
from watchdog.paths import Path

VERSION = 1  # of the tables; raised together with a new migration


class Store:
    """One watchdog.db: incidents, plans, approvals, messages sent, audit."""

    def __init__(self, db: sqlite3.Connection, path: str):
        self.db = db
        self.path = path
        db.row_factory = sqlite3.Row

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open for reading and writing; made with mode 0600 when it is not there."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_anothers(path)
            # Autocommit: transactions are begun by atomic() and nowhere else.
            db = sqlite3.connect(path, timeout=10, isolation_level=None)
            return cls._current(db, str(path), migrate=True)
        except (sqlite3.Error, OSError) as error:
            raise WatchdogError(
                f"cannot write the store {path}: {error}; free space or give another folder with --state DIR"
            ) from error

    @classmethod
    def look(cls, path: Path) -> Store | None:
        """Open for reading only, leaving no trace; None when there is no store yet, or only the beginning of one."""
        if not path.exists() or path.stat().st_size == 0:
            return None
        try:
            # The store keeps a rollback journal, so a read-only connection makes no sidecar files.
            db = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=10, isolation_level=None)
            return cls._current(db, str(path), migrate=False)
        except sqlite3.Error as error:
            raise WatchdogError(f"cannot read the store {path}: {error}") from error

    @classmethod
    def in_memory(cls) -> Store:
        return cls._current(sqlite3.connect(":memory:", isolation_level=None), ":memory:", migrate=True)

    @classmethod
    def _current(cls, db: sqlite3.Connection, path: str, migrate: bool) -> Store:
        try:
            if migrate:
                db.execute("PRAGMA synchronous=FULL")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise WatchdogError(
                    f"the store {path} was written by a newer hermes-watchdog (tables {version}, this one knows {VERSION}); "
                    "upgrade this installation or give another folder with --state DIR"
                )
            if version < VERSION and migrate:
                from watchdog.store.migrations import bring_up_to_date

                bring_up_to_date(db, VERSION)
        except BaseException:
            db.close()
            raise
        return cls(db, path)

    @contextmanager
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; the write lock is taken at once, so that two checks cannot both decide."""
        if self.db.in_transaction:
            yield self.db
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            self.db.rollback()
            raise
        self.db.execute("COMMIT")

    def close(self) -> None:
        self.db.close()

    def __del__(self) -> None:
        # Most commands look once and end. Closing twice does no harm; from another thread SQLite refuses even that.
        with suppress(sqlite3.ProgrammingError):
            self.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_anothers(path: Path) -> None:
    """Whoever may write the store may approve: root does not act on another user's word, nor anyone on everyone's."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if status.st_uid != os.geteuid():
        raise WatchdogError(
            f"the store {path} belongs to another user (uid {status.st_uid}), who could approve in it what we do; give a folder of "
            "your own with --state DIR"
        )
    if status.st_mode & 0o022:
        raise WatchdogError(f"others may write the store {path}, and so approve in it; run: chmod 600 {path}")
    if os.geteuid() == 0:
        from watchdog.hands import hands

        if hands(path.parent):
            raise WatchdogError(
                f"the store {path} lies in a folder that other users may change, and root acts on what it says; "
                "give a folder of root's with --state DIR"
            )


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path))

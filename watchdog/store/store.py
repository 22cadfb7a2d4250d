"""What the watchdog remembers between two checks; nothing else in the package knows the database behind it.

The tables are made by sqlite-utils' migrations (store/migrations.py). The hot path of a quiet check speaks to
the same file through sqlite3 alone, because importing sqlite-utils costs more than the whole check.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from functools import wraps

from watchdog import store as store_package
from watchdog.errors import WatchdogError
from watchdog.store.rows import stamp
from watchdog.system.files import free_bytes
from watchdog.system.privileges import hands
from watchdog.values import TYPE_CHECKING, Any, StrPath

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    Given = ParamSpec("Given")
    Result = TypeVar("Result")

VERSION = 5  # of the tables; raised together with a new migration


class Trouble(StrEnum):
    """Why a store cannot be used."""

    DAMAGED = "damaged"
    FULL = "full"
    READ_ONLY = "read-only"
    NEWER = "newer"
    FOREIGN = "foreign"  # others could approve in it
    BUSY = "busy"
    OTHER = "other"


class StoreError(WatchdogError):
    """The store cannot be used; the text says why and what helps."""

    def __init__(self, text: str, trouble: Trouble):
        super().__init__(text)
        self.trouble = trouble


_CODES = {  # https://www.sqlite.org/rescode.html
    1: Trouble.DAMAGED,  # SQLITE_ERROR: a table or column is not there; our statements are right
    5: Trouble.BUSY,
    6: Trouble.BUSY,
    8: Trouble.READ_ONLY,
    11: Trouble.DAMAGED,
    13: Trouble.FULL,
    26: Trouble.DAMAGED,
}
_ERRNOS = {
    errno.ENOSPC: Trouble.FULL,
    errno.EDQUOT: Trouble.FULL,
    errno.EROFS: Trouble.READ_ONLY,
    errno.EACCES: Trouble.READ_ONLY,
    errno.EPERM: Trouble.READ_ONLY,
}
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
RECORD = "record in"  # what a check was doing
_HELP = {
    Trouble.DAMAGED: "it is damaged: look at it with: {watchdog} store check; start anew with: {watchdog} store repair",
    Trouble.FULL: "free space there, or give another folder with --state DIR",
    Trouble.READ_ONLY: "make it writable for this user, or give another folder with --state DIR",
    Trouble.BUSY: "another process holds it for more than ten seconds; the next check tries again",
    Trouble.OTHER: "look at it with: {watchdog} store check; or give another folder with --state DIR",
}


def store_error(path: StrPath, error: Exception, doing: str = "write") -> StoreError:
    """What a failure of SQLite or of the file system means for the store, and what helps."""
    if isinstance(error, OSError):
        trouble = _ERRNOS.get(error.errno or 0, Trouble.OTHER)
    else:
        trouble = _CODES.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF, Trouble.OTHER)
    if trouble is Trouble.OTHER:
        trouble = _of_the_disk(os.path.dirname(path))
    lost = "what could not be recorded was not begun; " if doing == RECORD else ""
    return StoreError(f"cannot {doing} the store {path}: {error}; {lost}{_HELP[trouble]}", trouble)


def _of_the_disk(folder: str) -> Trouble:
    """SQLite says only "unable to open database file" where it cannot make its journal."""
    free = free_bytes(folder)
    if free is not None and free < 16_384:
        return Trouble.READ_ONLY if free == 0 and os.statvfs(folder).f_flag & os.ST_RDONLY else Trouble.FULL
    return Trouble.OTHER if os.access(folder, os.W_OK, effective_ids=True) else Trouble.READ_ONLY


@contextmanager
def recording(store: Store) -> Iterator[None]:
    """A failure of SQLite in here becomes a StoreError that says what was not begun."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(store.path, error, RECORD) from error


def reads_rows(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function whose rows may hold what no version of this program wrote: StoreError, and no traceback."""

    @wraps(function)
    def reading(*args: Given.args, **more: Given.kwargs) -> Result:
        try:
            return function(*args, **more)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError) as error:
            what = function.__name__.strip("_").replace("_", " ")
            raise StoreError(
                f"the store holds a row that cannot be read ({what}: {error}); {_HELP[Trouble.DAMAGED]}",
                Trouble.DAMAGED,
            ) from error

    return reading


class Store:
    """One watchdog.db: incidents, plans, approvals, messages sent, audit."""

    def __init__(self, db: sqlite3.Connection, path: str, closing: Callable[[Store], None] | None = None):
        self.db = db
        self.path = path
        self.closing = closing  # called once, before the connection is closed
        db.row_factory = sqlite3.Row

    @classmethod
    def open(cls, path: StrPath) -> Store:
        """Open for reading and writing; made with mode 0600 when it is not there."""
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _refuse_anothers(path)
            # Autocommit: transactions are begun by atomic() and nowhere else.
            db = sqlite3.connect(path, timeout=10, isolation_level=None)
            return cls._current(db, str(path), migrate=True)
        except (sqlite3.Error, OSError) as error:
            raise store_error(path, error) from error

    @classmethod
    def look(cls, path: StrPath) -> Store | None:
        """Open for reading, leaving no trace; None when there is no store, or only the beginning of one."""
        from urllib.parse import quote  # not at the top: a check opens its store by name

        try:
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_size == 0:
                return None
            _refuse_special(path, status)
            # The store keeps a rollback journal, so a read-only connection makes no sidecar files.
            db = sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10, isolation_level=None
            )
            return cls._current(db, str(path), migrate=False)
        except FileNotFoundError:
            return None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise store_error(path, error, "read") from error
            # The process that wrote it was killed. What was cut off is rolled back by a connection that may write.
            cls.open(path).close()
            return cls.look(path)
        except (sqlite3.Error, OSError) as error:
            raise store_error(path, error, "read") from error

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
                raise StoreError(
                    f"the store {path} was written by a newer hermes-watchdog (tables {version}, this one knows {VERSION}); "
                    "upgrade this installation or give another folder with --state DIR",
                    Trouble.NEWER,
                )
            if version < VERSION and migrate:
                store_package.bring_up_to_date(db, VERSION)
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

    def insert(self, table: str, verb: str = "INSERT", /, **columns: Any) -> int:
        """Add a row, with moments as text; its number."""
        names = ", ".join(f'"{name}"' for name in columns)
        cells = [stamp(cell) if isinstance(cell, datetime) else cell for cell in columns.values()]
        marks = ",".join("?" * len(cells))
        return int(self.db.execute(f"{verb} INTO {table} ({names}) VALUES ({marks})", cells).lastrowid or 0)

    def put(self, table: str, /, **columns: Any) -> None:
        """Add a row, or put it in the place of the one with its key."""
        self.insert(table, "INSERT OR REPLACE", **columns)

    def close(self) -> None:
        closing, self.closing = self.closing, None
        if closing is not None:
            with suppress(sqlite3.Error):
                closing(self)
        self.db.close()

    def __del__(self) -> None:
        # Most commands look once and end. Closing twice does no harm; from another thread SQLite refuses even
        # that.
        with suppress(sqlite3.ProgrammingError):
            self.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_special(path: StrPath, status: os.stat_result) -> None:
    """A pipe would hold us for ever, and a link could lead to anything."""
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(
            f"the store {path} is a {_KINDS.get(stat.S_IFMT(status.st_mode), 'device')}, not a file; "
            "move it away, or give another folder with --state DIR",
            Trouble.OTHER,
        )


def _refuse_anothers(path: StrPath) -> None:
    """Who may write the store may approve: root follows no other user, and no user all others."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    _refuse_special(path, status)
    if status.st_uid != os.geteuid():
        raise StoreError(
            f"the store {path} belongs to another user (uid {status.st_uid}), who could approve in it what we do; give a folder of "
            "your own with --state DIR",
            Trouble.FOREIGN,
        )
    if status.st_mode & 0o022:
        raise StoreError(
            f"others may write the store {path}, and so approve in it; run: chmod 600 {path}", Trouble.FOREIGN
        )
    if os.geteuid() == 0 and hands(os.path.dirname(path)):
        raise StoreError(
            f"the store {path} lies in a folder that other users may change, and root acts on what it says; "
            "give a folder of root's with --state DIR",
            Trouble.FOREIGN,
        )

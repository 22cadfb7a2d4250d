"""A look at a database that touches nothing: stat, raw bytes, /proc; SQLite itself only when asked to look deep."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from hashlib import blake2b

from watchdog import sqlite
from watchdog.sqlite import memory
from watchdog.sqlite import openers as holders
from watchdog.sqlite.faults import Detail, Fault, fault
from watchdog.sqlite.files import stamps_of
from watchdog.sqlite.format import (
    ENCODINGS,
    TABLE_LEAF,
    Bad,
    Image,
    Overlay,
    Page,
    SchemaObject,
    read_cell,
    read_record,
    read_schema,
)
from watchdog.sqlite.grade import NO_DRIFT, Deep, Drift, Observation, Verdict, drift, grade, size_faults
from watchdog.sqlite.header import Header, read_header
from watchdog.sqlite.journal import Journal, read_journal
from watchdog.sqlite.lineage import numbering
from watchdog.sqlite.schema import CORE, NEWEST_STATE_VERSION, is_making, is_virtual, kind_of, nearest
from watchdog.sqlite.wal import Wal, read_shm, read_wal
from watchdog.system.files import LedAstray, open_for_reading
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from watchdog.sqlite.schema import Reference

__all__ = ["Verdict", "look", "observe"]

PAUSE = 0.03  # seconds between two looks at a fault
TRIES = 10  # looks at a fault while the file is written
MOST_FRAMES = 2000  # of a WAL without a live index: what a quick look walks through


_KINDS = {
    stat.S_IFDIR: Detail.FOLDER,
    stat.S_IFIFO: Detail.FIFO,
    stat.S_IFSOCK: Detail.SOCKET,
    stat.S_IFCHR: Detail.DEVICE,
    stat.S_IFBLK: Detail.DEVICE,
}


class RepairState(StrEnum):
    NONE, UNFINISHED, RUNNING = "none", "unfinished", "running"


def look(
    path: str | os.PathLike,
    *,
    deep: bool | Callable[[str], Deep] = False,
    known: Mapping[str, Any] | None = None,
    reference: Reference | None = None,
    taken: holders.Scan | None = None,
) -> Verdict:
    """The verdict on one database.

    `deep`: with SQLite's own checks, or with what this function finds. `known` is the last good state:
    {'rows': {table: count}, 'at': when}.
    """
    path = os.fspath(path)
    if os.environ.get("_HERMES_GATEWAY") == "1":
        return Verdict(path, "unknown", Detail.IN_GATEWAY(), sqlite=sqlite3.sqlite_version)
    if taken is None:
        taken = holders.scan(frozenset([os.path.basename(os.path.realpath(path))]))
    seen, found, before = observe(path, taken), None, None
    for _ in range(TRIES):
        # A writer may have been half way through; a fault is one that is still there without a write, or that stays.
        if not _bad(seen) or before == (now := stamps_of(path)):
            break
        time.sleep(PAUSE)
        seen, before = observe(path, taken), now
    if deep and seen.size and not seen.unknown and (seen.wal_saves or not seen.header_fault):
        if deep is True:
            deep = sqlite.examine  # loads SQLite's own checks, which a quick look skips
        found = deep(path)
    lacking, name = lack(seen.kind, seen.schema, reference)
    if reference is None and seen.version > NEWEST_STATE_VERSION:
        lacking = Drift(newer=(str(seen.version), str(NEWEST_STATE_VERSION)))
    verdict = grade(seen, lacking, known, found, name)
    return verdict if verdict.sqlite else replace(verdict, sqlite=sqlite3.sqlite_version)


def lack(kind: str, schema: Sequence[SchemaObject], reference: Reference | None) -> tuple[Drift, str]:
    """What the schema lacks of the reference, or of the nearest release that we know; and the name of that.

    A schema hardly ever changes, and comparing it is most of a look: one that lacks nothing is memory.
    """
    ours = reference is None or kind not in reference.objects
    named = [(entry.type, entry.name, entry.sql) for entry in schema]
    said = repr([kind, *sorted(named)]).encode("utf-8", "surrogatepass")
    digest = blake2b(said, digest_size=32).digest() if schema and ours else b""
    if digest in memory.schemas:
        return NO_DRIFT, memory.schemas[digest]
    if schema and ours:
        reference = nearest(kind, named)
    found, name = drift(reference, kind, schema), reference.name if reference else ""
    if digest and found == NO_DRIFT:
        memory.note_schema(digest, name)
    return found, name


def _bad(seen: Observation) -> bool:
    return bool(
        seen.header_fault
        or seen.schema_fault
        or seen.bad_roots
        or seen.stale_wal
        or next(size_faults(seen), None)
    )


def observe(path: str, taken: holders.Scan | None = None, tries: int = TRIES) -> Observation:
    """Everything a look can tell without SQLite."""
    seen = Observation(path, kind_of((), path))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            return replace(seen, unknown=Detail.DANGLING_LINK(path=repr(os.readlink(path))))
        return replace(seen, absent=True, wal_size=_size(path + "-wal"), deleted=_deleted(path, taken))
    except OSError as error:
        return replace(seen, unknown=Detail.CANNOT_SEE(why=error.strerror or str(error)))
    if not stat.S_ISREG(status.st_mode):
        what = _KINDS.get(stat.S_IFMT(status.st_mode), Detail.ODD_FILE)()
        return replace(seen, unknown=Detail.NO_FILE(what=what))
    real = os.path.realpath(path)
    seen = replace(
        seen,
        size=status.st_size,
        wal_size=_size(real + "-wal"),
        deleted=_deleted(real, taken),
        unfinished=(repair := _repair(real)) is RepairState.UNFINISHED,
        repairing=repair is RepairState.RUNNING,
    )
    try:
        with ExitStack() as files:
            fd = _open(path, files)
            if not os.path.samestat(os.fstat(fd), os.stat(real)):
                return replace(seen, size=0, unknown=Detail.EXCHANGED())
            return _read(seen, fd, real, files)
    except LedAstray as error:
        return replace(seen, size=0, unknown=_led_astray(error))
    except PermissionError:
        return replace(seen, unknown=Detail.NO_PERMISSION())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and tries:
            return observe(path, taken, tries - 1)  # the last connection removed the -wal; retry
        return replace(seen, unknown=Detail.CANNOT_READ(why=error.strerror or str(error)))


def _read(seen: Observation, fd: int, path: str, files: ExitStack) -> Observation:
    if seen.size == 0:
        return seen
    header, header_fault = None, ""
    try:
        header = read_header(os.pread(fd, 100, 0))
    except Bad as error:
        header_fault = str(error)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return replace(seen, header_fault=Detail.DISK())  # a heal copies around what cannot be read
    wal, wal_fd = Wal(), -1
    journal = _hot_journal(fd, path, files)
    if journal is not None:
        return _read_rolled_back(seen, fd, *journal)
    if seen.wal_size:  # SQLite reads it, whatever the header says
        wal_fd = _open(path + "-wal", files)
        wal = _committed(wal_fd, path, files)
        seen = replace(seen, wal_fault=wal.fault)
    page_one = os.pread(wal_fd, 100, wal.frames[1]) if 1 in wal.frames else b""
    try:
        fresh = read_header(page_one) if page_one else None
    except Bad:
        fresh = None
    if header and fresh and wal.complete and header.counts_itself and _older(fresh, header):
        theirs = {"file_change": header.change, "file_pages": header.pages}
        seen = replace(
            seen, stale_wal=fault(Fault.STALE_WAL, change=fresh.change, pages=fresh.pages, **theirs)
        )
    saves = header is None and fresh is not None
    seen = replace(seen, header=header, header_fault=header_fault, wal_saves=saves)
    trusted = fresh or header
    if trusted is None:
        return seen
    image = Image(fd, trusted.page_size, trusted.reserved, 0, Overlay(wal_fd, wal.frames))
    return _schema(seen, image, trusted, wal)


def _hot_journal(fd: int, path: str, files: ExitStack) -> tuple[int, Journal] | None:
    """A transaction that was cut short: the next opener takes it back, and so does this look."""
    try:
        journal_fd = _open(path + "-journal", files)
    except OSError:
        return None
    journal = read_journal(journal_fd, fd)
    return (journal_fd, journal) if journal.hot else None


def _read_rolled_back(seen: Observation, fd: int, journal_fd: int, journal: Journal) -> Observation:
    """The database as it was before the transaction that did not end."""
    seen = replace(seen, journal=os.fstat(journal_fd).st_size, says=(*seen.says, Detail.HOT_JOURNAL()))
    image = Image(fd, journal.page_size, 0, journal.pages, Overlay(journal_fd, journal.frames))
    try:
        header = read_header(image.page(1)[:100])
    except Bad as error:
        return replace(seen, header_fault=str(error))
    image.usable = journal.page_size - header.reserved
    return _schema(replace(seen, header=header), image, header, Wal())


def _older(fresh: Header, header: Header) -> bool:
    """Whether page 1 in the WAL is from before the one in the file; a file gets its page 1 from no other
    place.
    """
    mine, theirs = (fresh.change, fresh.cookie, fresh.pages), (header.change, header.cookie, header.pages)
    return mine < theirs and not header.largest_root  # with auto-vacuum a database may shrink


def _schema(seen: Observation, image: Image, header: Header, wal: Wal) -> Observation:
    try:
        entries = read_schema(image, ENCODINGS[header.encoding])
    except (Bad, ValueError) as error:
        if not wal.complete:
            return replace(seen, says=(Detail.LONG_WAL(),))
        return replace(seen, schema_fault=Detail.SCHEMA_UNREADABLE(why=str(error)))
    kind = kind_of([entry.name for entry in entries if entry.type == "table"], seen.path)
    seen = replace(seen, schema=tuple(entries), kind=kind)
    if twice := _twice(entries):
        return replace(seen, schema_fault=Detail.SCHEMA_TWICE(name=twice))
    if strange := next((entry.name for entry in entries if entry.sql and not is_making(entry.sql)), ""):
        return replace(seen, schema_fault=Detail.SCHEMA_STRANGE(name=strange))
    bad, empty, version = [], [], 0
    for entry in entries:
        if not entry.root or is_virtual(entry.sql):
            continue
        try:
            if entry.root > image.pages:
                raise Bad("outside the file")
            page = image.btree(entry.root)
        except Bad:
            bad.append(entry.name)
            continue
        if page.kind == TABLE_LEAF and not page.pointers and entry.name in CORE.get(seen.kind, ()):
            empty.append(entry.name)
        elif entry.name == "schema_version" and page.kind == TABLE_LEAF and page.pointers:
            version = _version(page, image.usable)
    if not wal.complete:
        return replace(seen, empty=tuple(empty), version=version)
    counted = numbering(image, entries, seen.kind, ENCODINGS[header.encoding])
    return replace(seen, bad_roots=tuple(bad), empty=tuple(empty), version=version, numbering=counted)


def _version(page: Page, usable: int) -> int:
    try:
        values = read_record(read_cell(page, page.pointers[-1], usable).local)
    except Bad:
        return 0
    return values[0] if values and isinstance(values[0], int) else 0


def _twice(entries: list[SchemaObject]) -> str:
    names: set[tuple[bool, str]] = set()
    for entry in entries:
        key = (entry.type == "trigger", entry.name.lower())  # a trigger may share its name with a table
        if key in names:
            return entry.name
        names.add(key)
    return ""


def _committed(wal_fd: int, path: str, files: ExitStack) -> Wal:
    """The committed frames: from the live index when there is one, else by walking a bounded part of the WAL."""
    head = os.pread(wal_fd, 32, 0)
    try:
        shm = _open(path + "-shm", files)
        frames = read_shm(shm, head)
    except OSError:
        frames = None
    if frames is not None:
        return Wal(int.from_bytes(head[8:12], "big"), frames, size=os.fstat(wal_fd).st_size)
    return read_wal(wal_fd, most=MOST_FRAMES, verify=False)


def _deleted(path: str, taken: holders.Scan | None) -> tuple[tuple[int, str, str], ...]:
    if taken is None:
        taken = holders.scan(frozenset([os.path.basename(path)]))
    return tuple(
        (holder.pid, holder.name, holder.file or "database file")
        for holder in holders.of(path, taken)
        if holder.deleted and holder.file != "-shm"
    )


def _open(path: str, files: ExitStack) -> int:
    fd = open_for_reading(path)
    files.callback(os.close, fd)
    return fd


def _led_astray(error: LedAstray) -> str:
    try:
        name = pwd.getpwuid(error.maker).pw_name
    except KeyError:
        name = f"user {error.maker}"
    return Detail.LED_ASTRAY(who=name)


def _repair(path: str) -> RepairState:
    """Whether a repair of this file is running, or was cut short."""
    folder, name = os.path.split(path)
    begun = os.path.join(folder, f".{name}.repair")
    if not (os.path.lexists(begun) or os.path.lexists(begun + ".json")):
        return RepairState.NONE
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return RepairState.UNFINISHED
    except BlockingIOError:
        return RepairState.RUNNING
    finally:
        os.close(fd)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0

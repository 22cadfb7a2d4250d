"""Verified snapshots: taken beside a running writer, checked before they count, never a good one given for a
bad.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.sqlite import checks, sandbox
from watchdog.sqlite.backups import ACCEPTED, SnapshotReport, folder_for, kept, known
from watchdog.sqlite.copies import give, sha256, write_json
from watchdog.sqlite.faults import Detail, sentence
from watchdog.sqlite.full_text import fts_counts
from watchdog.sqlite.grade import size_faults
from watchdog.sqlite.inspect import look, observe
from watchdog.sqlite.lineage import began_anew, mark_of
from watchdog.sqlite.readonly import Moved, connect, place
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle, megabytes, why_of
from watchdog.sqlite.schema import CORE, kind_of
from watchdog.system.files import free_bytes, fsync, open_regular
from watchdog.system.lock import no_hurry
from watchdog.system.privileges import as_owner, astray
from watchdog.system.progress import on_a_terminal

STAMP = "%Y%m%dT%H%M%S%fZ"
ROOM = 1 << 20
EVERY = timedelta(days=1)
GAVE_UP = "gave-up"  # its time tells when a backup last took too long
CHECKING = "checking the copy"  # the child is done with copying
BLOCK = 1 << 18
PATIENCE = 60.0  # seconds for the locks of a busy writer

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Pace:
    """How a backup is taken."""

    idle: bool = False  # only when processor and disk have nothing else to do
    tick: Progress = lambda text: None  # hears how far it is


AT_ONCE = Pace()


def newest(path: str | os.PathLike, folder: Path | None = None) -> SnapshotReport | None:
    """The newest good backup whose bytes are still the ones that were checked."""
    for report in kept(folder or folder_for(path), os.path.basename(os.path.realpath(path))):
        with suppress(OSError):
            if sha256(report.file) == report.sha256:
                return report
    return None


def due(path: str | os.PathLike, now: datetime, folder: Path | None = None) -> bool:
    """Whether the last good backup is older than a day."""
    folder = folder or Path(folder_for(path))
    with suppress(OSError):
        if abs(now.timestamp() - (folder / GAVE_UP).stat().st_mtime) < EVERY.total_seconds():
            return False
    last = next(kept(folder, os.path.basename(os.path.realpath(path))), None)
    return last is None or now - datetime.fromisoformat(last.at) >= EVERY


def daily(path: str, folder: str, keep: int, now: datetime) -> SnapshotReport | None:
    """The backup of a database that a check takes once a day, at idle priority; None when it is not due.

    A snapshot of a sick database would push out a well one. A large one takes longer than a check may: the child has
    a limit of its own.
    """
    place_for = Path(folder)
    if not (os.path.isfile(path) and os.path.getsize(path) and due(path, now, place_for)):
        return None
    if look(path).grade not in ("well", "drifted"):
        return None
    with no_hurry(), on_a_terminal() as progress:
        return snapshot(path, place_for, keep=keep, now=now, pace=Pace(True, progress))


def snapshot(
    path: str | os.PathLike,
    folder: str | os.PathLike | None = None,
    *,
    keep: int = 3,
    now: datetime | None = None,
    pace: Pace = AT_ONCE,
) -> SnapshotReport:
    """Take a backup, check it, and only then let it take the place of the oldest."""
    real = os.path.abspath(path)

    def cannot(why: str) -> SnapshotReport:
        return SnapshotReport(real, False, DatabaseRefusal.CANNOT_BACK_UP(path=real, why=why))

    try:
        real = os.path.realpath(path)
        place_for = Path(folder or folder_for(real))
        with open_regular(path) as file:
            owner = os.fstat(file.fileno())
        if not os.path.samestat(owner, os.stat(real)):
            return cannot(Detail.EXCHANGED())
        if not owner.st_size and not os.path.exists(real + "-wal"):
            return cannot(Obstacle.EMPTY())
        if led := _led_astray(place_for):
            return cannot(led)
        with as_owner(place_for):
            place_for.mkdir(mode=0o700, parents=True, exist_ok=True)
            if no_room := _no_room(real, place_for):
                return SnapshotReport(real, False, no_room)
            report = _take(real, place_for, now or datetime.now(UTC), owner, pace)
            for old in list(kept(place_for, os.path.basename(real)))[max(keep, 1) :] if report.ok else ():
                # The note goes first: a backup without one does not count, a note without its backup would mislead.
                with suppress(OSError):
                    os.unlink(old.file[:-3] + ".json")
                    os.unlink(old.file)
            return report
    except OSError as error:
        return cannot(why_of(error, real))
    except WatchdogError as error:
        return cannot(str(error))


def _no_room(path: str, folder: Path) -> str:
    size = sum(os.path.getsize(path + part) for part in ("", "-wal") if os.path.exists(path + part))
    need, free = size + size // 10 + ROOM, free_bytes(folder) or 0
    if free >= need:
        return ""
    fields = {"need": megabytes(need), "free": megabytes(free), "missing": megabytes(need - free)}
    return DatabaseRefusal.NO_ROOM_FOR_BACKUP(path=path, folder=str(folder), **fields)


def _take(path: str, folder: Path, now: datetime, owner: os.stat_result, pace: Pace) -> SnapshotReport:
    stem = f"{os.path.basename(path)}.{now.strftime(STAMP)}"
    part = folder / f".{stem}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _remove_leftovers(folder, os.path.basename(path), now)
    try:
        try:
            copied = _copy(path, part, owner, pace)
        except sandbox.TookTooLong:
            (folder / GAVE_UP).touch(0o600)
            raise
        rows, version = copied.rows, sqlite3.sqlite_version
        if fault := copied.fault or _less_than_before(path, folder, part, rows):
            says = DatabaseRefusal.BACKUP_FAILS(path=path, why=fault)
            return SnapshotReport(path, False, says, rows=rows, sqlite=version)
        give(part, owner, 0o600)
        fsync(part)
        says, file = (
            DatabaseRefusal.BACKED_UP(path=path, rows=sum(rows.values())),
            str(folder / (stem + ".db")),
        )
        size, at = part.stat().st_size, now.isoformat()
        report = SnapshotReport(path, True, says, file, at, size, copied.digest, rows, version, copied.mark)
        os.rename(part, file)
        write_json(folder / (stem + ".json"), asdict(report), owner)
    finally:
        for leftover in ("", "-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{part}{leftover}")
    give(folder, owner, 0o700)
    return report


@dataclass(frozen=True)
class Copied:
    """A copy that was made and checked."""

    fault: str = ""  # what is wrong with it
    rows: Mapping[str, int] = field(default_factory=dict)  # per table
    mark: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


def _copy(path: str, part: Path, owner: os.stat_result, pace: Pace) -> Copied:
    """A live copy, made and checked in a child.

    What root would read and make beside the database, its owner does; root only takes over the bytes, while the
    child checks them.
    """
    digest = ""
    with part.open("r+b", buffering=0) as out, as_owner(path) as other, ExitStack() as files:
        target = part
        if other and owner.st_uid not in (0, os.geteuid()):
            raise WatchdogError(Detail.EXCHANGED())
        if other:
            folder = tempfile.TemporaryDirectory(
                prefix=f".{os.path.basename(path)}.look-", dir=os.path.dirname(path)
            )
            target = Path(files.enter_context(folder), "copy.db")
            target.touch(0o600)

        def follow(text: str) -> None:
            nonlocal digest
            pace.tick(f"backing up {path}: {text}")
            if other and text == CHECKING:
                with target.open("rb", buffering=0) as source:
                    digest = _copy_bytes(source, out)

        follow("copying")
        limits = sandbox.limits_for(os.path.getsize(path))
        answer = sandbox.run("watchdog.sqlite.backup:work", (path, str(target), pace.idle), limits, follow)
    return Copied(answer["fault"], answer["rows"], answer["mark"], digest or answer["digest"])


def work(asked: tuple[str, str, bool], tick: Progress) -> dict[str, Any]:
    """Copy a live database and check the copy, in the child."""
    path, to, idle = asked
    mark, digest = {}, ""
    if idle:
        with suppress(OSError):  # the disk follows the processor's class: ioprio_get(2)
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        digest = copy_live(path, to, tick) or sha256(to)
        tick(CHECKING)
        rows, fault = verify(to)
        if not fault:
            with closing(connect(to, "mode=ro&immutable=1")) as db:
                mark = mark_of(db, kind_of(rows))
    except sqlite3.Error as error:
        rows, fault = {}, str(error)
    return {"rows": rows, "fault": _beyond_the_end(path) or fault, "mark": mark, "digest": digest}


def _beyond_the_end(path: str) -> str:
    """What a copy cannot hold, because SQLite believes a header that counts too few pages."""
    for _ in range(5):
        seen = observe(path)
        found = [sentence(reason) for _, reason in size_faults(seen)]
        if not found:
            return ""
        time.sleep(0.05)  # a writer may be half way through
    return found[0]


def copy_live(path: str, to: str, tick: Progress, tries: int = 3) -> str:
    """A consistent copy of a database that others may be writing to; its hash where that was taken on the way.

    All is read in one transaction. In DELETE mode that keeps every writer from the file, and a file in WAL mode
    without a -wal is looked at again afterwards: either way its bytes are copied as they are, in half the time that
    SQLite takes page by page.
    """
    for attempt in range(tries):
        try:
            with place(path) as (where, mode), closing(connect(where, mode, PATIENCE)) as source:
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                if "immutable" not in mode and source.execute("PRAGMA journal_mode").fetchone() == (b"wal",):
                    _copy_pages(source, to, tick)
                    return ""
                # closing it ends the lock: fcntl(2)
                with open(where, "rb", buffering=0) as file, open(to, "r+b", buffering=0) as out:
                    return _copy_bytes(file, out, lambda share: tick(f"copying, {share} %"), alone=True)
        except Moved:
            if attempt == tries - 1:
                raise WatchdogError(Obstacle.KEEPS_CHANGING()) from None
    return ""


def _copy_bytes(
    source: FileIO, out: FileIO, tick: Callable[[int], None] = lambda share: None, alone: bool = False
) -> str:
    """Copy a file, and hash it on the way. `alone`: the copy is a database that needs no sidecars (DELETE mode)."""
    size, done, digest = max(1, os.fstat(source.fileno()).st_size), 0, hashlib.sha256()
    buffer = memoryview(bytearray(BLOCK))
    out.truncate(0)
    while count := source.readinto(buffer):
        if alone and not done:
            buffer[18:20] = b"\1\1"
        out.write(buffer[:count])
        digest.update(buffer[:count])
        done += count
        if done % (64 * BLOCK) == 0:
            tick(100 * done // size)
    return digest.hexdigest()


def _copy_pages(source: sqlite3.Connection, to: str, tick: Progress) -> None:
    """What a connection sees of a database and its -wal."""

    def progress(status: int, left: int, total: int) -> None:
        tick(f"copying, {100 * (total - left) // max(1, total)} %")

    with closing(connect(to, "mode=rw")) as copy:
        copy.execute("PRAGMA synchronous=OFF")  # it is put on disk when it has passed its check
        source.backup(copy, pages=1 << 14, progress=progress)
        copy.execute("PRAGMA journal_mode=DELETE")  # a backup stands alone, without sidecars


def verify(path: str) -> tuple[dict[str, int], str]:
    """(rows per table, fault) of a private copy."""
    with closing(connect(path, "mode=rw")) as db:  # SQLite skips CHECK where it may only read
        faults = checks.integrity(db)
        if faults:
            return {}, faults[0]
        faults = tuple(fts_counts(db))
        return checks.counts(db), faults[0] if faults else ""


def _remove_leftovers(folder: Path, name: str, now: datetime) -> None:
    """What a backup left that was killed."""
    for leftover in folder.glob(f".{name}.*.part*"):
        with suppress(OSError):
            if now.timestamp() - leftover.stat().st_mtime > 3600:
                leftover.unlink()


def _led_astray(folder: Path) -> str:
    """Why root must not follow the way to this folder; '' when it may."""
    real = os.path.realpath(folder)
    while not os.path.exists(real):
        real = os.path.dirname(real)
    maker = astray(folder, os.stat(real).st_uid)
    return Obstacle.LINK(user=maker, path=str(folder)) if maker else ""


def _less_than_before(path: str, folder: Path, copy: Path, rows: Mapping[str, int]) -> str:
    """Why this copy may not take the place of the last good one; '' when it may."""
    before = known(path, folder)
    if not before:
        return ""
    seen, held, main = observe(str(copy)), before["rows"], [name for names in CORE.values() for name in names]
    gone = [table for table in main if held.get(table) and table not in rows]  # the table itself
    if gone or began_anew(seen.kind, seen.numbering, seen.empty, before):
        return Obstacle.LACKS(at=before["at"])
    emptied = [table for table in main if held.get(table) and not rows[table] and not before["mark"]]
    return Obstacle.EMPTIED(table=emptied[0], rows=held[emptied[0]]) if emptied else ""


def accept(path: str | os.PathLike, now: datetime, folder: Path | None = None) -> Mapping | None:
    """A person says that what older backups held may be gone; what was known until now, None when nothing was."""
    place_for = folder or Path(folder_for(path))
    before = known(path, place_for)
    if before:
        with as_owner(place_for), open(place_for / ACCEPTED, "w", encoding="utf-8") as file:
            file.write(now.isoformat())
    return before

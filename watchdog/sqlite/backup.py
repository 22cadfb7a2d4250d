"""Verified snapshots: taken beside a running writer, checked before they count, never a good one given for a
bad.
"""

from __future__ import annotations

import hashlib
import json
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
from watchdog.sqlite.faults import sentence
from watchdog.sqlite.grade import size_faults
from watchdog.sqlite.inspect import look, observe
from watchdog.sqlite.lineage import ACCEPTED, began_anew, last_good, mark_of
from watchdog.sqlite.readonly import Moved, connect, place
from watchdog.sqlite.schema import CORE, kind_of
from watchdog.system.files import fsync, open_regular
from watchdog.system.lock import no_hurry
from watchdog.system.privileges import as_owner, astray
from watchdog.system.progress import on_a_terminal

STAMP = "%Y%m%dT%H%M%S%fZ"
ROOM = 1 << 20


@dataclass(frozen=True)
class SnapshotReport:
    """What became of one backup: `ok` only when it passed every check and is kept."""

    path: str
    ok: bool
    says: str
    file: str = ""
    at: str = ""
    size: int = 0
    sha256: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    sqlite: str = ""
    mark: Mapping[str, Any] = field(default_factory=dict)  # how far its numbered table had come: see lineage


Progress = Callable[[str], None]


@dataclass(frozen=True)
class Pace:
    """How a backup is taken."""

    idle: bool = False  # only when processor and disk have nothing else to do
    tick: Progress = lambda text: None  # hears how far it is


AT_ONCE = Pace()


def folder_for(path: str | os.PathLike) -> Path:
    """Where the backups of a database are kept unless told otherwise: beside it."""
    return Path(os.path.realpath(path) + ".backups")


def good_ones(folder: Path, name: str) -> list[SnapshotReport]:
    """The backups that passed their checks and are still there, newest first."""
    found = []
    try:
        notes = sorted(folder.glob("*.json"), reverse=True)
    except OSError:
        return []
    for note in notes:
        with suppress(OSError, ValueError, TypeError):
            report = SnapshotReport(**json.loads(note.read_text("utf-8")))
            file = folder / (note.stem + ".db")
            if report.ok and os.path.basename(report.path) == name and file.stat().st_size == report.size:
                found.append(
                    report
                    if report.file == str(file)
                    else SnapshotReport(**{**asdict(report), "file": str(file)})
                )
    return found


def newest(path: str | os.PathLike, folder: Path | None = None) -> SnapshotReport | None:
    """The newest good backup whose bytes are still the ones that were checked."""
    folder = folder or folder_for(path)
    for report in good_ones(folder, os.path.basename(os.path.realpath(path))):
        with suppress(OSError):
            if sha256(report.file) == report.sha256:
                return report
    return None


def known(path: str | os.PathLike, folder: Path | None = None) -> Mapping | None:
    """The last known good state, as `look` wants it."""
    return last_good(folder or folder_for(path), os.path.basename(os.path.realpath(path)))


EVERY = timedelta(days=1)
GAVE_UP = "gave-up"  # its time tells when a backup last took too long


def due(path: str | os.PathLike, now: datetime, folder: Path | None = None) -> bool:
    """Whether the last good backup is older than a day."""
    folder = folder or folder_for(path)
    with suppress(OSError):
        if abs(now.timestamp() - (folder / GAVE_UP).stat().st_mtime) < EVERY.total_seconds():
            return False
    reports = good_ones(folder, os.path.basename(os.path.realpath(path)))
    return not reports or now - datetime.fromisoformat(reports[0].at) >= EVERY


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
    given, path = path, os.path.abspath(path)
    now = now or datetime.now(UTC)
    try:
        path = os.path.realpath(given)
        place_for = Path(folder) if folder else folder_for(path)
        size = os.path.getsize(path) + (
            os.path.getsize(path + "-wal") if os.path.exists(path + "-wal") else 0
        )
        with open_regular(given) as file:
            owner = os.fstat(file.fileno())
        if not os.path.samestat(owner, os.stat(path)):
            return SnapshotReport(path, False, f"cannot back up {path}: {EXCHANGED}")
    except OSError as error:
        return SnapshotReport(path, False, f"cannot back up {path}: {error.strerror}")
    if led := _led_astray(place_for):
        return SnapshotReport(path, False, f"cannot back up {path}: {led}")
    try:
        with as_owner(place_for):
            place_for.mkdir(mode=0o700, parents=True, exist_ok=True)
            free = checks.free_space(str(place_for))
            if free < size + size // 10 + ROOM:
                return SnapshotReport(
                    path,
                    False,
                    f"no room for a backup of {path}: it needs {size >> 10} KB, "
                    f"{place_for} has {free >> 10} KB",
                )
            report = _take(path, place_for, now, owner, pace)
            for old in good_ones(place_for, os.path.basename(path))[max(keep, 1) :] if report.ok else ():
                # The note goes first: a backup without one does not count, a note without its backup would mislead.
                with suppress(OSError):
                    os.unlink(old.file[:-3] + ".json")
                    os.unlink(old.file)
            return report
    except OSError as error:
        return SnapshotReport(path, False, f"cannot back up {path} to {place_for}: {error.strerror}")
    except WatchdogError as error:
        return SnapshotReport(path, False, f"cannot back up {path}: {error}")


def _take(path: str, folder: Path, now: datetime, owner: os.stat_result, pace: Pace) -> SnapshotReport:
    stem = f"{os.path.basename(path)}.{now.strftime(STAMP)}"
    part = folder / f".{stem}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _remove_leftovers(folder, os.path.basename(path), now)
    try:
        try:
            copied = _copy(path, part, owner, pace)
        except sandbox.TookTooLong as error:
            copied = Copied(
                f"{error}: the machine is busy, or something in the file makes SQLite work without end"
            )
            (folder / GAVE_UP).touch(0o600)
        except ChildProcessError:
            copied = Copied("the process that made it died")
        fault, rows = copied.fault or _less_than_before(path, folder, part, copied.rows), copied.rows
        if fault:
            return SnapshotReport(
                path,
                False,
                f"the backup of {path} fails its check ({fault}); it was not kept, the older ones are",
                rows=rows,
                sqlite=sqlite3.sqlite_version,
            )
        give(part, owner, 0o600)
        fsync(part)
        report = SnapshotReport(
            path,
            True,
            f"backed up {path}: {sum(rows.values())} rows, checked",
            str(folder / (stem + ".db")),
            now.isoformat(),
            part.stat().st_size,
            copied.digest,
            rows,
            sqlite3.sqlite_version,
            copied.mark,
        )
        os.rename(part, report.file)
        write_json(folder / (stem + ".json"), asdict(report), owner)
    finally:
        for leftover in (part, Path(f"{part}-journal"), Path(f"{part}-wal"), Path(f"{part}-shm")):
            with suppress(FileNotFoundError):
                leftover.unlink()
    give(folder, owner, 0o700)
    return report


EXCHANGED = "it was exchanged for another file while it was looked at"
CHECKING = "checking the copy"  # the child is done with copying
BLOCK = 1 << 18
PATIENCE = 60.0  # seconds for the locks of a busy writer


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
            raise WatchdogError(EXCHANGED)
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
        mark = {} if fault else _mark(to, kind_of(rows))
    except sqlite3.Error as error:
        rows, fault = {}, str(error)
    return {"rows": rows, "fault": _beyond_the_end(path) or fault, "mark": mark, "digest": digest}


def _mark(path: str, kind: str) -> dict[str, Any]:
    with closing(connect(path, "mode=ro&immutable=1")) as db:
        return mark_of(db, kind)


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
                raise WatchdogError(f"{path} keeps changing while it is copied; try again") from None
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
        faults = tuple(checks.fts_counts(db))
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
    return f"a link of user {maker} leads {folder} to a folder of another user" if maker else ""


def _less_than_before(path: str, folder: Path, copy: Path, rows: Mapping[str, int]) -> str:
    """Why this copy may not take the place of the last good one; '' when it may."""
    before = known(path, folder)
    if not before:
        return ""
    seen = observe(str(copy))
    if began_anew(seen.kind, seen.numbering, seen.empty, before):
        return (
            f"it lacks what the backup of {before['at']} holds; db heal puts that back, db accept says that it is "
            "meant"
        )
    held = before["rows"] or {}
    for table in (name for names in CORE.values() for name in names):
        if not before.get("mark") and held.get(table, 0) and not rows.get(table, 0):
            return f"{table} is empty, it had {held[table]} rows in the backup before"
    return ""


def accept(path: str | os.PathLike, now: datetime, folder: Path | None = None) -> Mapping | None:
    """A person says that what older backups held may be gone; what was known until now, None when nothing was."""
    place_for = folder or folder_for(path)
    before = known(path, place_for)
    if before:
        with as_owner(place_for), open(place_for / ACCEPTED, "w", encoding="utf-8") as file:
            file.write(now.isoformat())
    return before


def sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def give(path: str | os.PathLike, owner: os.stat_result, mode: int | None = None) -> None:
    """Give a file to the owner of the database."""
    if mode is not None:
        os.chmod(path, mode)
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)


def write_json(path: Path, value: object, owner: os.stat_result | None = None) -> None:
    """A small file, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with open(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    if owner is not None:
        give(part, owner)
    os.replace(part, path)
    fsync(path.parent)

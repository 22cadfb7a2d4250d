"""Verified snapshots: taken beside a running writer, checked before they count, never a good one given for a
bad.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.sqlite import checks, sandbox
from watchdog.sqlite.faults import sentence
from watchdog.sqlite.grade import size_faults
from watchdog.sqlite.inspect import observe
from watchdog.sqlite.lineage import ACCEPTED, began_anew, last_good, mark_of
from watchdog.sqlite.readonly import Moved, connect, place
from watchdog.sqlite.schema import CORE, kind_of
from watchdog.system.privileges import as_owner, astray

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


GAVE_UP = "gave-up"  # its time tells when a backup last took too long


def due(
    path: str | os.PathLike, now: datetime, folder: Path | None = None, every: timedelta = timedelta(days=1)
) -> bool:
    """Whether the last good backup is older than a day."""
    folder = folder or folder_for(path)
    with suppress(OSError):
        if abs(now.timestamp() - (folder / GAVE_UP).stat().st_mtime) < every.total_seconds():
            return False
    reports = good_ones(folder, os.path.basename(os.path.realpath(path)))
    return not reports or now - datetime.fromisoformat(reports[0].at) >= every


def snapshot(
    path: str | os.PathLike,
    folder: str | os.PathLike | None = None,
    *,
    keep: int = 3,
    now: datetime | None = None,
) -> SnapshotReport:
    """Take a backup, check it, and only then let it take the place of the oldest."""
    given, path = path, os.path.realpath(path)
    place_for = Path(folder) if folder else folder_for(path)
    now = now or datetime.now(UTC)
    try:
        size = os.path.getsize(path) + (
            os.path.getsize(path + "-wal") if os.path.exists(path + "-wal") else 0
        )
        owner = os.stat(path)
    except OSError as error:
        return SnapshotReport(path, False, f"cannot back up {path}: {error.strerror}")
    if not stat.S_ISREG(owner.st_mode):  # a pipe would hold us for ever
        return SnapshotReport(path, False, f"cannot back up {path}: it is not a file")
    if led := _led_astray(given, owner.st_uid) or _led_astray(place_for, _owner_above(place_for)):
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
            return _take(path, place_for, keep, now, owner)
    except OSError as error:
        return SnapshotReport(path, False, f"cannot back up {path} to {place_for}: {error.strerror}")
    except WatchdogError as error:
        return SnapshotReport(path, False, f"cannot back up {path}: {error}")


def _take(path: str, folder: Path, keep: int, now: datetime, owner: os.stat_result) -> SnapshotReport:
    stem = f"{os.path.basename(path)}.{now.strftime(STAMP)}"
    part = folder / f".{stem}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _remove_leftovers(folder, os.path.basename(path), now)
    try:
        try:
            copied = _copy(path, part)
        except sandbox.TookTooLong as error:
            copied = Copied(f"{error}; something in the file makes SQLite work without end")
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
    for old in good_ones(folder, os.path.basename(path))[max(keep, 1) :]:
        # The note goes first: a backup without one does not count, a note without its backup would mislead.
        with suppress(OSError):
            os.unlink(old.file[:-3] + ".json")
            os.unlink(old.file)
    return report


COPIED = "copied"  # the child is done with the copy and goes on to check it


@dataclass(frozen=True)
class Copied:
    """A copy that was made and checked."""

    fault: str = ""  # what is wrong with it
    rows: Mapping[str, int] = field(default_factory=dict)  # per table
    mark: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


def _copy(path: str, part: Path) -> Copied:
    """A live copy, made and checked in a child.

    What root would read and make beside the database, its owner does; root only takes over the bytes. The hash is
    taken while the child checks the copy.
    """
    size, digest = os.path.getsize(path), ""

    def copied(text: str) -> None:
        nonlocal digest
        if text == COPIED and not other:
            digest = sha256(str(part))

    with as_owner(path) as other, ExitStack() as files:
        target = part
        if other:
            folder = tempfile.TemporaryDirectory(
                prefix=f".{os.path.basename(path)}.look-", dir=os.path.dirname(path)
            )
            target = Path(files.enter_context(folder), "copy.db")
            target.touch(0o600)
        asked, limits = [path, str(target)], sandbox.limits_for(size)
        answer = sandbox.run("watchdog.sqlite.backup:work", asked, limits, copied)
        source = target.open("rb") if other else None
    if source is not None:
        with source, part.open("wb") as out:
            shutil.copyfileobj(source, out)
    return Copied(str(answer["fault"]), dict(answer["rows"]), answer["mark"], digest or sha256(str(part)))


def work(asked: list[str], tick: Callable[[str], None]) -> dict[str, Any]:
    """Copy a live database and check the copy, in the child, at the lowest priority for processor and disk."""
    path, to = asked
    mark: dict[str, Any] = {}
    with suppress(OSError):  # the disk follows the processor's class: ioprio_get(2)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        copy_live(path, to)
        tick(COPIED)
        rows, fault = verify(to)
        mark = {} if fault else _mark(to, kind_of(rows))
    except sqlite3.Error as error:
        rows, fault = {}, str(error)
    return {"rows": rows, "fault": _beyond_the_end(path) or fault, "mark": mark}


def _mark(path: str, kind: str) -> dict[str, Any]:
    db = connect(path, "mode=ro&immutable=1")
    try:
        return mark_of(db, kind)
    finally:
        db.close()


def _beyond_the_end(path: str) -> str:
    """What a copy cannot hold, because SQLite believes a header that counts too few pages."""
    for _ in range(5):
        seen = observe(path)
        found = [sentence(reason) for _, reason in size_faults(seen)]
        if not found:
            return ""
        time.sleep(0.05)  # a writer may be half way through
    return found[0]


def copy_live(path: str, to: str, tries: int = 3) -> None:
    """A consistent copy of a database that others may be writing to: all pages in one step, or not at all."""
    for attempt in range(tries):
        try:
            with place(path) as (where, mode):
                source, copy = connect(where, mode), connect(to, "mode=rw")
                try:
                    copy.execute("PRAGMA synchronous=OFF")  # it is put on disk when it has passed its check
                    source.backup(copy, pages=-1)
                    copy.execute("PRAGMA journal_mode=DELETE")  # a backup stands alone, without sidecars
                finally:
                    source.close()
                    copy.close()
            return
        except Moved:
            if attempt == tries - 1:
                raise WatchdogError(f"{path} keeps changing while it is copied; try again") from None


def verify(path: str) -> tuple[dict[str, int], str]:
    """(rows per table, fault) of a private copy."""
    db = connect(path, "mode=rw")
    try:
        faults = checks.integrity(db)
        if faults:
            return {}, faults[0]
        faults = tuple(checks.fts_counts(db))
        return checks.counts(db), faults[0] if faults else ""
    finally:
        db.close()


def _remove_leftovers(folder: Path, name: str, now: datetime) -> None:
    """What a backup left that was killed."""
    for leftover in folder.glob(f".{name}.*.part*"):
        with suppress(OSError):
            if now.timestamp() - leftover.stat().st_mtime > 3600:
                leftover.unlink()


def _led_astray(path: str | os.PathLike, owner: int) -> str:
    """Why root must not follow this path; '' when it may."""
    maker = astray(path, owner)
    return f"a link of user {maker} leads {os.fspath(path)} to somebody else's folder" if maker else ""


def _owner_above(folder: Path) -> int:
    """Whose the folder is, or the next one above it that exists."""
    real = os.path.realpath(folder)
    while not os.path.exists(real):
        real = os.path.dirname(real)
    return os.stat(real).st_uid


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


def fsync(path: str | os.PathLike) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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

"""Swap a healed file in, and undo: every step on disk before the next, so that kill -9 at any point and a second run
end well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.sqlite import quarantine
from watchdog.sqlite.copies import give, sha256, write_json
from watchdog.sqlite.files import SIDECARS, stamps_of
from watchdog.sqlite.in_use import why_not_free
from watchdog.sqlite.notes import RepairNote
from watchdog.sqlite.quarantine import (
    PARTS,
    Manifest,
    hashes_of,
    manifest_from,
    manifests_of,
    owner_of,
    read_manifest,
    rescue,
    save,
    write_manifest,
)
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle, refused, why_of
from watchdog.system.files import fsync, read_object
from watchdog.system.lock import take
from watchdog.system.privileges import as_owner


def journal_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair.json")


def work_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair")


def rehearsal_of(path: str) -> Path:
    """Where a dry run works: what it leaves when it is killed is no repair that was cut short."""
    return Path(path).with_name(f".{os.path.basename(path)}.rehearsal")


def tmp_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair.tmp")


@contextmanager
def alone(path: str | os.PathLike) -> Iterator[str]:
    """The real path of a database, with its owner's rights and no other repair in its folder; the lock leaves no file."""
    given, real = os.fspath(path), os.path.realpath(path)
    try:
        with as_owner(path):
            if not os.path.isdir(os.path.dirname(real)):
                raise refused(
                    DatabaseRefusal.UNTOUCHED, given, Obstacle.FOLDER_GONE(folder=os.path.dirname(real))
                )
            fd = os.open(os.path.dirname(real), os.O_RDONLY | os.O_CLOEXEC)
            try:
                if not take(fd):
                    raise refused(DatabaseRefusal.UNTOUCHED, real, Obstacle.REPAIR_RUNS())
                yield real
            finally:
                os.close(fd)
    except OSError as error:
        raise refused(DatabaseRefusal.UNTOUCHED, real, why_of(error, real)) from error


def refuse_if_open(path: str, now: datetime | None = None) -> None:
    """With `now`, files that are deleted and only live as long as a process has them open are copied first."""
    reason = why_not_free(path)
    if reason:
        if now and (copies := rescue(path, now)):
            reason = Obstacle.RESCUED(why=reason, paths=", ".join(copies))
        raise refused(DatabaseRefusal.UNTOUCHED, path, reason)


def put_in_place(path: str, built: str, saved: Path, done: Manifest) -> bool:
    """Give the healed file the owner, mode and times of the original and swap it in, sidecars with it.

    False when something wrote to the original meanwhile: then it is left as it is. `done` is written to
    quarantine once the swap has happened.
    """
    tmp, owner = tmp_of(path), owner_of(path)
    os.replace(built, tmp)
    give(tmp, owner, owner.st_mode & 0o7777)
    with suppress(OSError):
        for name in os.listxattr(path):  # SELinux labels among them
            with suppress(OSError):
                os.setxattr(tmp, name, os.getxattr(path, name))
    os.utime(tmp, ns=(owner.st_atime_ns, owner.st_mtime_ns))
    fsync(tmp)
    fsync(tmp.parent)
    quarantine.step("dressed")
    done = replace(done, healed=sha256(str(tmp)))
    write_json(journal_of(path), {"quarantine": str(saved), "manifest": done.as_json()}, owner)
    quarantine.step("journal built")
    try:
        return finish(path, resumed=False) is not None
    except WatchdogError:  # a process opened it: what was built may be old before it has closed
        forget(path)
        raise


def forget(path: str) -> None:
    """Throw away a healed file that was not swapped in."""
    for leftover in (journal_of(path), tmp_of(path)):
        with suppress(FileNotFoundError):
            leftover.unlink()
    fsync(os.path.dirname(path))


def finish(path: str, resumed: bool = True) -> tuple[Path, Manifest] | None:
    """The swap itself, also as the resume of one that was cut short.

    What was done and the quarantine folder of the original; None when there was nothing to finish, or when
    the original has changed since and is left as it is.
    """
    journal, tmp = journal_of(path), tmp_of(path)
    try:
        state = read_object(journal, quarantine.LARGEST_NOTE, follow=False)
        # Beside this database, wherever its home has gone since; a note may name any folder.
        saved = quarantine.quarantine_of(path) / Path(state["quarantine"]).name
        done = manifest_from(state["manifest"])
        os.stat(saved)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        with suppress(OSError):
            forget(path)  # built, but never declared good
        return None
    if tmp.exists():
        built = sha256(str(tmp)) == done.healed if resumed else True
        if not built or not _unchanged(path, saved):
            forget(path)
            return None
        refuse_if_open(path)
        for part in SIDECARS:
            with suppress(FileNotFoundError):
                os.unlink(path + part)
                quarantine.step(f"removed {part}")
        fsync(journal.parent)
        os.replace(tmp, path)
        quarantine.step("swapped")
        fsync(journal.parent)
    # else it is swapped already: the sidecars that are there now belong to the new file
    write_manifest(saved, done)
    quarantine.step("manifest")
    journal.unlink()
    quarantine.step("journal removed")
    fsync(journal.parent)
    return saved, done


def _unchanged(path: str, saved: Path) -> bool:
    """Whether the original is still what was saved: else what was built from the old bytes is worthless."""
    manifest = read_manifest(saved)
    if manifest is None or (os.path.exists(path) and sha256(path) != manifest.hashes.get("")):
        return False
    new = (part for part in SIDECARS if part != "-shm" and os.path.exists(path + part))
    # a new -wal: rows that are in no copy yet
    return all(manifest.hashes.get(part) == sha256(path + part) for part in new)


def set_aside(path: str) -> None:
    """The last rung: the name is free, the bytes are in quarantine."""
    refuse_if_open(path)
    for part in reversed(PARTS):  # the main file last: a -wal alone would be fed to an empty database
        with suppress(FileNotFoundError):
            os.unlink(path + part)
            quarantine.step(f"set aside {part or 'main'}")
    fsync(os.path.dirname(path))


def clean(work: Path) -> None:
    """Remove what a repair worked with."""
    shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True)
class UndoReport:
    path: str
    ok: bool
    says: tuple[str, ...]
    quarantine: str = ""  # where the file that was healed went


def undo(path: str | os.PathLike, *, now: datetime | None = None) -> UndoReport:
    """Put back what the last heal replaced; what is there now goes to quarantine first."""
    with alone(path) as real:
        return _undo(real, now or datetime.now(UTC))


def _undo(path: str, now: datetime) -> UndoReport:
    finish(path)
    healed = [
        (folder, manifest)
        for folder, manifest in manifests_of(path)
        if not manifest.undone and (manifest.healed or not os.path.exists(path))
    ]
    if not healed:
        return UndoReport(path, False, (RepairNote.NO_UNDO(path=path),))
    folder, manifest = healed[0]
    name = os.path.basename(path)
    if hashes_of(str(folder / name)) != manifest.hashes:
        raise refused(DatabaseRefusal.UNTOUCHED, path, Obstacle.OTHER_QUARANTINE(folder=str(folder)))
    refuse_if_open(path)
    before = stamps_of(path)
    kept = str(save(path, now, "replaced by undo")) if os.path.exists(path) else ""
    copies = {part: os.path.join(os.path.dirname(path), f".{name}.undo{part}") for part in manifest.hashes}
    try:
        for part, copy in copies.items():  # copies first: the swap itself is renames alone
            shutil.copy2(folder / (name + part), copy)
            give(copy, os.stat(folder / (name + part)))
            fsync(copy)
        quarantine.step("undo copied")
        refuse_if_open(path)
        if stamps_of(path) != before:  # what was written since is not in quarantine
            raise refused(DatabaseRefusal.UNTOUCHED, path, Obstacle.CHANGED())
    except Exception:
        for copy in copies.values():
            with suppress(OSError):
                os.unlink(copy)
        raise
    for part in SIDECARS:
        with suppress(FileNotFoundError):
            os.unlink(path + part)
    for part, copy in copies.items():
        os.replace(copy, path + part)
        quarantine.step(f"undo {part or 'main'}")
    fsync(os.path.dirname(path))
    write_manifest(folder, replace(manifest, undone=now.isoformat()))
    at = datetime.fromisoformat(manifest.at).replace(microsecond=0).isoformat()
    back = RepairNote.UNDONE(at=at, why=manifest.why or RepairNote.DAMAGED())
    return UndoReport(path, True, (back, *([RepairNote.REPLACED(path=kept)] if kept else ())), kept)

"""Quarantine, swap and undo: every step on disk before the next, so that kill -9 at any point and a second run end
well.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from watchdog.errors import WatchdogError
from watchdog.sqlite import openers as holders
from watchdog.sqlite.backup import give, write_json
from watchdog.sqlite.notes import RepairNote
from watchdog.system.files import fsync
from watchdog.system.lock import take
from watchdog.system.privileges import as_owner

PARTS = ("", "-wal", "-shm", "-journal")


def _go_on(name: str) -> None:
    """A step is done and on disk."""


step: Callable[[str], None] = _go_on  # tests put a kill -9 here


@dataclass(frozen=True)
class Manifest:
    """What lies in one quarantine folder, and why."""

    path: str
    at: str
    hashes: dict[str, str]  # part of the name -> sha256
    why: str = ""
    rung: str = ""
    healed: str = ""  # sha256 of what took its place; '' until it has
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    undone: str = ""
    doubtful: int = 0  # rows that may not be what was written
    unreadable: int = 0  # bytes that the disk did not give
    uncounted: bool = False  # more may be missing or doubtful, and nothing tells how many


def quarantine_of(path: str) -> Path:
    return Path(path + ".quarantine")


def journal_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair.json")


def work_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair")


def tmp_of(path: str) -> Path:
    return Path(path).with_name(f".{os.path.basename(path)}.repair.tmp")


@contextmanager
def alone(path: str) -> Iterator[None]:
    """One repair at a time per folder; the lock leaves no file behind."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not take(fd):
            raise WatchdogError(f"{path}: another repair is running in this folder; wait for it")
        yield
    finally:
        os.close(fd)


def refuse_if_open(path: str, now: datetime | None = None) -> None:
    reason = holders.why_not_free(path)
    if reason:
        raise WatchdogError(f"{path}: {reason}; the file is untouched{rescue(path, now) if now else ''}")


def owner_of(path: str) -> os.stat_result:
    """Whose the database is: told by the file, else by what is left of it."""
    return os.stat(
        next(place for place in (path, path + "-wal", os.path.dirname(path)) if os.path.exists(place))
    )


def rescue(path: str, now: datetime) -> str:
    """A deleted -wal or database exists only as long as its process: copy it out before anyone stops that
    process.
    """
    copies = []
    for holder in holders.of(path, holders.scan()):
        if holder.deleted and holder.file != "-shm":
            folder = quarantine_of(path)
            folder.mkdir(mode=0o700, exist_ok=True)
            target = (
                folder / f"deleted{holder.file or '-main'}-of-{holder.pid}-{now.strftime('%Y%m%dT%H%M%SZ')}"
            )
            shutil.copyfile(f"/proc/{holder.pid}/fd/{holder.fd}", target)
            give(target, owner_of(path), 0o600)
            fsync(target)
            copies.append(str(target))
    return (
        f"; the deleted files were copied to {', '.join(copies)}: now stop the process normally"
        if copies
        else ""
    )


def hashes_of(path: str) -> dict[str, str]:
    return {part: sha256(path + part) for part in PARTS if os.path.exists(path + part)}


SECTOR = 4096


def blocks(file: BinaryIO, size: int = 1 << 20) -> Iterator[tuple[bytes, int]]:
    """The content of a file and how much of each block could not be read: that is given as zeros.

    A disk that fails gives EIO for a few sectors; the rest of the file is still good.
    """
    fd, offset = file.fileno(), 0
    while True:
        try:
            data, bad = os.pread(fd, size, offset), 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data, bad = b"", 0
            for at in range(offset, min(offset + size, os.fstat(fd).st_size), SECTOR):
                try:
                    data += os.pread(fd, SECTOR, at)
                except OSError:
                    missing = min(SECTOR, os.fstat(fd).st_size - at)
                    data, bad = data + bytes(missing), bad + missing
        if not data:
            return
        yield data, bad
        offset += len(data)


@dataclass(frozen=True)
class CopiedPart:
    """A file that was copied around the sectors that cannot be read."""

    digest: str
    unreadable: int  # bytes, given as zeros


def copy_around(source: str, target: str | os.PathLike) -> CopiedPart:
    """Copy a file around sectors that cannot be read; the hash is taken on the way."""
    digest, unreadable = hashlib.sha256(), 0
    with open(source, "rb") as file, open(target, "wb") as copy:
        for data, bad in blocks(file):
            copy.write(data)
            digest.update(data)
            unreadable += bad
    return CopiedPart(digest.hexdigest(), unreadable)


def copy_parts(path: str, folder: Path) -> dict[str, CopiedPart]:
    """Copy the database with its sidecars into a folder; what became of each part."""
    copied = {}
    for part in PARTS:
        if os.path.exists(path + part):
            copied[part] = copy_around(path + part, folder / (os.path.basename(path) + part))
            step(f"copied {part or 'main'}")
    return copied


def sha256(path: str) -> str:
    """The hash of what can be read of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for data, _ in blocks(file):
            digest.update(data)
    return digest.hexdigest()


def save(path: str, now: datetime, why: str) -> Path:
    """Copy the database with its sidecars to quarantine; the same bytes are kept once."""
    folder = quarantine_of(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = owner_of(path)
    give(folder, owner, 0o700)
    for leftover in folder.glob("*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    part = folder / f"{stamp}.part"
    part.mkdir(mode=0o700)
    before = _stamps(path)
    copied = copy_parts(path, part)
    if _stamps(path) != before:
        shutil.rmtree(part)
        raise WatchdogError(
            f"{path} changed while it was copied to quarantine: something still writes to it. Stop the gateway and "
            "everything else that uses it, then run it again; the file is untouched"
        )
    hashes = {tail: made.digest for tail, made in copied.items()}
    for old in sorted(folder.glob("*/manifest.json")):
        if (
            (manifest := read_manifest(old.parent))
            and manifest.hashes == hashes
            and hashes_of(str(old.parent / os.path.basename(path))) == hashes
        ):
            shutil.rmtree(part)
            return old.parent
    for tail in copied:
        copy = part / (os.path.basename(path) + tail)
        shutil.copystat(path + tail, copy)
        give(copy, owner)
        fsync(copy)
    unreadable = sum(made.unreadable for made in copied.values())
    write_manifest(part, Manifest(path, now.isoformat(), hashes, why, unreadable=unreadable))
    give(part, owner)
    target = folder / f"{stamp}-{(hashes.get('') or hashes.get('-wal', '0' * 16))[:16]}"
    while target.exists():  # the same second and database, other sidecars
        target = target.with_name(target.name + "+")
    os.rename(part, target)
    fsync(folder)
    step("quarantined")
    return target


def _stamps(path: str) -> list[tuple[int, int, int] | None]:
    """What changes when a process writes to the database or its sidecars."""
    found: list[tuple[int, int, int] | None] = []
    for part in PARTS:
        try:
            status = os.stat(path + part)
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            found.append(None)
    return found


def read_manifest(folder: Path) -> Manifest | None:
    try:
        values = json.loads((folder / "manifest.json").read_text("utf-8"))
        return Manifest(**{**values, "says": tuple(values["says"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    owner = os.stat(folder)
    write_json(folder / "manifest.json", asdict(manifest), owner)


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
    step("dressed")
    done = replace(done, healed=sha256(str(tmp)))
    write_json(journal_of(path), {"quarantine": str(saved), "manifest": asdict(done)}, owner)
    step("journal built")
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
        state: dict[str, Any] = json.loads(journal.read_text("utf-8"))
        saved, done = (
            Path(state["quarantine"]),
            Manifest(**{**state["manifest"], "says": tuple(state["manifest"]["says"])}),
        )
    except (OSError, ValueError, KeyError, TypeError):
        forget_quietly(path)  # built, but never declared good
        return None
    if tmp.exists():
        built = sha256(str(tmp)) == done.healed if resumed else True
        if not built or not _unchanged(path, saved):
            forget(path)
            return None
        refuse_if_open(path)
        for part in PARTS[1:]:
            with suppress(FileNotFoundError):
                os.unlink(path + part)
                step(f"removed {part}")
        fsync(journal.parent)
        os.replace(tmp, path)
        step("swapped")
        fsync(journal.parent)
    # else it is swapped already: the sidecars that are there now belong to the new file
    write_manifest(saved, done)
    step("manifest")
    journal.unlink()
    step("journal removed")
    fsync(journal.parent)
    return saved, done


def forget_quietly(path: str) -> None:
    with suppress(OSError):
        forget(path)


def _unchanged(path: str, saved: Path) -> bool:
    """Whether the original is still what was saved: else what was built from the old bytes is worthless."""
    manifest = read_manifest(saved)
    main = sha256(path) if os.path.exists(path) else ""
    if manifest is None or main not in ("", manifest.hashes.get("")):
        return False
    for part in PARTS[1:]:
        here = path + part
        if part != "-shm" and os.path.exists(here) and manifest.hashes.get(part) != sha256(here):
            return False  # a new -wal: rows that are in no copy yet
    return True


def set_aside(path: str) -> None:
    """The last rung: the name is free, the bytes are in quarantine."""
    refuse_if_open(path)
    for part in reversed(PARTS):  # the main file last: a -wal alone would be fed to an empty database
        with suppress(FileNotFoundError):
            os.unlink(path + part)
            step(f"set aside {part or 'main'}")
    fsync(os.path.dirname(path))


def clean(path: str) -> None:
    """Remove what a repair worked with."""
    shutil.rmtree(work_of(path), ignore_errors=True)


@dataclass(frozen=True)
class UndoReport:
    path: str
    ok: bool
    says: tuple[str, ...]
    quarantine: str = ""  # where the file that was healed went


def undo(path: str | os.PathLike, *, now: datetime | None = None) -> UndoReport:
    """Put back what the last heal replaced; what is there now goes to quarantine first."""
    with as_owner(path):
        return _undo(os.path.realpath(path), now or datetime.now(UTC))


def _undo(path: str, now: datetime) -> UndoReport:
    with alone(path):
        finish(path)
        files = sorted(quarantine_of(path).glob("*/manifest.json"), reverse=True)
        manifests = [(file.parent, manifest) for file in files if (manifest := read_manifest(file.parent))]
        healed = [
            (folder, manifest)
            for folder, manifest in manifests
            if not manifest.undone and (manifest.healed or not os.path.exists(path))
        ]
        if not healed:
            return UndoReport(path, False, (RepairNote.NO_UNDO(path=path),))
        folder, manifest = healed[0]
        name = os.path.basename(path)
        if hashes_of(str(folder / name)) != manifest.hashes:
            raise WatchdogError(
                f"{folder}: the files there were changed since; nothing was done. If they are what you want, copy them "
                "back while the gateway is stopped"
            )
        refuse_if_open(path)
        kept = ""
        if os.path.exists(path):
            kept = str(save(path, now, "replaced by undo"))
        for part in PARTS:  # copies first: the swap itself is renames alone
            if part in manifest.hashes:
                shutil.copy2(folder / (name + part), _beside(path, part))
                give(_beside(path, part), os.stat(folder / (name + part)))
                fsync(_beside(path, part))
        step("undo copied")
        for part in PARTS[1:]:
            with suppress(FileNotFoundError):
                os.unlink(path + part)
        for part in PARTS:
            if part in manifest.hashes:
                os.replace(_beside(path, part), path + part)
                step(f"undo {part or 'main'}")
        fsync(os.path.dirname(path))
        write_manifest(folder, replace(manifest, undone=now.isoformat()))
        return UndoReport(
            path,
            True,
            (
                RepairNote.UNDONE(at=manifest.at, why=manifest.why or RepairNote.DAMAGED()),
                *([RepairNote.REPLACED(path=kept)] if kept else []),
            ),
            kept,
        )


def _beside(path: str, part: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.undo{part}")

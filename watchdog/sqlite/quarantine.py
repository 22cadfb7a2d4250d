"""The quarantine of a database: every file that a heal or an undo replaced, with a manifest that says why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from watchdog.model import as_phrase, packed, unpacked
from watchdog.sqlite import openers
from watchdog.sqlite.copies import CopiedPart, copy_around, give, sha256, write_json
from watchdog.sqlite.files import SIDECARS, stamps_of
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle, refused
from watchdog.system.files import fsync, read_object

PARTS = ("", *SIDECARS)
LARGEST_NOTE = 1 << 24  # bytes; a note that names a hundred thousand rows is smaller


def _go_on(name: str) -> None:
    """A step of a repair is done and on disk."""


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

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "why": packed(self.why), "says": packed(self.says)}


def quarantine_of(path: str) -> Path:
    return Path(path + ".quarantine")


def manifest_from(values: dict) -> Manifest:
    """What `as_json` gave; TypeError or KeyError for anything else."""
    why, says = as_phrase(unpacked(values["why"])), tuple(map(as_phrase, unpacked(list(values["says"]))))
    return Manifest(**{**values, "why": why, "says": says})


def read_manifest(folder: Path) -> Manifest | None:
    try:
        return manifest_from(read_object(folder / "manifest.json", LARGEST_NOTE, follow=False))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_json(folder / "manifest.json", manifest.as_json(), os.stat(folder))


def manifests_of(path: str) -> list[tuple[Path, Manifest]]:
    """Each folder in quarantine with its manifest, the newest first."""
    files = sorted(quarantine_of(path).glob("*/manifest.json"), reverse=True)
    return [(file.parent, manifest) for file in files if (manifest := read_manifest(file.parent))]


def owner_of(path: str) -> os.stat_result:
    """Whose the database is: told by the file, else by what is left of it."""
    return os.stat(
        next(place for place in (path, path + "-wal", os.path.dirname(path)) if os.path.exists(place))
    )


def hashes_of(path: str) -> dict[str, str]:
    return {part: sha256(path + part) for part in PARTS if os.path.exists(path + part)}


def copy_parts(path: str, folder: Path) -> dict[str, CopiedPart]:
    """Copy the database with its sidecars into a folder; what became of each part."""
    copied = {}
    for part in PARTS:
        if os.path.exists(path + part):
            copied[part] = copy_around(path + part, folder / (os.path.basename(path) + part))
            step(f"copied {part or 'main'}")
    return copied


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
    before = stamps_of(path)
    copied = copy_parts(path, part)
    if stamps_of(path) != before:
        shutil.rmtree(part)
        raise refused(DatabaseRefusal.UNTOUCHED, path, Obstacle.CHANGED())
    hashes = {tail: made.digest for tail, made in copied.items()}
    for old, manifest in reversed(manifests_of(path)):
        if manifest.hashes == hashes == hashes_of(str(old / os.path.basename(path))):
            shutil.rmtree(part)
            return old
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


def rescue(path: str, now: datetime) -> list[str]:
    """Copies of deleted files that exist only as long as the process that has them open."""
    copies = []
    for holder in openers.of(path, openers.scan()):
        if holder.deleted and holder.file != "-shm":
            folder = quarantine_of(path)
            folder.mkdir(mode=0o700, exist_ok=True)
            stamp = now.strftime("%Y%m%dT%H%M%SZ")
            target = folder / f"deleted{holder.file or '-main'}-of-{holder.pid}-{stamp}"
            shutil.copyfile(f"/proc/{holder.pid}/fd/{holder.fd}", target)
            give(target, owner_of(path), 0o600)
            fsync(target)
            copies.append(str(target))
    return copies

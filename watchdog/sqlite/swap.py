"""Quarantine and swap: every step on disk before the next, so that kill -9 at any point and a second run end well."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.sqlite import holders
from watchdog.sqlite.backup import fsync, give, sha256, write_json

PARTS = ("", "-wal", "-shm", "-journal")


def _go_on(name: str) -> None:
    """A step is done and on disk."""


step: Callable[[str], None] = _go_on        # tests put a kill -9 here


@dataclass(frozen=True)
class Manifest:
    """What lies in one quarantine folder, and why."""

    path: str
    at: str
    hashes: dict[str, str]                  # part of the name -> sha256
    why: str = ""
    rung: str = ""
    healed: str = ""                        # sha256 of what took its place
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    undone: str = ""


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
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WatchdogError(f"{path}: another repair is running in this folder; wait for it") from None
        yield
    finally:
        os.close(fd)


def refuse_if_open(path: str, now: datetime | None = None) -> None:
    reason = holders.why_not_free(path)
    if reason:
        raise WatchdogError(f"{path}: {reason}; stop it first, the file is untouched{rescue(path, now) if now else ''}")


def owner_of(path: str) -> os.stat_result:
    """Whose the database is: told by the file, else by what is left of it."""
    return os.stat(next(one for one in (path, path + "-wal", os.path.dirname(path)) if os.path.exists(one)))


def rescue(path: str, now: datetime) -> str:
    """A deleted -wal or database lives only as long as its process: copy it out before anyone stops that process."""
    copies = []
    for holder in holders.of(path, holders.scan()):
        if holder.deleted and holder.file != "-shm":
            folder = quarantine_of(path)
            folder.mkdir(mode=0o700, exist_ok=True)
            target = folder / f"deleted{holder.file or '-main'}-of-{holder.pid}-{now.strftime('%Y%m%dT%H%M%SZ')}"
            shutil.copyfile(f"/proc/{holder.pid}/fd/{holder.fd}", target)
            give(target, owner_of(path), 0o600)
            fsync(target)
            copies.append(str(target))
    return f"; the deleted files were copied to {', '.join(copies)}: now stop the process normally" if copies else ""


def hashes_of(path: str) -> dict[str, str]:
    return {part: sha256(path + part) for part in PARTS if os.path.exists(path + part)}


def save(path: str, now: datetime, why: str) -> Path:
    """Copy the database with its sidecars to quarantine; the same bytes are saved once."""
    hashes = hashes_of(path)
    folder = quarantine_of(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = owner_of(path)
    give(folder, owner, 0o700)
    for old in sorted(folder.glob("*/manifest.json")):
        if (manifest := read_manifest(old.parent)) and manifest.hashes == hashes and hashes_of(
                str(old.parent / os.path.basename(path))) == hashes:
            return old.parent
    for leftover in folder.glob("*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    target = folder / f"{now.strftime('%Y%m%dT%H%M%SZ')}-{(hashes.get('') or hashes.get('-wal', '0' * 16))[:16]}"
    while target.exists():          # the same second and database, other sidecars
        target = target.with_name(target.name + "+")
    part = target.with_name(target.name + ".part")
    part.mkdir(mode=0o700)
    for tail in hashes:
        copy = part / (os.path.basename(path) + tail)
        shutil.copy2(path + tail, copy)
        give(copy, owner)
        fsync(copy)
        step(f"copied {tail or 'main'}")
    if hashes_of(str(part / os.path.basename(path))) != hashes:
        shutil.rmtree(part)
        raise WatchdogError(f"{path} changed while it was copied to quarantine; something still writes to it")
    write_manifest(part, Manifest(path, now.isoformat(), hashes, why))
    give(part, owner)
    os.rename(part, target)
    fsync(folder)
    step("quarantined")
    return target


def read_manifest(folder: Path) -> Manifest | None:
    try:
        values = json.loads((folder / "manifest.json").read_text("utf-8"))
        return Manifest(**{**values, "says": tuple(values["says"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    owner = os.stat(folder)
    write_json(folder / "manifest.json", asdict(manifest), owner)


def put_in_place(path: str, built: str, saved: Path) -> None:
    """Dress the healed file as the original and swap it in, sidecars with it."""
    tmp, owner = tmp_of(path), owner_of(path)
    os.replace(built, tmp)
    give(tmp, owner, owner.st_mode & 0o7777)
    with suppress(OSError):
        for name in os.listxattr(path):     # SELinux labels among them
            with suppress(OSError):
                os.setxattr(tmp, name, os.getxattr(path, name))
    os.utime(tmp, ns=(owner.st_atime_ns, owner.st_mtime_ns))
    fsync(tmp)
    fsync(tmp.parent)
    step("dressed")
    write_json(journal_of(path), {"state": "built", "quarantine": str(saved), "sha256": sha256(str(tmp))}, owner)
    step("journal built")
    finish(path)


def finish(path: str) -> bool:
    """The swap itself, also as the resume of one that was cut short; False when there is nothing to finish."""
    journal, tmp = journal_of(path), tmp_of(path)
    try:
        state: dict[str, Any] = json.loads(journal.read_text("utf-8"))
    except (OSError, ValueError):
        with suppress(FileNotFoundError):
            tmp.unlink()                    # built, but never declared good
        return False
    saved = Path(state["quarantine"])
    if not tmp.exists():
        # Swapped already. The sidecars that are there now belong to the new file: hands off.
        journal.unlink()
        fsync(journal.parent)
        return True
    manifest = read_manifest(saved)
    main = sha256(path) if os.path.exists(path) else ""
    if manifest is None or sha256(str(tmp)) != state["sha256"] or main not in ("", manifest.hashes.get("")):
        # Someone wrote to the original after it was saved: what was built from the old bytes is worthless.
        tmp.unlink()
        journal.unlink()
        return False
    for part in PARTS[1:]:
        here = path + part
        if os.path.exists(here) and manifest.hashes.get(part) != sha256(here) and part != "-shm":
            tmp.unlink()
            journal.unlink()
            return False                    # a new -wal: rows that are in no copy yet
    refuse_if_open(path)
    for part in PARTS[1:]:
        with suppress(FileNotFoundError):
            os.unlink(path + part)
            step(f"removed {part}")
    fsync(journal.parent)
    os.replace(tmp, path)
    step("swapped")
    fsync(journal.parent)
    journal.unlink()
    step("journal removed")
    fsync(journal.parent)
    return True


def set_aside(path: str) -> None:
    """The last rung: the name is free, the bytes are in quarantine."""
    refuse_if_open(path)
    for part in reversed(PARTS):            # the main file last: a -wal alone would be fed to an empty database
        with suppress(FileNotFoundError):
            os.unlink(path + part)
            step(f"set aside {part or 'main'}")
    fsync(os.path.dirname(path))


def clean(path: str) -> None:
    shutil.rmtree(work_of(path), ignore_errors=True)

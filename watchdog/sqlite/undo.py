"""Undo a heal: put back what it replaced; what is there now goes to quarantine first."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from watchdog.errors import WatchdogError
from watchdog.sqlite import backup, swap
from watchdog.system.privileges import as_owner


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
    with swap.alone(path):
        swap.finish(path)
        files = sorted(swap.quarantine_of(path).glob("*/manifest.json"), reverse=True)
        manifests = [
            (file.parent, manifest) for file in files if (manifest := swap.read_manifest(file.parent))
        ]
        healed = [
            (folder, manifest)
            for folder, manifest in manifests
            if not manifest.undone and (manifest.healed or not os.path.exists(path))
        ]
        if not healed:
            return UndoReport(path, False, (f"{path}: no repair of it is left to undo; nothing was done",))
        folder, manifest = healed[0]
        name = os.path.basename(path)
        if swap.hashes_of(str(folder / name)) != manifest.hashes:
            raise WatchdogError(
                f"{folder}: the files there were changed since; nothing was done. If they are what you want, copy them "
                "back by hand while the gateway is stopped"
            )
        swap.refuse_if_open(path)
        kept = ""
        if os.path.exists(path):
            kept = str(swap.save(path, now, "replaced by undo"))
        for part in swap.PARTS:  # copies first: the swap itself is renames alone
            if part in manifest.hashes:
                shutil.copy2(folder / (name + part), _beside(path, part))
                backup.give(_beside(path, part), os.stat(folder / (name + part)))
                backup.fsync(_beside(path, part))
        swap.step("undo copied")
        for part in swap.PARTS[1:]:
            with suppress(FileNotFoundError):
                os.unlink(path + part)
        for part in swap.PARTS:
            if part in manifest.hashes:
                os.replace(_beside(path, part), path + part)
                swap.step(f"undo {part or 'main'}")
        backup.fsync(os.path.dirname(path))
        swap.write_manifest(folder, replace(manifest, undone=now.isoformat()))
        return UndoReport(
            path,
            True,
            (
                f"put back as it was on {manifest.at}: {manifest.why or 'damaged'}",
                *([f"what was there is kept in {kept}"] if kept else []),
            ),
            kept,
        )


def _beside(path: str, part: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.undo{part}")

"""The backups that are kept of a database: read from their notes, the newest first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime

from watchdog.system.files import read_object, read_small
from watchdog.values import Any, StrPath, dataclass, field, replace

ACCEPTED = "accepted"  # in the folder of the backups: a person said at this time that the loss is well


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


def folder_for(path: StrPath) -> str:
    """Where the backups of a database are kept unless told otherwise: beside it."""
    return os.path.realpath(path) + ".backups"


def kept(folder: StrPath, name: str) -> Iterator[SnapshotReport]:
    """The backups that passed their checks and are still there, the newest first."""
    try:
        notes = [
            note for note in os.listdir(folder) if note.startswith(f"{name}.") and note.endswith(".json")
        ]
    except OSError:
        return
    for note in sorted(notes, reverse=True):
        backup = os.path.join(folder, note[:-5] + ".db")
        try:
            report = _checked(read_object(os.path.join(folder, note), follow=False))
            if report.ok and os.path.basename(report.path) == name and os.stat(backup).st_size == report.size:
                yield replace(report, file=backup)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # not a note of ours


def _checked(values: dict[str, Any]) -> SnapshotReport:
    """The report of a note; an error of some kind when it is not one of ours."""
    if datetime.fromisoformat(values["at"]).tzinfo is None:
        raise ValueError("a time without its zone")
    mark = values.get("mark") or {}
    if mark:
        mark = {
            "last": int(mark["last"]),
            "newest": float(mark["newest"]),
            "column": abs(int(mark["column"])),
        }
    rows = {str(table): int(count) for table, count in values["rows"].items()}
    return SnapshotReport(**{**values, "rows": rows, "mark": mark})


def last_good(folder: StrPath, name: str) -> Mapping[str, Any] | None:
    """What the newest backup held that passed its checks, unless a person accepted that it is gone."""
    newest = next(kept(folder, name), None)
    if newest is None or newest.at <= accepted_at(folder):
        return None
    return {"rows": newest.rows, "at": newest.at, "size": newest.size, "mark": newest.mark}


def known(path: StrPath, folder: StrPath | None = None) -> Mapping[str, Any] | None:
    """The last known good state, as `look` wants it."""
    return last_good(folder or folder_for(path), os.path.basename(os.path.realpath(path)))


def accepted_at(folder: StrPath) -> str:
    """When a person last accepted a loss, as in the notes of backups; '' when never."""
    try:
        return read_small(os.path.join(folder, ACCEPTED), 100, follow=False).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""

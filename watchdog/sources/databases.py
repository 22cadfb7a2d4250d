"""The databases of a home → one event each, with the doctor's verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from watchdog.model import Event
from watchdog.sqlite.daily_backup import folder
from watchdog.sqlite.inspect import databases, look
from watchdog.sqlite.lineage import remembered
from watchdog.sqlite.openers import name_of, scan
from watchdog.sqlite.schema import Reference, releases
from watchdog.sqlite.schema_cache import recall
from watchdog.system.procfs import lock_holder
from watchdog.values import Any


def observe(
    home: Path, now: datetime, complained: bool = False, live: bool = True, state: Path | None = None
) -> list[Event]:
    """A quick look at every database, which touches nothing.

    When Hermes complains, also against what it may want.
    """
    paths = databases(home)
    if state is not None:
        recall(state)
        # it was there, and is gone
        paths += [path for path in _main(home) if path not in paths and _last_known(path, state)]
    named = {path.name for path in paths}
    # A folder of saved files may hold a database as it was before: state.before.db.
    before = sorted(name for name in os.listdir(home) if name.endswith(".before.db"))
    paths += [home / name for name in before if name.replace(".before.", ".") not in named]
    reference = _wanted(home, live) if complained else None
    taken = scan(frozenset(os.path.basename(os.path.realpath(path)) for path in paths)) if paths else None
    events = []
    for path in paths:
        known = _last_known(path, state)
        verdict = look(path, known=known, taken=taken)
        wanted = look(path, reference=reference, taken=taken).missing if reference is not None else ()
        name = _name(path, home).replace(".before.db", ".db")
        # An empty file is what a fresh install has for a moment; whether it once was full only a backup can
        # tell.
        fresh = verdict.grade == "damaged" and path.stat().st_size == 0 and not verdict.holders
        facts = {
            "database": name,
            "path": str(path),
            "grade": "well" if fresh else verdict.grade,
            "fault": verdict.fault,
            "missing": _listed(verdict.missing),
            "wanted": _listed(wanted),
            "users": _users(path, home, taken),
            "holder": ", ".join(f"{process} (pid {pid})" for pid, process in verdict.holders),
            "reference": verdict.reference,
            "wanted_by": reference.name if reference is not None else "",
            "sqlite": verdict.sqlite,
            **(_missed(known) if known and verdict.anew else {}),
        }
        text = f"{name}: {facts['grade']}{': ' + verdict.fault if verdict.fault else ''}"
        events.append(
            Event(now, "databases", text, name, facts={key: value for key, value in facts.items() if value})
        )
    return events


def _missed(known: Mapping[str, Any]) -> dict[str, str]:
    """What a database lacks that began anew."""
    return {"held": str(sum((known.get("rows") or {}).values())), "backup_at": str(known["at"])}


def _users(path: Path, home: Path, taken: Any) -> str:
    """Who has it open beside the gateway: 'sqlite3 (pid 12)'; '' when nobody that can be seen."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    here = status.st_dev, status.st_ino
    pids = {pid for pid, _, _, device, inode in taken.seen if (device, inode) == here} if taken else set()
    pids.discard(lock_holder(str(home / "gateway.lock")) or 0) if pids else None
    return ", ".join(f"{name_of(pid)} (pid {pid})" for pid in sorted(pids)[:5])


def _main(home: Path) -> list[Path]:
    return [home / name for name in ("state.db", "kanban.db", "response_store.db")]


def _last_known(path: Path, state: Path | None) -> Mapping[str, Any] | None:
    """What the last good backup held. Without its numbers, only when that was much more than what is there now."""
    place = folder(state, path) if state is not None else f"{path}.backups"
    known = remembered(place, path.name)
    if known is None or known.get("mark"):
        return known
    size = path.stat().st_size if path.exists() else 0
    return known if size * 2 <= known["size"] else None


def _listed(missing: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{table}.{column} {kind}".strip() for table, column, kind in missing)


def _wanted(home: Path, live: bool) -> Reference | None:
    """The schema of the Hermes that is installed; the newest release we know when none is found."""
    from watchdog.sqlite.installed import installed  # runs Hermes' Python: only when Hermes complains

    return (installed(home) if live else None) or releases()[-1]


def _name(path: Path, home: Path) -> str:
    return str(path).removeprefix(f"{home}/")

"""The databases of a home → one event each, with the doctor's verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from watchdog.model import Event
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.sqlite.schema import Reference


def observe(
    home: Path, now: datetime, complained: bool = False, live: bool = True, state: Path | None = None
) -> list[Event]:
    """A quick look at every database, which touches nothing.

    When Hermes complains, also against what it may want.
    """
    from watchdog.sqlite.inspect import databases, look
    from watchdog.sqlite.openers import scan
    from watchdog.sqlite.schema_cache import recall

    paths = databases(home)
    if state is not None:
        recall(state)
        # it was there, and is gone
        paths += [path for path in _main(home) if path not in paths and _once_more(path, state)]
    named = {path.name for path in paths}
    # A folder of saved files may hold a database as it was before: state.before.db.
    before = sorted(name for name in os.listdir(home) if name.endswith(".before.db"))
    paths += [home / name for name in before if name.replace(".before.", ".") not in named]
    reference = _wanted(home, live) if complained else None
    taken = scan(frozenset(os.path.basename(os.path.realpath(path)) for path in paths)) if paths else None
    events = []
    for path in paths:
        verdict = look(path, known=_once_more(path, state) if state is not None else None, taken=taken)
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
        }
        text = f"{name}: {facts['grade']}{': ' + verdict.fault if verdict.fault else ''}"
        events.append(
            Event(now, "databases", text, name, facts={key: value for key, value in facts.items() if value})
        )
    return events


def _users(path: Path, home: Path, taken: Any) -> str:
    """Who has it open beside the gateway: 'sqlite3 (pid 12)'; '' when nobody that can be seen."""
    from watchdog.sqlite.openers import name_of
    from watchdog.system.procfs import lock_holder

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


def _once_more(path: Path, state: Path) -> Mapping[str, Any] | None:
    """What the last good backup held, when it was much more than what is there now."""
    from watchdog.sqlite.daily_backup import folder

    try:
        size = path.stat().st_size if path.exists() else 0
        newest = max(
            (entry.name, entry.stat().st_size)
            for entry in os.scandir(folder(state, path))
            if entry.name.endswith(".db")
        )
    except (OSError, ValueError):
        return None
    if size * 2 > newest[1]:
        return None
    from watchdog.sqlite.backup import known

    return known(path, folder(state, path))


def _listed(missing: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{table}.{column} {kind}".strip() for table, column, kind in missing)


def _wanted(home: Path, live: bool) -> Reference | None:
    """The schema of the Hermes that is installed; the newest release we know when none is found."""
    from watchdog.sqlite.installed import installed
    from watchdog.sqlite.schema import releases

    return (installed(home) if live else None) or releases()[-1]


def _name(path: Path, home: Path) -> str:
    return str(path).removeprefix(f"{home}/")

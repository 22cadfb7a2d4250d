"""The databases of a home → one event each, with the doctor's verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from watchdog import sqlite
from watchdog.model import Event, phrase
from watchdog.sqlite import memory
from watchdog.sqlite.files import NAMES, backup_folder, databases, stamps_of, with_backups
from watchdog.sqlite.openers import DELETED, Scan, name_of, scan
from watchdog.system.procfs import lock_holder
from watchdog.values import TYPE_CHECKING, Any, StrPath

if TYPE_CHECKING:
    from watchdog.sqlite.schema import Reference


def observe(
    home: StrPath, now: datetime, complained: bool = False, live: bool = True, state: StrPath | None = None
) -> list[Event]:
    """A quick look at every database, which touches nothing. One that was well and has not changed is not read again.

    When Hermes complains, also against what it may want.
    """
    paths = databases(home)
    if state is not None:
        memory.recall(state)
        kept = with_backups(state)
        main = [os.path.join(home, name) for name in NAMES.values() if name in kept]
        # it was there, and is gone
        paths += [path for path in main if path not in paths and _last_known(path, state)]
    named = {os.path.basename(path) for path in paths}
    # A folder of saved files may hold a database as it was before: state.before.db.
    before = sorted(name for name in os.listdir(home) if name.endswith(".before.db"))
    paths += [os.path.join(home, name) for name in before if name.replace(".before.", ".") not in named]
    if not paths:
        return []
    reference = _wanted(home, live) if complained else None
    names = (os.path.realpath(path) if os.path.islink(path) else path for path in paths)
    taken = scan(frozenset(map(os.path.basename, names)))
    odd = os.environ.get("_HERMES_GATEWAY") == "1" or any(
        link.endswith(DELETED) for _, _, link, _, _ in taken.seen
    )
    may_recall = state is not None and reference is None and not odd
    events = []
    for path in paths:
        stamps = stamps_of(path)
        facts = memory.unchanged(path, stamps) if may_recall else None
        if facts is None:
            facts = _look(path, home, state, reference, taken)
            if facts["grade"] == "well" and facts.keys() <= _OF_A_WELL_ONE:
                memory.note_well(path, stamps, facts)
        if users := _users(stamps[0][:2], home, taken):
            facts = {**facts, "users": users}
        name = facts["database"]
        text = phrase("event.database", "{database}: {grade}", database=name, grade=facts["grade"])
        if "fault" in facts:
            english = "{database}: {grade}: {fault}"
            text = phrase("event.fault", english, database=name, grade=facts["grade"], fault=facts["fault"])
        events.append(Event(now, "databases", text, name, facts=facts))
    return events


_OF_A_WELL_ONE = frozenset({"database", "path", "grade", "reference", "sqlite"})


def _look(
    path: str, home: StrPath, state: StrPath | None, reference: Reference | None, taken: Scan
) -> Mapping[str, str]:
    known = _last_known(path, state)
    verdict = sqlite.look(path, known=known, taken=taken)
    wanted = sqlite.look(path, reference=reference, taken=taken).missing if reference is not None else ()
    # An empty file is what a fresh install has for a moment; whether it once was full only a backup can tell.
    fresh = verdict.grade == "damaged" and os.stat(path).st_size == 0 and not verdict.holders
    facts = {
        "database": path.removeprefix(f"{home}/").replace(".before.db", ".db"),
        "path": path,
        "grade": "well" if fresh else verdict.grade,
        "fault": verdict.fault,
        "missing": _listed(verdict.missing),
        "wanted": _listed(wanted),
        "holder": ", ".join(f"{process} (pid {pid})" for pid, process in verdict.holders),
        "reference": verdict.reference,
        "wanted_by": reference.name if reference is not None else "",
        "sqlite": verdict.sqlite,
        **(_missed(known) if known and verdict.anew else {}),
    }
    return {key: value for key, value in facts.items() if value}


def _missed(known: Mapping[str, Any]) -> dict[str, str]:
    """What a database lacks that began anew."""
    return {"held": str(sum((known.get("rows") or {}).values())), "backup_at": str(known["at"])}


def _users(here: tuple[int, ...], home: StrPath, taken: Scan) -> str:
    """Who has the file of this device and inode open beside the gateway: 'sqlite3 (pid 12)'."""
    pids = {pid for pid, _, _, device, inode in taken.seen if (device, inode) == here}
    pids.discard(lock_holder(os.path.join(home, "gateway.lock")) or 0) if pids else None
    return ", ".join(f"{name_of(pid)} (pid {pid})" for pid in sorted(pids)[:5])


def _last_known(path: str, state: StrPath | None) -> Mapping[str, Any] | None:
    """What the last good backup held. Without its numbers, only when that was much more than what is there now."""
    place = backup_folder(state, path) if state is not None else f"{path}.backups"
    known = sqlite.last_good(place, os.path.basename(path)) if os.path.isdir(place) else None
    if known is None or known.get("mark"):
        return known
    size = os.stat(path).st_size if os.path.exists(path) else 0
    return known if size * 2 <= known["size"] else None


def _listed(missing: Sequence[tuple[str, str, str]]) -> str:
    return ", ".join(f"{table}.{column} {kind}".strip() for table, column, kind in missing)


def _wanted(home: StrPath, live: bool) -> Reference | None:
    """The schema of the Hermes that is installed; the newest release we know when none is found."""
    from pathlib import Path

    from watchdog.sqlite.installed import installed  # runs Hermes' Python: only when Hermes complains

    return (installed(Path(home)) if live else None) or sqlite.releases()[-1]

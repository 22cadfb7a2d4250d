"""The databases of a home → one event each, with the doctor's verdict."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from watchdog.model import Event


def observe(home: Path, now: datetime) -> list[Event]:
    """A quick look at every database, which touches nothing."""
    from watchdog.sqlite.look import databases, look

    paths = databases(home)
    named = {path.name for path in paths}
    # A folder of saved files may hold a database as it was before: state.before.db.
    paths += [path for path in sorted(home.glob("*.before.db")) if path.name.replace(".before.", ".") not in named]
    events = []
    for path in paths:
        verdict = look(path)
        name = _name(path, home).replace(".before.db", ".db")
        facts = {
            "database": name,
            "path": str(path),
            "grade": verdict.grade,
            "fault": verdict.fault,
            "missing": ", ".join(f"{table}.{column} {kind}".strip() for table, column, kind in verdict.missing),
            "holder": ", ".join(f"{process} (pid {pid})" for pid, process in verdict.holders),
            "reference": verdict.reference,
            "sqlite": verdict.sqlite,
        }
        text = f"{name}: {verdict.grade}{': ' + verdict.fault if verdict.fault else ''}"
        events.append(Event(now, "databases", text, name, facts={key: value for key, value in facts.items() if value}))
    return events


def _name(path: Path, home: Path) -> str:
    try:
        return str(path.relative_to(home))
    except ValueError:
        return str(path)

"""The gate: what a healed copy must show before it may take the place of the original."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from watchdog.sqlite import checks
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.readonly import connect


def why_not(
    candidate: str, wanted: Sequence[SchemaObject], at_least: Mapping[str, int], proved: bool = False
) -> list[str]:
    """The reasons why a candidate may not pass; [] when it may.

    `proved`: its structure and full text were checked when it was built.
    """
    db = connect(candidate, "mode=rw")
    try:
        faults = [] if proved else list(checks.integrity(db)[:3])
        if faults:
            return faults
        if not proved:
            faults += checks.fts_counts(db)
            faults += checks.fts_content(db)
        have = {(kind, name.lower()) for kind, name in checks.schema(db)}
        faults += [
            f"{entry.type} {entry.name} is missing"
            for entry in wanted
            if entry.sql
            and (entry.type, entry.name.lower()) not in have
            and not entry.name.startswith("sqlite_stat")
        ]
        rows = checks.counts(db)
        faults += [
            f"{table} has {rows.get(table, 0)} rows, the damaged file has {least}"
            for table, least in at_least.items()
            if rows.get(table, 0) < least
        ]
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        db.close()
    return faults

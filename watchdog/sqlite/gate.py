"""The gate: what a healed copy must show before it may take the place of the original."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from watchdog.sqlite import checks
from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.opening import Opened
from watchdog.sqlite.pages import Tree
from watchdog.sqlite.raw import Entry, read_page
from watchdog.sqlite.reading import connect
from watchdog.sqlite.reference import shadows


def why_not(candidate: str, wanted: Sequence[Entry], at_least: Mapping[str, int], orphans: int | None) -> list[str]:
    """The reasons why a candidate may not pass; [] when it may."""
    db = connect(candidate, "mode=rw")
    try:
        faults = list(checks.integrity(db)[:3])
        if faults:
            return faults
        faults += checks.fts_counts(db)
        faults += checks.fts_content(db)
        have = {(kind, name.lower()) for kind, name in checks.schema(db)}
        faults += [f"{entry.type} {entry.name} is missing" for entry in wanted
                   if entry.sql and (entry.type, entry.name.lower()) not in have
                   and not entry.name.startswith("sqlite_stat")]
        rows = checks.counts(db)
        faults += [f"{table} has {rows.get(table, 0)} rows, the damaged file has {least}"
                   for table, least in at_least.items() if rows.get(table, 0) < least]
        now = checks.orphans(db)
        if orphans is not None and now > orphans:
            faults.append(f"{now} rows refer to a row that does not exist, {orphans} did before")
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        db.close()
    return faults


def cells(opened: Opened) -> dict[str, int]:
    """Rows per table by counting the cells of its leaves: a second opinion that owes SQLite nothing."""
    inner = shadows((entry.name, entry.sql) for entry in opened.entries if entry.type == "table")
    counted = {}
    for entry in opened.entries:
        if entry.type != "table" or entry.name in inner or is_virtual(entry.sql) or entry.name.startswith("sqlite_"):
            continue
        if "WITHOUT" in entry.sql.upper():
            continue        # its rows lie on interior pages too
        tree = Tree(entry.name, entry.root, True)
        opened.pages.walk(tree)
        image = opened.image
        counted[entry.name] = sum(len(read_page(image.page(number), number, image.usable).pointers)
                                  for number in tree.leaves)
    return counted

"""The schema to build: the file's own, and what it lost of it from the backup, else from the reference."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from watchdog.sqlite.kinds import is_virtual
from watchdog.sqlite.making import make
from watchdog.sqlite.opening import Opened
from watchdog.sqlite.raw import Entry
from watchdog.sqlite.reference import Thing, shadows


@dataclass
class Wanted:
    entries: list[Entry]
    borrowed: set[str] = field(default_factory=set)     # names whose SQL is not the file's own
    gone: list[Entry] = field(default_factory=list)     # what nobody knows how to make again
    says: list[str] = field(default_factory=list)


def entries_for(opened: Opened, bad: Sequence[Entry], backup: Sequence[Entry], things: Sequence[Thing]) -> Wanted:
    """Every object of the file with SQL that SQLite can read; of the bad ones what others know of them."""
    wanted = Wanted([entry for entry in opened.entries if entry not in bad])
    if opened.schema_whole and not bad:
        return wanted
    have = {(entry.type, entry.name.lower()) for entry in wanted.entries}
    lost = {(entry.type, entry.name.lower()) for entry in bad}
    for entry in [*backup, *(Entry(thing.type, thing.name, thing.table, 0, thing.sql) for thing in things)]:
        key = (entry.type, entry.name.lower())
        if key in have or not entry.sql or entry.name.startswith("sqlite_") or (opened.schema_whole and key not in lost):
            continue
        have.add(key)
        # Without its root: the order of the columns may be another, so its rows are found by what fits them.
        wanted.entries.append(Entry(entry.type, entry.name, entry.table, 0, entry.sql))
        wanted.borrowed.add(entry.name)
    for entry in bad:
        known = (entry.type, entry.name.lower()) in have
        wanted.says.append(f"what the schema says of {entry.type} {entry.name} cannot be read; "
                           + ("it is made as Hermes or the backup has it" if known else "it could not be made again"))
        if not known:
            wanted.gone.append(entry)
    return wanted


def unreadable(entries: Sequence[Entry]) -> list[Entry]:
    """The entries whose SQL is damaged: SQLite cannot make what they say, or makes something else."""
    inner = shadows((entry.name, entry.sql) for entry in entries if entry.type == "table")
    order = sorted((entry for entry in entries if entry.sql and not entry.name.startswith("sqlite_")),
                   key=lambda one: (one.type != "table", is_virtual(one.sql)))
    bad: list[Entry] = []
    db = sqlite3.connect(":memory:")
    try:
        for entry in order:
            if entry.name in inner:
                continue            # comes with its full-text table
            try:
                make(db, entry.sql)
            except (sqlite3.Error, ValueError) as error:
                elsewhere = any(other.name == entry.table for other in bad) or "no such" in str(error)
                if not elsewhere:
                    bad.append(entry)
                continue
            if not db.execute("SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ? COLLATE NOCASE",
                              (entry.type, entry.name)).fetchone():
                bad.append(entry)
    finally:
        db.close()
    return bad
